from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from closecall.app.experiments.bench.rounds import rounds_of
from closecall.app.experiments.bench.statistics import mean_ratio, recall_low
from closecall.app.experiments.bench.subsample import EqualTimeSubsample
from closecall.core.experiment.planes import Plane
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool
from tests.yardsticks import median_rank_of_best

N = 5000


@pytest.fixture
def subsample():
    """Of a pool of N items, ranked for 60 hyperplanes, with 40 items excluded each time."""
    rng = np.random.default_rng(0)
    measured = EqualTimeSubsample(ArrayPool(rng.standard_normal((N, 3))))
    for _ in range(60):
        margins = rng.random(N, dtype=np.float32)
        margins[rng.choice(N, 40, replace=False)] = np.inf
        measured.rank(margins)
    return measured


def mean_log_rank_of_best(n_scored: int, n_items: int) -> float:
    """E log(rank + 1) of the nearest of `n_scored` random items: ≥ r if none of the r nearest is one."""
    r = np.arange(n_items - n_scored + 1)
    survival = np.concatenate([[1.0], np.cumprod(1 - n_scored / (n_items - r[:-1]))])
    return float(np.sum(-np.diff(np.append(survival, 0)) * np.log1p(r)))


@pytest.mark.parametrize("rows", [1, 3, 16, 100, 700, 3000])
def test_subsamples_rank_as_theory_says(subsample, rows):
    """Median and mean log rank are those of random rows, also between the sizes that were measured."""
    if rows < 1000:
        assert subsample.median_rank(rows) == pytest.approx(
            median_rank_of_best(rows, N - 40), rel=0.12, abs=1
        )
    logs = subsample.log_ranks(rows)
    assert logs.shape == (60,)
    assert logs.mean() == pytest.approx(mean_log_rank_of_best(rows, N - 40), abs=0.1)


def test_a_subsample_of_all_is_exact(subsample):
    """Who can score every row finds the nearest."""
    assert subsample.sizes[0] == 1
    assert subsample.sizes[-1] == N
    assert subsample.median_rank(N) == 0
    assert subsample.log_ranks(2 * N).tolist() == [0.0] * 60


def test_where_nearly_all_is_excluded_the_rest_is_ranked():
    """A subsample larger than what is left is all that is left."""
    measured = EqualTimeSubsample(ArrayPool(np.eye(7)))
    margins = np.full(7, np.inf, dtype=np.float32)
    margins[[2, 4]] = 0.5, 0.25
    measured.rank(margins)
    assert measured.sizes.tolist() == [1, 2, 4, 7]
    assert measured.log_ranks(2).tolist() == measured.log_ranks(7).tolist() == [0]
    assert 0 < measured.log_ranks(1)[0] < np.log(2)


def test_the_rows_that_a_time_pays_for(monkeypatch):
    """Costs are interpolated; a size that took longer than a larger one is known to have been disturbed."""
    measured = EqualTimeSubsample(ArrayPool(np.random.default_rng(0).standard_normal((64, 3))))
    costs = {1: 1, 2: 2, 4: 4, 8: 50, 16: 16, 32: 32, 64: 64}
    monkeypatch.setattr(measured, "_scan_ms", lambda size, *_: costs[size])
    measured.time(Hyperplane(np.ones(3), 0.0))
    assert [round(measured.rows_in(ms), 6) for ms in (0.01, 1, 4, 20, 64, 1000)] == [1, 1, 4, 20, 64, 64]
    assert measured.rows_in(16) == pytest.approx(16)


def test_the_cheaper_number_of_threads_counts(monkeypatch):
    """Each size is measured with one thread and with all, and costs what the quicker of them takes."""
    measured = EqualTimeSubsample(ArrayPool(np.eye(4)), threads=2)
    costs = iter([1.0, 2.0, 4.0, 5.0, 5.0, 3.0])
    monkeypatch.setattr(measured, "_scan_ms", lambda *_: next(costs))
    measured.time(Hyperplane(np.ones(4), 0.0))
    assert [round(measured.rows_in(ms), 6) for ms in (1, 2, 3)] == [1, 2, 4]


