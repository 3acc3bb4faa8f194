"""Batches without near-duplicates: skip items that are too similar to one already chosen.

A grid of the n items nearest to a hyperplane often shows the same photograph many times. The strategy is
therefore asked for more items than requested. They are visited in the strategy's order. An item is chosen if
its angle to every item chosen before is large enough. If too few items satisfy this, the item farthest from
those chosen is added repeatedly, as in [2]. The first part is the greedy algorithm of [1], with a minimum
angle instead of a weighted sum of |wᵀx + b| and the cosine, which have no common scale.

The minimum is given as a share of the median angle between two items of the pool, estimated from 64 rows. A
fixed angle would not do: the rows of a pool point in similar directions, and how similar they are depends on
the features.

Cosines are summed by einsum: unlike BLAS, it adds in the same order for any number of threads.

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
"""Factor by which a strategy is asked for more items than requested, to choose a diverse subset from."""

_SAMPLED = 64

_IDENTICAL = 1e-3
"""Largest angle, in radians, between identical items that were rounded to float16."""


def typical_angle(pool: PoolRows) -> float:
    """Return the median angle between two items, in radians, over at most 64 rows spread over the pool.

    It is 0 if the pool has a single row.
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
        Minimum angle between chosen items, in radians. If too few items satisfy it, the items farthest from
        those chosen are added one by one, as in [2].

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
    """Return the rows in float64 with unit norm; sparse rows are rotated (`gram_rotation`)."""
    wide = rotated(X) if is_sparse(X) else X.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    return unit
