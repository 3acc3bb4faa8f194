"""What sessions remember between rounds, computed in the background: one pass over the pool for all of them.

A query strategy may find the next item sooner if its session remembers how the pool lay to an earlier
hyperplane (`core.selection.QueryStrategy.remember`). That takes a scan, so nobody waits for it: when a
session selects, it takes what is there, however many rounds old.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from weakref import ReferenceType, ref

from closecall.app.runtime.background import Troubles
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import QueryStrategy

WORTHWHILE_SECONDS = 0.016
"""A selection that computes no longer than a frame of the screen lasts (1/60 s) needs no help.

Nobody would see the difference, and to remember takes a scan. It is processor time that counts: where a
selection takes long because the processors are busy, a scan would keep them busier.
"""

MOST_BYTES = 800_000_000
"""Of all memories of a project: 20 sessions at ten million items. A pass takes twice as much for a while."""

BYTES_A_ROW = 4
"""Of one memory: a float32 score."""

KEPT_SECONDS = 600
"""A session that hasn't selected for so long is over."""

TIDY_SECONDS = 60
"""How often memories of sessions that are over are looked for."""


@dataclass(frozen=True, eq=False)
class Remembered:
    """What a session gives as `memory` when it selects.

    Parameters
    ----------
    digest : str
        Of the hyperplane that it is of.
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
    """The newest memory of each session, looked after by a thread of its own until `close`.

    Parameters
    ----------
    worthwhile_seconds : float
        A hyperplane is remembered if selecting by it took more processor time.
    """

    def __init__(self, worthwhile_seconds: float = WORTHWHILE_SECONDS) -> None:
        self.worthwhile_seconds = worthwhile_seconds
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._waiting: dict[str, tuple[QueryStrategy, Hyperplane]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._troubles = Troubles()
        self._thread = threading.Thread(target=self._tend, name="memories", daemon=True)
        self._thread.start()

    @property
    def sessions(self) -> list[str]:
        """Who remembers something, whoever selected last at the end."""
        return list(self._kept)

    @property
    def n_bytes(self) -> int:
        """Bytes that all memories take; at most `MOST_BYTES`, however long people label."""
        with self._changed:
            return sum(kept.n_bytes for kept in self._kept.values())

    @property
    def problem(self) -> str | None:
        """Why sessions go on without memory, in one sentence; None while all is well."""
        return self._troubles.first

    def close(self) -> None:
        """Stop; returns when no pass is under way any more."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def newest(self, session: str, index: QueryStrategy) -> Remembered | None:
        """What the session remembers of this index; what it remembers of another one is forgotten."""
        with self._changed:
            kept = self._kept.pop(session, None)
            if kept is None or kept.index() is not index:
                return None
            self._keep(session, index, kept.remembered)
            return kept.remembered

    def offer(self, session: str, index: QueryStrategy, hyperplane: Hyperplane, seconds: float) -> None:
        """Have the hyperplane remembered if it is worthwhile, selecting by it having taken so many seconds.

        It takes the place of an earlier one of the session that still waits.
        """
        with self._changed:
            self._waiting.pop(session, None)
            if seconds > self.worthwhile_seconds:
                self._waiting[session] = index, hyperplane
                self._changed.notify()

    def _tend(self) -> None:
        while self._wait():
            with self._troubles.noted("Remembering hyperplanes, which makes selections faster,"):
                self._remember()

    def _wait(self) -> bool:
        """Until a hyperplane waits to be remembered; False when there will be none."""
        with self._changed:
            self._forget()
            while not (self._waiting or self._closed):
                self._changed.wait(TIDY_SECONDS)
                self._forget()
            return not self._closed

    def _remember(self) -> None:
        """One pass for all sessions that have a hyperplane waiting, of the index that has waited longest."""
        with self._changed:
            index, _ = next(iter(self._waiting.values()))
            most = max(1, MOST_BYTES // (BYTES_A_ROW * index.n_items))
            sessions = [session for session, (own, _) in self._waiting.items() if own is index][:most]
            hyperplanes = [self._waiting.pop(session)[1] for session in sessions]
        found = index.remember(hyperplanes)
        with self._changed:
            for session, hyperplane, memory in zip(sessions, hyperplanes, found, strict=True):
                if memory is not None:
                    self._keep(session, index, Remembered(hyperplane.digest, memory))
            while len(self._kept) > most:
                self._kept.popitem(last=False)

    def _keep(self, session: str, index: QueryStrategy, remembered: Remembered) -> None:
        """As the one used last."""
        self._kept[session] = _Kept(ref(index), remembered, time.monotonic(), BYTES_A_ROW * index.n_items)
        self._kept.move_to_end(session)

    def _forget(self) -> None:
        """What is of an index that is gone, or of a session that is over."""
        over = time.monotonic() - KEPT_SECONDS
        for session, kept in list(self._kept.items()):
            if kept.index() is None or kept.used < over:
                del self._kept[session]
