"""Choice of the slack parameter γ of a learned metric or kernel, by cross-validation over the labeled rows.

A metric or kernel is judged by its k-nn accuracy on at most `JUDGED` rows of the left-out fold. The accuracy
is the share of these rows whose class is the most frequent one among their `VOTERS` nearest training rows.
`core.metric.validation` does the cross-validation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing import LearnedKernelHash
from closecall.core.hashing.ksh_learned import kernel_alone
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.metric.validation import Places, Validated, choose_gamma
from closecall.core.numerics.rows import Rows

MAX_PASSES = 200

JUDGED = 500
VOTERS = 10
"""Maximum number of rows to measure accuracy on, and number of neighbours that vote on the class of a row."""


def validated_metric(X: Rows, truth: NDArray[np.integer], *, n_pairs: int, seed: int) -> Validated:
    """Choose the slack parameter γ of a metric by cross-validation.

    Parameters
    ----------
    X : array or csr_array of shape (n_rows, n_features)
        The rows.
    truth : array of shape (n_rows,), int
        Classes of the rows.
    n_pairs : int
        Number of pairs that a metric is learned from in each fold.
    seed : int
        Seed of folds and pairs.
    """

    def learn(train: Places, gamma: float) -> Metric:
        pairs = Constraints.from_labels(X[train], truth[train], n_pairs=n_pairs, random_state=seed)
        return ITML(gamma=gamma, max_passes=MAX_PASSES, random_state=seed).fit(X[train], pairs).metric_

    def score(metric: Metric, train: Places, test: Places) -> float:
        judged = judged_of(test)
        far = metric.squared_norms(X[train]) - 2 * metric.inner(X[judged], X[train])
        return share_of_right_votes(far, truth[train], truth[judged])

    return choose_gamma(truth, learn, score, seed=seed)


def validated_kernel(X: Rows, truth: NDArray[np.integer], *, n_anchors: int, seed: int) -> Validated:
    """Choose the slack parameter γ of a learned kernel by cross-validation.

    The nearest neighbours of a row are the rows with the largest cosine in the feature space of the kernel.
    In each fold, the kernel is learned with the default `n_constrained` and half the default `n_pairs` of
    `LearnedKernelHash`.

    Parameters
    ----------
    X, truth, seed
        See `validated_metric`.
    n_anchors : int
        See `LearnedKernelHash`. The number is limited to the number of training rows.
    """

    def learn(train: Places, gamma: float) -> LearnedKernelHash:
        family = kernel_alone(len(train), gamma=gamma, n_anchors=n_anchors, seed=seed)
        return family.fit(X[train], truth[train])

    def score(family: LearnedKernelHash, train: Places, test: Places) -> float:
        judged = judged_of(test)
        return share_of_right_votes(-family.between(X[judged], X[train]), truth[train], truth[judged])

    return choose_gamma(truth, learn, score, seed=seed)


def judged_of(test: Places) -> Places:
    """Return at most `JUDGED` rows of the left-out fold, evenly spaced."""
    return test[np.linspace(0, len(test) - 1, min(len(test), JUDGED)).astype(np.int64)]


def share_of_right_votes(
    far: NDArray[np.floating], classes: NDArray[np.integer], own: NDArray[np.integer]
) -> float:
    """Return the share of rows whose class is the most frequent one among their `VOTERS` nearest rows.

    Parameters
    ----------
    far : array of shape (n_judged, n_rows)
        Distance between each judged row and each row that votes, or another value that is smaller for nearer
        rows.
    classes : array of shape (n_rows,), int
        Classes of the rows that vote.
    own : array of shape (n_judged,), int
        Classes of the judged rows.
    """
    votes = classes[np.argsort(far, axis=1, kind="stable")[:, :VOTERS]]
    voted = [row[(row[:, None] == row).sum(axis=1).argmax()] for row in votes]
    return float(np.mean(np.array(voted) == own))
