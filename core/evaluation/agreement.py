"""How far annotators agree beyond chance, and how sure that is.

The intervals are Bayesian, since those of the bootstrap and of large samples shrink to a point where all
agree on a handful of items: the items are a sample, the probabilities of what may be said of an item have a
Dirichlet prior worth two items answered by tossing coins (for two annotators Jeffreys' prior of the table of
their answers), and the interval holds 95 % of what the measure is then (Basu, Banerjee and Sen, "Bayesian
inference for kappa from single and multiple studies", Biometrics 56, 2000).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import comb

from closecall.core.errors import InputError

DRAWS = 4000
"""From the posterior, for an interval."""

PRIOR_ITEMS = 2.0

PERCENTILES = (2.5, 97.5)


class Interval(NamedTuple):
    """Where a measure is with 95 % probability."""

    low: float
    high: float


def cohen_kappa(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> float | None:
    """Cohen's κ of two annotators' answers about the same items.

    κ = (p − q) / (1 − q), where p is the share of items on which they agree and q what it would be if each
    answered as often yes and no, but at random (Cohen, "A coefficient of agreement for nominal scales",
    Educational and Psychological Measurement 20, 1960).

    Parameters
    ----------
    first, second : arrays of shape (n_items,), bool
        True for yes.

    Returns
    -------
    float or None
        1 where they always agree, 0 where they agree as by chance. None where chance alone would let them
        always agree: without items, or where both only ever give one and the same answer.
    """
    if not len(first):
        return None
    p = float(np.mean(first == second))
    a, b = float(np.mean(first)), float(np.mean(second))
    q = a * b + (1 - a) * (1 - b)
    return None if q == 1 else (p - q) / (1 - q)


def cohen_interval(first: NDArray[np.bool_], second: NDArray[np.bool_], *, seed: int = 0) -> Interval | None:
    """Where Cohen's κ is, as far as these items tell; None where they tell nothing.

    Parameters
    ----------
    first, second : arrays of shape (n_items,), bool
        True for yes.
    seed : int
        Of the draws.
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
    """Fleiss' κ of several annotators, each item answered by equally many of them.

    As `cohen_kappa`, with p the mean share of pairs of annotators that agree on an item (Fleiss, "Measuring
    nominal scale agreement among many raters", Psychological Bulletin 76, 1971).

    Parameters
    ----------
    counts : array of shape (n_items, n_answers), int
        How many gave each answer.

    Returns
    -------
    float or None
        None without items, or where all of them only ever give one and the same answer.

    Raises
    ------
    InputError
        If items were answered by different numbers of annotators, or by fewer than two.
    """
    table = _checked(counts)
    if not len(table):
        return None
    m = table.sum(axis=1)
    if m.min() != m.max() or m[0] < 2:
        raise InputError(
            "each item must be answered by equally many annotators, at least two, "
            f"got {m.min():g} to {m.max():g}"
        )
    p = np.mean((table * (table - 1)).sum(axis=1) / (m * (m - 1)))
    q = np.square(table.sum(axis=0) / m.sum()).sum()
    return None if q == 1 else float((p - q) / (1 - q))


def krippendorff_alpha(counts: ArrayLike) -> float | None:
    """Krippendorff's α for answers without order; annotators may have left items out.

    α = 1 − D_o / D_e, the disagreement within items over that between any two answers (Krippendorff,
    "Computing Krippendorff's Alpha-Reliability", 2011). Items with fewer than two answers tell nothing.

    Parameters
    ----------
    counts : array of shape (n_items, n_answers), int
        How many gave each answer.

    Returns
    -------
    float or None
        1 where all agree, 0 where they agree as by chance. None where no item has two answers, or all
        answers are the same.
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
    """Where Krippendorff's α of two answers is, as far as these items tell; None where they tell nothing.

    How many annotators answered an item is taken as given: the items are drawn anew among those that as many
    answered.

    Parameters
    ----------
    counts : array of shape (n_items, 2), int
        How many gave each answer.
    seed : int
        Of the draws.

    Raises
    ------
    InputError
        If there are not two answers.
    """
    table = _checked(counts)
    if table.shape[1] != 2:
        raise InputError(f"counts must have two columns, one an answer, got {table.shape[1]}")
    measured = krippendorff_alpha(table)
    if measured is None:
        return None
    rng = np.random.default_rng(seed)
    said, voices = table[:, 1].astype(np.int64), table.sum(axis=1).astype(np.int64)
    disagreeing, yes, n = np.zeros(DRAWS), np.zeros(DRAWS), 0
    for m in np.unique(voices[voices >= 2]):
        items = np.bincount(said[voices == m], minlength=m + 1)
        k = np.arange(m + 1)
        prior = PRIOR_ITEMS * items.sum() / np.count_nonzero(voices >= 2)
        drawn = rng.dirichlet(items + prior * comb(m, k) / 2**m, DRAWS) * items.sum()
        disagreeing += drawn @ (2 * k * (m - k) / (m - 1))
        yes += drawn @ k
        n += int(m * items.sum())
    expected = 2 * yes * (n - yes) / (n - 1)
    return _interval(1 - disagreeing / expected, measured)


def _interval(drawn: NDArray[np.float64], measured: float) -> Interval:
    """What was measured is inside, even where all agree: else a reader would doubt either of them."""
    low, high = np.percentile(drawn, PERCENTILES)
    return Interval(min(float(low), measured), max(float(high), measured))


def _checked(counts: ArrayLike) -> NDArray[np.float64]:
    checked = np.asarray(counts, dtype=np.float64)
    if checked.ndim != 2 or (checked < 0).any():
        raise InputError("counts must be a table of numbers from 0 on, a row an item and a column an answer")
    return checked
