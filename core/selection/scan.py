"""Scan of the whole pool that keeps the n items with the smallest key, a function of wᵀx + b.

The pool is scored in float32, block by block, for all queries at once. Those rows whose key may be among the
n smallest so far are scored again in float64 (see `core.selection.nearest`). This is done right after the
block is scored, while the rows are in the cache of the processor. A scan keeps only n rows per query, however
large the pool is.

If a device has all rows (`core.accelerator`), it finds the rows to score again, with the same result, and
the workers of the pool's crew are not asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from closecall.core.selection.exclusion import excluded_rows
from closecall.core.selection.nearest import at_most, balanced, float32_error, nearest_first, within_reach
from closecall.core.selection.reader import Parts, PoolRows, RowReader, Rows, ids_within, rows_in, searched
from closecall.core.selection.requests import NO_LABELS, Choice, Query

Ranked = tuple[Rows, NDArray[np.float64]]
"""Rows with the smallest keys, and these keys, ascending."""


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
    if not queries:
        return []
    search = Scan(tuple(replace(query, memory=None) for query in queries), key)
    by_device = search.by_device(pool, reader)
    parts = searched(pool, reader, search) if by_device is None else Parts([by_device])
    missing = rows_in(pool, parts.missing)
    choices = []
    for number, query in enumerate(queries):
        hyperplane, unit = balanced(query.plane())
        rows, keys = joined([found[number] for found in parts.found])
        if not parts.is_ours:
            keys = key(reader.scores(rows, hyperplane))
        rows, keys = nearest_first(rows, keys, query.n)
        margins = np.abs(keys) * unit
        choices.append(Choice(pool.ids[rows], margins, scored=len(pool) - missing, missing=missing))
    return choices


def joined(found: Sequence[Ranked]) -> Ranked:
    """Return the rows of all parts of a search, and their keys."""
    if not found:
        return np.empty(0, dtype=np.int64), np.empty(0)
    return np.concatenate([rows for rows, _ in found]), np.concatenate([keys for _, keys in found])


@dataclass(frozen=True, eq=False)
class Scan:
    """Scan of segments for queries, a `core.selection.reader.Search`; see `scan` for the parameters."""

    queries: tuple[Query, ...]
    key: np.ufunc

    def within(self, pool: PoolRows, segments: Sequence[int]) -> Scan:
        """See `core.selection.reader.Search`."""
        return replace(
            self,
            queries=tuple(
                replace(query, exclude=ids_within(pool, query.exclude, segments), labels=NO_LABELS)
                for query in self.queries
            ),
        )

    def run(self, pool: PoolRows, reader: RowReader, segments: Sequence[int] | None) -> list[Ranked]:
        """Return the n best rows for each query, and their keys under the balanced hyperplane."""
        scans = self._scans(pool, reader)
        for first_row, scores in pool.score_blocks([one.hyperplane for one in scans], segments):
            for one, own in zip(scans, scores, strict=True):
                one.add(first_row, own)
        return [one.best for one in scans]

    def by_device(self, pool: PoolRows, reader: RowReader) -> list[Ranked] | None:
        """Return the result of `run` for all segments; None if no device has all rows of the pool."""
        if pool.kept is None or not pool.kept.holds(len(pool)):
            return None
        scans = self._scans(pool, reader)
        planes, ns = [one.hyperplane for one in scans], [one.n for one in scans]
        near = pool.kept.near(planes, self.key, ns, [one.excluded for one in scans], len(pool))
        if near is None:
            return None
        for one, rows in zip(scans, near, strict=True):
            one.settle(rows)
        return [one.best for one in scans]

    def _scans(self, pool: PoolRows, reader: RowReader) -> list[_Scan]:
        return [_Scan(pool, reader, query, self.key) for query in self.queries]


class _Scan:
    """Scan for one query, which keeps the n rows with the smallest key so far."""

    def __init__(self, pool: PoolRows, reader: RowReader, query: Query, key: np.ufunc) -> None:
        self.hyperplane, _ = balanced(query.plane())
        self._reader = reader
        self.n = query.n
        self._key = key
        self.excluded = excluded_rows(pool, query)
        self._error = float32_error(self.hyperplane)
        self.best: Ranked = np.empty(0, dtype=np.int64), np.empty(0)

    def add(self, first_row: int, scores: NDArray[np.float32]) -> None:
        """Process the scores of a block of rows that starts at `first_row`; overwrite `scores`."""
        keys = self._key(scores, out=scores)
        start, end = np.searchsorted(self.excluded, [first_row, first_row + len(keys)])
        keys[self.excluded[start:end] - first_row] = np.inf
        best_rows, best_keys = self.best
        if len(best_rows) < self.n:
            near = within_reach(keys, self.n, self._error)
        else:
            near = at_most(keys, best_keys[-1] + self._error)
        if len(near):
            self.settle(first_row + near)

    def settle(self, rows: Rows) -> None:
        """Score rows in float64, and keep the n rows with the smallest key of these and earlier rows."""
        best_rows, best_keys = self.best
        exact = self._key(self._reader.scores(rows, self.hyperplane))
        self.best = nearest_first(
            np.concatenate([best_rows, rows]), np.concatenate([best_keys, exact]), self.n
        )
