"""Choice of the slack γ of a learned metric or kernel, by cross-validation over the labels alone.

A metric or kernel is judged by its nearest-neighbour accuracy on at most `JUDGED` rows of the fold left out.
This is the share of these rows whose class is the most frequent one among the `VOTERS` nearest training rows
(`core.metric.validation`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing import LearnedKernelHash
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.metric.validation import Places, Validated, choose_gamma
from closecall.core.numerics.rows import Rows

MAX_PASSES = 200

JUDGED = 500
VOTERS = 10
"""Number of rows that are judged, and of neighbours that vote for a class."""


def validated_metric(X: Rows, truth: NDArray[np.integer], *, n_pairs: int, seed: int) -> Validated:
    """Choose γ of a metric.

    Parameters
    ----------
    X : array or csr_array of shape (n_rows, n_features)
        The rows.
    truth : array of shape (n_rows,), int
        Classes of the rows.
    n_pairs : int
        Number of pairs that each fold learns from.
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
    """Choose γ of a learned kernel.

    Nearest neighbours have the largest cosine in the kernel's feature space. Each fold learns from half the
    default number of pairs of `LearnedKernelHash`, and from at most its default number of rows.

    Parameters
    ----------
    X, truth, seed
        See `validated_metric`.
    n_anchors : int
        See `LearnedKernelHash`; at most the number of rows in a fold is used.
    """

    def learn(train: Places, gamma: float) -> LearnedKernelHash:
        family = LearnedKernelHash(
            gamma=gamma,
            n_anchors=min(n_anchors, len(train)),
            n_pairs=LearnedKernelHash().n_pairs // 2,
            n_steps=0,  # the kernel is judged, not the bits
            n_functions=1,
            random_state=seed,
        )
        return family.fit(X[train], truth[train])

    def score(family: LearnedKernelHash, train: Places, test: Places) -> float:
        judged = judged_of(test)
        return share_of_right_votes(-family.between(X[judged], X[train]), truth[train], truth[judged])

    return choose_gamma(truth, learn, score, seed=seed)


def judged_of(test: Places) -> Places:
    """Return at most `JUDGED` of the rows left out, evenly spaced."""
    return test[np.linspace(0, len(test) - 1, min(len(test), JUDGED)).astype(np.int64)]


def share_of_right_votes(
    far: NDArray[np.floating], classes: NDArray[np.integer], own: NDArray[np.integer]
) -> float:
    """Return the share of rows whose class is the most frequent one among their `VOTERS` nearest rows.

    Parameters
    ----------
    far : array of shape (n_judged, n_rows)
        Distance of each row, or another value that is smaller for nearer rows.
    classes, own : array of shape (n_rows,) and (n_judged,), int
        Classes of the rows that vote, and of the rows that are judged.
    """
    votes = classes[np.argsort(far, axis=1, kind="stable")[:, :VOTERS]]
    voted = [row[(row[:, None] == row).sum(axis=1).argmax()] for row in votes]
    return float(np.mean(np.array(voted) == own))
