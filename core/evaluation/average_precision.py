"""Average precision of classifiers, computed from the ranks of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def average_precision(scores: ArrayLike, y: ArrayLike) -> float | None:
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

    Returns
    -------
    float or None
        None if all items are positive or all are negative.
    """
    scores, y = np.asarray(scores), np.asarray(y, dtype=np.bool_)
    yes, no = np.sort(scores[y]), np.sort(scores[~y])
    if not len(yes) or not len(no):
        return None
    hits = len(yes) - np.searchsorted(yes, yes, side="left")
    false = len(no) - np.searchsorted(no, yes, side="left")
    return float(np.mean(hits / (hits + false)))
