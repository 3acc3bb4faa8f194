"""Precision, recall and prevalence from audited items, with intervals that are valid for rare classes.

The audit describes the items that the query strategy did not select (see `core.audit.pass_over`). They are
divided into bands by the score of the current classifier (`core.audit.bands`), and the size of each band is
known. The proportion of positives in a band is estimated by the weighted mean of the answers to the audited
items in the band. The weights are 1 / inclusion probability. The bands above the hyperplane give the numbers
of true and false positives, and the bands below it give the number of false negatives. The estimates of these
numbers, of precision and of prevalence are nearly unbiased. Recall is a ratio of two estimates. If the audit
has few positives below the hyperplane, the estimated recall is mostly too high and occasionally far too low.
The interval is more reliable than the estimate.

Normal approximations fail for small numbers of positives. Webber [1]_ compares intervals for recall and
recommends a Bayesian method. On each side of the hyperplane, the number of positives among the items without
an answer follows a beta-binomial distribution, with Jeffreys' prior (half a positive and half a negative).
Recall is computed from many posterior draws, and the ends of the interval are quantiles of these values. The
coverage of such intervals over many pools is close to the nominal level. This module uses the same method
with two changes:

1. *Shared prior.* Each side of the hyperplane has several bands. With half a positive for each band, the
   prior could outweigh all the positives of a rare class. The prior of half a positive and half a negative is
   therefore divided evenly among the bands of a side. Tiwari et al. [2]_ divide the correction of a weighted
   sum of rare events among its terms in the same way.
2. *Effective sample size.* The weights within a band may differ. The number of answers is then replaced by
   the number of equally weighted answers whose mean would have the same variance [3]_. This matters for items
   that the current classifier gets wrong. Earlier classifiers put these items into other strata, so the items
   tend to have larger weights.

References
----------
.. [1] W. Webber: Approximate Recall Confidence Intervals, ACM Transactions on Information Systems 31(1),
   2013.
.. [2] R. C. Tiwari, L. X. Clegg, Z. Zou: Efficient Interval Estimation for Age-Adjusted Cancer Rates,
   Statistical Methods in Medical Research 15, 2006.
.. [3] E. L. Korn, B. I. Graubard: Confidence Intervals for Proportions With Small Expected Number of Positive
   Counts Estimated From Survey Data, Survey Methodology 24(2), 1998.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.audit.strata import bands
from closecall.core.errors import InputError

LEVEL = 0.95
"""Default coverage of an interval."""

LEAST_ANSWERS = 10
"""Minimum effective number of answers of a band. Bands with fewer answers are merged with adjacent bands."""

DRAWS = 10_000
"""Number of posterior draws. The 2.5 % quantile has an error of about 0.03 posterior standard deviations."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """An estimated proportion with its credible interval. All values are from 0 to 1.

    Parameters
    ----------
    estimate : float
        The estimated proportion. NaN if the denominator is 0, or if the proportion depends on a side of the
        hyperplane that has items but no answers.
    low, high : float
        Bounds of the interval, which includes the estimate unless the estimate is NaN. The bounds are 0 and 1
        if the denominator is 0 in every posterior draw. Those of the recall are also 0 and 1 if no audited
        item is positive: the quantiles would then only show the prior. They would even both be 0 if the
        classifier predicts no positives.
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Audited:
    """Estimates of the quality of a classifier from an audit.

    Precision and recall are computed without the items that the classifier was trained on, and without the
    audited items that were passed over (`core.audit.pass_over`).

    Parameters
    ----------
    precision : Interval
        Fraction of the predicted positives that are positive.
    recall : Interval
        Fraction of the positives that are predicted to be positive.
    found : Interval
        Fraction of all positives, including training items, that are labeled or predicted to be positive.
    prevalence : Interval
        Fraction of all items that are positive.
    answers, yes : int
        Number of audited items, and number of audited items that are positive.
    """

    precision: Interval
    recall: Interval
    found: Interval
    prevalence: Interval
    answers: int
    yes: int


