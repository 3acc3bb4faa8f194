"""Confidence intervals of measured shares and ratios."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta, t

RESAMPLES = 2000


def recall_low(found: int, asked: int) -> float:
    """Return Clopper and Pearson's one-sided lower 95 % bound of the share `found` / `asked`."""
    return float(beta.ppf(0.05, found, asked - found + 1)) if found else 0.0


def mean_ratio(
    log_ratios: NDArray[np.float64], clusters: ArrayLike, seed: int
) -> tuple[float, float | None, float | None]:
    """Return the geometric mean of ratios, and its 95 % interval by bootstrap over clusters.

    Parameters
    ----------
    log_ratios : array of shape (n,)
        Natural logarithms of the ratios.
    clusters : array of shape (n,)
        Cluster of each ratio. Ratios that depend on each other, as in one session, share a cluster.
    seed : int
        Seed of the resamples.

    Returns
    -------
    tuple of float
        Geometric mean, and lower and upper end of its interval; the ends are None for a single cluster.
    """
    _, members = np.unique(clusters, return_inverse=True)
    sums, sizes = np.bincount(members, log_ratios), np.bincount(members)
    mean = float(np.exp(log_ratios.mean()))
    if len(sums) < 2:
        return mean, None, None
    drawn = np.random.default_rng(seed).integers(len(sums), size=(RESAMPLES, len(sums)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.exp(np.percentile(means, [2.5, 97.5])).tolist()
    return mean, low, high


def share_over_draws(
    hits: NDArray[np.bool_],
) -> tuple[float, float, float] | tuple[None, None, None]:
    """Return the share of successful trials, from 0 to 1, and its 95 % interval.

    The interval combines two intervals: Student's t interval of the shares of the draws, and Clopper and
    Pearson's interval of all trials. Each end is the more extreme end of the two. Clopper and Pearson's
    interval alone would be too narrow, because trials of one draw depend on each other. Student's interval
    alone would have no width if all draws have the same share.

    Parameters
    ----------
    hits : array of shape (n_draws, n_trials), bool
        Whether each trial succeeded.

    Returns
    -------
    tuple of float
        Share, and lower and upper end of the interval; all None if there are no trials.
    """
    if not hits.size:
        return None, None, None
    found, asked, share = int(hits.sum()), hits.size, float(hits.mean())
    low = float(beta.ppf(0.025, found, asked - found + 1)) if found else 0.0
    high = float(beta.ppf(0.975, found + 1, asked - found)) if found < asked else 1.0
    if len(hits) > 1:
        shares = hits.mean(axis=1)
        half = float(t.ppf(0.975, len(hits) - 1)) * float(shares.std(ddof=1)) / np.sqrt(len(hits))
        low, high = max(0.0, min(low, share - half)), min(1.0, max(high, share + half))
    return share, low, high
