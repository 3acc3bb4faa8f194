"""Ratios of waiting times that may be censored.

If a race ends before its target is reached, its waiting time is *censored*: only a lower bound is known. Such
a time is never replaced by a number. The ratio of two waiting times then has only a lower or an upper bound,
or none. The median of ratios may still be known: it lies between the median of the lower bounds and the
median of the upper bounds. Both are equal if all censored ratios are on the same side of the median.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.compare.statistics import LEAST, LEVEL

_DRAWS = 2_000
"""Number of bootstrap samples of an interval."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Pairs:
    """Paired waiting times.

    Parameters
    ----------
    first, second : array of shape (n,)
        Waiting times, positive; infinity if censored.
    limit : array of shape (n, 2)
        Times at which the two would have been censored.
    clusters : array of shape (n,)
        Cluster of each pair, from 0: in comparisons, the class of the race.
    """

    first: Floats
    second: Floats
    limit: Floats
    clusters: NDArray[np.int64]

    @classmethod
    def joined(cls, several: Sequence[Pairs]) -> Pairs:
        """Join pairs; their clusters stay apart."""
        ends = np.cumsum([0, *(1 + one.clusters.max(initial=-1) for one in several)])
        return cls(
            np.concatenate([one.first for one in several]),
            np.concatenate([one.second for one in several]),
            np.concatenate([one.limit for one in several]),
            np.concatenate([one.clusters + end for one, end in zip(several, ends[:-1], strict=True)]),
        )


@dataclass(frozen=True)
class MedianRatio:
    """A median ratio with its confidence interval.

    Parameters
    ----------
    least, most : float
        Bounds of the median ratio of these races: 0 and infinity if nothing is known, equal if censored times
        leave the median as it is.
    low, high : float or None
        Ends of the 95 % interval; None with fewer than `LEAST` clusters. 0 and infinity are possible.
    """

    least: float
    most: float
    low: float | None
    high: float | None


def median_ratio(pairs: Pairs) -> MedianRatio:
    """Return the median of first / second over all pairs.

    The interval is from a percentile bootstrap that draws clusters with replacement, or pairs if there is
    only one cluster.
    """
    least, most = _bounds(pairs.first, pairs.second, pairs.limit)
    groups = [np.flatnonzero(pairs.clusters == name) for name in np.unique(pairs.clusters)]
    if len(groups) == 1:
        groups = [np.array([place]) for place in groups[0]]
    low = high = None
    if len(groups) >= LEAST:
        rng = np.random.default_rng(0)
        chosen = rng.integers(len(groups), size=(_DRAWS, len(groups)))
        samples = [np.concatenate([groups[place] for place in row]) for row in chosen]
        tail = 100 * (1 - LEVEL) / 2
        low = _percentile([_median(least[rows]) for rows in samples], tail)
        high = _percentile([_median(most[rows]) for rows in samples], 100 - tail)
    return MedianRatio(_median(least), _median(most), low, high)


def _bounds(first: Floats, second: Floats, limit: Floats) -> tuple[Floats, Floats]:
    """Return the smallest and the largest possible ratio of each pair."""
    ends = np.isinf(first), np.isinf(second)
    own, other = np.where(ends[0], limit[:, 0], first), np.where(ends[1], limit[:, 1], second)
    return np.where(ends[1], 0.0, own / other), np.where(ends[0], np.inf, own / other)


def _median(values: Floats) -> float:
    return float(np.median(values))


def _percentile(values: list[float], percent: float) -> float:
    """Return a percentile that is one of the values, so that infinity does not make it undefined."""
    return float(np.percentile(values, percent, method="inverted_cdf"))
