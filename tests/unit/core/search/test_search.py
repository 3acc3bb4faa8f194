"""Search structures, held against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.core.errors import InputError
from closecall.core.hashing import Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search import STRUCTURES, HammingScan, HashTable, PermutedOrders
from closecall.core.search.orders import MOST_ORDERS, dealt, order_rule
from closecall.core.search.ranking import check_measure, closest, comparison
from closecall.core.search.table import LEAST_ROWS, MOST_KEY_BITS, MOST_ROWS, width_rule
from tests.scale import examples

every_structure = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)


def random_codes(n, n_functions=40, bits=1, seed=0, bias=0.5):
    """Codes whose bits are one with probability `bias`."""
    return Codes.from_bits(np.random.default_rng(seed).random((n, n_functions * bits)) < bias, bits)


def random_query(n_functions=40, bits=1, seed=5, signed=None):
    """A code and weights that have nothing to do with each other."""
    rng = np.random.default_rng([seed, 1])
    weights = rng.standard_normal(n_functions * bits).astype(np.float32)
    signed = bits == 2 if signed is None else signed
    code = random_codes(1, n_functions, bits, seed)
    return QueryCode(n_functions, bits, weights, float(rng.normal()), signed, lambda: code)


def values(codes: Codes) -> np.ndarray:
    """The value of each function, of shape (n, n_functions)."""
    shaped = codes.unpacked().reshape(len(codes), codes.n_functions, codes.bits)
    return (shaped * 2 ** np.arange(codes.bits, dtype=np.int64)[::-1]).sum(axis=2)


def estimates(codes: Codes, query: QueryCode) -> np.ndarray:
    """The offset + Σ weights · β, or its size where it is a score."""
    found = query.offset + (2.0 * codes.unpacked() - 1) @ query.weights.astype(np.float64)
    return np.abs(found) if query.signed else found


def unlikeness(codes: Codes, query: QueryCode, measure: str) -> np.ndarray:
    """The definition of each measure, with the weights as they are."""
    if measure == "weights":
        return estimates(codes, query)
    if measure == "disagreements":
        return (values(codes) != values(query.code)).sum(axis=1)
    same = (codes.unpacked() == query.code.unpacked()).astype(int)
    return np.abs(same[:, ::2].sum(axis=1) - same[:, 1::2].sum(axis=1))


def build(structure, codes, n_compared=100, n_bytes=10**6, moments=None, seed=0):
    return structure.build(codes, moments, n_compared=n_compared, n_bytes=n_bytes, seed=seed)


@every_structure
@settings(max_examples=examples(40))
@given(
    n=st.integers(1, 300),
    bits=st.integers(1, 2),
    n_functions=st.integers(1, 70),
    wanted=st.integers(1, 400),
    n_compared=st.integers(0, 400),
    n_bytes=st.sampled_from([1, 10**4, 10**6]),
    seed=st.integers(0, 5),
    bias=st.sampled_from([0.0, 0.1, 0.5]),
    measure=st.sampled_from(["weights", "disagreements"]),
)
def test_as_many_different_rows_as_wanted_are_found(
    structure, n, bits, n_functions, wanted, n_compared, n_bytes, seed, bias, measure
):
    """Whatever the codes: skewed, all equal, few or many functions, little memory."""
    codes = random_codes(n, n_functions, bits, seed, bias)
    built = build(structure, codes, max(wanted, n_compared), n_bytes, seed=seed)
    query = random_query(n_functions, bits, seed)
    found = built.candidates(query, wanted, n_compared=n_compared, measure=measure)
    assert found.dtype == np.int64
    assert len(found) == len(set(found.tolist())) == min(wanted, n)
    assert found.min() >= 0
    assert found.max() < n
    again = structure.from_arrays(built.arrays())
    assert np.array_equal(found, again.candidates(query, wanted, n_compared=n_compared, measure=measure))
    assert np.array_equal(again.codes_by_row().packed, codes.packed)


@every_structure
@pytest.mark.parametrize(
    ("bits", "measure"), [*((bits, "disagreements") for bits in (1, 2, 4, 8)), (2, "difference")]
)
def test_where_all_codes_are_compared_the_likest_are_found(structure, bits, measure):
    """As many as are wanted, of all rows, by brute force."""
    codes = random_codes(700, 70, bits)
    for seed in range(5):
        query = random_query(70, bits, seed)
        found = build(structure, codes, 700).candidates(query, 60, n_compared=700, measure=measure)
        unlike = unlikeness(codes, query, measure)
        assert np.array_equal(unlike[found], np.sort(unlike)[:60])


@pytest.mark.parametrize("measure", ["disagreements", "difference", "weights"])
def test_a_scan_gives_the_likest_and_of_equals_the_first(measure):
    """By brute force over all rows, also where a thousand codes are all equal."""
    for codes in (random_codes(1000, 9, 2), random_codes(1000, 9, 2, bias=0.0)):
        query = random_query(9, 2)
        rounded = rounded_weights(query) if measure == "weights" else query
        unlike = unlikeness(codes, rounded, measure)
        for n in (1, 30, 500, 1000):
            found = HammingScan(codes).candidates(query, n, n_compared=0, measure=measure)
            expected = np.argsort(unlike, kind="stable")[:n]
            if measure == "weights":  # the centre is a whole number of bits
                assert np.allclose(unlike[found], unlike[expected], atol=2 * step_of(query))
            else:
                assert np.array_equal(found, expected)


def step_of(query: QueryCode) -> float:
    return float(np.abs(rounded_weights(query).weights).min())


def rounded_weights(query: QueryCode) -> QueryCode:
    """The weights that `weights` compares by, read out of the masks, times the best step."""
    compared = comparison(query, "weights")
    n_bits = len(query.weights)
    heavy = np.unpackbits(compared.heavy.view(np.uint8), bitorder="little")[:n_bits]
    levels = (1 + 2.0 * heavy) * np.sign(query.weights)
    step = (levels @ query.weights) / (levels @ levels)
    return replace(query, weights=(step * levels).astype(np.float32))


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_rounded_as_well_as_two_levels_can(seed):
    """The squared error is that of the best number of heavy bits, found by trying all, or nearly so."""
    query = random_query(300, seed=seed)
    sizes = np.sort(np.abs(query.weights))[::-1].astype(np.float64)
    levels = np.where(np.arange(300) < np.arange(301)[:, None], 3.0, 1.0)
    best = (sizes @ sizes - (levels @ sizes) ** 2 / (levels**2).sum(axis=1)).min()
    error = ((query.weights - rounded_weights(query).weights) ** 2).sum()
    assert error <= 1.02 * best
    assert 0.1 < best / (sizes @ sizes) < 0.14


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("offset", [0.0, -3.0, 5.0, -1000.0])
def test_rounded_weights_compare_codes_by_the_estimate(signed, offset):
    """The order of `weights` is that of the estimate by the best rounded weights, up to half a bit."""
    codes = random_codes(400, 30, 2)
    query = random_query(30, 2, signed=signed)
    query = replace(query, offset=offset)
    everything = np.zeros(1, dtype=np.int64), np.array([400])
    found = closest(codes, *everything, comparison(query, "weights"), 400)
    assert sorted(found.tolist()) == list(range(400))
    in_order = estimates(codes, rounded_weights(query))[found]
    assert (np.diff(in_order) >= -2 * step_of(query) - 1e-6).all()
    if not signed:
        assert (np.diff(in_order) >= -1e-5).all()


def test_weights_that_are_all_zero_are_allowed():
    """A hyperplane with a zero normal has no opinion about any code."""
    query = replace(random_query(signed=True), weights=np.zeros(40, dtype=np.float32), offset=0.0)
    assert (
        len(build(HashTable, random_codes(100)).candidates(query, 9, n_compared=50, measure="weights")) == 9
    )


@settings(max_examples=examples(60))
@given(
    n=st.integers(1, 400),
    wanted=st.integers(1, 60),
    n_functions=st.integers(1, 12),
    pieces=st.integers(1, 20),
    bits=st.sampled_from([1, 2, 4, 8, 16]),
    seed=st.integers(0, 50),
)
def test_the_likest_of_segments_are_found(n, wanted, n_functions, pieces, bits, seed):
    """Of any segments, in any order, with any number of ties, and in the order of the segments."""
    rng = np.random.default_rng(seed)
    codes = random_codes(n, n_functions, bits, seed, bias=0.5 ** (1 / bits))
    query = random_query(n_functions, bits, seed)
    cuts = np.unique(np.append(rng.integers(0, n + 1, pieces), [0, n]))
    order = rng.permutation(len(cuts) - 1)[: pieces // 2 + 1]
    starts, stops = cuts[:-1][order].astype(np.int64), cuts[1:][order].astype(np.int64)
    positions = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    unlike = unlikeness(codes, query, "disagreements")
    expected = positions[np.argsort(unlike[positions], kind="stable")][:wanted]
    assert np.array_equal(closest(codes, starts, stops, comparison(query, "disagreements"), wanted), expected)


def test_the_difference_measure_is_for_pairs_only():
    """One-bit families have no second bits."""
    check_measure("difference", 2)
    with pytest.raises(InputError, match="must be one of weights, disagreements, got 'difference'"):
        check_measure("difference", 1)


@pytest.mark.parametrize("bits", [1, 2])
def test_a_bucket_holds_the_rows_that_agree_in_all_functions_of_the_key(bits):
    """Pairs of bits as wholes, by brute force."""
    codes = random_codes(2000, bits=bits)
    functions = np.array([7, 0, 39, 12])
    table = HashTable.of_functions(codes, functions)
    for seed in range(10):
        query = random_query(bits=bits, seed=seed)
        agree = (values(codes)[:, functions] == values(query.code)[:, functions]).all(axis=1)
        assert table.bucket(query).tolist() == np.flatnonzero(agree).tolist()


def moments_of(codes: Codes, n_embedded=5, seed=0) -> tuple[Moments, np.ndarray]:
    """Moments of these codes with embedded points that their bits tell something about."""
    rng = np.random.default_rng(seed)
    signs = 2.0 * codes.unpacked() - 1
    E = signs @ rng.standard_normal((signs.shape[1], n_embedded)) + rng.standard_normal(
        (len(codes), n_embedded)
    )
    return Moments.of([(signs > 0, E.astype(np.float32))]), E


@pytest.mark.parametrize("signed", [True, False])
@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("known", [True, False])
def test_buckets_are_probed_in_the_order_of_their_estimates(bits, signed, known):
    """The rows of the buckets with the least estimates, all enumerated, and no more than are wanted."""
    codes = random_codes(3000, 20, bits)
    moments, _ = moments_of(codes)
    functions = np.arange(20)[:: 2 if bits == 1 else 4]
    table = HashTable.of_functions(codes, functions, moments if known else None)
    which = [bits * f + i for f in functions for i in range(bits)]
    keys = codes.unpacked()[:, which]
    for seed in range(10):
        query = random_query(20, bits, seed, signed)
        embedded = np.random.default_rng(seed).standard_normal(5).astype(np.float32)
        query = replace(query, embedded=embedded)
        weights, offset = moments.reconstruction(np.array(which)).weights(embedded)
        if not known:
            weights, offset = query.weights[which], query.offset
        score = offset + (2.0 * keys - 1) @ weights.astype(np.float64)
        estimate = np.abs(score) if signed else score
        for wanted in (1, 40, 700, 2999, 3000, 5000):
            starts, stops = table.probed(query, wanted)
            rows = np.concatenate([table.rows_[a:b] for a, b in zip(starts, stops, strict=True)]).astype(int)
            assert len(rows) == len(set(rows.tolist())) == min(wanted, 3000)
            assert estimate[rows].max() <= np.sort(estimate)[len(rows) - 1] + 1e-4


@pytest.mark.parametrize(("bits", "width"), [(2, 5), (4, 3), (8, 2)])
def test_buckets_of_values_are_probed_in_the_order_of_their_disagreements(bits, width):
    """The rows whose keys differ in the fewest functions, whichever of their bits differ."""
    rng = np.random.default_rng(bits)
    codes = Codes.from_bits(rng.random((3000, 12 * bits)) < 0.2, bits)
    functions = rng.permutation(12)[:width]
    table = HashTable.of_functions(codes, functions)
    for seed in range(10):
        code = Codes.from_bits(np.random.default_rng([7, seed]).random((1, 12 * bits)) < 0.2, bits)
        weights = 1 - 2 * code.unpacked()[0].astype(np.float32)
        query = QueryCode(12, bits, weights, 0.0, False, lambda code=code: code)
        differ = (values(codes) != values(code))[:, functions].sum(axis=1)
        for wanted in (1, 40, 700, 2999, 3000, 5000):
            starts, stops = table.probed(query, wanted, measure="disagreements")
            rows = np.concatenate([table.rows_[a:b] for a, b in zip(starts, stops, strict=True)]).astype(int)
            assert len(rows) == len(set(rows.tolist())) == min(wanted, 3000)
            assert np.array_equal(np.sort(differ[rows]), np.sort(differ)[: len(rows)])
        found = table.found(query, 40, n_compared=700, measure="disagreements")
        probed = table.probed(query, 700, measure="disagreements")
        reached = np.concatenate([table.rows_[a:b] for a, b in zip(*probed, strict=True)]).astype(int)
        unlike = unlikeness(codes, query, "disagreements")
        assert np.array_equal(unlike[found.rows], np.sort(unlike[reached])[:40])


def test_the_likest_codes_of_the_probed_buckets_are_found():
    """Nothing outside of them, and of those the likest."""
    codes = random_codes(3000, bits=2)
    table = build(HashTable, codes, 500)
    query = random_query(bits=2)
    starts, stops = table.probed(query, 500)
    probed = np.concatenate([table.rows_[a:b] for a, b in zip(starts, stops, strict=True)])
    found = table.candidates(query, 50, n_compared=500, measure="difference")
    assert set(found.tolist()) <= set(probed.tolist())
    unlike = unlikeness(codes, query, "difference")
    assert np.array_equal(unlike[found], np.sort(unlike[probed])[:50])


@given(
    n_rows=st.integers(1, 10**8),
    bits=st.integers(1, 2),
    n_compared=st.integers(1, 10**6),
    n_functions=st.integers(1, 300),
)
def test_the_width_rule_keeps_buckets_as_large_as_it_says(n_rows, bits, n_compared, n_functions):
    """At least r rows a bucket, and less than 4 r for whole functions, unless a limit is in the way."""
    width = width_rule(n_rows, bits, n_compared, n_functions)
    rows_a_bucket = min(max(n_compared // 256, LEAST_ROWS), MOST_ROWS)
    assert 1 <= width <= min(max(1, MOST_KEY_BITS // bits), n_functions)
    if width > 1:
        assert n_rows / 2 ** (bits * width) >= rows_a_bucket
    if width < min(MOST_KEY_BITS // bits, n_functions):
        assert n_rows / 2 ** (bits * (width + 1)) < 2 * rows_a_bucket


def test_the_rules_at_a_million():
    """What the documentation's figures rest on."""
    assert width_rule(10**6, 2, 8_000, 300) == 7
    assert width_rule(10**6, 1, 8_000, 300) == 14
    assert width_rule(10**6, 1, 500, 300) == 16
    assert order_rule(10**6, 2 * 10**8) == 25
    assert order_rule(100, 2 * 10**8) == MOST_ORDERS
    assert order_rule(10**9, 2 * 10**8) == 1
    assert order_rule(0, 2 * 10**8) == MOST_ORDERS
    assert order_rule(0, 2 * 10**8, epsilon=1.5) == order_rule(0, 0) == 1


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("n_functions", [5, 40])
def test_orders_propose_rows_by_the_longest_common_prefix(bits, n_functions):
    """In the order of the longest prefix of whole functions shared in any order, by brute force."""
    codes = random_codes(1500, n_functions, bits)
    for seed in range(10):
        query = random_query(n_functions, bits, seed)
        orders = build(PermutedOrders, codes, 1, 8 * 1500 * 6, seed=seed)
        assert len(orders.functions_) == 6
        agree = [(values(codes)[:, f] == values(query.code)[:, f]) for f in orders.functions_]
        prefix = np.max([np.cumprod(a, axis=1).sum(axis=1) for a in agree], axis=0)
        found = orders.proposed(query, 1500)
        assert sorted(found.tolist()) == list(range(1500))
        assert (np.diff(prefix[found]) <= 0).all()
        few = orders.proposed(query, 37)
        assert np.array_equal(few, found[:37])
        assert set(orders.candidates(query, 9, n_compared=37, measure="weights")) <= set(few)


