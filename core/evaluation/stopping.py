"""Recommendation when to stop labeling, with a reason.

Bloodgood and Vijay-Shanker [1]_ stop when predictions have stabilized. At checkpoints during labeling, the
current classifier predicts a fixed random set of items, the stop set. Cohen's κ measures the agreement of the
predictions at successive checkpoints. When the mean of the last three agreements is high enough, further
labels change little. This takes neither extra answers nor ground truth. If the pool grows, all checkpoints
are made again on the stop set of the larger pool.

This module differs from the paper in two ways. First, the paper has a checkpoint after every batch of labels,
and all batches have the same size. Predictions then change less and less from batch to batch, even if there
is more to learn. Here, the number of labels grows by a quarter between checkpoints (`is_checkpoint`). Second,
the paper compares which items are predicted to be positive. For a rare class, an SVM may predict no
positives, or only a dozen that are mostly training items. Such predictions agree from the beginning. This
module instead compares which items are in the top tenth of the stop set by score. The top tenth keeps
changing as long as the classifier finds new kinds of positives.

`ENOUGH` was chosen so that stopping costs less than one percentage point of AUROC. The command
``closecall bench stopping`` measures the loss of AUROC and the number of labels saved.

The recommendation does not depend on how good the classifier is. It only says that more labels of the same
kind will not change the classifier much. The audit (`core.audit`) measures the quality of the classifier, so
show its results beside the recommendation.

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
"""Factor by which the number of labels grows from one checkpoint to the next."""

LEAST_GROWTH = 20
"""Minimum number of labels between two checkpoints."""

FIRST = 0.1
"""Fraction of the stop set that is compared: the items with the highest scores."""

ENOUGH = 0.92
"""Minimum mean agreement (Cohen's κ) for predictions to count as stable."""

WINDOW = 3
"""Number of most recent agreements to average."""

LEAST_OF_EACH = 30
"""Minimum number of positive labels, and of negative labels, before stopping is recommended.

With 10, the predictions for rare classes often counted as stable before most kinds of positives were found.
"""


AHEAD = 100
"""Number of further labels for which `changes_ahead` bounds the change of predictions."""


def is_checkpoint(n_labels_then: int, n_labels_now: int) -> bool:
    """Return whether enough labels were added since the last checkpoint to make a new checkpoint.

    `n_labels_then` is the number of labels at the last checkpoint, `n_labels_now` the current number.
    """
    return n_labels_now >= max(GROWTH * n_labels_then, n_labels_then + LEAST_GROWTH)


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The items of the stop set that one classifier scores highest. Made by `Checkpoint.of`.

    The stop set is a fixed random set of items; see the module's docstring.

    Parameters
    ----------
    n_yes, n_no : int
        Numbers of positive and negative labels that the classifier was trained on.
    first : array of shape (n_stop_set,), bool
        True for the tenth (`FIRST`) of the stop set with the highest scores. If scores are equal, earlier
        items are preferred.
    yes : array of shape (n_stop_set,), bool
        True for the items of the stop set that the classifier predicts to be positive.
    """

    n_yes: int
    n_no: int
    first: NDArray[np.bool_]
    yes: NDArray[np.bool_]

    @classmethod
    def of(cls, scores: ArrayLike, n_yes: int, n_no: int) -> Checkpoint:
        """Make a checkpoint from the scores wᵀx + b of a stop set (`core.evaluation.stability.stop_set`).

        The items of the stop set must be in the same order at every checkpoint.

        Raises
        ------
        InputError
            If the stop set has fewer than 10 items, or a score is not finite.
        """
        scores = np.asarray(scores)
        if scores.ndim != 1 or len(scores) * FIRST < 1 or not np.isfinite(scores).all():
            raise InputError(f"scores must be at least 10 finite numbers, got shape {scores.shape}")
        first = np.zeros(len(scores), dtype=np.bool_)
        first[np.argsort(-scores, kind="stable")[: int(FIRST * len(scores))]] = True
        return cls(n_yes, n_no, first, scores > 0)

    @property
    def n_labels(self) -> int:
        """Number of labels that the classifier was trained on."""
        return self.n_yes + self.n_no


@dataclass(frozen=True)
class Advice:
    """Recommendation whether to stop, with its reason.

    Parameters
    ----------
    stop : bool
        Whether to stop labeling.
    reason : str
        Reason in one sentence, for the annotator.
    agreements : tuple of float
        Cohen's κ between successive checkpoints, in the order of the checkpoints.
    """

    stop: bool
    reason: str
    agreements: tuple[float, ...]


def advise(checkpoints: Sequence[Checkpoint], *, enough: float = ENOUGH) -> Advice:
    """Recommend whether to stop labeling, given all checkpoints so far.

    Parameters
    ----------
    checkpoints : sequence of Checkpoint
        Checkpoints with the same stop set, in the order in which they were made.
    enough : float
        Mean agreement required; a value closer to 1 delays the recommendation.

    Raises
    ------
    InputError
        If two checkpoints have stop sets of different sizes.
    """
    found = tuple(agreement(one.first, other.first) for one, other in pairwise(checkpoints))
    if not checkpoints:
        return Advice(False, f"The first check comes with {LEAST_GROWTH} labels, both yes and no.", found)
    last = checkpoints[-1]
    for number, word in ((last.n_yes, "yes"), (last.n_no, "no")):
        if number < LEAST_OF_EACH:
            reason = (
                f"At the last check, {number} of {last.n_labels:,} labels were a {word}: "
                f"at least {LEAST_OF_EACH} are needed."
            )
            return Advice(False, reason, found)
    if len(found) < WINDOW:
        reason = f"Too early to say: at the last check, there were {last.n_labels:,} labels."
        return Advice(False, reason, found)
    mean = float(np.mean(found[-WINDOW:]))
    since = f"from {checkpoints[-1 - WINDOW].n_labels:,} to {last.n_labels:,} labels"
    if mean < enough:
        how = f"agreement {mean:.2f}, stable from {enough:.2f}"
        return Advice(False, f"It is still learning: {since}, its predictions changed ({how}).", found)
    how = f"agreement {mean:.2f}"
    return Advice(
        True, f"More labels hardly change it: {since}, its predictions stayed stable ({how}).", found
    )


def changes_ahead(checkpoints: Sequence[Checkpoint]) -> float | None:
    """Estimate how many predictions the next `AHEAD` labels change at most, as a share of all items.

    The mean number of predictions that a label changes falls as labels are added, but not steadily. The bound
    is therefore the largest of the means between the last checkpoints, times the number of labels. It is at
    least 3 of the stop set: even if no prediction of the stop set changed, some others may have.
    ``closecall bench stopping`` measures how often the bound holds.

    Parameters
    ----------
    checkpoints : sequence of Checkpoint
        See `advise`.

    Returns
    -------
    float or None
        Share from 0 to 1. None if there are too few checkpoints.
    """
    if len(checkpoints) <= WINDOW:
        return None
    rates = [
        float(np.mean(one.yes != other.yes)) / (other.n_labels - one.n_labels)
        for one, other in pairwise(checkpoints[-1 - WINDOW :])
    ]
    return min(max(AHEAD * max(rates), 3 / len(checkpoints[-1].yes)), 1.0)
