"""What the strategies promise that find the nearest items there are, on pools made to trip them up."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, Request, make_strategy
from tests.contract.kit import (
    ALL,
    EXACT,
    OF_EACH_KIND,
    POOLS,
    bags,
    brute_force,
    dense_rows,
    hyperplanes,
    made,
    make,
    sparse,
)
from tests.scale import examples, scaled, thorough

every_exact_strategy = pytest.mark.parametrize("variant", EXACT)

SCALES = [1.0, 1e-300, 1e-42, 1e-30, 1e-3, 1e7, 1e30, 1e42, 1e300]


@st.composite
def pools(draw) -> ArrayPool:
    """Few directions and many copies, everything on one side, or nothing special; 1 to 4 features."""
    pool = draw(dense_pools())
    return sparse(pool) if draw(st.booleans()) else pool


@st.composite
def dense_pools(draw) -> ArrayPool:
    d = draw(st.integers(1, 4))
    if draw(st.booleans()):
        direction = st.tuples(*[st.integers(-2, 2)] * d).filter(any)
        few = draw(st.lists(direction, min_size=1, max_size=5))
        return ArrayPool(np.array(draw(st.lists(st.sampled_from(few), min_size=1, max_size=30)), float))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    X = rng.standard_normal((draw(st.integers(1, 30)), d))
    return ArrayPool(np.abs(X) if draw(st.booleans()) else X)


@st.composite
def planes(draw, pool: ArrayPool) -> Hyperplane:
    """Of any scale; through the origin, beside everything, through a row, or without a direction."""
    weights = st.sampled_from([-1.0, 0.0, 0.5, 1e-3, 3.0, 1 / 3])
    normal = np.array(draw(st.tuples(*[weights] * pool.n_features)))
    row = draw(st.integers(0, len(pool) - 1))
    through = -float(dense_rows(pool)[row].astype(np.float64) @ normal)
    bias = draw(st.sampled_from([0.0, 1.0, -0.5, 1e-6, 5.0, through]))
    scale = draw(st.sampled_from(SCALES))
    return Hyperplane(normal * scale, bias * scale)


def true_margins(pool: ArrayPool, plane: Hyperplane) -> list[Fraction]:
    """|wᵀx + b| of every row, without any rounding."""
    w, b = [Fraction(float(value)) for value in plane.normal], Fraction(plane.bias)
    return [
        abs(sum((Fraction(float(value)) * weight for value, weight in zip(x, w, strict=True)), b))
        for x in dense_rows(pool)
    ]


@every_exact_strategy
@settings(max_examples=examples(150))
@given(data=st.data())
def test_no_item_left_out_is_nearer(variant, data):
    """Whatever the pool, the hyperplane and its scale: the nearest, as far as float64 can tell them apart.

    Copies of a row are equally near, and those with the lowest ids are taken, in their order.
    """
    pool = data.draw(pools())
    plane = data.draw(planes(pool))
    exclude = data.draw(st.sets(st.integers(0, len(pool) - 2))) if len(pool) > 1 else set()
    n = data.draw(st.integers(1, len(pool)))
    found = make(variant).fit(pool).select(plane, n, exclude=exclude)
    left = sorted(set(range(len(pool))) - exclude)
    true = true_margins(pool, plane)
    rounding = Fraction(2.0**-53) * (pool.n_features + 2) * sum(map(Fraction, map(abs, plane.normal)))
    rounding += Fraction(2.0**-53) * (pool.n_features + 2) * abs(Fraction(plane.bias)) + Fraction(5e-324)

    chosen = found.ids.tolist()
    assert len(set(chosen)) == len(chosen) == min(n, len(left))
    assert set(chosen) <= set(left)
    assert found.margins.tolist() == sorted(found.margins)
    for item, margin in zip(chosen, found.margins, strict=True):
        assert abs(Fraction(float(margin)) - true[item]) <= rounding
    furthest = max(true[item] for item in chosen)
    assert all(true[item] >= furthest - 2 * rounding for item in set(left) - set(chosen))

    X = dense_rows(pool)
    for place, item in enumerate(chosen):
        twins = [other for other in left if other < item and np.array_equal(X[other], X[item])]
        assert set(twins) <= set(chosen[:place])


@pytest.fixture(scope="module", params=POOLS)
def by_brute_force(request):
    """A pool, hyperplanes, items that are excluded, and all others in their order for each hyperplane."""
    pool, planes, exclude = made(request, 300, d=50), hyperplanes(20, d=50), [5, 8, 299]
    return pool, planes, exclude, [brute_force(pool, plane, set(exclude)) for plane in planes]


@every_exact_strategy
@pytest.mark.parametrize("n", [1, 2, 10, 99, 300])
def test_the_nearest_by_brute_force(by_brute_force, variant, n):
    """The nearest items, in order, by float64 and not by float32."""
    pool, planes, exclude, ordered = by_brute_force
    strategy = make(variant).fit(pool)
    for plane, expected in zip(planes, ordered, strict=True):
        found = strategy.select(plane, n, exclude=exclude)
        margins, ids = zip(*expected[:n], strict=True)
        assert np.allclose(found.margins, margins, rtol=0, atol=1e-14 * (1 + plane.norm))
        assert found.ids.tolist() == list(ids)


@pytest.mark.parametrize("variant", ["exhaustive", "subsample", "margin-index", "likely-positive", "mixture"])
def test_a_sparse_pool_is_the_dense_pool_of_the_same_numbers(variant):
    """The same items, with margins that differ by float64's rounding."""
    dense = ArrayPool(dense_rows(bags(2000, d=60)))
    pool = sparse(dense)
    for plane in hyperplanes(10, d=60):
        expected = make_strategy(variant).fit(dense).select(plane, 7, exclude=pool.ids[::3])
        found = make_strategy(variant).fit(pool).select(plane, 7, exclude=pool.ids[::3])
        assert found.ids.tolist() == expected.ids.tolist()
        assert np.allclose(found.margins, expected.margins, rtol=0, atol=1e-13)


