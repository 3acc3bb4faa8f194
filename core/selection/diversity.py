"""Batches without near-duplicates: items that are too like one already chosen are passed over.

A grid of the n items nearest to a hyperplane easily shows the same photograph many times. So the strategy is
asked for more items than are wanted, and these are gone through in its own order, the nearest first: an item
is taken if its angle to every item taken before is large enough. This is the greedy way of [1], with a least
angle in place of a weighted sum of |wᵀx + b| and the cosine: the two have no common scale.

What is large enough is said as a share of the median angle between two items of the pool, because the rows
of a pool point more or less the same way, and how much so depends on the features.

Cosines are summed by einsum: unlike BLAS it adds in one order, whatever the number of threads.

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
"""How many times the wanted number of items a strategy is asked for, to choose from."""

_SAMPLED = 64

_IDENTICAL = 1e-3
"""Radians: identical items are no further apart, rounded to float16."""


def typical_angle(pool: PoolRows) -> float:
    """The median angle between two items, in radians, of 64 rows spread evenly over the pool."""
    X = _unit(pool.rows(np.unique(np.linspace(0, len(pool) - 1, _SAMPLED).astype(np.int64))))
    cosines = np.einsum("ij,kj->ik", X, X)[np.triu_indices(len(X), 1)]
    return float(np.median(np.arccos(np.clip(cosines, -1, 1)))) if len(X) > 1 else 0.0


def diverse(X: Features, n: int, least_angle: float) -> Rows:
    """Which `n` of some items to take.

    Parameters
    ----------
    X : array of shape (m, n_features), or csr_array
        The items' features, the most wanted item first.
    n : int
        How many are wanted.
    least_angle : float
        How far apart they must be, in radians. Where too few are, the ones furthest from those taken follow,
        one by one, as in [2].

    Returns
    -------
    array of shape (min(n, m),), int64, ascending
        Places in X.
    """
    unit = _unit(X)
    too_alike = np.cos(max(least_angle, _IDENTICAL))
    likeness = np.full(len(unit), -np.inf)  # the greatest cosine to an item that was taken
    taken: list[int] = []
    while len(taken) < min(n, len(unit)):
        allowed = likeness < too_alike
        best = int(np.argmax(allowed)) if allowed.any() else int(np.argmin(likeness))
        taken.append(best)
        likeness = np.maximum(likeness, np.einsum("ij,j->i", unit, unit[best]))
        likeness[taken] = np.inf
    return np.sort(np.array(taken, dtype=np.int64))


def _unit(X: Features) -> NDArray[np.float64]:
    """The rows, of unit norm to the last digit of float64; sparse ones rotated (`gram_rotation`)."""
    wide = rotated(X) if is_sparse(X) else X.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit
