"""What a session remembers makes its next query cheaper, and never its answer another one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, make_strategy
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.margin import index as margin_index
from tests.margin_kit import WHERE, clustered_pool, near_exact, planes_of, true_margins
from tests.scale import examples

N, D = 3000, 130
SURE = 1 - 1e-12
"""Of near-exact with this confidence it is demanded that it is exact."""

EARLIER = {
    "the same": (1.0, 0.0, 0.0),
    "a little older": (1.0, 0.1, 0.02),
    "much older": (1.0, 2.0, -0.5),
    "unrelated": (0.0, 1.0, 0.3),
    "opposite": (-1.0, 0.0, 0.0),
    "on the other side": (1.0, 0.0, 10.0),
    "minute": (1e-30, 0.0, 0.0),
    "huge": (1e30, 0.0, 0.0),
    "far away": (0.0, 1e-7, 1.0),
    "without a direction": (0.0, 0.0, 1.0),
    "nothing": (0.0, 0.0, 0.0),
}
"""Hyperplanes remembered: a multiple of the present one, noise in its normal, and what its bias has more."""


@pytest.fixture(scope="module")
def pool():
    return clustered_pool(N, D)


@pytest.fixture(scope="module")
def sure(pool):
    return near_exact(pool, SURE)


def earlier(plane: Hyperplane, which: str, seed: int = 0) -> Hyperplane:
    multiple, noise, shift = EARLIER[which]
    rng = np.random.default_rng(seed)
    return Hyperplane(multiple * plane.normal + noise * rng.standard_normal(D), multiple * plane.bias + shift)


def answer(index: MarginIndex, plane: Hyperplane, n: int = 1, **given: object) -> tuple[list, list]:
    found = index.select(plane, n, **given)
    return found.ids.tolist(), found.margins.tolist()


@pytest.mark.parametrize("which", EARLIER)
def test_with_any_memory_the_answer_is_the_one_without(pool, sure, which):
    """Whatever the hyperplane that is remembered; also where items are excluded, and several wanted."""
    rng = np.random.default_rng(0)
    for where in WHERE:
        for seed, plane in enumerate(planes_of(pool, 15, where)):
            (memory,) = sure.remember([earlier(plane, which, seed)])
            for n, exclude in ((1, ()), (9, ()), (3, np.sort(rng.choice(pool.ids, N // 2, replace=False)))):
                cold = answer(sure, plane, n, exclude=exclude)
                assert answer(sure, plane, n, exclude=exclude, memory=memory) == cold
                for scale in (2.0**-100, 2.0**100):
                    scaled = Hyperplane(scale * plane.normal, scale * plane.bias)
                    ids, margins = answer(sure, scaled, n, exclude=exclude, memory=memory)
                    assert ids == cold[0]
                    assert margins == [scale * margin for margin in cold[1]]


@pytest.mark.parametrize("which", ["the same", "a little older", "unrelated", "opposite"])
@pytest.mark.parametrize("where", WHERE)
def test_at_the_usual_confidence_the_nearest_is_missed_as_seldom(pool, which, where):
    """At 0.997: of 200 hyperplanes with hardly any."""
    index = near_exact(pool, margin_index.NEAR_EXACT)
    planes = planes_of(pool, 200, where, seed=1)
    missed = 0
    for seed, (plane, margins) in enumerate(zip(planes, true_margins(pool, planes), strict=True)):
        (memory,) = index.remember([earlier(plane, which, seed)])
        missed += index.select(plane, memory=memory).margins[0] > margins.min() + 1e-12
    assert missed <= 4


def test_memory_saves_the_more_the_less_has_changed(pool, sure):
    """Of the same hyperplane nearly everything; of one of no use nothing, but it does no harm either."""
    scored = {}
    for which in ("the same", "opposite", "a little older", "much older"):
        found = []
        for seed, plane in enumerate(planes_of(pool, 30, "bulk")):
            (memory,) = sure.remember([earlier(plane, which, seed)])
            found.append(sure.select(plane, memory=memory).scored)
            assert found[-1] <= N
        scored[which] = np.median(found)
    assert scored["the same"] < 0.02 * N
    assert scored["opposite"] < 0.02 * N
    assert scored["a little older"] < 0.5 * N
    assert scored["the same"] < scored["a little older"] < scored["much older"]


def test_memory_of_another_index_is_ignored(pool, sure, tmp_path, monkeypatch):
    """Of one that has grown, was loaded anew or fitted anew, of another strategy, or of something else."""
    monkeypatch.setattr(margin_index, "LEAST_BUDGET", 1)
    young = near_exact(pool.prefix(2000), SURE)
    sure.save(tmp_path / "index")
    others = [
        (young.extended(pool), young),
        (sure, young),
        (MarginIndex.load(tmp_path / "index", pool), sure),
        (near_exact(pool, SURE), sure),
    ]
    small = MarginIndex(budget=50).sharing(sure)
    subsample = make_strategy("subsample", n_scored=50).fit(pool)
    for plane in planes_of(pool, 10, "bulk"):
        cold = sure.select(plane, 2)
        asked = [(index, other.remember([plane])[0]) for index, other in others]
        for index, memory in [*asked, (sure, "the session's notes")]:
            found = index.select(plane, 2, memory=memory)
            assert found.ids.tolist() == cold.ids.tolist()
            assert found.margins.tolist() == cold.margins.tolist()
            assert found.scored == N
        for index in (small, subsample):
            assert answer(index, plane, 2, memory=asked[-1][1]) == answer(index, plane, 2)
            assert index.select(plane, 2, memory=asked[-1][1]).scored == 50


def test_indexes_that_share_their_arrays_share_memories(pool, sure):
    """They differ in nothing that a memory knows of."""
    other = MarginIndex(budget=None, confidence=0.9).sharing(sure)
    plane = planes_of(pool, 1, "bulk")[0]
    (memory,) = sure.remember([plane])
    assert other.select(plane, memory=memory).scored < 0.05 * N


def test_with_a_budget_nothing_is_remembered(pool, sure, monkeypatch):
    """There it would take longer than it saves."""
    monkeypatch.setattr(margin_index, "LEAST_BUDGET", 1)
    planes = planes_of(pool, 3, "bulk")
    assert MarginIndex(budget=100).sharing(sure).remember(planes) == [None, None, None]


def test_what_is_remembered_is_every_score_in_the_order_of_the_index(pool, sure):
    """In float32, of all hyperplanes by one pass as of each alone; memory knows no scale of the weights."""
    planes = planes_of(pool, 5, "bulk")
    together = sure.remember([*planes, Hyperplane(1e30 * planes[0].normal, 1e30 * planes[0].bias)])
    for plane, memory in zip(planes, together, strict=False):
        (alone,) = sure.remember([plane])
        scores = plane.scores(pool.rows(sure.layout_.order.astype(np.int64)))
        assert memory.scores.dtype == np.float32
        assert np.allclose(memory.scores, scores, rtol=0, atol=1e-5)
        assert np.allclose(memory.scores, alone.scores, rtol=0, atol=1e-5)
        assert np.array_equal(memory.normal, alone.normal)
        assert memory.at_centre == alone.at_centre
    assert np.isfinite(together[-1].scores).all()
    assert np.corrcoef(together[-1].scores, together[0].scores)[0, 1] > 1 - 1e-6
    assert sure.remember([]) == []


@settings(max_examples=examples(100))
@given(data=st.data())
def test_memory_does_no_harm_on_pools_made_to_trip_it_up(data):
    """Copies, few features, everything on one side; the hyperplane through a row, or without a direction."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    d = data.draw(st.integers(1, 5))
    X = rng.standard_normal((data.draw(st.integers(1, 60)), d))
    kind = data.draw(st.sampled_from(["any", "copies", "one side", "nearly copies"]))
    if kind == "copies":
        X = X[rng.integers(min(3, len(X)), size=len(X))]
    elif kind == "one side":
        X = np.abs(X)
    elif kind == "nearly copies":
        X = X[:1] + 1e-6 * X
    pool = ArrayPool(X)
    index = near_exact(pool, SURE, n_clusters=data.draw(st.sampled_from([None, 1, 5])))
    exact = make_strategy("exhaustive").fit(pool)
    weights = st.sampled_from([-1.0, 0.0, 0.5, 1e-3, 1 / 3])
    planes = []
    for _ in range(2):
        normal = np.array(data.draw(st.tuples(*[weights] * d)))
        through = -float(pool.rows(np.array([0]))[0].astype(np.float64) @ normal)
        planes.append(Hyperplane(normal, data.draw(st.sampled_from([0.0, 1.0, -0.3, through]))))
    (memory,) = index.remember(planes[:1])
    n = data.draw(st.integers(1, len(pool)))
    for plane in planes:
        expected = exact.select(plane, n)
        for given_memory in (None, memory):
            found = index.select(plane, n, memory=given_memory)
            assert found.ids.tolist() == expected.ids.tolist()
            assert found.margins.tolist() == expected.margins.tolist()
