"""The time of a full scan of the pool, measured while people label, for comparison with the selections.

A scan that is timed once, when the server starts, competes with the building of indexes and the compiler. Its
time then says little about selections that are made later. Scans are therefore timed again and again, each
shortly after a selection. The page shows the shortest of the last times: if other work delays some scans, the
selections do not look faster for it. All scans together take at most `SHARE` of the time. Until there are
`RECENT` times, they may take `FIRST_SHARE`.

Of a large pool, only a part is scanned (`MOST_ROWS`), and the time is multiplied accordingly. A scan of all
items would take seconds, and it would push the items that the selections read out of memory.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from contextlib import suppress

import numpy as np

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import SearchIncomplete, make_strategy

RECENT = 5
"""Number of measurements of which the shortest is shown."""

TIMED_SECONDS, MOST_SCANS = 0.02, 50
"""Scans are repeated for this many seconds, but at most this many times; a measurement is their median."""

FIRST_SHARE, SHARE = 0.05, 0.01
"""Maximum shares of the time that are spent on the first `RECENT` measurements, and on later measurements.

A scan uses all processors, so it delays the answers of all who label. With a million items and 20 people at
one question, a share of 5 % was 10 % of the server's processor time.
"""

MOST_ROWS = 10_000_000
"""Maximum number of items that are scanned to measure the time."""

GROWTH = 1.25
"""A measurement is discarded when the pool has grown by this factor."""

REMEMBERED = 4096
"""Number of selections for which `FullScanTimes.beside` keeps the time."""


class FullScanTimes:
    """Times of full scans of a pool. One thread measures; any thread may read."""

    def __init__(self) -> None:
        self._times: deque[tuple[int, float]] = deque(maxlen=RECENT)  # number of items, milliseconds
        self._beside: OrderedDict[str, float | None] = OrderedDict()
        self._lock = threading.Lock()
        self._is_used = False
        self._rest_until = 0.0

    @property
    def ms(self) -> float | None:
        """The shortest of the last measurements in ms, or None if there are no measurements yet."""
        return min((ms for _, ms in list(self._times)), default=None)

    def beside(self, selection_id: str) -> float | None:
        """Return `ms` as it was when this method was first called with this selection.

        The time that the page shows beside a selection thus stays the same.
        """
        with self._lock:
            found = self._beside.setdefault(selection_id, self.ms)
            if len(self._beside) > REMEMBERED:
                self._beside.popitem(last=False)
            return found

    def note_use(self) -> None:
        """Note that a selection is being made. Without selections, no scans are timed."""
        self._is_used = True

    def measure(self, pool: Pool) -> None:
        """Scan the pool and record the time, if a selection was made since the last call.

        After a scan, do nothing until scans have taken at most a share of the time (`SHARE`).
        """
        if not self._is_used or time.monotonic() < self._rest_until:
            return
        self._is_used = False
        began = time.monotonic()
        self._discard(len(pool))
        with suppress(SearchIncomplete):
            self._times.append((len(pool), _timed(pool) * factor_of(len(pool))))
        share = SHARE if len(self._times) == RECENT else FIRST_SHARE
        self._rest_until = time.monotonic() + (time.monotonic() - began) * (1 / share - 1)

    def _discard(self, n_items: int) -> None:
        while self._times and n_items >= GROWTH * self._times[0][0]:
            self._times.popleft()


def factor_of(n_items: int) -> float:
    """Return the number of items divided by the number that is scanned; above 1, the time is an estimate."""
    return max(1.0, n_items / MOST_ROWS)


def _timed(pool: Pool) -> float:
    """Return the time of a scan of at most `MOST_ROWS` items in milliseconds.

    If scans are short, it is the median of several scans.
    """
    strategy = make_strategy("exhaustive").fit(pool.prefix(min(len(pool), MOST_ROWS)))
    plane = Hyperplane(np.full(pool.n_features, pool.n_features**-0.5), 0.0)
    seconds = list[float]()
    while sum(seconds) < TIMED_SECONDS and len(seconds) < MOST_SCANS:
        selection = strategy.select(plane)
        if selection.missing:
            raise SearchIncomplete(f"{selection.missing:,} rows were not searched in time")
        seconds.append(selection.seconds)
    return 1000 * float(np.median(seconds))
