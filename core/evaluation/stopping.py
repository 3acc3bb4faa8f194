"""When to stop labeling: a recommendation and its reason.

Bloodgood and Vijay-Shanker [1]_ stop when predictions have stabilised: those on a fixed random set of items,
the stop set, are compared from one checkpoint to the next by Cohen's kappa, and when the mean of the last
three agreements is high enough, further labels have no more to say. That needs no answers of its own and no
truth.

Two things differ here. Their checkpoints follow batches of one size, after which predictions change ever
less, whether or not there is anything left to learn; ours follow a quarter more labels (`is_checkpoint`). And
what is compared is not who lies above the hyperplane but who is in the first tenth by score. Of a rare class
an SVM may predict a dozen items, most of them its own labels, or none; these agree from the beginning. The
first tenth goes on changing for as long as the classifier finds new kinds of yes. `ENOUGH` was set so that
stopping costs less than one point of AUROC: ``closecall bench stopping`` measures what it costs and saves.

The recommendation does not see how good the classifier is, only that more labels of the same kind will not
change it much. The audit sees that (`core.audit`); its figures belong beside the recommendation.

References
----------
.. [1] M. Bloodgood, K. Vijay-Shanker: A Method for Stopping Active Learning Based on Stabilizing Predictions
   and the Need for User-Adjustable Stopping, CoNLL 2009.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.evaluation.stability import agreement

GROWTH = 1.25
"""From one checkpoint to the next the labels grow by a quarter."""

LEAST_GROWTH = 20
"""And by so many at the least."""

FIRST = 0.1
"""The share of the stop set, by score, that is compared."""

ENOUGH = 0.92
"""The mean agreement from which on predictions count as stable."""

WINDOW = 3
"""Agreements that the mean is of."""

LEAST_OF_EACH = 10
"""Labels that are a yes, and labels that are a no, below which there is no recommendation to stop."""


def is_checkpoint(n_labels_then: int, n_labels_now: int) -> bool:
    """Whether there are enough more labels than at the last checkpoint to look again how things stand."""
    return n_labels_now >= max(GROWTH * n_labels_then, n_labels_then + LEAST_GROWTH)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What the classifier thought of the stop set at one time; made by `Checkpoint.of`.

    Parameters
    ----------
    n_yes, n_no : int
        The labels it was trained on.
    first : array of shape (n_stop_set,), bool
        Which items are the `FIRST` by score; ties go to the earlier item.
    """

    n_yes: int
    n_no: int
    first: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: ArrayLike, n_yes: int, n_no: int) -> Checkpoint:
        """From wᵀx + b of the stop set (`core.evaluation.stability.stop_set`), always in the same order.

        Raises
        ------
        InputError
            If the stop set has fewer than 10 items, or a score is not finite.
        """
        scores = np.asarray(scores)
        if scores.ndim != 1 or len(scores) * FIRST < 1 or not np.isfinite(scores).all():
            raise InputError(f"scores must be 10 finite numbers or more, got shape {scores.shape}")
        first = np.zeros(len(scores), dtype=np.bool_)
        first[np.argsort(-scores, kind="stable")[: int(FIRST * len(scores))]] = True
        return cls(n_yes, n_no, first)

    @property
    def n_labels(self) -> int:
        """How many labels it was trained on."""
        return self.n_yes + self.n_no


@dataclass(frozen=True)
class Advice:
    """Whether to stop, and why.

    Parameters
    ----------
    stop : bool
    reason : str
        One sentence for the annotator.
    agreements : tuple of float
        Kappa from each checkpoint to the next, the latest last.
    """

    stop: bool
    reason: str
    agreements: tuple[float, ...]


def advise(checkpoints: Sequence[Checkpoint], *, enough: float = ENOUGH) -> Advice:
    """Whether labeling may stop, going by all checkpoints so far, in their order.

    Parameters
    ----------
    checkpoints : sequence of Checkpoint
        All of one stop set.
    enough : float
        The mean agreement that is asked for: the nearer to 1, the later the recommendation.

    Raises
    ------
    InputError
        If two checkpoints are of different stop sets.
    """
    found = tuple(agreement(one.first, other.first) for one, other in pairwise(checkpoints))
    if not checkpoints:
        return Advice(False, "There is no classifier yet to judge by.", found)
    last = checkpoints[-1]
    for number, word in ((last.n_yes, "yes"), (last.n_no, "no")):
        if number < LEAST_OF_EACH:
            return Advice(False, f"Only {number} of {last.n_labels:,} labels are a {word}.", found)
    if len(found) < WINDOW:
        return Advice(False, f"{last.n_labels:,} labels are too few to tell.", found)
    mean = float(np.mean(found[-WINDOW:]))
    since = f"from {checkpoints[-1 - WINDOW].n_labels:,} to {last.n_labels:,} labels"
    if mean < enough:
        reason = (
            f"It is still learning: {since} its predictions changed (agreement {mean:.2f} of {enough:.2f})."
        )
        return Advice(False, reason, found)
    return Advice(True, f"More labels hardly change it: {since} its predictions agree by {mean:.2f}.", found)
