from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.geometry import Hyperplane
from core.selection import ArrayPool, make_strategy
from core.selection.nearest import float32_error, within_reach
from tests.contract.kit import brute_force, gaussian_pool, hyperplanes


def check(pool, plane, n, exclude):
    found = make_strategy("exhaustive").fit(pool).select(plane, n, exclude=exclude)
    expected = brute_force(pool, plane, set(exclude))[:n]
    margins, ids = zip(*expected, strict=True)
    assert np.allclose(found.margins, margins, rtol=0, atol=1e-14 * (1 + plane.norm))
    assert found.ids.tolist() == list(ids)


@pytest.mark.parametrize("n", [1, 2, 10, 99, 300])
def test_exhaustive_equals_brute_force_in_float64(n):
    """The nearest items, in order, by float64 and not by float32."""
    pool = gaussian_pool(300, d=50)
    for plane in hyperplanes(20, d=50):
        check(pool, plane, n, [5, 8, 299])


def test_near_ties_that_float32_cannot_tell_apart_are_settled():
    """A thousand items whose margins differ by 1e-9, with scores that float32 knows to 1e-7 only."""
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 40))
    X[:, 0] = 1
    X[:, 1] = rng.permutation(1000) * 1e-9
    pool = ArrayPool(X)
    plane = Hyperplane(np.concatenate([[1.0, 1.0], rng.standard_normal(38)]), -1.0 - 500e-9)
    found = make_strategy("exhaustive").fit(pool).select(plane, 5)
    assert [item for _, item in brute_force(pool, plane, set())[:5]] == found.ids.tolist()


def test_ties_go_to_the_lowest_id_wherever_the_equal_rows_stand():
    """Copies of a row are equally near, also when the pool computes their scores in different ways."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5000, 33))
    X[[4999, 4003, 2048, 1001, 777]] = X[4999]
    pool = ArrayPool(X)
    for _ in range(10):
        normal = rng.standard_normal(33)
        plane = Hyperplane(normal, -float(pool.rows(np.array([777]))[0] @ normal))
        found = make_strategy("exhaustive").fit(pool).select(plane, 4)
        assert found.ids.tolist() == [777, 1001, 2048, 4003]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_exhaustive_equals_brute_force_on_adversarial_pools(data):
    """Few directions, many copies, hyperplanes through rows: still the same ids."""
    d = data.draw(st.integers(1, 4))
    directions = data.draw(st.lists(st.tuples(*[st.integers(-2, 2)] * d).filter(any), min_size=1, max_size=5))
    rows = data.draw(st.lists(st.sampled_from(directions), min_size=1, max_size=30))
    normal = data.draw(st.tuples(*[st.sampled_from([-1.0, 0.0, 0.5, 1e-3, 3.0])] * d))
    bias = data.draw(st.sampled_from([0.0, 1.0, -0.5, 1e-6]))
    exclude = data.draw(st.sets(st.integers(0, len(rows) - 2))) if len(rows) > 1 else set()
    pool = ArrayPool(np.array(rows, dtype=np.float64))
    plane = Hyperplane(np.array(normal), bias)
    n = data.draw(st.integers(1, len(rows)))
    found = make_strategy("exhaustive").fit(pool).select(plane, n, exclude=exclude)
    X = pool.rows(np.arange(len(pool)))
    distinct = {x.tobytes(): abs(plane.scores(x[None])[0]) for x in X}
    margin = {item: distinct[X[item].tobytes()] for item in range(len(rows))}
    left = sorted(set(range(len(rows))) - exclude, key=lambda item: (round(margin[item], 12), item))
    assert [round(margin[item], 12) for item in found.ids] == [round(margin[item], 12) for item in left[:n]]
    chosen = set(found.ids.tolist())
    for item in chosen:
        twins = [other for other in left if X[other].tobytes() == X[item].tobytes() and other < item]
        assert chosen.issuperset(twins)


def test_float32_is_never_further_off_than_stated():
    """The bound on which exactness rests holds for rows and normals of any shape, and isn't idle."""
    rng = np.random.default_rng(2)
    used = 0.0
    for _ in range(200):
        d = int(rng.integers(1, 500))
        x = rng.standard_normal((20, d)) * rng.exponential(size=d)
        pool = ArrayPool(x)
        plane = Hyperplane(rng.standard_normal(d) * 10 ** rng.uniform(-3, 3, size=d), rng.standard_normal())
        wrong = np.abs(pool.scores(plane) - plane.scores(pool.rows(np.arange(20)))).max()
        used = max(used, wrong / float32_error(plane))
    assert 0.001 < used < 1


@given(
    margins=st.lists(st.integers(0, 20) | st.just(np.inf), min_size=1, max_size=40),
    n=st.integers(1, 50),
    error=st.sampled_from([0.0, 0.5, 3.0]),
)
def test_within_reach_leaves_out_nothing_that_may_be_among_the_nearest(margins, n, error):
    """Everything up to the n-th smallest plus twice the error, and nothing infinite."""
    array = np.array(margins, dtype=np.float32)
    finite = np.sort(array[np.isfinite(array)])
    reach = finite[min(n, len(finite)) - 1] + 2 * error if len(finite) else -1.0
    expected = np.flatnonzero(np.isfinite(array) & ((array <= reach) | (len(finite) <= n)))
    assert within_reach(array, n, error).tolist() == expected.tolist()
