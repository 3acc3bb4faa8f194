"""Scan of the whole pool that keeps the n items with the smallest key, a function of wᵀx + b.

The pool is scored in float32, block by block, for all queries at once. Those rows whose key may be among the
n smallest so far are scored again in float64 (see `core.selection.nearest`). This is done right after the
block is scored, while the rows are in the cache of the processor. A scan keeps only n rows per query, however
large the pool is.

If a device has the rows (`core.accelerator`), it finds the rows to score again, with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from closecall.core.selection.exclusion import excluded_rows
from closecall.core.selection.nearest import at_most, balanced, float32_error, nearest_first, within_reach
from closecall.core.selection.reader import PoolRows, RowReader, Rows
from closecall.core.selection.requests import Choice, Query


def scan(pool: PoolRows, reader: RowReader, queries: Sequence[Query], key: np.ufunc) -> list[Choice]:
    """For each query, return the n items with the smallest key, smallest first; ties go to the lower id.

    Parameters
    ----------
    pool : PoolRows
        Pool to scan.
    reader : RowReader
        Reader of this pool.
    queries : sequence of Query
        The queries, which are answered together in one pass over the pool.
    key : ufunc
        Function of wᵀx + b whose slope is between −1 and 1: `np.abs` to find the nearest items, or
        `np.negative` to find the items farthest on the positive side.
    """
    scans = [_Scan(pool, reader, query, key) for query in queries]
    if pool.kept is not None:
        planes, ns = [one.hyperplane for one in scans], [one.n for one in scans]
        found = pool.kept.near(planes, key, ns, [one.excluded for one in scans], len(pool))
        if found is not None:
            for one, rows in zip(scans, found, strict=True):
                one.settle(rows)
            return [one.choice() for one in scans]
    for first_row, scores in pool.score_blocks([one.hyperplane for one in scans]):
        for one, own in zip(scans, scores, strict=True):
            one.add(first_row, own)
    return [one.choice() for one in scans]


class _Scan:
    """Scan for one query, which keeps the n rows with the smallest key so far."""

    def __init__(self, pool: PoolRows, reader: RowReader, query: Query, key: np.ufunc) -> None:
        self.hyperplane, self._unit = balanced(query.plane())
        self._pool = pool
        self._reader = reader
        self.n = query.n
        self._key = key
        self.excluded = excluded_rows(pool, query)
        self._error = float32_error(self.hyperplane)
        self._rows = np.empty(0, dtype=np.int64)
        self._keys = np.empty(0)

    def add(self, first_row: int, scores: NDArray[np.float32]) -> None:
        """Process the scores of a block of rows that starts at `first_row`; overwrite `scores`."""
        keys = self._key(scores, out=scores)
        start, end = np.searchsorted(self.excluded, [first_row, first_row + len(keys)])
        keys[self.excluded[start:end] - first_row] = np.inf
        if len(self._rows) < self.n:
            near = within_reach(keys, self.n, self._error)
        else:
            near = at_most(keys, self._keys[-1] + self._error)
        if len(near):
            self.settle(first_row + near)

    def settle(self, rows: Rows) -> None:
        """Score rows in float64, and keep the n rows with the smallest key of these and earlier rows."""
        exact = self._key(self._reader.scores(rows, self.hyperplane))
        self._rows, self._keys = nearest_first(
            np.concatenate([self._rows, rows]), np.concatenate([self._keys, exact]), self.n
        )

    def choice(self) -> Choice:
        """Return the answer; call this method after all rows have been processed."""
        margins = np.abs(self._keys) * self._unit
        return Choice(self._pool.ids[self._rows], margins, scored=len(self._pool))