def test_a_run_of_rows_goes_around(monkeypatch):
    """As many rows as asked for, one after the other from any place on, over segments and the end."""
    pool = ArrayPool(np.random.default_rng(0).standard_normal((100, 2)))
    X = pool.rows(pool.ids)
    monkeypatch.setattr(pool, "blocks", lambda: iter([(0, X[:30]), (30, X[30:31]), (31, X[31:])]))
    measured = EqualTimeSubsample(pool)
    for size in (1, 50, 100):
        found = np.concatenate([rows for rows, _ in measured._parts(size)])
        start = int(np.flatnonzero((found[0] == X).all(axis=1))[0])
        assert np.array_equal(found, X[(start + np.arange(size)) % 100])
        assert sum(len(out) for _, out in measured._parts(size)) == size


def test_parts_are_joined(subsample):
    """Two settings together are their median and all their hyperplanes."""
    both = EqualTimeSubsample.joined([subsample, subsample])
    assert both.median_rank(16) == subsample.median_rank(16)
    assert both.log_ranks(16).tolist() == 2 * subsample.log_ranks(16).tolist()
    assert len(subsample.log_ranks(16)) == 60


@pytest.mark.parametrize(("found", "asked"), [(1, 10), (59, 60), (60, 60), (995, 1000)])
def test_the_lower_bound_of_recall(found, asked):
    """Were the recall as low as the bound, so many or more would be found with a probability of 5 %."""
    assert binom.sf(found - 1, asked, recall_low(found, asked)) == pytest.approx(0.05)
    assert recall_low(0, asked) == 0


def test_the_mean_ratio_covers_the_truth():
    """In 400 repetitions the 95 % interval of log-normal ratios has their mean in it 90 to 98.5 %."""
    rng = np.random.default_rng(1)
    inside = 0
    for seed in range(400):
        mean, low, high = mean_ratio(np.log(0.2) + rng.standard_normal(80), np.arange(80), seed)
        assert low < mean < high
        inside += low < 0.2 < high
    assert 0.9 < inside / 400 < 0.985


def test_what_is_not_independent_counts_once():
    """Repeating every ratio of a cluster changes nothing; one cluster alone has no interval."""
    logs = np.random.default_rng(2).standard_normal(30)
    once = mean_ratio(logs, np.arange(30), 0)
    assert mean_ratio(np.repeat(logs, 9), np.repeat(np.arange(30), 9), 0) == pytest.approx(once)
    assert mean_ratio(logs, np.zeros(30), 0) == (pytest.approx(np.exp(logs.mean())), None, None)


def planes(n_sessions: int, n_rounds: int) -> list[Plane]:
    return [
        Plane(Hyperplane(np.array([s, t]), 0.0), np.empty(0, np.int64), 0, "some", session=s, round=t)
        for s in range(n_sessions)
        for t in range(n_rounds)
    ]


@pytest.mark.parametrize(("n", "n_used", "run"), [(1000, 50, 20), (40, 4, 10), (5000, 50, 100), (7, 1, 7)])
def test_sessions_are_sampled_in_runs(n, n_used, run):
    """Consecutive rounds of many sessions, from the beginning of the first to the end of the last."""
    rounds = rounds_of(planes(50, 100), n)
    assert len(rounds) == n
    sessions = [plane.session for plane, _ in rounds]
    assert np.unique(sessions, return_counts=True)[1].tolist() == [run] * n_used
    assert rounds[0][0].round == 0
    assert n_used == 1 or (rounds[-1][0].session, rounds[-1][0].round) == (49, 99)
    for plane, before in rounds:
        expected = None if plane.round == 0 else [plane.session, plane.round - 1]
        assert (before if before is None else before.normal.tolist()) == expected


def test_single_hyperplanes_have_none_before_them():
    """They are taken as they come."""
    single = [Plane(Hyperplane(np.ones(2), b), np.empty(0, np.int64), 0, "some") for b in range(5)]
    assert rounds_of(single, 3) == [(plane, None) for plane in single[:3]]
    assert len(rounds_of(single, 9)) == 5