@dataclass(frozen=True, eq=False)
class _Side:
    """The bands on one side of the hyperplane; each array has shape (n_bands,).

    `items`, `answers` and `yes` are the numbers of items, of audited items and of audited positives. `share`
    is the estimated proportion of positives, and `effective` the effective number of answers.
    """

    items: NDArray[np.int64]
    answers: NDArray[np.int64]
    yes: NDArray[np.int64]
    share: Floats
    effective: Floats

    def estimate(self) -> float:
        """Return the estimated number of positives on this side; NaN if a band has items but no answers."""
        unknown = self.items - self.answers
        return float(np.sum(self.yes + np.where(unknown > 0, unknown * self.share, 0.0)))

    def posterior(self, rng: np.random.Generator) -> Floats:
        """Return `DRAWS` posterior draws of the number of positives on this side, of shape (DRAWS,)."""
        prior = 0.5 / len(self.items)
        share = np.where(self.effective > 0, self.share, 0.0)
        theta = rng.beta(
            share * self.effective + prior,
            (1 - share) * self.effective + prior,
            size=(DRAWS, len(self.items)),
        )
        found = self.yes + rng.binomial(self.items - self.answers, theta)
        return np.asarray(found.sum(axis=1), dtype=np.float64)


def estimate(
    scores: ArrayLike,
    audited: ArrayLike,
    y: ArrayLike,
    inclusion: ArrayLike,
    *,
    asked: ArrayLike = (),
    asked_yes: int = 0,
    level: float = LEVEL,
) -> Audited:
    """Estimate precision, recall and prevalence of the classifier that gave these scores.

    Parameters
    ----------
    scores : array of shape (n_rows,)
        Score wᵀx + b of every row of the pool (`core.pool.pool.Pool.scores`).
    audited : array of shape (n,), int
        Rows of the audited items that were answered yes or no, each once.
    y : array of shape (n,), bool
        Answer for each audited item, True for yes.
    inclusion : array of shape (n,)
        Probability with which each item was drawn (`core.audit.inclusion`). Multiplying all probabilities by
        the same number has no effect.
    asked : array of shape (n_asked,), int
        Rows of the items that the classifier was trained on, and of audited items that were passed over
        (`core.audit.pass_over`). None of these rows may be in `audited`.
    asked_yes : int
        Number of positives among `asked`.
    level : float, 0 to 1
        Coverage of the intervals.

    Returns
    -------
    Audited

    Raises
    ------
    InputError
        If shapes disagree, if a row is repeated or not in the pool, if a probability is not above 0, or if
        `level` is not between 0 and 1.
    """
    scores, y = np.asarray(scores), np.asarray(y, dtype=np.bool_)
    audited, asked = np.asarray(audited, dtype=np.int64), np.asarray(asked, dtype=np.int64)
    chance = np.asarray(inclusion, dtype=np.float64)
    _check(scores, audited, y, chance, asked, level)
    rest = np.ones(len(scores), dtype=np.bool_)
    rest[asked] = False
    no, yes = _sides(scores[rest], scores[audited], y, 1 / chance)
    rng = np.random.default_rng(0)
    missed, caught = no.posterior(rng), yes.posterior(rng)
    hits, total = yes.estimate(), no.estimate() + yes.estimate()
    n_yes, n_rows = float(yes.items.sum()), float(len(scores))
    present = caught + missed
    return Audited(
        precision=_interval(hits, n_yes, caught, np.full(DRAWS, n_yes), level),
        recall=_interval(hits, total, caught, present, level) if y.any() else Interval(np.nan, 0.0, 1.0),
        found=_interval(asked_yes + hits, asked_yes + total, asked_yes + caught, asked_yes + present, level),
        prevalence=_interval(asked_yes + total, n_rows, asked_yes + present, np.full(DRAWS, n_rows), level),
        answers=len(y),
        yes=int(np.count_nonzero(y)),
    )


