from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.stats import bootstrap

from closecall.app.experiments.compare.statistics import (
    Interval,
    box,
    holm,
    interval,
    mean_and_halfwidth,
    signed_rank,
)


def test_an_interval_is_students_over_the_classes():
    """Each class counts by its mean, whatever the number of its runs."""
    values, classes = [1.0, 3.0, 4.0, 4.0, 7.0, 9.0, 8.0], [0, 0, 1, 1, 2, 2, 2]
    means = [2.0, 4.0, 8.0]
    found = interval(values, classes)
    low, high = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(means), low, high))


def test_one_class_has_its_interval_over_runs_and_one_run_none():
    """With one value nothing is known about the next."""
    found = interval([1.0, 2.0, 4.0], [5, 5, 5])
    low, high = stats.t.interval(0.95, 2, np.mean([1, 2, 4]), stats.sem([1, 2, 4]))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert interval([3.0], [0]).low is None
    assert interval([3.0, 4.0], [0, 0]).low is None
    assert interval([3.0, 4.0, 3.5, 4.5], [0, 0, 1, 1]) == Interval(3.75, None, None)


def test_the_interval_holds_the_mean_as_often_as_it_says():
    """Races of one class are alike; 95 of 100 intervals hold what the classes come from."""
    rng = np.random.default_rng(0)
    classes = np.repeat(np.arange(10), 5)
    held = 0
    for _ in range(1000):
        values = rng.normal(size=10)[classes] + 0.3 * rng.normal(size=50)
        found = interval(values, classes)
        held += found.low <= 0 <= found.high
    assert stats.binomtest(held, 1000, 0.95).pvalue > 0.001


def test_it_is_about_as_wide_as_a_bootstrap_over_classes():
    """By scipy's, with many classes."""
    means = np.random.default_rng(1).normal(2, 1, 200)
    found = interval(means, np.arange(200))
    other = bootstrap((means,), np.mean, random_state=0, method="percentile").confidence_interval
    assert (found.low, found.high) == pytest.approx((other.low, other.high), abs=0.02)


def test_curves_have_an_interval_at_each_place():
    """The same as the values there have by themselves."""
    values, classes = np.random.default_rng(2).normal(size=(6, 4)), [0, 0, 1, 1, 2, 2]
    mean, half = mean_and_halfwidth(values, classes)
    for place in range(4):
        found = interval(values[:, place], classes)
        assert mean[place] == pytest.approx(found.mean)
        assert half[place] == pytest.approx(found.high - found.mean)


def test_a_geometric_mean():
    """Its interval is that of the logarithms."""
    found = interval(np.log([1.0, 10.0, 100.0]), [0, 1, 2]).exp()
    assert found.mean == pytest.approx(10)
    assert found.low == pytest.approx(100 / found.high)


def test_a_box_has_quartiles_and_whiskers():
    """As scipy computes them; what is no number is left out."""
    values = np.random.default_rng(3).exponential(size=501)
    found = box([*values, np.nan])
    expected = stats.mstats.mquantiles(values, [0.05, 0.25, 0.5, 0.75, 0.95], alphap=1, betap=1)
    assert list(vars(found).values()) == pytest.approx(expected)


def test_signed_ranks():
    """The exact distribution by hand for five differences of one sign: 2 of 32."""
    assert signed_rank([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2 / 32)
    assert signed_rank([0.0, 0.0]) is None
    assert signed_rank([1.0]) is None


def test_holms_adjustment():
    """Holm's own example of three: the smallest times 3, the next times 2, never falling, never above 1."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert len(holm([])) == 0
