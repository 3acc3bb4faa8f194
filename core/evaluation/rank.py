"""Exact rank of a selected item by distance to the hyperplane, from a scan of the whole pool."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import PoolRows


def margins_of(X: NDArray[np.float32], hyperplane: Hyperplane) -> NDArray[np.float64]:
    """Return |wᵀx + b| of the rows of X in float64, of shape (len(X),); equal rows have equal values."""
    return np.asarray(np.abs((X * hyperplane.normal).sum(axis=1) + hyperplane.bias))


class BruteForce:
    """Distances |wᵀx + b| of all items, from one pass over the pool, to rank any number of selected items.

    All rows are scored in float32. Rows too close to be ordered within the rounding error are compared in
    float64.

    Parameters
    ----------
    pool : Pool
        N unit rows.
    hyperplane : Hyperplane
        Classifier for which the items were selected.
    exclude : iterable of int
        Ids that could not have been selected; they are not counted.

    Attributes
    ----------
    margins : array of shape (N,), float32
        |wᵀx + b|, infinite for excluded items.
    """

    def __init__(self, pool: PoolRows, hyperplane: Hyperplane, *, exclude: Iterable[int] = ()) -> None:
        self._pool = pool
        self._hyperplane = hyperplane
        self.margins = np.abs(pool.scores(hyperplane))
        self.margins[np.isin(pool.ids, np.fromiter(exclude, dtype=np.int64))] = np.inf

    def rank(self, item: int) -> int:
        """Return the number of items that are nearer to the hyperplane than the item with the id `item`."""
        row = np.searchsorted(self._pool.ids, [item])
        margin = margins_of(self._pool.rows(row), self._hyperplane)[0]
        # Upper bound of the rounding error of a sum of d rounded products of unit-norm rows.
        units = 1.01 * 2.0**-24 * (len(self._hyperplane.normal) + 3)
        error = units * (self._hyperplane.norm + abs(self._hyperplane.bias))
        in_doubt = np.flatnonzero((self.margins >= margin - error) & (self.margins <= margin + error))
        nearer = margins_of(self._pool.rows(in_doubt), self._hyperplane) < margin
        return int(np.count_nonzero(self.margins < margin - error) + np.count_nonzero(nearer))
