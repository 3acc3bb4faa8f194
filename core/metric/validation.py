"""Choice of the cost γ of slack in metric learning, by cross-validation over the labels.

A large γ makes the metric satisfy the constraints closely. A small γ keeps the metric close to its prior (see
`core.metric.itml`). The best γ depends on the labels. With 5,000 labels of ten classes and GIST features of
CIFAR-10, γ = 1 is worse than no learning at all, and γ = 0.01 is better (`core.experiment.neighbours`). If
there are few labels, and the classes are only yes and no, γ = 1 is often best. Davis et al. [1]_ choose γ by
cross-validation as well.

The labeled rows are divided into `FOLDS` folds with about the same fraction of each class. For each γ of
`GAMMAS` and each fold, a metric is learned from the other folds and scored on this fold. The γ with the
largest mean score is chosen; ties go to the first of `GAMMAS`. The labels and the seed determine the result.

**Cost.** Twelve metrics are learned, each from two thirds of the labels. Together, they take about seven
times as long as one metric with γ = 1 and the same number of pairs, because a smaller γ takes fewer passes.

References
----------
.. [1] J. Davis, B. Kulis, P. Jain, S. Sra, I. Dhillon, "Information-theoretic metric learning", ICML 2007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError

M = TypeVar("M")
"""Type of the learned metric or kernel."""

GAMMAS = (1.0, 0.1, 0.01, 0.001)
"""Values of γ to try. If several values are equally good, the first is chosen."""

FOLDS = 3

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Validated:
    """The result of cross-validation.

    Parameters
    ----------
    gamma : float
        The chosen γ.
    scores : dict of float
        Mean score over the folds for each γ. A γ is missing if in one of the folds no metric could be learned
        with this γ.
    """

    gamma: float
    scores: dict[float, float]


def folds_of(classes: ArrayLike, n_folds: int, seed: int) -> Places:
    """Assign rows to folds, numbered from 0, with about the same fraction of each class in all folds.

    Parameters
    ----------
    classes : array of shape (n_rows,), int
        Classes of the rows.
    n_folds : int
        Number of folds.
    seed : int
        Seed of the assignment.

    Returns
    -------
    array of shape (n_rows,), int64
    """
    classes = np.asarray(classes)
    rng = np.random.default_rng([seed, 7])
    folds = np.empty(len(classes), dtype=np.int64)
    for name in np.unique(classes):
        own = rng.permutation(np.flatnonzero(classes == name))
        folds[own] = np.arange(len(own)) % n_folds
    return folds


def choose_gamma(
    classes: ArrayLike,
    learn: Callable[[Places, float], M],
    score: Callable[[M, Places, Places], float],
    *,
    gammas: Sequence[float] = GAMMAS,
    n_folds: int = FOLDS,
    seed: int = 0,
) -> Validated:
    """Choose γ by cross-validation, as the docstring of this module describes.

    Parameters
    ----------
    classes : array of shape (n_rows,), int
        Classes of the labeled rows.
    learn : callable
        Takes indices of labeled rows and γ, and returns the metric or kernel learned from these rows. Raises
        InputError if nothing can be learned.
    score : callable
        Takes a metric, the indices of the rows that it was learned from, and the indices of the rows left
        out. Returns how well the metric orders the rows left out; larger is better.
    gammas : sequence of float
        Values to try. If several values are equally good, the first is chosen.
    n_folds : int
        Number of folds.
    seed : int
        Seed of the folds.

    Returns
    -------
    Validated
        If no γ could be scored, the result has the first of `gammas` and no scores.
    """
    folds = folds_of(classes, n_folds, seed)
    scores: dict[float, float] = {}
    for gamma in gammas:
        each = []
        for fold in range(n_folds):
            train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
            if not len(test):
                continue
            try:
                each.append(score(learn(train, gamma), train, test))
            except InputError:
                break
        else:
            scores[gamma] = float(np.mean(each))
    best = max(scores, key=lambda gamma: scores[gamma], default=gammas[0])
    return Validated(best, scores)
