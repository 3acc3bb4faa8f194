"""Means and confidence intervals of the numbers that a comparison measures.

Races for one class depend on each other, even if they begin with different labels. Values are therefore first
averaged over the runs of each class. The reported mean is the mean of these class means, and its interval is
Student's t interval over the classes. Such an interval says what to expect of other, similar classes. If
there is only one class, the interval is over its runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEVEL = 0.95

LEAST = 3
"""Minimum number of means for an interval. With two means, Student's interval is too wide to be useful."""

WHISKERS = (5.0, 95.0)
"""Percentiles at which the whiskers of a box plot end."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    Parameters
    ----------
    mean : float
    low, high : float or None
        Ends of the 95 % interval; None if the mean is over fewer than `LEAST` numbers.
    """

    mean: float
    low: float | None
    high: float | None

    @property
    def is_open(self) -> bool:
        """Whether the sign of the mean is open: the interval contains zero, or there is none."""
        return self.low is None or self.high is None or self.low <= 0 <= self.high

    def scaled(self, factor: float) -> Interval:
        """Return the interval multiplied by a positive number."""
        low = None if self.low is None else factor * self.low
        return Interval(factor * self.mean, low, None if self.high is None else factor * self.high)

    def exp(self) -> Interval:
        """Return the exponentials of the mean and of the interval's ends.

        If the mean is a mean of logarithms, the result is the geometric mean with its interval.
        """
        low = None if self.low is None else float(np.exp(self.low))
        return Interval(
            float(np.exp(self.mean)), low, None if self.high is None else float(np.exp(self.high))
        )


@dataclass(frozen=True)
class Box:
    """The five values of a box plot: the quartiles, and the percentiles in `WHISKERS`."""

    low: float
    first: float
    median: float
    third: float
    high: float


def cluster_means(values: ArrayLike, clusters: ArrayLike) -> Floats:
    """Return, for each cluster in ascending order, the mean over the first axis; shape (n_clusters, …).

    Parameters
    ----------
    values : array of shape (n, …)
        Numbers to average.
    clusters : array of shape (n,)
        Cluster of each value.
    """
    values, clusters = np.asarray(values, dtype=np.float64), np.asarray(clusters)
    return np.array([values[clusters == cluster].mean(axis=0) for cluster in np.unique(clusters)])


def mean_and_halfwidth(values: ArrayLike, clusters: ArrayLike) -> tuple[Floats, Floats]:
    """Return the mean over the first axis, and half the width of its 95 % interval.

    The mean is over the means of the clusters, or over the values if there is only one cluster. With only one
    value, the half-width is NaN.

    Parameters
    ----------
    values : array of shape (n, …)
        Numbers to average.
    clusters : array of shape (n,)
        Cluster of each value: in comparisons, the class of the race.
    """
    means = cluster_means(values, clusters)
    if len(means) == 1:
        means = np.asarray(values, dtype=np.float64)
    n = len(means)
    if n == 1:
        return means[0], np.full_like(means[0], np.nan)
    half = stats.t.ppf(0.5 + LEVEL / 2, n - 1) * means.std(axis=0, ddof=1) / np.sqrt(n)
    return means.mean(axis=0), np.asarray(half)


def interval(values: ArrayLike, clusters: ArrayLike) -> Interval:
    """Return the mean of values of shape (n,) with its 95 % interval; see `mean_and_halfwidth`.

    An interval needs at least `LEAST` clusters, or `LEAST` values if there is only one cluster.
    """
    mean, half = mean_and_halfwidth(values, clusters)
    n_clusters = len(np.unique(np.asarray(clusters)))
    if (n_clusters if n_clusters > 1 else len(np.asarray(values))) < LEAST:
        return Interval(float(mean), None, None)
    return Interval(float(mean), float(mean - half), float(mean + half))


def box(values: ArrayLike) -> Box:
    """Return the box plot of the finite values, of which there must be at least one."""
    values = np.asarray(values, dtype=np.float64)
    known = values[np.isfinite(values)]
    low, first, median, third, high = np.percentile(known, [WHISKERS[0], 25, 50, 75, WHISKERS[1]]).tolist()
    return Box(low, first, median, third, high)


def signed_rank(differences: ArrayLike) -> float | None:
    """Return the two-sided p-value of Wilcoxon's signed-rank test.

    The null hypothesis is that the differences are symmetric about 0. Return None if there are fewer than two
    differences, or if all of them are 0.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) < 2 or not differences.any():
        return None
    return float(stats.wilcoxon(differences).pvalue)


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values adjusted by Holm's method, which controls the family-wise error rate."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
