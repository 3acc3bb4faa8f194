from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.selection import ArrayPool, Request, make_strategy
from tests.contract.kit import gaussian_pool, hyperplanes
from tests.fakes import FakeSource
from tests.pools import small_parts
from tests.scale import examples


def highest_first(pool, hyperplane: Hyperplane, exclude: set[int]) -> list[int]:
    """Ids by wᵀx + b in float64, the greatest first, ties by the lower id; the definition."""
    X = pool.rows(np.arange(len(pool))).astype(np.float64)
    scores = [float(x @ hyperplane.normal + hyperplane.bias) for x in X]
    pairs = sorted((-score, item) for score, item in zip(scores, pool.ids.tolist(), strict=True))
    return [item for _, item in pairs if item not in exclude]


@pytest.mark.parametrize("n", [1, 2, 10, 99, 300])
def test_the_highest_by_brute_force(n):
    """The greatest wᵀx + b, in order, whether the hyperplane cuts through the pool or passes beside it."""
    pool = gaussian_pool(300, d=50)
    strategy = make_strategy("likely-positive").fit(pool)
    exclude = [5, 8, 299]
    for plane in hyperplanes(20, d=50):
        found = strategy.select(plane, n, exclude=exclude)
        assert found.ids.tolist() == highest_first(pool, plane, set(exclude))[:n]
        scores = plane.scores(pool.rows(np.searchsorted(pool.ids, found.ids)))
        assert np.allclose(found.margins, np.abs(scores), rtol=0, atol=1e-12)
        assert found.scored == len(pool)


@settings(max_examples=examples(100))
@given(
    rows=st.lists(st.tuples(*[st.integers(-2, 2)] * 3).filter(any), min_size=1, max_size=30),
    weights=st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1 / 3])] * 3),
    bias=st.sampled_from([0.0, 1.0, -5.0]),
    scale=st.sampled_from([1.0, 1e-42, 1e42]),
    n=st.integers(1, 30),
)
def test_copies_come_in_the_order_of_their_ids(rows, weights, bias, scale, n):
    """None is left out for one with a lower score, or for a copy of it with a higher id, at any scale."""
    pool = ArrayPool(np.array(rows, float))
    plane = Hyperplane(scale * np.array(weights), scale * bias)
    X = pool.rows(np.arange(len(pool)))
    found = make_strategy("likely-positive").fit(pool).select(plane, n).ids
    scores = plane.scores(X)
    rounding = 1e-12 * scale
    left = np.setdiff1d(np.arange(len(pool)), found)
    assert len(found) == min(n, len(pool))
    assert not len(left) or scores[left].max() <= scores[found].min() + rounding
    for place, item in enumerate(found.tolist()):
        twins = [other for other in range(item) if np.array_equal(X[other], X[item])]
        assert set(twins) <= set(found[:place].tolist())


def test_near_ties_that_float32_cannot_tell_apart_are_settled():
    """A thousand items whose scores differ by 1e-9, and which float32 knows to 1e-7 only."""
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 40))
    X[:, 0] = 1
    X[:, 1] = rng.permutation(1000) * 1e-9
    pool = ArrayPool(X)
    strategy = make_strategy("likely-positive").fit(pool)
    for bias in (0.0, -1.0, -3.0):
        plane = Hyperplane(np.concatenate([[1.0, 1.0], rng.standard_normal(38)]), bias)
        assert strategy.select(plane, 5).ids.tolist() == highest_first(pool, plane, set())[:5]


def test_a_half_precision_pool_in_many_segments(monkeypatch, tmp_path):
    """The highest of the rows as they are stored."""
    small_parts(monkeypatch)
    pool = build(FakeSource(230, 6, held_out=range(0, 230, 7)), tmp_path / "pool", dtype="float16")
    strategy = make_strategy("likely-positive").fit(pool)
    for plane in hyperplanes(5, d=6):
        assert strategy.select(plane, 3).ids.tolist() == highest_first(pool, plane, set())[:3]


def test_several_requests_take_one_pass(monkeypatch):
    """However many sessions ask at once."""
    pool, passes = gaussian_pool(200), []
    score_blocks = type(pool).score_blocks

    def counted(self, planes, segments=None):
        passes.append(len(planes))
        return score_blocks(self, planes, segments)

    monkeypatch.setattr(type(pool), "score_blocks", counted)
    strategy = make_strategy("likely-positive").fit(pool)
    strategy.select_many([Request(plane, 3) for plane in hyperplanes(4)])
    assert passes == [4]
