"""Measures of a classifier that need no answers beyond its training labels.

The measures are the cross-validated accuracy, the number of items within the margin, and the change of
predictions from one classifier to the next. The measures do not show how good the classifier is on the pool.
Most labeled items are hard items near the hyperplane, and a classifier may agree with its predecessor
although both are wrong. `core.audit` has unbiased estimates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

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
"""Number of items whose predictions are compared. At a prevalence of 0.5 %, about 100 are positive."""

_HASHED_IDS = 1 << 20

T = TypeVar("T")


class Pace(Protocol):
    """A function that wraps an iterator over the parts of a computation, and may wait before each part."""

    def __call__(self, parts: Iterator[T], /) -> Iterator[T]:
        """Return an iterator over the same parts."""


def at_once(parts: Iterator[T]) -> Iterator[T]:
    """Return the iterator itself: the `Pace` of computations that don't wait."""
    return parts


def held_out_scores(
    labels: Labels,
    *,
    folds: int = FOLDS,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    seed: int = 0,
    pace: Pace = at_once,
) -> NDArray[np.float64]:
    """Return the cross-validated score wᵀx + b of every labeled item, of shape (n_labels,).

    Items are assigned to stratified folds at random, and each fold is scored by an SVM trained on the other
    folds. The function therefore trains `folds` SVMs. The order of the labels has no effect.

    Parameters
    ----------
    labels : Labels
        Labeled items, which may include example images.
    folds : int
        Number of folds, at least 2.
    C, class_weight
        See `core.linear.svm.train`.
    seed : int
        Seed of the assignment to folds.
    pace : Pace
        Pace of the trainings.

    Returns
    -------
    array of shape (n_labels,), float64
        Scores. The scores of a fold are NaN if the other folds have no positives or no negatives.

    Raises
    ------
    InputError
        If `folds` is less than 2.
    """
    if folds < 2:
        raise InputError(f"folds must be at least 2, got {folds}")
    fold = _fold_of_each(labels, folds, seed)
    scores = np.full(len(labels), np.nan)
    owns = [fold == number for number in range(folds)]
    rests = (Labels(labels.ids[~own], labels.X[~own], labels.y[~own]) for own in owns)
    learned = (learn(rest, C=C, class_weight=class_weight).hyperplane for rest in rests)
    for own, hyperplane in zip(owns, pace(learned), strict=False):  # strict would request one more part
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
    pace: Pace = at_once,
) -> float | None:
    """Return the cross-validated accuracy on the labeled items; see `held_out_scores`.

    If the labeled items were selected near the hyperplane, this accuracy is far below the accuracy on the
    pool. It rises when no more hard items are left to label.

    Returns
    -------
    float or None
        Accuracy from 0 to 1, or None if no labeled item could be scored.
    """
    scores = held_out_scores(labels, folds=folds, C=C, class_weight=class_weight, seed=seed, pace=pace)
    known = np.isfinite(scores)
    return float(np.mean((scores > 0)[known] == labels.y[known])) if known.any() else None


def _fold_of_each(labels: Labels, folds: int, seed: int) -> NDArray[np.int64]:
    """Return the fold of each label, of shape (n_labels,).

    Consecutive labels go to different folds: first the positives, then the negatives, both in an order hashed
    from the item ids.
    """
    fold = np.empty(len(labels), dtype=np.int64)
    order = np.argsort(hashed(seed_for("folds", seed), labels.ids, 1)[:, 0], kind="stable")
    yes, no = order[labels.y[order]], order[~labels.y[order]]
    fold[np.concatenate([yes, no])] = np.arange(len(labels)) % folds
    return fold


def within_margin(
    pool: PoolRows, hyperplane: Hyperplane, *, exclude: Iterable[int] = (), pace: Pace = at_once
) -> int:
    """Return the number of items inside the margin, |wᵀx + b| < 1.

    Labeling an item inside the margin would move the hyperplane. Labeling an item outside the margin does not
    change an SVM if the label confirms the prediction. When no item is left inside the margin, more labels
    gain little (Schohn and Cohn, ICML 2000).

    Parameters
    ----------
    pool : Pool
        Pool, which is scanned once.
    hyperplane : Hyperplane
        The current classifier.
    exclude : iterable of int
        Ids of items that are not counted, such as answered items.
    pace : Pace
        Pace of the scan.
    """
    rows = rows_among(pool, np.unique(np.fromiter(exclude, dtype=np.int64)))
    within = 0
    for first, scores in pace(pool.score_blocks([hyperplane])):
        inside = np.abs(scores[0]) < 1
        start, end = np.searchsorted(rows, [first, first + len(inside)])
        inside[rows[start:end] - first] = False
        within += int(np.count_nonzero(inside))
    return within


def stop_set(pool: PoolRows, n: int = STOP_SET, *, seed: int = 0) -> Rows:
    """Return the features of up to n random items, of shape (min(n, len(pool)), n_features), in row order.

    On these items, the predictions of successive classifiers are compared (`core.evaluation.stopping`). Some
    of the items may have been answered.

    The items are those with the n smallest hashes of seed and item id. The stop set therefore depends only on
    the items of the pool. If the pool grows from N to M items, a new item is in the stop set of the larger
    pool with probability n / M, and displaces one of the former items. Pools of up to n items are compared in
    full.
    """
    rows = np.empty(0, dtype=np.int64)
    smallest = np.empty(0, dtype=np.uint64)
    for first in range(0, len(pool), _HASHED_IDS):  # the ids may be mapped from a disk
        ids = pool.ids[first : first + _HASHED_IDS]
        rows = np.concatenate([rows, np.arange(first, first + len(ids))])
        smallest = np.concatenate([smallest, hashed(seed_for("stop set", seed), ids, 1)[:, 0]])
        if len(rows) > n:
            kept = np.sort(np.argpartition(smallest, n)[:n])
            rows, smallest = rows[kept], smallest[kept]
    return pool.rows(rows)


def agreement(before: ArrayLike, now: ArrayLike) -> float:
    """Compute Cohen's κ between the predictions of two classifiers.

    κ is 1 for equal predictions and 0 for chance agreement. For a rare class, 99 % of the predictions of any
    two classifiers may agree by chance.

    Parameters
    ----------
    before, now : array of shape (n,), bool
        Predictions of each classifier, True for positive.

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