@pytest.mark.parametrize("epsilon", [0.5, 1.5])
@pytest.mark.parametrize("n_functions", [5, 40])
def test_published_orders_read_as_many_entries_as_charikar(epsilon, n_functions):
    """2M, in any order those with the longest prefixes, by brute force; also with fewer than M orders."""
    n = 1500
    codes = random_codes(n, n_functions)
    most = 2 * int(np.ceil(2 * n ** (1 / (1 + epsilon))))
    for n_bytes in (10**8, 8 * n * 4):
        orders = PermutedOrders.published(codes, epsilon, n_bytes=n_bytes, seed=1)
        assert len(orders.functions_) == min(most // 2, n_bytes // (8 * n))
        again = PermutedOrders.from_arrays(orders.arrays())
        for seed in range(5):
            query = random_query(n_functions, 1, seed)
            agree = [values(codes)[:, f] == values(query.code)[:, f] for f in orders.functions_]
            prefix = np.array([np.cumprod(a, axis=1).sum(axis=1) for a in agree])
            last = np.sort(prefix, axis=None)[-most]
            found = orders.found(query, n, n_compared=1, measure="weights")
            assert found.compared == len(set(found.rows.tolist())) == len(found.rows) <= most
            longest = prefix.max(axis=0)
            assert set(np.flatnonzero(longest > last)) <= set(found.rows.tolist())
            assert (longest[found.rows] >= last).all()
            few = orders.found(query, 7, n_compared=n, measure="weights")
            assert (few.rows.tolist(), few.compared) == (found.rows[:7].tolist(), found.compared)
            assert np.array_equal(again.found(query, n, n_compared=1, measure="weights").rows, found.rows)


@pytest.mark.parametrize("bits", [1, 2])
def test_every_order_is_sorted_by_its_permuted_code(bits):
    """Entries ascend by the permuted code, then by row."""
    codes = random_codes(500, 9, bits, bias=0.2)
    orders = build(PermutedOrders, codes, 1, 8 * 500 * 3)
    for order, functions in zip(orders.orders_, orders.functions_, strict=True):
        rows = (order & np.uint64(0xFFFFFFFF)).astype(int)
        keys = [(*values(codes)[row, functions].tolist(), row) for row in rows]
        assert keys == sorted(keys)


@given(
    n_functions=st.integers(1, 50),
    n_hands=st.integers(1, 30),
    size=st.integers(1, 60),
    seed=st.integers(0, 3),
)
def test_functions_are_dealt_evenly(n_functions, n_hands, size, seed):
    """No hand has a function twice, and no function is used twice before every other was used once."""
    hands = dealt(n_functions, n_hands, size, seed)
    assert hands.shape == (n_hands, min(size, n_functions))
    assert all(len(set(hand.tolist())) == len(hand) for hand in hands)
    used = np.bincount(hands.ravel(), minlength=n_functions)
    assert used.max() - used.min() <= 2
    if hands.size <= n_functions:
        assert used.max() == 1


@every_structure
def test_a_query_of_other_functions_is_refused(structure):
    """The message says what a query needs and what was given."""
    built = build(structure, random_codes(10))
    with pytest.raises(InputError, match="needs 40 functions of 1 bits, got 20 functions of 2 bits"):
        built.candidates(random_query(20, 2), 3, n_compared=3, measure="weights")
