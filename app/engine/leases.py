"""Leases: what a session has in view, and what was sent ahead to it, is shown to nobody else.

A lease ends with the answer, or `LEASE_SECONDS` after its session was last heard of: then the item is free
for others. Who comes back late still has what nobody took meanwhile, and what is answered late is stored, as
a further person's answer.

Choosing an item takes time, and sessions choose at the same time. So each asks what the others have, then
reads the labels, chooses, and takes what it chose in one moment: that fails where another one has had the
item since it asked, and then it chooses again without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, replace

LEASE_SECONDS = 300.0
"""A session that was not heard of for so long has nothing in view any more."""

_ENDED_AT_MOST = 10_000
"""Ended leases are forgotten from so many on, the old ones."""


@dataclass
class _Held:
    items: set[int]
    heard: float


@dataclass(frozen=True)
class Others:
    """What the others have, seen from one session at one time.

    Parameters
    ----------
    leases : Leases
    session : str
        The one that asks.
    beside : frozenset of str
        Sessions that may have the same items as it, itself among them.
    items : tuple of int
        What all others have, ascending.
    asked : float
        When that was, by the clock of `leases`.
    """

    leases: Leases
    session: str
    beside: frozenset[str]
    items: tuple[int, ...]
    asked: float

    def take(self, items: Collection[int]) -> frozenset[int]:
        """Lease these to the session, all or none; returns those that others have, or had since it asked."""
        return self.leases.take(self, items)

    def again(self, lost: Iterable[int]) -> Others:
        """The same with what they have now; what was `lost` counts as theirs: it may be answered by now."""
        now = self.leases.held(but_for=self.beside)
        return replace(self, items=tuple(sorted({*now, *self.items, *lost})))


class Leases:
    """Who has which items. Any thread may use it.

    Parameters
    ----------
    seconds : float
        How long a lease lasts after its session was last heard of.
    clock : callable
        Gives seconds that only ever grow.
    """

    def __init__(self, seconds: float = LEASE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._ended: dict[int, tuple[float, str]] = {}  # by item: when its last lease ended, and whose it was
        self._lock = threading.Lock()

    def renew(self, session: str) -> None:
        """The session was heard of."""
        with self._lock:
            if session in self._held:
                self._held[session].heard = self._clock()

    def keep(self, session: str, items: Iterable[int]) -> None:
        """The session has these and no others, whoever else has them: they are on its screen."""
        with self._lock:
            before, kept = self._held.get(session), set(items)
            if before is not None:
                self._end(session, before.items - kept)
            self._give(session, kept)
            self._held[session].items = kept

    def forget(self, but_for: Container[str]) -> None:
        """Forget the sessions whose leases have ended, but for these."""
        with self._lock:
            since = self._clock() - self._seconds
            over = [name for name, held in self._held.items() if held.heard < since and name not in but_for]
            for name in over:
                del self._held[name]

    def add(self, session: str, items: Iterable[int]) -> None:
        """The session has these, too, whoever else has them."""
        with self._lock:
            self._give(session, items)

    def has(self, session: str, item: int) -> bool:
        """Whether the session still has the item: else another one took it after the lease had ended."""
        with self._lock:
            held = self._held.get(session)
            return held is not None and item in held.items

    def held(self, *, but_for: Collection[str] = ()) -> tuple[int, ...]:
        """The items of all sessions but these, ascending."""
        with self._lock:
            return self._held_by_others(but_for)

    def others(self, session: str, *, beside: Iterable[str] = ()) -> Others:
        """What others have; to be asked before the labels are read that the next choice depends on."""
        together = frozenset({session, *beside})
        with self._lock:
            return Others(self, session, together, self._held_by_others(together), self._clock())

    def take(self, others: Others, items: Collection[int]) -> frozenset[int]:
        """See `Others.take`."""
        with self._lock:
            taken = set(self._held_by_others(others.beside))
            for item in items:
                when, whose = self._ended.get(item, (others.asked - 1, others.session))
                if when >= others.asked and whose not in others.beside:
                    taken.add(item)
            lost = taken.intersection(items)
            if not lost:
                self._give(others.session, items)
            return frozenset(lost)

    def _held_by_others(self, but_for: Collection[str]) -> tuple[int, ...]:
        since = self._clock() - self._seconds
        those = (
            held.items for name, held in self._held.items() if name not in but_for and held.heard >= since
        )
        return tuple(sorted(frozenset().union(*those)))

    def _give(self, session: str, items: Iterable[int]) -> None:
        """What others had and lost by not being heard of is theirs no more."""
        now, given = self._clock(), set(items)
        for name, held in self._held.items():
            if name != session and held.heard < now - self._seconds:
                held.items -= given
        own = self._held.setdefault(session, _Held(set(), now))
        own.heard = now
        own.items |= given

    def _end(self, session: str, items: Iterable[int]) -> None:
        now = self._clock()
        self._ended.update(dict.fromkeys(items, (now, session)))
        if len(self._ended) > _ENDED_AT_MOST:
            recent = {item: end for item, end in self._ended.items() if end[0] >= now - self._seconds}
            self._ended = recent
