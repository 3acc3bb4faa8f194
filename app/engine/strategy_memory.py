"""Memories: the scores of all items under an earlier hyperplane of a session, computed in the background.

A query strategy may select faster if it knows these scores (`core.selection.QueryStrategy.remember`).
Computing them takes a scan of the pool. One scan serves all waiting sessions with the same index, as far as
memory allows. Selections never wait for a scan: they use the session's newest memory, however old it is.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from weakref import ReferenceType, ref

from closecall.app.runtime.background import Troubles, Watch
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import QueryStrategy

WORTHWHILE_SECONDS = 0.016
"""A memory is computed only for sessions whose selections take more processor time than this, in seconds.

A screen shows a new image every 1/60 s, so nobody would notice if shorter selections became faster. Waiting
time does not count: if selections are slow because the processors are busy, a scan would make them slower.
"""

MOST_BYTES = 800_000_000
"""Maximum size of a project's memories in bytes: enough for 20 sessions with a pool of ten million items.

A scan briefly needs twice as much.
"""

BYTES_A_ROW = 4
"""Bytes per item of a memory: a float32 score."""

KEPT_SECONDS = 600
"""A memory is dropped after this many seconds without a selection in its session."""

TIDY_SECONDS = 60
"""Seconds between searches for memories to drop."""


@dataclass(frozen=True, eq=False)
class Remembered:
    """A session's memory: the scores of all items under one of its earlier hyperplanes.

    Parameters
    ----------
    digest : str
        Digest of the remembered hyperplane.
    memory : object
        See `core.selection.QueryStrategy.remember`.
    """

    digest: str
    memory: object


@dataclass(eq=False)
class _Kept:
    index: ReferenceType[QueryStrategy]
    remembered: Remembered
    used: float
    n_bytes: int


class Memories:
    """Each session's newest memory (`Remembered`), updated by a background thread until `close`.

    Parameters
    ----------
    worthwhile_seconds : float
        Processor time in seconds that a selection must exceed for its hyperplane to be remembered.
    """

    def __init__(self, worthwhile_seconds: float = WORTHWHILE_SECONDS) -> None:
        self.worthwhile_seconds = worthwhile_seconds
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._waiting: dict[str, tuple[QueryStrategy, Hyperplane]] = {}
        self._lock = threading.Lock()
        self._troubles = Troubles()
        self._watch = Watch("memories", self._tend, TIDY_SECONDS)
        self._watch.start()

    @property
    def sessions(self) -> list[str]:
        """Return the sessions that have a memory, most recently used last."""
        return list(self._kept)

    @property
    def n_bytes(self) -> int:
        """Return the size of all memories in bytes, at most `MOST_BYTES`."""
        with self._lock:
            return sum(kept.n_bytes for kept in self._kept.values())

    @property
    def problem(self) -> str | None:
        """Return in one sentence why memories can't be computed, or None if they can."""
        return self._troubles.first

    def close(self) -> None:
        """Stop the thread, and wait until the current scan has ended."""
        self._watch.close()

    def newest(self, session: str, index: QueryStrategy) -> Remembered | None:
        """Return the session's newest memory, or None. A memory made with another index is deleted."""
        with self._lock:
            kept = self._kept.pop(session, None)
            if kept is None or kept.index() is not index:
                return None
            self._keep(session, index, kept.remembered)
            return kept.remembered

    def offer(self, session: str, index: QueryStrategy, hyperplane: Hyperplane, seconds: float) -> None:
        """Queue the hyperplane for a memory if its selection took more than `worthwhile_seconds`.

        `seconds` is the processor time of the selection. An earlier hyperplane of the session leaves the
        queue in any case.
        """
        with self._lock:
            self._waiting.pop(session, None)
            if seconds > self.worthwhile_seconds:
                self._waiting[session] = index, hyperplane
                self._watch.wake()

    def _tend(self) -> None:
        self._forget()
        while self._waiting:
            self._watch.go_on()
            with self._troubles.noted("Remembering hyperplanes, which makes selections faster,"):
                self._remember()
            self._forget()

    def _remember(self) -> None:
        """Scan the pool once, for the longest-waiting session and for others with the same index.

        The number of sessions is limited by the memory that they may use (`MOST_BYTES`).
        """
        with self._lock:
            if not self._waiting:
                return
            index, _ = next(iter(self._waiting.values()))
            most = max(1, MOST_BYTES // (BYTES_A_ROW * index.n_items))
            sessions = [session for session, (own, _) in self._waiting.items() if own is index][:most]
            hyperplanes = [self._waiting.pop(session)[1] for session in sessions]
        found = index.remember(hyperplanes)
        with self._lock:
            for session, hyperplane, memory in zip(sessions, hyperplanes, found, strict=True):
                if memory is not None:
                    self._keep(session, index, Remembered(hyperplane.digest, memory))
            while len(self._kept) > most:
                self._kept.popitem(last=False)

    def _keep(self, session: str, index: QueryStrategy, remembered: Remembered) -> None:
        """Store the memory as the most recently used."""
        self._kept[session] = _Kept(ref(index), remembered, time.monotonic(), BYTES_A_ROW * index.n_items)
        self._kept.move_to_end(session)

    def _forget(self) -> None:
        """Drop the memories of inactive sessions, and those made with indexes that no longer exist."""
        over = time.monotonic() - KEPT_SECONDS
        with self._lock:
            for session, kept in list(self._kept.items()):
                if kept.index() is None or kept.used < over:
                    del self._kept[session]
