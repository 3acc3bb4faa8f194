"""Precision, recall and prevalence from audited items, with intervals that hold at few positives.

The items that the query strategy did not ask for (`core.audit.pass_over`) are divided by the score of the
classifier as it is now (`core.audit.bands`); how many each band has is known. Its share of yes is the
weighted mean of its audited items, the weights being 1 / inclusion probability. Sums over the bands of each
side of the hyperplane give true and false positives and false negatives. These sums, precision and prevalence
are unbiased. Recall is a ratio: where the audit meets hardly a yes below the hyperplane its estimate is
mostly too high, now and then far too low, and the interval is what to read.

Normal approximations fail at few positives, and recall is a ratio with few of them in both parts. Webber [1]_
compares the methods and recommends posteriors: what is unknown in each part of the pool is beta-binomial with
a prior of half a yes and half a no (Jeffreys'), recall is computed of many draws from them, and the interval
runs between their quantiles. Its coverage is near the level over many pools. So it is done here, with two
additions. A side of the hyperplane has several bands, and half a yes for every one of them would be more than
a rare class has in all; they share it evenly, as the error that is added to weighted sums of rare events is
shared [2]_. And where weights differ within a band, its answers count as so many as would leave their mean as
uncertain if weights were even [3]_. That is no detail: what a classifier gets wrong now, earlier ones put in
other strata, and it tends to weigh more than what it gets right.

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
"""How often an interval holds the truth."""

LEAST_ANSWERS = 10
"""Bands with fewer (effective) answers join a neighbour on their side of the hyperplane."""

DRAWS = 10_000
"""Of the posterior; quantiles of 2.5 % are right to a few of its thousandths."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A share and how sure it is, all 0 … 1.

    Parameters
    ----------
    estimate : float
        NaN where nothing is known: the interval is 0 … 1 then, or says what is possible.
    low, high : float
    """

    estimate: float
    low: float
    high: float


@dataclass(frozen=True)
class Audited:
    """What an audit says.

    Parameters
    ----------
    precision : Interval
        Of the items that the classifier predicts to be a yes, those that are.
    recall : Interval
        Of the items that are a yes, those that it predicts. Neither counts items that were asked for: the
        classifier knows their answers.
    found : Interval
        Of all items that are a yes, those that were asked for or are predicted: what whoever keeps both the
        labels and the predictions has in hand.
    prevalence : Interval
        Of all items those that are a yes.
    answers, yes : int
        How many audited items this rests on, and how many of them are a yes.
    """

    precision: Interval
    recall: Interval
    found: Interval
    prevalence: Interval
    answers: int
    yes: int


@dataclass(frozen=True, eq=False)
class _Side:
    """The bands of one side of the hyperplane: items, and what the audit found."""

    items: NDArray[np.int64]
    answers: NDArray[np.int64]
    yes: NDArray[np.int64]
    share: Floats
    effective: Floats

    def estimate(self) -> float:
        """How many items of this side are a yes."""
        unknown = self.items - self.answers
        return float(np.sum(self.yes + np.where(unknown > 0, unknown * self.share, 0.0)))

    def posterior(self, rng: np.random.Generator) -> Floats:
        """`DRAWS` plausible values of that number."""
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
    """What the audit says about the classifier of these scores.

    Parameters
    ----------
    scores : array of shape (n_rows,)
        wᵀx + b of every row of the pool (`core.pool.pool.Pool.scores`).
    audited : array of shape (n,), int
        Rows of the audited items that were answered yes or no; each comes once.
    y : array of shape (n,), bool
        Their answers.
    inclusion : array of shape (n,)
        The probability with which each was drawn (`core.audit.inclusion`); a common factor does not matter.
    asked : array of shape (n_asked,), int
        Rows of the items that the strategy asked for: those that the classifier was trained on, and those
        passed over because they were audited. None of `audited`, then.
    asked_yes : int
        How many of these are a yes.
    level : float, 0 … 1
        How often the intervals are to hold the truth.

    Raises
    ------
    InputError
        If shapes disagree, a row comes twice or is not in the pool, a probability is not above 0 or the level
        not between 0 and 1.
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
        recall=_interval(hits, total, caught, present, level),
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
            f"audited, y and inclusion must be of one length, got {audited.shape}, {y.shape} "
            f"and {chance.shape}"
        )
    rows, times = np.unique(np.concatenate([audited, asked]), return_counts=True)
    if len(rows) and (rows[0] < 0 or rows[-1] >= len(scores)):
        wrong = rows[0] if rows[0] < 0 else rows[-1]
        raise InputError(f"audited and asked must be rows from 0 to {len(scores) - 1}, got {wrong}")
    if (times > 1).any():
        raise InputError(f"row {rows[times > 1][0]} comes twice: it is audited once, or asked for")
    if not (np.isfinite(chance) & (chance > 0)).all():
        raise InputError(f"inclusion must be above 0, got {chance.min()}")
    if not 0 < level < 1:
        raise InputError(f"level must be between 0 and 1, got {level}")


def _sides(
    scores: NDArray[np.floating], audited: NDArray[np.floating], y: NDArray[np.bool_], weights: Floats
) -> tuple[_Side, _Side]:
    """The bands below the hyperplane and those above it."""
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
    """One side, its bands joined until each has enough answers; neighbours are in neighbouring columns."""
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
    """How many even answers say as much as a band's: p(1 − p) / variance, at most (Σw)²/Σw², 0 of none."""
    _, _, _, weight, weight_of_yes, squares, squares_of_yes = column
    if not squares:
        return 0.0
    even, share = weight**2 / squares, weight_of_yes / weight
    variance = ((1 - 2 * share) * squares_of_yes + share**2 * squares) / weight**2
    return float(min(even, share * (1 - share) / variance) if 0 < share < 1 else even)


def _interval(part: float, whole: float, parts: Floats, wholes: Floats, level: float) -> Interval:
    """The share of a part, between the quantiles of parts / wholes where the whole is not 0."""
    known = wholes > 0
    share = part / whole if whole > 0 else np.nan
    if not known.any():
        return Interval(share, 0.0, 1.0)
    low, high = np.quantile(parts[known] / wholes[known], [(1 - level) / 2, (1 + level) / 2])
    return Interval(share, float(np.fmin(low, share)), float(np.fmax(high, share)))
