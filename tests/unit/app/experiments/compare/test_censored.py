from __future__ import annotations

import math

import numpy as np
import pytest

from closecall.app.experiments.compare.until.censored import Pairs, median_ratio

LIMIT = 100.0


def ratio_of(first, second, clusters=None):
    first, second = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    return median_ratio(pairs_of(first, second, np.zeros(len(first)) if clusters is None else clusters))


def pairs_of(first, second, clusters):
    limit = np.full((len(first), 2), LIMIT)
    return Pairs(np.asarray(first), np.asarray(second), limit, np.asarray(clusters, dtype=np.int64))


def censored(times):
    return np.where(times > LIMIT, np.inf, times)


def test_without_censored_times_it_is_the_median():
    found = ratio_of([1, 4, 9], [2, 4, 3])
    assert found.least == found.most == 1


def test_censored_times_on_one_side_leave_the_median_as_it_is():
    """The last two ratios are above 10, whatever they are."""
    found = ratio_of([1, 2, 3, math.inf, math.inf], [10, 10, 10, 10, 10])
    assert found.least == found.most == pytest.approx(0.3)


def test_what_may_lie_on_either_side_gives_bounds():
    """By hand: the ratios are 0.5, something above 1, something below 0.4, and anything."""
    found = ratio_of([10, math.inf, 40, math.inf], [20, 100, math.inf, math.inf])
    assert found.least == pytest.approx((0 + 0.5) / 2)
    assert found.most == math.inf
    nothing = ratio_of([math.inf] * 3, [math.inf] * 3)
    assert (nothing.least, nothing.most) == (0, math.inf)
    assert (nothing.low, nothing.high) == (0, math.inf)


def test_two_clusters_are_too_few_for_an_interval():
    found = ratio_of([1, 2, 3, 4], [2, 2, 2, 2], clusters=[0, 0, 1, 1])
    assert (found.low, found.high) == (None, None)


def test_pairs_of_several_comparisons_keep_their_clusters_apart():
    """Two comparisons of two classes have four clusters, which are enough for an interval."""
    one = pairs_of([1.0, 2.0, 3.0], [2.0, 2.0, 2.0], [0, 0, 1])
    other = pairs_of([4.0, math.inf], [2.0, 5.0], [3, 0])
    joined = Pairs.joined([one, other])
    assert joined.first.tolist() == [1, 2, 3, 4, math.inf]
    assert joined.second.tolist() == [2, 2, 2, 2, 5]
    assert joined.limit.shape == (5, 2)
    assert joined.clusters.tolist() == [0, 0, 1, 5, 2]
    found = median_ratio(joined)
    assert found.least == found.most == 1.5
    assert found.low is not None
    assert median_ratio(one).low is None


@pytest.mark.parametrize("seed", range(20))
def test_the_bounds_hold_what_is_behind_them(seed):
    """Drawn times are cut at the limit: the median of the uncut ratios lies within the bounds."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    first, second = np.exp(rng.normal(4, 1, n)), np.exp(rng.normal(4.5, 1, n))
    found = ratio_of(censored(first), censored(second))
    assert found.least <= np.median(first / second) <= found.most


@pytest.mark.slow
def test_the_interval_holds_the_true_median_as_often_as_it_says():
    """Eight classes of five races, whose ratios have a share in common; some times are censored."""
    held, n = 0, 200
    for seed in range(n):
        rng = np.random.default_rng([7, seed])
        classes = np.repeat(np.arange(8), 5)
        logs = np.repeat(rng.normal(0, 0.4, 8), 5) + rng.normal(math.log(0.5), 0.3, 40)
        second = np.exp(rng.normal(4, 0.5, 40))
        found = ratio_of(censored(second * np.exp(logs)), censored(second), classes)
        held += found.low <= 0.5 <= found.high
    assert held / n > 0.85  # a percentile bootstrap of eight clusters is a little too narrow
