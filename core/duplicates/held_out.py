"""Search for near-duplicates between a pool and its held-out items.

If a labeled item is a near-duplicate of a held-out item, the measured accuracy is too high, because the
classifier has been trained on almost the same item.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from closecall.core.duplicates.groups import Groups
from closecall.core.numerics.rows import Rows, gathered
from closecall.core.pool.pool import Pool


class WithHeldOut:
    """The rows of a pool, followed by its held-out items.

    Attributes
    ----------
    ids : array of shape (N,), int64
        Item of each row.
    n_features : int
    is_sparse : bool
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self.ids = np.concatenate([pool.ids, pool.held_out.ids])
        self.n_features = pool.n_features
        self.is_sparse = pool.is_sparse

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, rows: NDArray[np.int64]) -> Rows:
        """Return the features of these rows, of shape (len(rows), n_features)."""
        later = rows >= len(self._pool)
        if not later.any():
            return self._pool.rows(rows)
        ours, theirs = np.flatnonzero(~later), np.flatnonzero(later)
        held_out = self._pool.held_out.X[rows[theirs] - len(self._pool)]
        return gathered([(ours, self._pool.rows(rows[ours])), (theirs, held_out)])

    def blocks(self, start_row: int = 0) -> Iterator[tuple[int, Rows]]:
        """Yield blocks of rows from `start_row` on, as (first row, features of shape (m, n_features))."""
        n = len(self._pool)
        if start_row < n:
            yield from self._pool.blocks(start_row)
        if start_row < len(self):
            skip = max(0, start_row - n)
            yield n + skip, self._pool.held_out.X[skip:]


def straddling(groups: Groups, n_rows: int) -> NDArray[np.int64]:
    """Return the leaders, ascending, of groups with both pool rows (below `n_rows`) and held-out rows."""
    held_out = np.arange(len(groups)) >= n_rows
    inside = np.bincount(groups.leaders[~held_out], minlength=len(groups)) > 0
    outside = np.bincount(groups.leaders[held_out], minlength=len(groups)) > 0
    return np.flatnonzero(inside & outside)
