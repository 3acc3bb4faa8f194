"""Bucket tables and Hamming balls, held against brute force and against theory."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.hashing import Codes, QueryCode, RandomHyperplaneLSH
from closecall.core.search import BucketTables, HammingBall
from closecall.core.search.ball import ROWS_AN_ADDRESS, address_bits
from closecall.core.search.keys import key_functions, rho
from closecall.core.search.orders import order_rule
from closecall.core.search.tables import Guarantee, table_rule
from tests.scale import examples


def random_codes(n, n_functions=20, bits=1, seed=0, bias=0.5):
    return Codes.from_bits(np.random.default_rng(seed).random((n, n_functions * bits)) < bias, bits)


def a_query(n_functions=20, bits=1, seed=5):
    rng = np.random.default_rng([seed, 1])
    code = random_codes(1, n_functions, bits, seed)
    signs = 2.0 * code.unpacked()[0] - 1
    weights = (-signs * np.abs(rng.standard_normal(n_functions * bits))).astype(np.float32)
    return QueryCode(n_functions, bits, weights, 0.0, False, lambda: code)


def distances(codes, query):
    return (codes.unpacked() != query.code.unpacked()).sum(axis=1)


@settings(max_examples=examples(60))
@given(
    n=st.integers(1, 3000),
    n_functions=st.integers(1, 32),
    wanted=st.integers(1, 3500),
    bias=st.sampled_from([0.05, 0.5]),
    seed=st.integers(0, 20),
)
def test_a_ball_grows_until_it_holds_enough(n, n_functions, wanted, bias, seed):
    """By brute force: all rows within the least radius that has enough, the nearest first, none twice."""
    codes, query = random_codes(n, n_functions, seed=seed, bias=bias), a_query(n_functions, seed=seed)
    ball = HammingBall.build(codes, None, n_compared=0, n_bytes=0, seed=0)
    found, n_read = ball.within(query, wanted)
    true = distances(codes, query)
    radius = np.sort(true)[min(n, wanted) - 1]
    assert sorted(found.tolist()) == np.flatnonzero(true <= radius).tolist()
    assert (np.diff(true[found]) >= 0).all()
    assert n_read == np.count_nonzero(address_distances(codes, query) <= radius)
    whole = ball.found(query, wanted, n_compared=0, measure="disagreements").rows
    assert np.array_equal(true[whole], np.sort(true)[:wanted])


@settings(max_examples=examples(60))
@given(
    n=st.integers(1, 3000),
    n_functions=st.integers(1, 32),
    radius=st.integers(0, 32),
    wanted=st.integers(1, 3500),
    bias=st.sampled_from([0.05, 0.5]),
    seed=st.integers(0, 20),
)
def test_a_ball_of_fixed_radius_has_the_rows_within_it(n, n_functions, radius, wanted, bias, seed):
    """By brute force: exactly these, the nearest first, whatever number is wanted; also after saving."""
    codes, query = random_codes(n, n_functions, seed=seed, bias=bias), a_query(n_functions, seed=seed)
    built = HammingBall.of_radius(codes, radius)
    true = distances(codes, query)
    inside = np.flatnonzero(true <= radius)
    for ball in (built, HammingBall.from_arrays(built.arrays())):
        found, n_read = ball.within(query, wanted)
        assert sorted(found.tolist()) == inside.tolist()
        assert (np.diff(true[found]) >= 0).all()
        assert n_read == np.count_nonzero(address_distances(codes, query) <= radius)
        some = ball.found(query, wanted, n_compared=0, measure="disagreements").rows
        assert np.array_equal(true[some], np.sort(true[inside])[:wanted])


@pytest.mark.parametrize("radius", [-1, 33, 0.5, float("nan")])
def test_a_radius_is_a_number_of_bits(radius):
    """A whole number from 0 to 32."""
    with pytest.raises(InputError, match=f"a whole number from 0 to 32, got {radius:g}"):
        HammingBall.of_radius(random_codes(5, 8), radius)


def address_distances(codes, query):
    width = address_bits(len(codes) // ROWS_AN_ADDRESS, codes.n_functions)
    return (codes.unpacked() != query.code.unpacked())[:, :width].sum(axis=1)


def test_where_nothing_is_near_each_code_is_compared_once():
    """However far the rows are."""
    codes = Codes.from_bits(np.ones((5000, 30), dtype=bool))
    zeros = Codes.from_bits(np.zeros((1, 30), dtype=bool))
    query = QueryCode(30, 1, np.ones(30, dtype=np.float32), 0.0, False, lambda: zeros)
    ball = HammingBall.build(codes, None, n_compared=0, n_bytes=0, seed=0)
    found = ball.found(query, 5, n_compared=5, measure="disagreements")
    assert (len(found.rows), found.compared) == (5, 5000)


def test_in_a_larger_pool_a_ball_compares_a_smaller_share():
    """Of rows as near as any others."""
    shares = []
    for n in (2000, 20_000, 200_000):
        codes, query = random_codes(n, 30, seed=3), a_query(30, seed=3)
        ball = HammingBall.build(codes, None, n_compared=0, n_bytes=0, seed=0)
        shares.append(ball.found(query, 10, n_compared=10, measure="weights").compared / n)
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.5


def test_of_a_whole_ball_those_come_first_that_are_likest_by_weight():
    """Of rows that differ in one bit, those whose bit weighs least, wherever they are."""
    n_functions = 16
    far = np.ones((1000, n_functions), dtype=bool)
    codes = Codes.from_bits(np.concatenate([np.eye(n_functions, dtype=bool), far]))
    zeros = Codes.from_bits(np.zeros((1, n_functions), dtype=bool))
    weights = np.where(np.arange(n_functions) % 4, 1, 9).astype(np.float32)
    query = QueryCode(n_functions, 1, weights, 0.0, False, lambda: zeros)
    ball = HammingBall.build(codes, None, n_compared=0, n_bytes=0, seed=0)
    found = ball.found(query, 12, n_compared=12, measure="weights").rows
    assert sorted(found.tolist()) == np.flatnonzero(weights == 1).tolist()


def test_long_codes_have_no_ball():
    """An address has at most 32 bits."""
    with pytest.raises(InputError, match="at most 32 functions of 1 bit, got 33 functions of 1"):
        HammingBall.build(random_codes(5, 33), None, n_compared=0, n_bytes=0, seed=0)
    with pytest.raises(InputError, match="got 8 functions of 2 bits"):
        HammingBall.build(random_codes(5, 8, 2), None, n_compared=0, n_bytes=0, seed=0)


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("width", [3, 9, 16])
def test_own_buckets_hold_the_rows_that_agree_in_all_functions(bits, width):
    """Of every table, by brute force, each row once."""
    codes = random_codes(3000, 40, bits, bias=0.3)
    tables = BucketTables.of_width(codes, width, 4, seed=1)
    values = codes.unpacked().reshape(-1, 40, bits)
    for seed in range(10):
        query = a_query(40, bits, seed)
        own = query.code.unpacked().reshape(40, bits)
        agree = np.array([(values[:, f] == own[f]).all(axis=(1, 2)) for f in tables.functions_])
        found, probes = tables.probed(query, 3000, most_probes=4)
        assert probes == 4
        assert sorted(found.tolist()) == np.flatnonzero(agree.any(axis=0)).tolist()


def test_buckets_are_probed_in_the_order_of_their_costs():
    """Over all tables: a row comes no later than its cheapest bucket, all enumerated."""
    codes = random_codes(600, 24, bias=0.5)
    tables = BucketTables.of_width(codes, 8, 3, seed=2)
    for seed in range(5):
        query = a_query(24, seed=seed)
        flipped = codes.unpacked() != query.code.unpacked()
        costs = [
            (flipped[:, f] * query.weights[f].astype(np.float64) ** 2).sum(axis=1) for f in tables.functions_
        ]
        least = np.min(costs, axis=0)
        found, _ = tables.probed(query, 600, most_probes=10**6)
        assert sorted(found.tolist()) == list(range(600))
        assert (np.diff(least[found]) >= -1e-4).all()
        few, _ = tables.probed(query, 37)
        assert np.array_equal(few, found[:37])


@settings(max_examples=examples(30))
@given(
    n=st.integers(1, 300),
    bits=st.integers(1, 3),
    n_functions=st.integers(1, 70),
    wanted=st.integers(1, 400),
    n_bytes=st.sampled_from([1, 10**5]),
    seed=st.integers(0, 5),
)
def test_tables_find_different_rows_and_are_saved_whole(n, bits, n_functions, wanted, n_bytes, seed):
    """Whatever the codes; no more than were asked for."""
    codes, query = random_codes(n, n_functions, bits, seed), a_query(n_functions, bits, seed)
    built = BucketTables.build(codes, None, n_compared=0, n_bytes=n_bytes, seed=seed)
    found = built.found(query, wanted, n_compared=50, measure="disagreements")
    assert len(set(found.rows.tolist())) == len(found.rows) <= min(wanted, found.compared)
    assert found.compared <= min(n, max(wanted, 50))
    again = BucketTables.from_arrays(built.arrays())
    assert np.array_equal(again.candidates(query, wanted, n_compared=50, measure="disagreements"), found.rows)
    assert built.n_bytes >= codes.packed.nbytes + 8 * n


def test_the_rule_finds_what_is_within_the_radius_as_often_as_it_promises():
    """With probability 1 − 1/e at least, through own buckets alone; and few rows that are far."""
    rng = np.random.default_rng(0)
    radius, epsilon, n, d = 0.25, 2.0, 1000, 24
    far = rng.standard_normal((n, d))
    k, n_tables = table_rule(n, radius, epsilon)
    family = RandomHyperplaneLSH(centred=False, n_functions=k * n_tables, random_state=1)
    queries, near = rng.standard_normal((100, d)), []
    for q in queries:
        aside = rng.standard_normal(d)
        aside -= aside @ q / (q @ q) * q
        near.append(np.cos(radius) * q / np.linalg.norm(q) + np.sin(radius) * aside / np.linalg.norm(aside))
    X = np.concatenate([near, far]).astype(np.float32)
    codes = family.fit(X).hash_points(X)
    tables = BucketTables.of_radius(codes, radius, epsilon, n_bytes=10**9, seed=0)
    assert tables.functions_.shape == (n_tables, k)
    hits, strangers = 0, 0
    angles = family.between(queries.astype(np.float32), X)
    for i, query in enumerate(family.queries(queries.astype(np.float32))):
        rows, _ = tables.probed(query, n, most_probes=n_tables)
        hits += i in rows
        strangers += (angles[i, rows] > (1 + epsilon) * radius).sum()
    p = 1 - (1 - (1 - radius / np.pi) ** k) ** n_tables
    assert p >= 1 - 1 / np.e
    low, high = stats.binom.interval(1 - 1e-3, 100, p)
    assert low <= hits <= high
    assert strangers <= 1.5 * n_tables * 100


def in_planes(angles, rng):
    """Pairs of rows at these angles, each pair in a plane of its own that is orthogonal to all others.

    Random hyperplanes treat such pairs independently of one another.
    """
    n = len(angles)
    basis = np.linalg.qr(rng.standard_normal((2 * n, 2 * n)))[0].reshape(n, 2, 2 * n)
    turned = np.cos(angles)[:, None] * basis[:, 0] + np.sin(angles)[:, None] * basis[:, 1]
    return basis[:, 0].astype(np.float32), turned.astype(np.float32)


@pytest.mark.parametrize("n_functions", [None, 60])
def test_independent_tables_find_pairs_as_often_as_theory_says(n_functions):
    """1 − (1 − (1 − θ/π)ᵏ)ˡ of them, on average over angles; tables that share functions promise no more."""
    rng = np.random.default_rng(4)
    radius, epsilon, n = 0.25, 2.0, 300
    angles = np.linspace(0.05, 2 * radius, n)
    queries, X = in_planes(angles, rng)
    rule = Guarantee.for_angles(n, radius, epsilon).fitting(1, 10**8)
    assert rule == Guarantee.for_angles(n, radius, epsilon)
    drawn = rule.n_functions if n_functions is None else n_functions
    hits = np.zeros(n)
    for seed in range(4):
        family = RandomHyperplaneLSH(centred=False, n_functions=drawn, random_state=seed).fit(X)
        tables = BucketTables.of_rule(family.hash_points(X), rule, n_bytes=10**8, seed=0)
        n_tables = len(tables.functions_)
        for i, query in enumerate(family.queries(queries)):
            hits[i] += i in tables.probed(query, n, most_probes=n_tables)[0]
    guarantee = tables.guarantee(rule)
    p = np.array([guarantee.success_at(1 - angle / np.pi) for angle in angles])
    excess = (hits.sum() - 4 * p.sum()) / np.sqrt(4 * (p * (1 - p)).sum())
    if n_functions is None:
        assert guarantee == rule
        assert abs(excess) < 4
        within = angles <= radius
        assert hits[within].sum() >= 4 * within.sum() * (1 - 1 / np.e)
    else:
        assert guarantee.n_tables == 60 // rule.width < n_tables
        assert excess > -4


def test_a_long_key_is_cut_and_takes_fewer_tables():
    """To 32 bits; near rows are found as often as the rule promises."""
    rule = Guarantee.for_angles(10**6, 0.1, 1.0)
    assert rule.width > 32
    cut = rule.of_width(32)
    assert (cut.width, cut.n_tables) == (32, int(np.ceil((1 - 0.1 / np.pi) ** -32)))
    assert cut.success >= 1 - 1 / np.e
    assert cut.far_rows > rule.far_rows
    codes = random_codes(50, 300)
    tables = BucketTables.of_radius(codes, 0.02, 0.5, n_bytes=10**9, seed=0)
    expected = Guarantee.for_angles(50, 0.02, 0.5).of_width(32)
    assert tables.functions_.shape == (expected.n_tables, 32)


def test_tables_fit_into_memory_with_their_functions_and_codes():
    """At least one does; a function that takes much memory leaves room for fewer."""
    rule = Guarantee.for_angles(10**5, 0.25, 2.0)
    few = rule.fitting(1, 10**7)
    assert 1 < few.n_tables < rule.n_tables
    a_table = 10**5 * (12 + few.width / 8)
    assert few.n_tables * a_table <= 10**7 < (few.n_tables + 1) * a_table
    assert rule.fitting(1, 10**7, bytes_a_function=10**5).n_tables < few.n_tables
    assert rule.fitting(1, 1).n_tables == 1


def test_the_rules_at_a_million():
    """Written out: k = ln N / ln(1/p₂), l = p₁⁻ᵏ; M = 2N^{1/(1+ε)} orders, bounded by memory."""
    k, n_tables = table_rule(10**6, 0.3, 1.0)
    p1, p2 = 1 - 0.3 / np.pi, 1 - 0.6 / np.pi
    assert p2 ** (k - 1) * 10**6 > 1 >= p2**k * 10**6
    assert (n_tables - 1) * p1**k < 1 <= n_tables * p1**k
    assert order_rule(10**6, 10**12, epsilon=1.5) == 503
    assert order_rule(10**6, 2 * 10**8, epsilon=1.5) == 25
    assert order_rule(10, 10**6, epsilon=1.5) == 6
    for radius, epsilon in ((0.0, 1.0), (0.3, 0.0), (1.5, 1.5), (-1.0, 1.0)):
        with pytest.raises(InputError, match="radius and epsilon must satisfy 0 < radius"):
            table_rule(100, radius, epsilon)
    with pytest.raises(InputError, match="epsilon must be positive, got 0"):
        order_rule(100, 100, epsilon=0.0)


def test_keys_take_the_functions_that_tell_near_rows_from_others():
    """Of four kinds of bits: of noise, of the group, of the group once more, of all rows alike."""
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 64, 3000)
    of_group = (groups[:, None] >> np.arange(6)) & 1 == 1
    again = np.repeat(of_group, 4, axis=1)
    noise = rng.random((3000, 12)) < 0.5
    alike = np.ones((3000, 3), dtype=bool)
    codes = Codes.from_bits(np.concatenate([noise, again, alike], axis=1))
    chosen = key_functions(codes, 6, seed=0)
    assert sorted(((chosen - 12) // 4).tolist()) == list(range(6))
    everything = key_functions(codes, 100, seed=0)
    assert sorted(everything.tolist()) == list(range(39))
    estimates = rho(codes, rng)
    assert estimates[:12].min() > 0.3 > 0.1 > estimates[12:36].max()


def test_keys_of_pairs_and_of_few_rows_are_chosen_too():
    """Whole functions, and as many as there are, also of a single row."""
    assert sorted(key_functions(random_codes(50, 5, 2), 9, seed=0).tolist()) == list(range(5))
    assert len(key_functions(random_codes(1, 5), 3, seed=0)) == 3


@pytest.mark.parametrize(("bits", "width"), [(2, 4), (4, 3), (8, 2)])
def test_of_functions_with_several_bits_those_buckets_follow_that_differ_in_few(bits, width):
    """By brute force over the functions of each key; every row is found once, if all are wanted."""
    rng = np.random.default_rng(bits)
    codes = Codes.from_bits(rng.random((500, 12 * bits)) < 0.15, bits)
    code = Codes.from_bits(rng.random((1, 12 * bits)) < 0.15, bits)
    query = QueryCode(12, bits, np.zeros(12 * bits, np.float32), 0.0, False, lambda: code)
    tables = BucketTables.of_width(codes, width, 3, seed=0)
    values, own = (some.unpacked().reshape(len(some), 12, bits) for some in (codes, code))
    differ = (values != own).any(axis=2)
    changed = np.min([differ[:, functions].sum(axis=1) for functions in tables.functions_], axis=0)
    found, _ = tables.probed(query, 500, most_probes=10**6)
    assert sorted(found.tolist()) == list(range(500))
    assert (np.diff(changed[found]) >= 0).all()
    assert len(np.unique(changed)) > 2
    some, _ = tables.probed(query, 500, most_probes=3)
    assert set(some.tolist()) == set(np.flatnonzero(changed == 0).tolist())


@pytest.mark.parametrize(("bits", "width"), [(16, 2), (4, 1)])
def test_where_other_buckets_say_nothing_only_the_own_are_read(bits, width):
    """Of functions with very many values, and of keys that are one function."""
    rng = np.random.default_rng(0)
    codes = Codes.from_bits(rng.random((300, 6 * bits)) < 0.1, bits)
    query = QueryCode(
        6, bits, np.zeros(6 * bits, np.float32), 0.0, False, lambda: Codes(codes.packed[:1], 6, bits)
    )
    tables = BucketTables.of_width(codes, width, 3, seed=0)
    _, probes = tables.probed(query, 300)
    assert probes == 3
