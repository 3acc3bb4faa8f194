"""Exact rank of a selected item in the order of distances to the hyperplane, from a scan of the pool."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import PoolRows


def margins_of(X: NDArray[np.float32], hyperplane: Hyperplane) -> NDArray[np.float64]:
    """Return |wᵀx + b| for each row x of X in float64, of shape (len(X),).

    Equal rows have exactly equal values.
    """
    return np.asarray(np.abs((X * hyperplane.normal).sum(axis=1) + hyperplane.bias))


class BruteForce:
    """Margins |wᵀx + b| of all items of a pool, from which the exact rank of any item can be computed.

    All rows are scored once in float32. Rows whose margins differ by less than the rounding error are
    compared in float64.

    Parameters
    ----------
    pool : Pool
        Pool whose rows have unit norm.
    hyperplane : Hyperplane
        Classifier for which the items were selected.
    exclude : iterable of int
        Ids of items that could not have been selected. They are not counted in a rank.

    Attributes
    ----------
    margins : array of shape (len(pool),), float32
        |wᵀx + b| of each item, infinite for excluded items.
    """

    def __init__(self, pool: PoolRows, hyperplane: Hyperplane, *, exclude: Iterable[int] = ()) -> None:
        self._pool = pool
        self._hyperplane = hyperplane
        self.margins = np.abs(pool.scores(hyperplane))
        self.margins[np.isin(pool.ids, np.fromiter(exclude, dtype=np.int64))] = np.inf

    def rank(self, item: int) -> int:
        """Return the number of items that are nearer to the hyperplane than the item with id `item`."""
        row = np.searchsorted(self._pool.ids, [item])
        margin = margins_of(self._pool.rows(row), self._hyperplane)[0]
        # Upper bound of the rounding error of a sum of d rounded products of unit-norm rows.
        units = 1.01 * 2.0**-24 * (len(self._hyperplane.normal) + 3)
        error = units * (self._hyperplane.norm + abs(self._hyperplane.bias))
        in_doubt = np.flatnonzero((self.margins >= margin - error) & (self.margins <= margin + error))
        nearer = margins_of(self._pool.rows(in_doubt), self._hyperplane) < margin
        return int(np.count_nonzero(self.margins < margin - error) + np.count_nonzero(nearer))
