"""Exact rank of a selected item, by its distance to the hyperplane or by its score, by a full scan."""

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
    return np.abs(scores_of(X, hyperplane))


def scores_of(X: NDArray[np.float32], hyperplane: Hyperplane) -> NDArray[np.float64]:
    """Return wᵀx + b for each row x of X in float64, of shape (len(X),).

    Equal rows have exactly equal values.
    """
    return np.asarray((X * hyperplane.normal).sum(axis=1) + hyperplane.bias)


class BruteForce:
    """A key of all items of a pool, such as |wᵀx + b|, from which the exact rank of any item can be computed.

    All rows are scored once in float32. Rows whose keys differ by less than the rounding error are compared
    in float64.

    Parameters
    ----------
    pool : Pool
        Pool whose rows have unit norm.
    hyperplane : Hyperplane
        Classifier for which the items were selected.
    exclude : iterable of int
        Ids of items that could not have been selected. They are not counted in a rank.
    key : ufunc
        Function of wᵀx + b whose slope is between −1 and 1: `np.abs` to rank by the distance to the
        hyperplane, or `np.negative` to rank the items with the largest scores first.

    Attributes
    ----------
    keys : array of shape (len(pool),), float32
        Key of each item, infinite for excluded items.
    """

    def __init__(
        self,
        pool: PoolRows,
        hyperplane: Hyperplane,
        *,
        exclude: Iterable[int] = (),
        key: np.ufunc = np.abs,
    ) -> None:
        self._pool = pool
        self._hyperplane = hyperplane
        self._key = key
        self.keys = key(pool.scores(hyperplane))
        self.keys[np.isin(pool.ids, np.fromiter(exclude, dtype=np.int64))] = np.inf

    def rank(self, item: int) -> int:
        """Return the number of items with a smaller key than the item with id `item`."""
        row = np.searchsorted(self._pool.ids, [item])
        own = self._exact(row)[0]
        # Upper bound of the rounding error of a sum of d rounded products of unit-norm rows.
        units = 1.01 * 2.0**-24 * (len(self._hyperplane.normal) + 3)
        error = units * (self._hyperplane.norm + abs(self._hyperplane.bias))
        in_doubt = np.flatnonzero((self.keys >= own - error) & (self.keys <= own + error))
        before = self._exact(in_doubt) < own
        return int(np.count_nonzero(self.keys < own - error) + np.count_nonzero(before))

    def _exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        keys: NDArray[np.float64] = self._key(scores_of(self._pool.rows(rows), self._hyperplane))
        return keys
