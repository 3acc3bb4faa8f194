"""Agreement between annotators beyond chance, with credible intervals.

The intervals are Bayesian, because bootstrap and large-sample intervals shrink to a point if annotators agree
on every item of a small sample. The probabilities of the possible combinations of answers to an item have a
Dirichlet prior with the weight of two items answered at random. For two annotators, this is Jeffreys' prior
of the 2 × 2 table of answers. The interval contains the central 95 % of the posterior of the agreement (Basu,
Banerjee and Sen, "Bayesian inference for kappa from single and multiple studies", Biometrics 56, 2000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from closecall.core.errors import InputError

DRAWS = 4000
"""Number of draws from the posterior for each interval."""

PRIOR_ITEMS = 2.0

PERCENTILES = (2.5, 97.5)


class Interval(NamedTuple):
    """Central 95 % credible interval of a measure of agreement."""

    low: float
    high: float


def cohen_kappa(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float | None:
    """Compute Cohen's κ of two annotators' answers to the same items.

    κ = (p − q) / (1 − q), where p is the fraction of items on which the annotators agree. q is the expected
    value of p if each annotator's answers were distributed over the items at random (Cohen, "A
    coefficient of agreement for nominal scales", Educational and Psychological Measurement 20, 1960).

    Parameters
    ----------
    first, second : arrays of shape (n_items,), bool
        True for yes.

    Returns
    -------
    float or None
        1 for perfect agreement, 0 for chance agreement. None if there are no items, or if all answers are the
        same, so that q = 1.
    """
    if not len(first):
        return None
    p = float(np.mean(first == second))
    a, b = float(np.mean(first)), float(np.mean(second))
    q = a * b + (1 - a) * (1 - b)
    return None if q == 1 else (p - q) / (1 - q)


def cohen_interval(first: NDArray[np.bool_], second: NDArray[np.bool_], *, seed: int = 0) -> Interval | None:
    """Return the 95 % credible interval of Cohen's κ, or None if `cohen_kappa` returns None.

    Parameters
    ----------
    first, second : arrays of shape (n_items,), bool
        True for yes.
    seed : int
        Seed of the posterior draws.
    """
    measured = cohen_kappa(first, second)
    if measured is None:
        return None
    cells = np.bincount(2 * first.astype(np.int64) + second, minlength=4)
    drawn = np.random.default_rng(seed).dirichlet(cells + PRIOR_ITEMS / 4, DRAWS)
    p = drawn[:, 0] + drawn[:, 3]
    a, b = drawn[:, 2] + drawn[:, 3], drawn[:, 1] + drawn[:, 3]
    q = a * b + (1 - a) * (1 - b)
    return _interval((p - q) / (1 - q), measured)


def fleiss_kappa(counts: ArrayLike) -> float | None:
    """Compute Fleiss' κ of several annotators, from the same number of answers to each item.

    κ = (p − q) / (1 − q), where p is the fraction of pairs of annotators that agree on an item, averaged over
    items. q is the sum of the squared relative frequencies of the answers (Fleiss, "Measuring nominal scale
    agreement among many raters", Psychological Bulletin 76, 1971).

    Parameters
    ----------
    counts : array of shape (n_items, n_answers), int
        For each item, the number of annotators who gave each answer.

    Returns
    -------
    float or None
        None if there are no items, or if all answers are the same.

    Raises
    ------
    InputError
        If items have different numbers of answers, or fewer than two answers, or if `counts` has negative
        entries or is not two-dimensional.
    """
    table = _checked(counts)
    if not len(table):
        return None
    m = table.sum(axis=1)
    if m.min() != m.max() or m[0] < 2:
        raise InputError(
            "each item must be answered by the same number of annotators, at least two, "
            f"got {m.min():g} to {m.max():g}"
        )
    p = np.mean((table * (table - 1)).sum(axis=1) / (m * (m - 1)))
    q = np.square(table.sum(axis=0) / m.sum()).sum()
    return None if q == 1 else float((p - q) / (1 - q))


def krippendorff_alpha(counts: ArrayLike) -> float | None:
    """Compute Krippendorff's α for nominal answers. Items may have different numbers of answers.

    α = 1 − D_o / D_e, where D_o is the observed disagreement between answers to the same item, and D_e is the
    expected disagreement between any two answers (Krippendorff, "Computing Krippendorff's Alpha-Reliability",
    2011). Items with fewer than two answers are ignored.

    Parameters
    ----------
    counts : array of shape (n_items, n_answers), int
        For each item, the number of annotators who gave each answer.

    Returns
    -------
    float or None
        1 for perfect agreement, 0 for chance agreement. None if no item has two answers, or all answers are
        the same.

    Raises
    ------
    InputError
        If `counts` has negative entries or is not two-dimensional.
    """
    table = _checked(counts)
    table = table[table.sum(axis=1) >= 2]
    if not len(table):
        return None
    m, n = table.sum(axis=1), table.sum()
    observed = ((np.square(m) - np.square(table).sum(axis=1)) / (m - 1)).sum() / n
    expected = (n**2 - np.square(table.sum(axis=0)).sum()) / (n * (n - 1))
    return None if expected == 0 else float(1 - observed / expected)


def krippendorff_interval(counts: ArrayLike, *, seed: int = 0) -> Interval | None:
    """Return the 95 % credible interval of Krippendorff's α of yes/no answers.

    The posterior is conditional on the number of answers to each item. There is one Dirichlet distribution
    for all items with the same number of answers.

    Parameters
    ----------
    counts : array of shape (n_items, 2), int
        For each item, the number of annotators who gave each answer.
    seed : int
        Seed of the posterior draws.

    Returns
    -------
    Interval or None
        None if `krippendorff_alpha` returns None.

    Raises
    ------
    InputError
        If `counts` has negative entries or does not have two columns.
    """
    table = _checked(counts)
    if table.shape[1] != 2:
        raise InputError(f"counts must have two columns, one per answer, got {table.shape[1]}")
    measured = krippendorff_alpha(table)
    if measured is None:
        return None
    rng = np.random.default_rng(seed)
    n_yes, n_raters = table[:, 1].astype(np.int64), table.sum(axis=1).astype(np.int64)
    disagreeing, yes, n = np.zeros(DRAWS), np.zeros(DRAWS), 0
    for m in np.unique(n_raters[n_raters >= 2]):
        items = np.bincount(n_yes[n_raters == m], minlength=m + 1)
        k = np.arange(m + 1)
        prior = PRIOR_ITEMS * items.sum() / np.count_nonzero(n_raters >= 2)
        drawn = rng.dirichlet(items + prior * comb(m, k) / 2**m, DRAWS) * items.sum()
        disagreeing += drawn @ (2 * k * (m - k) / (m - 1))
        yes += drawn @ k
        n += int(m * items.sum())
    expected = 2 * yes * (n - yes) / (n - 1)
    return _interval(1 - disagreeing / expected, measured)


def _interval(drawn: NDArray[np.float64], measured: float) -> Interval:
    """Return the percentiles of the posterior draws, widened to contain the measured value.

    The widening matters if annotators agree perfectly: the measured value is 1, but all draws are below 1.
    """
    low, high = np.percentile(drawn, PERCENTILES)
    return Interval(min(float(low), measured), max(float(high), measured))


def _checked(counts: ArrayLike) -> NDArray[np.float64]:
    checked = np.asarray(counts, dtype=np.float64)
    if checked.ndim != 2 or (checked < 0).any():
        raise InputError("counts must be non-negative, with one row per item and one column per answer")
    return checked
