from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.selection import ArrayPool, Request, make_strategy
from closecall.core.selection.registry import strategy_of_log
from tests.contract.kit import gaussian_pool, hyperplanes, sparse
from tests.fakes import FakeSource
from tests.margin_kit import clustered_pool, heavy_tailed_pool, uneven_pool
from tests.pools import small_parts
from tests.scale import examples


def highest_first(pool, hyperplane: Hyperplane, exclude: set[int]) -> list[int]:
    """Ids by wᵀx + b in float64, the greatest first, ties by the lower id; the definition."""
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    scores = [float(x @ hyperplane.normal + hyperplane.bias) for x in X]
    pairs = sorted((-score, item) for score, item in zip(scores, pool.ids.tolist(), strict=True))
    return [item for _, item in pairs if item not in exclude]


by_scan_or_index = pytest.mark.parametrize("scans", [True, False])


@by_scan_or_index
@pytest.mark.parametrize("n", [1, 2, 10, 99, 300])
def test_the_highest_by_brute_force(n, scans):
    """The greatest wᵀx + b, in order, whether the hyperplane cuts through the pool or passes beside it."""
    pool = gaussian_pool(300, d=50)
    strategy = make_strategy("likely-positive", scans=scans).fit(pool)
    exclude = [5, 8, 299]
    for plane in hyperplanes(20, d=50):
        found = strategy.select(plane, n, exclude=exclude)
        assert found.ids.tolist() == highest_first(pool, plane, set(exclude))[:n]
        scores = plane.scores(pool.rows(np.searchsorted(pool.ids, found.ids)))
        assert np.allclose(found.margins, np.abs(scores), rtol=0, atol=1e-12)
        assert found.scored == len(pool)


def byte_pool(n: int, d: int, folder: Path) -> Pool:
    """A byte pool of two classes about a common direction."""
    return build(FakeSource(n, d, lean=2.0, separation=2.0), folder / "pool", dtype="byte")


POOLS = {"clustered": clustered_pool, "heavy-tailed": heavy_tailed_pool, "uneven": uneven_pool}


@pytest.mark.parametrize("kind", [*POOLS, "byte"])
def test_the_index_misses_one_in_a_hundred_at_most(tmp_path, kind):
    """With planes of all kinds: the SVM of two labels, and others through the pool or beside it."""
    n, d = 20_000, 100
    pool = POOLS[kind](n, d) if kind in POOLS else byte_pool(n, d, tmp_path)
    scan = make_strategy("likely-positive", scans=True).fit(pool)
    index = make_strategy("likely-positive").fit(pool)
    rng = np.random.default_rng(3)
    missed = 0
    for number, plane in enumerate(hyperplanes(200, d=d)):
        if number % 2:
            yes, no = pool.rows(np.sort(rng.choice(len(pool), 2, replace=False))).astype(np.float64)
            plane = Hyperplane(yes - no, rng.standard_normal())
        exclude = scan.select(plane, 10).ids[::2] if number % 3 else []
        expected = scan.select(plane, 5, exclude=exclude)
        found = index.select(plane, 5, exclude=exclude)
        assert not np.isin(found.ids, exclude).any()
        missed += len(np.setdiff1d(expected.ids, found.ids))
        if np.array_equal(found.ids, expected.ids):
            assert np.allclose(found.margins, expected.margins, rtol=1e-9, atol=1e-12)
    assert missed <= 10


def test_a_budget_is_kept_and_spent_well():
    """A tenth of the rows, read where scores are large, has most of the rows with the largest scores."""
    pool = clustered_pool(20_000, 100)
    scan = make_strategy("likely-positive", scans=True).fit(pool)
    index = make_strategy("likely-positive").fit(pool)
    with pytest.warns(UserWarning, match="a budget of 2,000 rows"):
        thrifty = make_strategy("likely-positive", budget=2000).sharing(index)
    found = 0
    for plane in hyperplanes(50, d=100, seed=8):
        chosen = thrifty.select(plane, 10)
        assert chosen.scored <= 2000
        found += len(np.intersect1d(chosen.ids, scan.select(plane, 10).ids))
    assert found >= 350


def test_where_few_are_left_all_of_them_are_found():
    """Also with a budget that would not reach them."""
    pool = clustered_pool(20_000, 100)
    index = make_strategy("likely-positive", budget=8000).fit(pool)
    left = pool.ids[[17, 9_000, 19_999]]
    plane = hyperplanes(1, d=100)[0]
    found = index.select(plane, 5, exclude=np.setdiff1d(pool.ids, left))
    scores = plane.scores(pool.rows(np.searchsorted(pool.ids, left)))
    assert found.ids.tolist() == left[np.argsort(-scores)].tolist()


