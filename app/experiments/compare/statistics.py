"""Confidence intervals of a comparison's figures.

Races for one class depend on each other, even with different first labels. A mean is therefore that of the
classes' means, each over its runs, and its interval is Student's t over the classes: it is about other
classes of this kind. If there is only one class, the interval is over its runs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

LEVEL = 0.95
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
        Ends of the 95 % interval; None if there is only one value.
    """

    mean: float
    low: float | None
    high: float | None

    def scaled(self, factor: float) -> Interval:
        """Return the interval multiplied by a positive number."""
        low = None if self.low is None else factor * self.low
        return Interval(factor * self.mean, low, None if self.high is None else factor * self.high)

    def exp(self) -> Interval:
        """Return the geometric mean and its interval, from those of logarithms."""
        low = None if self.low is None else float(np.exp(self.low))
        return Interval(
            float(np.exp(self.mean)), low, None if self.high is None else float(np.exp(self.high))
        )


@dataclass(frozen=True)
class Box:
    """The values of a box plot: quartiles, and the percentiles `WHISKERS`."""

    low: float
    first: float
    median: float
    third: float
    high: float


def cluster_means(values: ArrayLike, clusters: ArrayLike) -> Floats:
    """Return each cluster's mean over the first axis, of shape (n_clusters, …), ascending by cluster.

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
    """Return the mean of values of shape (n, …) over the first axis, and half the width of its interval.

    The mean is that of the clusters' means. The width is NaN if there is only one value.
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
    """Return the mean of values of shape (n,) and its interval, as described in this module."""
    mean, half = mean_and_halfwidth(values, clusters)
    if np.isnan(half):
        return Interval(float(mean), None, None)
    return Interval(float(mean), float(mean - half), float(mean + half))


def box(values: ArrayLike) -> Box:
    """Return the box of all finite values; there must be one."""
    values = np.asarray(values, dtype=np.float64)
    known = values[np.isfinite(values)]
    low, first, median, third, high = np.percentile(known, [WHISKERS[0], 25, 50, 75, WHISKERS[1]]).tolist()
    return Box(low, first, median, third, high)


def signed_rank(differences: ArrayLike) -> float | None:
    """Return the two-sided p of Wilcoxon's signed-rank test that differences are symmetric about 0.

    Return None if there are fewer than two differences, or all are 0.
    """
    differences = np.asarray(differences, dtype=np.float64)
    if len(differences) < 2 or not differences.any():
        return None
    return float(stats.wilcoxon(differences).pvalue)


def holm(p_values: ArrayLike) -> Floats:
    """Return p-values adjusted by Holm's method, which bounds the probability of any false rejection."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted
