"""Pauses after which workers that were dismissed may be asked again.

A worker that is too slow can show at any time that it works, because that takes little. Without a pause, it
would be asked again at once, and each search would wait for it in vain.
"""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

SHORTEST_SECONDS = 5.0
"""Length of the first pause of a worker, in seconds."""

LONGEST_SECONDS = 300.0
"""Maximum length of a pause, in seconds."""

K = TypeVar("K")


class Pauses(Generic[K]):
    """The pauses of workers, by keys such as their names. Not thread-safe.

    Parameters
    ----------
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._lengths: dict[K, float] = {}
        self._ends: dict[K, float] = {}

    def begin(self, key: K) -> None:
        """Begin a pause that is twice as long as the worker's last one."""
        self._lengths[key] = min(2 * self._lengths.get(key, SHORTEST_SECONDS / 2), LONGEST_SECONDS)
        self.repeat(key)

    def repeat(self, key: K) -> None:
        """Begin a pause that is as long as the worker's last one."""
        self._ends[key] = self._clock() + self._lengths.get(key, SHORTEST_SECONDS)

    def is_over(self, key: K) -> bool:
        """Return whether the worker has no pause now."""
        return key not in self._ends or self._clock() >= self._ends[key]

    def forget(self, key: K) -> None:
        """End the worker's pause. Its next one is the shortest again."""
        self._lengths.pop(key, None)
        self._ends.pop(key, None)

    def keep_if(self, is_kept: Callable[[K], bool]) -> None:
        """Forget all workers but those for whose keys `is_kept` returns True."""
        for key in [*self._ends]:
            if not is_kept(key):
                self.forget(key)
