"""Near-duplicates between a pool and its held-out items.

If a labeled item is a near-duplicate of a held-out item, the measured accuracy is too high, because the
classifier has been trained on almost the same item. Accuracy is therefore measured on those held-out items
that are in no group with an item of the pool. What a pool holds out does not change.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from closecall.core.duplicates.files import Stamps, folder_of, load_groups, stamps_of
from closecall.core.duplicates.groups import Groups
from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows, gathered
from closecall.core.pool.held_out import HeldOut
from closecall.core.pool.pool import Pool

_known: WeakKeyDictionary[Pool, tuple[Stamps, HeldOut]] = WeakKeyDictionary()


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


def unrepeated_held_out(pool: Pool) -> HeldOut:
    """Return the held-out items that are in no group with an item of the pool.

    The groups are those that ``closecall pool duplicates`` last saved. Groups that can't be read are ignored.
    Without groups, the result is `pool.held_out`.
    """
    stamps = stamps_of(pool.path)
    before = _known.get(pool)
    if before is not None and before[0] == stamps:
        return before[1]
    repeated = np.zeros(len(pool.held_out), dtype=np.bool_)
    for kind in stamps:
        with suppress(InputError):
            saved = load_groups(folder_of(pool.path, kind), pool)
            repeated |= np.isin(pool.held_out.ids, saved.held_out)
    found = pool.held_out.take(np.flatnonzero(~repeated)) if repeated.any() else pool.held_out
    _known[pool] = stamps, found
    return found
