"""A crew: workers that help this process to search a pool. The transport is left to subclasses.

Each worker has opened the same pool, and searches some of its segments. The names of the workers determine
which segments each is asked for, so that the features of these segments stay in its memory. If a worker is
lost, only its segments move to others.

A search has a time limit. A worker that fails, or has not answered after part of the time, is not asked again
until a pause is over (`core.workers.pauses`) and it has shown that it works. Each further pause is longer,
until the worker answers in time. Its segments are searched by the other workers. The segments that no worker
has searched are searched in this process, as long as there is time. The segments that are left are reported,
so an incomplete answer says so.

The answer of a crew is the same as that of one process, whatever the number of workers: the parts do not
depend on who computes them (`core.selection.reader.Search`), and this process computes the margins of the
rows that were found, and breaks ties.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, wait
from functools import lru_cache
from time import monotonic
from zlib import crc32

from closecall.core.selection.reader import Part, Parts, PoolRows, RowReader, Search

TURNS = (0.4, 0.7)
"""Shares of the time after which the first and the second workers that were asked must have answered."""

log = logging.getLogger(__name__)


class WorkerCrew(ABC):
    """Base class of crews; its methods may be called by several threads at once.

    Parameters
    ----------
    seconds : float
        Time limit of a search. The last segment that is searched in this process may exceed it a little.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    @abstractmethod
    def ready(self, pool: PoolRows) -> list[str]:
        """Return the names of the workers that can search the pool now; this takes no time.

        Let further workers prepare themselves for the pool meanwhile.
        """

    @abstractmethod
    def ask(self, worker: str, pool: PoolRows, search: Search[Part], segments: Sequence[int]) -> Future[Part]:
        """Send a search of some segments to a worker."""

    @abstractmethod
    def dismiss(self, worker: str, pool: PoolRows, reason: str) -> None:
        """Regard a worker as not ready, until it has prepared itself for the pool again after a pause."""

    @abstractmethod
    def note_answer(self, worker: str, pool: PoolRows) -> None:
        """Note that a worker has answered in time. If it is dismissed later, its first pause is short."""

    def search(self, pool: PoolRows, reader: RowReader, search: Search[Part]) -> Parts[Part]:
        """Search all segments of the pool; see `core.selection.reader.Crew`."""
        begun = monotonic()
        left, found, is_ours = set(range(len(pool.segment_starts))), list[Part](), True
        for share in TURNS:
            workers = self.ready(pool) if left else []
            asked = {
                self.ask(worker, pool, search.within(pool, own), own): (worker, own)
                for worker, own in shared_out(tuple(sorted(left)), tuple(workers)).items()
            }
            wait(asked, timeout=begun + share * self.seconds - monotonic())
            for future, (worker, own) in asked.items():
                problem = self._problem(future)
                if problem is None:
                    found.append(future.result())
                    left.difference_update(own)
                    is_ours = False
                    self.note_answer(worker, pool)
                else:
                    self.dismiss(worker, pool, problem)
        for segment in sorted(left):
            if monotonic() > begun + self.seconds:
                break
            found.append(search.within(pool, [segment]).run(pool, reader, [segment]))
            left.remove(segment)
        if left:
            log.warning("A search was incomplete: %d segments were not searched in time", len(left))
        return Parts(found, tuple(sorted(left)), is_ours)

    def _problem(self, future: Future[Part]) -> str | None:
        """Return why there is no answer, or None if there is one."""
        if not future.done():
            future.cancel()
            return "it has not answered in time"
        error = CancelledError() if future.cancelled() else future.exception()
        return None if error is None else str(error) or type(error).__name__


@lru_cache(maxsize=64)
def shared_out(segments: tuple[int, ...], workers: tuple[str, ...]) -> dict[str, list[int]]:
    """Divide the segments among the workers, as evenly as possible, and leave out workers without a segment.

    Each segment goes to the first worker, in an order of its own, that has not got its share yet. Most
    segments therefore stay with their worker if others come or go (rendezvous hashing: D. Thaler,
    C. Ravishankar, IEEE/ACM Transactions on Networking 1998).
    """
    shares: dict[str, list[int]] = {worker: [] for worker in workers}
    for segment in segments if workers else ():
        in_order = sorted(workers, key=lambda worker: crc32(f"{segment} {worker}".encode()))
        free = (worker for worker in in_order if len(shares[worker]) * len(workers) < len(segments))
        shares[next(free)].append(segment)
    return {worker: own for worker, own in shares.items() if own}
