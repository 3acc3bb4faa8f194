"""Work of several owners, such as the look-ahead of several sessions, done in turns.

The turns are shared out by start-time fair queueing [1]_: the next turn goes to the owner whose earlier turns
have taken the least time. An owner that begins late, or had nothing to do for a while, gets no credit for
this. If all turns take equally long, this is round robin. If one owner's turns take long, the other owners
get more turns, so that each owner gets the same share of time.

References
----------
.. [1] P. Goyal, H. M. Vin, H. Cheng: Start-time fair queueing: a scheduling algorithm for integrated services
       packet switching networks, IEEE/ACM Transactions on Networking 5, 1997.
"""

from __future__ import annotations

import math
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Protocol

RECENT = 5
"""Number of an owner's last turns whose median time is the expected time of its next turn."""

CROWDING_SECONDS = 2.0
"""Time constant, in seconds, of the mean of `Turns.crowding`."""

MOST_OWNERS = 1_000
"""Number of owners whose times are remembered; those without work are forgotten first."""


class Job(Protocol):
    """Work that is done in turns.

    Attributes
    ----------
    owner : str
        The owner of the work. Time is shared among owners.
    turns_left : int
        Estimated number of turns until the work is done.
    """

    owner: str

    @property
    def turns_left(self) -> int:
        """See `Job`."""

    def take_turn(self) -> bool:
        """Do a part of the work; return whether more is left. After an error, the job gets no more turns.

        If a turn does the work of n turns, `turns_left` decreases by n.
        """

    def cancel(self) -> None:
        """End the job, because it will get no more turns."""


@dataclass(eq=False)
class _Owner:
    """The virtual time, in seconds, at which an owner's last turn ended, and its last turns' durations."""

    finished: float = 0.0
    seconds: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))


class Turns:
    """The jobs that wait for their next turn. Thread-safe.

    Parameters
    ----------
    cores : int
        Number of turns that run at once.
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(self, cores: int, clock: Callable[[], float] = time.perf_counter) -> None:
        self._cores = cores
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[
            Job, float
        ] = {}  # by job: start of its next turn in virtual time; first come first
        self._owners: OrderedDict[str, _Owner] = OrderedDict()  # most recently active last
        self._served: Counter[str] = Counter()
        self._crowding, self._averaged_at = 0.0, -math.inf
        self._now = 0.0  # virtual time: start of the last turn that began

    def enter(self, job: Job, executor: Executor) -> None:
        """Let the job wait for its next turn. The executor's threads do the turns of all jobs."""
        with self._lock:
            self._waiting[job] = max(self._now, self._owner(job.owner).finished)
        executor.submit(self._take_next, executor)

    def leave(self, job: Job) -> bool:
        """Remove a job; return whether it was waiting. A turn that is under way goes on."""
        with self._lock:
            return self._waiting.pop(job, None) is not None

    @contextmanager
    def serving(self, owner: str) -> Iterator[None]:
        """Count the ``with`` block as a turn of the owner. The block starts at once; other turns wait."""
        with self._lock:
            self._average()
            self._served[owner] += 1
        try:
            yield
        finally:
            with self._lock:
                self._average()
                self._served[owner] -= 1
                self._served += Counter()  # drops zeros

    @property
    def crowding(self) -> float:
        """Return the mean of (n − 1) / cores, where n is the number of owners that are served at once.

        The mean is over the last seconds; see `CROWDING_SECONDS`.
        """
        with self._lock:
            self._average()
            return self._crowding / self._cores

    def _average(self) -> None:
        """Bring the exponentially weighted mean up to now."""
        now = self._clock()
        weight = math.exp((self._averaged_at - now) / CROWDING_SECONDS)
        self._crowding = weight * self._crowding + (1 - weight) * max(0, len(self._served) - 1)
        self._averaged_at = now

    @property
    def n_waiting(self) -> int:
        """Return the number of turns that the waiting jobs need."""
        with self._lock:
            return sum(job.turns_left for job in self._waiting)

    def patience(self, owner: str) -> float:
        """Return the expected time of the shortest turn that another owner waits for.

        If no other owner waits, the time is infinite. A turn of `owner` should not take longer.
        """
        with self._lock:
            others = {job.owner for job in self._waiting} - {owner}
            return min(map(self._seconds, others), default=math.inf)

    def seconds(self, owner: str | None = None) -> float:
        """Return the expected time of an owner's next turn, in seconds.

        If `owner` is None or has had no turn yet, return the mean over all owners.
        """
        with self._lock:
            return self._seconds(owner)

    def delay(self, owner: str, turns: int) -> float:
        """Return the number of seconds by which other owners delay the next `turns` turns of `owner`.

        Time is shared fairly, so each other owner delays these turns by at most the time t that the turns
        take. If n other owners have at least as much to do, the delay is n · t / the number of cores.
        """
        with self._lock:
            own = turns * self._seconds(owner)
            others: Counter[str] = Counter()
            for job in self._waiting:
                others[job.owner] += job.turns_left
            others += self._served
            return (
                sum(min(own, left * self._seconds(other)) for other, left in others.items() if other != owner)
                / self._cores
            )

    def _take_next(self, executor: Executor) -> None:
        """Do the next turn of a waiting job; do nothing if no job waits."""
        job = self._begin()
        if job is None:
            return
        began, left, goes_on = self._clock(), job.turns_left, False
        try:
            goes_on = job.take_turn()
        finally:
            self._record(job, self._clock() - began, left - job.turns_left)
        if goes_on:
            try:
                self.enter(job, executor)
            except RuntimeError:  # the executor is shut down
                self.leave(job)
                job.cancel()

    def _begin(self) -> Job | None:
        """Remove and return the waiting job whose turn begins now; return None if no job waits."""
        with self._lock:
            if not self._waiting:
                return None
            job = min(self._waiting, key=self._waiting.__getitem__)
            start = self._waiting.pop(job)
            self._now = max(self._now, start)
            owner = self._owner(job.owner)
            owner.finished = max(owner.finished, start)
            return job

    def _record(self, job: Job, seconds: float, turns: int = 1) -> None:
        """Record that a turn of `seconds` seconds has ended, which did the work of `turns` turns."""
        with self._lock:
            owner = self._owner(job.owner)
            owner.finished += seconds
            owner.seconds.append(seconds / max(1, turns))

    def _owner(self, name: str) -> _Owner:
        owner = self._owners.setdefault(name, _Owner())
        self._owners.move_to_end(name)
        if len(self._owners) > MOST_OWNERS:
            self._owners.popitem(last=False)
        return owner

    def _seconds(self, owner: str | None) -> float:
        known = self._owners.get(owner) if owner is not None else None
        if known is not None and known.seconds:
            return median(known.seconds)
        means = [fmean(one.seconds) for one in self._owners.values() if one.seconds]
        return fmean(means) if means else 0.0
