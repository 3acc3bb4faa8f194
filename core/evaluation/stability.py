"""Stability of a classifier: how well it predicts its own labels, and how much its predictions still change.

These figures need no answers beyond the training labels. They are biased estimates for the pool. Labeled
items near the hyperplane are the hardest items, and a classifier may agree with its predecessor and still be
wrong. For unbiased estimates, see `core.audit`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.learning.round import Labels, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import DEFAULT_C, DEFAULT_CLASS_WEIGHT, ClassWeight
from closecall.core.numerics.randomness import hashed, seed_for
from closecall.core.numerics.rows import Rows
from closecall.core.selection import PoolRows
from closecall.core.selection.exclusion import rows_among

FOLDS = 5

STOP_SET = 20_000
"""Number of items whose predictions are compared; 100 of them are positive at a prevalence of 0.5 %."""


def held_out_scores(
    labels: Labels,
    *,
    folds: int = FOLDS,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    seed: int = 0,
) -> NDArray[np.float64]:
    """Return the cross-validated score wᵀx + b of every label, of shape (n_labels,).

    Each label is scored by a classifier trained without this label. Labels are assigned to stratified folds
    at random, and each fold is scored by an SVM trained on the other folds. The function therefore trains
    `folds` SVMs. The order of the labels has no effect.

    Parameters
    ----------
    labels : Labels
        Positives and negatives, which may include the examples of a concept.
    folds : int
        Number of folds, at least 2.
    C, class_weight
        See `core.linear.svm.train`.
    seed : int
        Seed of the assignment to folds.

    Returns
    -------
    array of shape (n_labels,), float64
        NaN where the other folds lack positives or negatives.

    Raises
    ------
    InputError
        If `folds` is less than 2.
    """
    if folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    fold = _fold_of_each(labels, folds, seed)
    scores = np.full(len(labels), np.nan)
    for number in range(folds):
        own = fold == number
        rest = Labels(labels.ids[~own], labels.X[~own], labels.y[~own])
        hyperplane = learn(rest, C=C, class_weight=class_weight).hyperplane
        if hyperplane is not None:
            scores[own] = hyperplane.scores(labels.X[own])
    return scores


def cross_validated_accuracy(
    labels: Labels,
    *,
    folds: int = FOLDS,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    seed: int = 0,
) -> float | None:
    """Return the share of labels that cross-validated classifiers predict correctly; see `held_out_scores`.

    This is the accuracy on the labels. If the labeled items were chosen near the hyperplane, the accuracy on
    the labels is far below the accuracy on the pool. It rises as the annotator runs out of hard items.

    Returns
    -------
    float or None
        From 0 to 1, or None if no label could be predicted.
    """
    scores = held_out_scores(labels, folds=folds, C=C, class_weight=class_weight, seed=seed)
    known = np.isfinite(scores)
    return float(np.mean((scores > 0)[known] == labels.y[known])) if known.any() else None


def _fold_of_each(labels: Labels, folds: int, seed: int) -> NDArray[np.int64]:
    """Assign the labels to folds in turn, positives before negatives, in an order hashed from the ids."""
    fold = np.empty(len(labels), dtype=np.int64)
    order = np.argsort(hashed(seed_for("folds", seed), labels.ids, 1)[:, 0], kind="stable")
    yes, no = order[labels.y[order]], order[~labels.y[order]]
    fold[np.concatenate([yes, no])] = np.arange(len(labels)) % folds
    return fold


def within_margin(pool: PoolRows, hyperplane: Hyperplane, *, exclude: Iterable[int] = ()) -> int:
    """Return the number of items inside the margin, |wᵀx + b| < 1.

    A label inside the margin would move the hyperplane. A label outside the margin that confirms the
    prediction does not change an SVM. Once no item is left inside the margin, more labels gain little (Schohn
    and Cohn, ICML 2000).

    Parameters
    ----------
    pool : Pool
        Pool, which is scanned once.
    hyperplane : Hyperplane
        The current classifier.
    exclude : iterable of int
        Ids that are not counted, such as those of answered items.
    """
    rows = rows_among(pool, np.unique(np.fromiter(exclude, dtype=np.int64)))
    within = 0
    for first, scores in pool.score_blocks([hyperplane]):
        inside = np.abs(scores[0]) < 1
        start, end = np.searchsorted(rows, [first, first + len(inside)])
        inside[rows[start:end] - first] = False
        within += int(np.count_nonzero(inside))
    return within


def stop_set(pool: PoolRows, n: int = STOP_SET, *, seed: int = 0) -> Rows:
    """Return the features of a stop set: up to n items drawn at random; see `core.evaluation.stopping`.

    The result has the shape (min(n, len(pool)), n_features) and may contain answered items.
    """
    n = min(n, len(pool))
    return pool.rows(np.sort(np.random.default_rng(seed).choice(len(pool), n, replace=False)))


def agreement(before: ArrayLike, now: ArrayLike) -> float:
    """Compute Cohen's κ between the predictions of two classifiers: 1 if equal, 0 for chance agreement.

    For a rare class, 99 % of the predictions of any two classifiers may agree. κ measures the agreement
    beyond chance.

    Parameters
    ----------
    before, now : array of shape (n,), bool
        Which items each classifier predicts to be positive.

    Returns
    -------
    float
        NaN if both classifiers predict the same answer for all items, because κ is then undefined.

    Raises
    ------
    InputError
        If the shapes differ, or there are no items.
    """
    before, now = np.asarray(before, dtype=np.bool_), np.asarray(now, dtype=np.bool_)
    if before.shape != now.shape or before.ndim != 1 or not len(before):
        raise InputError(
            f"before and now must have the same length, at least 1; got {before.shape} and {now.shape}"
        )
    p, q = float(before.mean()), float(now.mean())
    by_chance = p * q + (1 - p) * (1 - q)
    return float((np.mean(before == now) - by_chance) / (1 - by_chance)) if by_chance < 1 else float("nan")
