"""AUROC, average precision and recall of classifiers on the held-out items of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.evaluation.auroc import auroc
from closecall.core.evaluation.precision_recall import average_precision, recall_at_precision
from closecall.core.learning.round import is_positive
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import cut, is_sparse
from closecall.core.pool.held_out import HeldOut

_CACHED_ROWS = 512
"""Number of dense rows in a block. A block fits in the cache of one core, so all classifiers score a block
before the next block is read.
"""


PRECISION = 0.9
"""Precision at which the recall is measured."""


class Accuracy(NamedTuple):
    """How well a classifier ranks the held-out items; all values are None unless these include both classes.

    Parameters
    ----------
    auroc : float or None
        See `core.evaluation.auroc.auroc`.
    average_precision : float or None
        See `core.evaluation.precision_recall.average_precision`.
    recall : float or None
        Largest recall with a precision of at least `PRECISION`; see
        `core.evaluation.precision_recall.recall_at_precision`.
    """

    auroc: float | None
    average_precision: float | None
    recall: float | None


class HeldOutScorer:
    """Callable that computes the accuracy of classifiers on held-out items, for one class against the rest.

    Items of unknown class are left out.

    Parameters
    ----------
    held_out : HeldOut
        Held-out items of the pool.
    positive : int
        Index of the positive class.
    prevalence : float or None
        Share of positives for which the average precision and the recall are estimated, by weights of the
        positives. None for their share of the held-out items.
    """

    def __init__(self, held_out: HeldOut, positive: int, *, prevalence: float | None = None) -> None:
        known = held_out.truth >= 0
        X = held_out.X if known.all() else held_out.X[np.flatnonzero(known)]
        step = _CACHED_ROWS if not is_sparse(X) else max(1, X.shape[0])
        self._parts = [(first, cut(X, first, first + step)) for first in range(0, X.shape[0], step)]
        self._y = is_positive(held_out.truth[known], positive)
        n_yes = int(self._y.sum())
        self._weight = 1.0
        if prevalence is not None and n_yes:
            self._weight = prevalence / (1 - prevalence) * (len(self._y) - n_yes) / n_yes

    def __call__(self, hyperplanes: Sequence[Hyperplane]) -> list[Accuracy]:
        """Return the accuracy of each hyperplane.

        Scores are computed in float32, for one hyperplane at a time. In a product with several hyperplanes,
        the rounding of one hyperplane's scores could depend on the other hyperplanes.
        """
        if not hyperplanes or self._y.all() or not self._y.any():
            return [Accuracy(None, None, None)] * len(hyperplanes)
        scores = np.empty((len(hyperplanes), len(self._y)), dtype=np.float32)
        normals = [hyperplane.normal.astype(np.float32) for hyperplane in hyperplanes]
        for first, rows in self._parts:
            for own, normal in zip(scores, normals, strict=True):
                own[first : first + rows.shape[0]] = rows @ normal
        return [self._accuracy(own) for own in scores]

    def _accuracy(self, scores: NDArray[np.float32]) -> Accuracy:
        y, weight = self._y, self._weight
        return Accuracy(
            auroc(scores, y),
            average_precision(scores, y, weight=weight),
            recall_at_precision(scores, y, PRECISION, weight=weight),
        )
