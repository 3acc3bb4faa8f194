"""A limit on computations that run at once. Computations that people wait for precede work in advance."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")


class Cores:
    """The processor cores that computations hold. Thread-safe.

    A person's computation waits only if `n` other people's computations are running. Waiting people get cores
    in the order in which they came. Work in advance, which nobody waits for yet, starts when fewer than `n`
    computations are running and no person waits, or when its patience ends. A person never waits for work in
    advance: the two computations share a core until one of them ends.

    Parameters
    ----------
    n : int
        Number of cores.
    """

    def __init__(self, n: int) -> None:
        self._n = n
        self._changed = threading.Condition()
        self._of_people = 0
        self._in_advance = 0
        self._waiting: deque[threading.Event] = deque()  # people, first come first

    @contextmanager
    def held(self, *, in_advance: bool = False, patience: float | None = None) -> Iterator[None]:
        """Wait for a core, and hold it until the ``with`` block ends.

        After `patience` seconds, work in advance starts even if no core is free. None means no limit.
        """
        if in_advance:
            with self._changed:
                self._changed.wait_for(self._is_idle, patience)
                self._in_advance += 1
        else:
            self._wait_in_line()
        try:
            yield
        finally:
            self._release(in_advance=in_advance)

    def _wait_in_line(self) -> None:
        """Take a core for a person, or wait until another person hands one over."""
        with self._changed:
            if self._of_people < self._n:
                self._of_people += 1
                return
            handed_over = threading.Event()
            self._waiting.append(handed_over)
        try:
            handed_over.wait()
        except BaseException:  # by Ctrl+C
            self._leave_line(handed_over)
            raise

    def _leave_line(self, handed_over: threading.Event) -> None:
        """Stop waiting for a core. If a core was handed over just now, release it."""
        with self._changed:
            if handed_over in self._waiting:
                self._waiting.remove(handed_over)
                return
        self._release(in_advance=False)

    def _release(self, *, in_advance: bool) -> None:
        with self._changed:
            if in_advance:
                self._in_advance -= 1
            elif self._waiting:
                self._waiting.popleft().set()
            else:
                self._of_people -= 1
            if self._is_idle():
                self._changed.notify_all()

    def _is_idle(self) -> bool:
        """Return whether a core is free and no person waits for a core."""
        return not self._waiting and self._of_people + self._in_advance < self._n


CORES = max(2, os.cpu_count() or 1)
"""Number of computations at once; at least two, so that a long one does not hold up a short one."""

GAP_SECONDS = 1.0
"""Maximum seconds to wait for a gap (a free core). On a busy server, the work would otherwise never end."""

_CORES = Cores(CORES)
_OWN = threading.local()
_COUNTING = threading.Lock()
_computing_seconds = 0.0


@contextmanager
def a_core(*, in_advance: bool = False, patience: float | None = None) -> Iterator[None]:
    """Wait for a free core, and hold it until the ``with`` block ends. A thread's nested blocks share a core.

    This limits trainings to one per core. With more, each would take longer, and they would need more memory.
    `in_advance` is for work that nobody waits for yet, such as a look-ahead; see `Cores`.
    """
    if getattr(_OWN, "core", False):
        yield
        return
    global _computing_seconds
    with _CORES.held(in_advance=in_advance, patience=patience):
        _OWN.core, began = True, time.thread_time()
        try:
            yield
        finally:
            _OWN.core = False
            with _COUNTING:
                _computing_seconds += time.thread_time() - began


def computing_seconds() -> float:
    """Return the processor time in seconds that threads have spent in blocks of `a_core` so far.

    These blocks train, select and measure, also in advance and in gaps. Blocks that are still running do not
    count, and neither do threads that a block starts.
    """
    return _computing_seconds


@contextmanager
def a_gap() -> Iterator[None]:
    """Wait at most `GAP_SECONDS` for a free core, and hold a core until the ``with`` block ends.

    This is for work that nobody waits for, but that must end at some time.
    """
    with a_core(in_advance=True, patience=GAP_SECONDS):
        yield


def in_gaps(parts: Iterator[T]) -> Iterator[T]:
    """Yield the parts of a long computation, and compute each in a gap; see `a_gap`."""
    while True:
        with a_gap():
            try:
                part = next(parts)
            except StopIteration:
                return
        yield part
