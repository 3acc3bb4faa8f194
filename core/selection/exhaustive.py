"""Exhaustive selection: every row is scored, so the answer is the nearest there is.

The pool is scored in float32, block by block, for all queries at once. Of a block only the rows that may be
nearer than the n nearest so far are computed in float64 (see `core.selection.nearest`), while they are still
in the cache. So a scan remembers n rows a query, however large the pool is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from core.selection.base import Choice, Query, QueryStrategy
from core.selection.exclusion import excluded_rows
from core.selection.nearest import at_most, balanced, float32_error, nearest_first, within_reach
from core.selection.reader import PoolRows, RowReader


class ExhaustiveSearch(QueryStrategy):
    """The n items nearest to the hyperplane, exactly: one scan of the pool, for one query or for many."""

    name = "exhaustive"

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`."""
        scans = [_Scan(self.pool_, self.reader_, query) for query in queries]
        for first_row, scores in self.pool_.score_blocks([scan.hyperplane for scan in scans]):
            for scan, own in zip(scans, scores, strict=True):
                scan.go_on(first_row, own)
        return [scan.choice() for scan in scans]


class _Scan:
    """The n nearest of the rows so far, for one query."""

    def __init__(self, pool: PoolRows, reader: RowReader, query: Query) -> None:
        self.hyperplane, self._unit = balanced(query.plane())
        self._pool = pool
        self._reader = reader
        self._n = query.n
        self._excluded = excluded_rows(pool, query)
        self._error = float32_error(self.hyperplane)
        self._rows = np.empty(0, dtype=np.int64)
        self._margins = np.empty(0)

    def go_on(self, first_row: int, scores: NDArray[np.float32]) -> None:
        """Take in the rows from `first_row` on, whose float32 scores are overwritten."""
        margins = np.abs(scores, out=scores)
        start, end = np.searchsorted(self._excluded, [first_row, first_row + len(margins)])
        margins[self._excluded[start:end] - first_row] = np.inf
        if len(self._rows) < self._n:
            near = within_reach(margins, self._n, self._error)
        else:
            near = at_most(margins, self._margins[-1] + self._error)
        if len(near):
            rows = first_row + near
            exact = self._reader.margins(rows, self.hyperplane)
            self._rows, self._margins = nearest_first(
                np.concatenate([self._rows, rows]), np.concatenate([self._margins, exact]), self._n
            )

    def choice(self) -> Choice:
        """The answer, when all rows were taken in."""
        return Choice(self._pool.ids[self._rows], self._margins * self._unit, scored=len(self._pool))
