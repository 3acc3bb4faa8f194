"""Batches without near-duplicates: skip items that are too similar to an item already selected.

A grid of the n items nearest to a hyperplane often shows the same photograph many times. To avoid this, the
strategy chooses more items than requested, and n of these are selected. The items are visited in the order of
the strategy, and an item is selected if its angle to every item selected so far is large enough. This is the
greedy algorithm of [1]_ with one change. [1]_ minimizes a weighted sum of |wᵀx + b| and the largest cosine
with a selected item. These two numbers have no common scale, so this module sets a minimum angle instead. If
too few items are far enough apart, the item farthest from the selected items is added repeatedly, until n
items are selected, as in [2]_.

The minimum angle is given as a fraction of the median angle between two items of the pool, estimated from 64
rows. A fixed angle would not suit every pool, because the usual angle between two rows depends on the
features.

Cosines are computed by einsum, which adds in the same order for any number of threads; BLAS does not.

References
----------
.. [1] K. Brinker: Incorporating diversity in active learning with support vector machines, ICML 2003.
.. [2] T. F. Gonzalez: Clustering to minimize the maximum intercluster distance, Theor. Comput. Sci. 38, 1985.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.gram_rotation import rotated
from closecall.core.numerics.rows import Rows as Features
from closecall.core.numerics.rows import is_sparse
from closecall.core.selection.reader import PoolRows, Rows

AHEAD = 10
"""Number of items that a strategy chooses per requested item, before a diverse subset is taken."""

_SAMPLED = 64

_IDENTICAL = 1e-3
"""Angle, in radians, below which two items count as identical. Rounding to float16 causes such angles."""


def typical_angle(pool: PoolRows) -> float:
    """Return the median angle between two items, in radians, estimated from at most 64 evenly spaced rows.

    If the pool has a single row, the result is 0.
    """
    X = _unit(pool.rows(np.unique(np.linspace(0, len(pool) - 1, _SAMPLED).astype(np.int64))))
    cosines = np.einsum("ij,kj->ik", X, X)[np.triu_indices(len(X), 1)]
    return float(np.median(np.arccos(np.clip(cosines, -1, 1)))) if len(X) > 1 else 0.0


def diverse(X: Features, n: int, least_angle: float) -> Rows:
    """Choose `n` diverse items.

    Parameters
    ----------
    X : array of shape (m, n_features), or csr_array
        Features of the items, in order of preference.
    n : int
        Number of items to choose.
    least_angle : float
        Minimum angle between chosen items, in radians. If too few items are this far apart, the item farthest
        from the chosen items is added repeatedly, until `n` items are chosen, as in Gonzalez (1985).

    Returns
    -------
    array of shape (min(n, m),), int64, ascending
        Positions in X.
    """
    unit = _unit(X)
    too_alike = np.cos(max(least_angle, _IDENTICAL))
    likeness = np.full(len(unit), -np.inf)  # largest cosine to a chosen item
    taken: list[int] = []
    while len(taken) < min(n, len(unit)):
        allowed = likeness < too_alike
        best = int(np.argmax(allowed)) if allowed.any() else int(np.argmin(likeness))
        taken.append(best)
        likeness = np.maximum(likeness, np.einsum("ij,j->i", unit, unit[best]))
        likeness[taken] = np.inf
    return np.sort(np.array(taken, dtype=np.int64))


def _unit(X: Features) -> NDArray[np.float64]:
    """Return the rows in float64 with unit norm. Sparse rows are rotated into few dense columns."""
    wide = rotated(X) if is_sparse(X) else X.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit
