"""Precision and recall of classifiers, computed from the ranks of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def average_precision(scores: ArrayLike, y: ArrayLike, *, weight: float = 1.0) -> float | None:
    """Compute the average precision.

    The precision at a positive is the share of positives among all items that score at least as high as this
    positive. The average precision is the mean of these precisions over all positives. It is close to the
    prevalence of the positives if scores are random.

    Parameters
    ----------
    scores : array of shape (n,)
        Scores of the items, without NaN.
    y : array of shape (n,), bool
        True for positives.
    weight : float
        Weight of a positive; a negative has the weight 1. The result is that of a set of items in which each
        positive occurs `weight` times.

    Returns
    -------
    float or None
        None if all items are positive or all are negative.
    """
    points = _at_positives(scores, y, weight)
    return None if points is None else float(np.mean(points[0]))


def recall_at_precision(
    scores: ArrayLike, y: ArrayLike, least: float, *, weight: float = 1.0
) -> float | None:
    """Compute the largest recall at a threshold whose precision is at least `least`.

    Parameters
    ----------
    scores, y, weight
        See `average_precision`.
    least : float
        Minimum precision, 0 to 1.

    Returns
    -------
    float or None
        0 if no threshold has this precision; None if all items are positive or all are negative.
    """
    points = _at_positives(scores, y, weight)
    if points is None:
        return None
    precision, recall = points
    return float(np.max(recall[precision >= least], initial=0.0))


def _at_positives(
    scores: ArrayLike, y: ArrayLike, weight: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return precision and recall at the score of each positive, in ascending order of the scores.

    Thresholds between two positives have the same recall as the upper one, and a lower precision.
    """
    scores, y = np.asarray(scores), np.asarray(y, dtype=np.bool_)
    yes, no = np.sort(scores[y]), np.sort(scores[~y])
    if not len(yes) or not len(no):
        return None
    hits = len(yes) - np.searchsorted(yes, yes, side="left")
    false = len(no) - np.searchsorted(no, yes, side="left")
    return weight * hits / (weight * hits + false), hits / len(yes)