@pytest.mark.parametrize("variant", ["h-hash-weighted", "eh-hash-weighted", "bh-hash-weighted"])
def test_hashing_in_few_directions_finds_the_same_items_in_a_sparse_pool(variant):
    """Directions, codes and candidates are those of the dense pool, but for bits that rounding turns."""
    dense = ArrayPool(dense_rows(bags(2000, d=60)))
    pool = sparse(dense)
    strategies = [make_strategy(variant, n_compared=400).fit(rows) for rows in (dense, pool)]
    planes = hyperplanes(20, d=60)
    expected, found = ([s.select(plane, 5).ids.tolist() for plane in planes] for s in strategies)
    assert sum(map(list.__eq__, expected, found)) >= 18


@every_exact_strategy
def test_near_ties_that_float32_cannot_tell_apart_are_settled(variant):
    """A thousand items whose margins differ by 1e-9, with scores that float32 knows to 1e-7 only."""
    rng = np.random.default_rng(0)
    X = np.zeros((1000, 40))
    X[:, 0] = 1
    X[:, 1] = rng.permutation(1000) * 1e-9
    pool = ArrayPool(X)
    strategy = make(variant).fit(pool)
    for scale in SCALES:
        normal = np.concatenate([[1.0, 1.0], rng.standard_normal(38)])
        plane = Hyperplane(scale * normal, scale * (-1.0 - 500e-9))
        expected = [item for _, item in brute_force(pool, plane, set())[:5]]
        assert strategy.select(plane, 5).ids.tolist() == expected


@every_exact_strategy
def test_ties_go_to_the_lowest_id_wherever_the_equal_rows_stand(variant):
    """Copies of a row are equally near, also when the pool computes their scores in different ways."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((5000, 33))
    X[[4999, 4003, 2048, 1001, 777]] = X[4999]
    pool = ArrayPool(X)
    strategy = make(variant).fit(pool)
    for _ in range(10):
        normal = rng.standard_normal(33)
        plane = Hyperplane(normal, -float(pool.rows(np.array([777]))[0] @ normal))
        assert strategy.select(plane, 4).ids.tolist() == [777, 1001, 2048, 4003]


@every_exact_strategy
def test_where_everything_lies_in_the_hyperplane_the_lowest_ids_are_taken(variant):
    """Every margin is zero, of every row, and of every hyperplane that has no direction."""
    X = np.random.default_rng(2).standard_normal((400, 6))
    X[:, 3] = 0
    pool = ArrayPool(X, ids=7 + 2 * np.arange(400))
    strategy = make(variant).fit(pool)
    within = np.zeros(6)
    within[3] = 1e5
    for normal, bias in [(within, 0.0), (np.zeros(6), 0.0), (np.zeros(6), -1.0)]:
        found = strategy.select(Hyperplane(normal, bias), 5, exclude=[9])
        assert found.ids.tolist() == [7, 11, 13, 15, 17]
        assert found.margins.tolist() == [abs(bias)] * 5


ALIKE = ("eh-hash-weighted", "lbh-hash-weighted")
"""They hash sparse rows in the directions that h-hash-weighted and bh-hash-weighted take."""

THREADED = [(variant, "dense") if variant in OF_EACH_KIND else thorough(variant, "dense") for variant in ALL]
THREADED += [
    thorough(variant, "sparse") if "," in variant or variant in ALIKE else (variant, "sparse")
    for variant in ALL
]


@pytest.mark.parametrize(("variant", "kind"), THREADED)
def test_the_number_of_threads_changes_nothing(variant, kind):
    """Neither what is built nor what is selected, near-ties included."""
    shape = scaled(quick=(800, 48), all=(2000, 64))
    X = np.random.default_rng(3).standard_normal(shape) + 0.5
    X[len(X) // 2 :] = X[: len(X) // 2] * (1 + 1e-7)
    pool = sparse(ArrayPool(X)) if kind == "sparse" else ArrayPool(X)
    planes, answers = hyperplanes(5, d=shape[1]), []
    for threads in scaled(quick=(1, 2), all=(1, 2, 3)):
        with threadpool_limits(threads):
            strategy = make(variant).fit(pool)
            found = [strategy.select(plane, 6, diversity=0.5) for plane in planes]
            found += strategy.select_many([Request(plane, 6) for plane in planes])
        answers.append([(one.ids.tolist(), one.margins.tolist()) for one in found])
    assert all(found == answers[0] for found in answers)


@pytest.mark.parametrize("bad", [0.0, np.nan, np.inf])
def test_rows_without_a_direction_are_refused(bad):
    """They have no angle to anything; the first of them is named."""
    X = np.ones((5, 3))
    X[[2, 4]] = bad
    with pytest.raises(InputError, match=r"row 2 is (zero|not finite): every row needs a direction \(2 of 5"):
        ArrayPool(X)
