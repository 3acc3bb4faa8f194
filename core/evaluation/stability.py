"""Where a concept stands: how much its classifier has learned and how much it still changes.

These figures cost no answers beyond those that train. They say nothing about the pool that is free of the
choice of labels: labels at the margin are the hardest items there are, and a classifier may agree with itself
and be wrong. For that there is `core.audit`.
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
"""Items whose predictions are compared: of a class of 0.5 % there are 100 among them."""


def held_out_scores(
    labels: Labels,
    *,
    folds: int = FOLDS,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    seed: int = 0,
) -> NDArray[np.float64]:
    """wᵀx + b of every label under a classifier that was trained without it, of shape (n_labels,).

    Labels are dealt into folds at random, yes and no apart; each fold is scored by the SVM that the others
    train, which takes `folds` trainings. The order of the labels doesn't matter.

    Parameters
    ----------
    labels : Labels
        Yes and no; a concept's examples may be among them.
    folds : int
        At least 2.
    C, class_weight
        See `core.linear.svm.train`.
    seed : int
        Deals the folds.

    Returns
    -------
    array
        NaN where the other folds have no yes or no no.

    Raises
    ------
    InputError
        If there are fewer than two folds.
    """
    if folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    fold = _dealt(labels, folds, seed)
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
    """The share of labels that classifiers trained without them predict, 0 … 1; see `held_out_scores`.

    It is an accuracy among the labels. Where these were chosen at the margin it is far below that on the
    pool, and rises as the annotator runs out of hard items.

    Returns
    -------
    float or None
        None where no label could be predicted.
    """
    scores = held_out_scores(labels, folds=folds, C=C, class_weight=class_weight, seed=seed)
    known = np.isfinite(scores)
    return float(np.mean((scores > 0)[known] == labels.y[known])) if known.any() else None


def _dealt(labels: Labels, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each label: yes by turns, no by turns, each in an order drawn from the ids."""
    fold = np.empty(len(labels), dtype=np.int64)
    order = np.argsort(hashed(seed_for("folds", seed), labels.ids, 1)[:, 0], kind="stable")
    yes, no = order[labels.y[order]], order[~labels.y[order]]
    fold[np.concatenate([yes, no])] = np.arange(len(labels)) % folds
    return fold


def within_margin(pool: PoolRows, hyperplane: Hyperplane, *, exclude: Iterable[int] = ()) -> int:
    """How many items have |wᵀx + b| < 1: those that, as labels, would move the hyperplane.

    An SVM does not change by a label outside its margin, on the side where it was expected. Once none is left
    inside, there is little to gain by going on (Schohn and Cohn, ICML 2000).

    Parameters
    ----------
    pool : Pool
        Scanned once.
    hyperplane : Hyperplane
        The current classifier.
    exclude : iterable of int
        Ids that don't count, such as the answered ones.
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
    """Features of up to n items drawn at random, to compare predictions by; see `core.evaluation.stopping`.

    Answered items may be among them.
    """
    n = min(n, len(pool))
    return pool.rows(np.sort(np.random.default_rng(seed).choice(len(pool), n, replace=False)))


def agreement(before: ArrayLike, now: ArrayLike) -> float:
    """Cohen's kappa between two classifiers' predictions: 1 is the same, 0 is what chance gives.

    Of a rare class 99 % of the predictions agree whatever was learned; kappa counts what agrees beyond that.

    Parameters
    ----------
    before, now : array of shape (n,), bool
        Which items are predicted to be a yes.

    Returns
    -------
    float
        NaN where both give all items the same answer: nothing can be told from it.

    Raises
    ------
    InputError
        If they have different shapes, or no items.
    """
    before, now = np.asarray(before, dtype=np.bool_), np.asarray(now, dtype=np.bool_)
    if before.shape != now.shape or before.ndim != 1 or not len(before):
        raise InputError(f"before and now must be of one length, not 0; got {before.shape} and {now.shape}")
    p, q = float(before.mean()), float(now.mean())
    by_chance = p * q + (1 - p) * (1 - q)
    return float((np.mean(before == now) - by_chance) / (1 - by_chance)) if by_chance < 1 else float("nan")
