"""AUROC and average precision of classifiers on the held-out items of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from closecall.core.evaluation.auroc import auroc
from closecall.core.evaluation.average_precision import average_precision
from closecall.core.learning.round import is_positive
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import cut, is_sparse
from closecall.core.pool.held_out import HeldOut

_CACHED_ROWS = 512
"""Number of dense rows in a block. A block fits in the cache of one core, so all classifiers score a block
before the next block is read.
"""


class Accuracy(NamedTuple):
    """How well a classifier ranks the held-out items; None unless these include both classes."""

    auroc: float | None
    average_precision: float | None


class HeldOutScorer:
    """Callable that computes the accuracy of classifiers on held-out items, for one class against the rest.

    Items of unknown class are left out.

    Parameters
    ----------
    held_out : HeldOut
        Held-out items of the pool.
    positive : int
        Index of the positive class.
    """

    def __init__(self, held_out: HeldOut, positive: int) -> None:
        known = held_out.truth >= 0
        X = held_out.X if known.all() else held_out.X[np.flatnonzero(known)]
        step = _CACHED_ROWS if not is_sparse(X) else max(1, X.shape[0])
        self._parts = [(first, cut(X, first, first + step)) for first in range(0, X.shape[0], step)]
        self._y = is_positive(held_out.truth[known], positive)

    def __call__(self, hyperplanes: Sequence[Hyperplane]) -> list[Accuracy]:
        """Return the accuracy of each hyperplane.

        Scores are computed in float32, for one hyperplane at a time. In a product with several hyperplanes,
        the rounding of one hyperplane's scores could depend on the other hyperplanes.
        """
        if not hyperplanes or self._y.all() or not self._y.any():
            return [Accuracy(None, None)] * len(hyperplanes)
        scores = np.empty((len(hyperplanes), len(self._y)), dtype=np.float32)
        normals = [hyperplane.normal.astype(np.float32) for hyperplane in hyperplanes]
        for first, rows in self._parts:
            for own, normal in zip(scores, normals, strict=True):
                own[first : first + rows.shape[0]] = rows @ normal
        return [Accuracy(auroc(own, self._y), average_precision(own, self._y)) for own in scores]