def _check(
    scores: NDArray[np.floating],
    audited: NDArray[np.int64],
    y: NDArray[np.bool_],
    chance: Floats,
    asked: NDArray[np.int64],
    level: float,
) -> None:
    if scores.ndim != 1 or not audited.shape == y.shape == chance.shape == (y.size,):
        raise InputError(
            f"audited, y and inclusion must have the same length, got {audited.shape}, {y.shape} "
            f"and {chance.shape}"
        )
    rows, times = np.unique(np.concatenate([audited, asked]), return_counts=True)
    if len(rows) and (rows[0] < 0 or rows[-1] >= len(scores)):
        wrong = rows[0] if rows[0] < 0 else rows[-1]
        raise InputError(f"audited and asked must be rows from 0 to {len(scores) - 1}, got {wrong}")
    if (times > 1).any():
        raise InputError(f"row {rows[times > 1][0]} is repeated: an item is audited or asked for, only once")
    if not (np.isfinite(chance) & (chance > 0)).all():
        raise InputError(f"inclusion must be above 0, got {chance.min()}")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level}")


def _sides(
    scores: NDArray[np.floating], audited: NDArray[np.floating], y: NDArray[np.bool_], weights: Floats
) -> tuple[_Side, _Side]:
    """Return the bands below and the bands above the hyperplane.

    `scores` has the scores of all items that the audit describes, and `audited` the scores of the audited
    items.
    """
    cuts = bands(scores)
    band = np.searchsorted(cuts, audited)
    columns = [
        np.bincount(np.searchsorted(cuts, scores), minlength=len(cuts) + 1),
        *(
            np.bincount(band, weights=values, minlength=len(cuts) + 1)
            for values in (np.ones(len(y)), y, weights, weights * y, weights**2, weights**2 * y)
        ),
    ]
    sums = np.array(columns, dtype=np.float64)
    first_yes = int(np.searchsorted(cuts, 0.0)) + 1
    return _joined(sums[:, :first_yes]), _joined(sums[:, first_yes:])


def _joined(sums: Floats) -> _Side:
    """Merge adjacent bands of one side until each has at least `LEAST_ANSWERS` effective answers.

    Each column of `sums` is a band, and neighbouring columns are adjacent bands.
    """
    columns = list(sums.T)
    while len(columns) > 1:
        effective = [_effective(column) for column in columns]
        least = int(np.argmin(effective))
        if effective[least] >= LEAST_ANSWERS:
            break
        around = [place for place in (least - 1, least + 1) if 0 <= place < len(columns)]
        other = min(around, key=lambda place: effective[place])
        columns[min(least, other)] = columns[least] + columns[other]
        del columns[max(least, other)]
    items, answers, yes, weight, weight_of_yes, *_ = np.array(columns).T
    return _Side(
        items=items.astype(np.int64),
        answers=answers.astype(np.int64),
        yes=yes.astype(np.int64),
        share=np.divide(weight_of_yes, weight, out=np.full(len(weight), np.nan), where=weight > 0),
        effective=np.array([_effective(column) for column in columns]),
    )


def _effective(column: Floats) -> float:
    """Return the effective number of answers of a band; 0 if the band has no answers.

    Let w be the weights of the answers, and p the weighted fraction of positives. The effective number is
    p(1 − p) / Var(p), but at most (Σw)²/Σw². If p is 0 or 1, the effective number is (Σw)²/Σw².
    """
    _, _, _, weight, weight_of_yes, squares, squares_of_yes = column
    if not squares:
        return 0.0
    even, share = weight**2 / squares, weight_of_yes / weight
    variance = ((1 - 2 * share) * squares_of_yes + share**2 * squares) / weight**2
    return float(min(even, share * (1 - share) / variance) if 0 < share < 1 else even)


def _interval(part: float, whole: float, parts: Floats, wholes: Floats, level: float) -> Interval:
    """Return the estimate `part` / `whole` with its interval, from quantiles of the draws `parts` / `wholes`.

    Draws in which the whole is 0 are ignored.
    """
    known = wholes > 0
    share = part / whole if whole > 0 else np.nan
    if not known.any():
        return Interval(share, 0.0, 1.0)
    low, high = np.quantile(parts[known] / wholes[known], [(1 - level) / 2, (1 + level) / 2])
    return Interval(share, float(np.fmin(low, share)), float(np.fmax(high, share)))