def test_sparse_rows_are_all_scored():
    """Whatever the budget: clusters of bags of words say little."""
    pool = sparse(gaussian_pool(300))
    for params in ({}, {"budget": 8000}, {"scans": True}):
        strategy = make_strategy("likely-positive", **params).fit(pool)
        for plane in hyperplanes(5):
            found = strategy.select(plane, 3)
            assert found.ids.tolist() == highest_first(pool, plane, set())[:3]
            assert found.scored == 300


@pytest.mark.parametrize("name", ["likely-positive", "mixture", "auto"])
def test_logs_of_earlier_versions_mean_a_scan(name):
    """There, the parts that looked for likely positives scored all items."""
    logged = make_strategy(name).params()
    assert logged["scans"] is False
    assert strategy_of_log(name, logged).params() == logged
    del logged["scans"]
    assert strategy_of_log(name, logged).params() == logged | {"scans": True}


@settings(max_examples=examples(100))
@given(
    rows=st.lists(st.tuples(*[st.integers(-2, 2)] * 3).filter(any), min_size=1, max_size=30),
    weights=st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1 / 3])] * 3),
    bias=st.sampled_from([0.0, 1.0, -5.0]),
    scale=st.sampled_from([1.0, 1e-42, 1e42]),
    n=st.integers(1, 30),
    scans=st.booleans(),
)
def test_copies_come_in_the_order_of_their_ids(rows, weights, bias, scale, n, scans):
    """None is left out for one with a lower score, or for a copy of it with a higher id, at any scale."""
    pool = ArrayPool(np.array(rows, float))
    plane = Hyperplane(scale * np.array(weights), scale * bias)
    X = pool.rows(np.arange(len(pool)))
    found = make_strategy("likely-positive", scans=scans).fit(pool).select(plane, n).ids
    scores = plane.scores(X)
    rounding = 1e-12 * scale
    left = np.setdiff1d(np.arange(len(pool)), found)
    assert len(found) == min(n, len(pool))
    assert not len(left) or scores[left].max() <= scores[found].min() + rounding
    for place, item in enumerate(found.tolist()):
        twins = [other for other in range(item) if np.array_equal(X[other], X[item])]
        assert set(twins) <= set(found[:place].tolist())


@by_scan_or_index
def test_near_ties_that_float32_cannot_tell_apart_are_settled(scans):
    """A thousand items whose scores differ by 1e-9, and which float32 knows to 1e-7 only."""
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 40))
    X[:, 0] = 1
    X[:, 1] = rng.permutation(1000) * 1e-9
    pool = ArrayPool(X)
    strategy = make_strategy("likely-positive", scans=scans).fit(pool)
    for bias in (0.0, -1.0, -3.0):
        plane = Hyperplane(np.concatenate([[1.0, 1.0], rng.standard_normal(38)]), bias)
        assert strategy.select(plane, 5).ids.tolist() == highest_first(pool, plane, set())[:5]


@by_scan_or_index
def test_a_half_precision_pool_in_many_segments(monkeypatch, tmp_path, scans):
    """The highest of the rows as they are stored."""
    small_parts(monkeypatch)
    pool = build(FakeSource(230, 6, held_out=range(0, 230, 7)), tmp_path / "pool", dtype="float16")
    strategy = make_strategy("likely-positive", scans=scans).fit(pool)
    for plane in hyperplanes(5, d=6):
        assert strategy.select(plane, 3).ids.tolist() == highest_first(pool, plane, set())[:3]


@pytest.mark.parametrize("params", [{"scans": True}, {"confidence": 1.0}])
def test_several_requests_that_score_all_items_take_one_pass(monkeypatch, params):
    """However many sessions ask at once."""
    pool, passes = gaussian_pool(200), []
    score_blocks = type(pool).score_blocks

    def counted(self, planes, segments=None):
        passes.append(len(planes))
        return score_blocks(self, planes, segments)

    monkeypatch.setattr(type(pool), "score_blocks", counted)
    strategy = make_strategy("likely-positive", **params).fit(pool)
    strategy.select_many([Request(plane, 3) for plane in hyperplanes(4)])
    assert passes == [4]
