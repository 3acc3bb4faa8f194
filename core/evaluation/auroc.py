"""Area under the ROC curve (AUROC) of classifiers, computed from the ranks of scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError


def auroc(scores: ArrayLike, y: ArrayLike) -> float | None:
    """Compute the area under the ROC curve.

    This is the probability that a random positive scores higher than a random negative. A tie counts as one
    half. The area equals Mann and Whitney's U divided by the number of pairs of a positive and a negative.

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
    yes, no = scores[y], np.sort(scores[~y])
    if not len(yes) or not len(no):
        return None
    below = np.searchsorted(no, yes, side="left").sum(dtype=np.int64)
    not_above = np.searchsorted(no, yes, side="right").sum(dtype=np.int64)
    return float(below + not_above) / (2.0 * len(yes) * len(no))


def compare_auroc(scores: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute the AUROC of several classifiers on the same items, and the covariance of the estimates.

    The covariance is the nonparametric estimate of DeLong, DeLong and Clarke-Pearson (Biometrics 44, 1988),
    computed by midranks as in Sun and Xu (IEEE Signal Processing Letters 21, 2014).

    Parameters
    ----------
    scores : array of shape (k, n)
        One row per classifier, without NaN.
    y : array of shape (n,), bool
        True for positives; at least two of each class.

    Returns
    -------
    values : array of shape (k,)
        AUROC of each classifier; see `auroc`.
    covariance : array of shape (k, k)
        Sampling covariance of the values.

    Raises
    ------
    InputError
        If there are fewer than two positives or fewer than two negatives.
    """
    scores, y = np.atleast_2d(np.asarray(scores, dtype=np.float64)), np.asarray(y, dtype=np.bool_)
    n_yes, n_no = int(y.sum()), int((~y).sum())
    if min(n_yes, n_no) < 2:
        raise InputError(f"y must have at least two yes and two no, got {n_yes} yes and {n_no} no")
    from scipy.stats import rankdata  # takes a second to import, and a server may never need it

    ranks = rankdata(scores, axis=1)
    yes = (ranks[:, y] - rankdata(scores[:, y], axis=1)) / n_no  # fraction of negatives below each positive
    no = 1.0 - (ranks[:, ~y] - rankdata(scores[:, ~y], axis=1)) / n_yes  # positives above each negative
    covariance = np.atleast_2d(np.cov(yes)) / n_yes + np.atleast_2d(np.cov(no)) / n_no
    return yes.mean(axis=1), covariance
