from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.hashing import Codes
from core.search import STRUCTURES, BucketTables, PermutedOrders
from core.search.base import dealt
from core.search.orders import MOST_ORDERS, order_rule
from core.search.ranking import check_measure, likest
from core.search.tables import MOST_TABLES, table_rule

every_structure = pytest.mark.parametrize("structure", STRUCTURES.values(), ids=STRUCTURES)


def random_codes(n, n_functions=40, bits=1, seed=0, bias=0.5):
    """Codes whose bits are one with probability `bias`."""
    return Codes.from_bits(np.random.default_rng(seed).random((n, n_functions * bits)) < bias, bits)


def values(codes: Codes) -> np.ndarray:
    """The value of each function, of shape (n, n_functions)."""
    shaped = codes.unpacked().reshape(len(codes), codes.n_functions, codes.bits)
    return (shaped * 2 ** np.arange(codes.bits)[::-1]).sum(axis=2)


def some(codes: Codes, rows) -> Codes:
    return Codes(np.ascontiguousarray(codes.packed[rows]), codes.n_functions, codes.bits)


@every_structure
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 300),
    bits=st.integers(1, 2),
    n_functions=st.integers(1, 70),
    wanted=st.integers(1, 400),
    n_bytes=st.sampled_from([1, 10**4, 10**6]),
    seed=st.integers(0, 5),
    bias=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_as_many_different_rows_as_wanted_are_found(
    structure, n, bits, n_functions, wanted, n_bytes, seed, bias
):
    """Whatever the codes: skewed, all equal, few or many functions, little memory."""
    codes = random_codes(n, n_functions, bits, seed, bias)
    built = structure.build(codes, n_candidates=wanted, n_bytes=n_bytes, seed=seed)
    query = random_codes(1, n_functions, bits, seed + 1)
    found = built.candidates(query, wanted, seed)
    assert found.dtype == np.int64
    assert len(found) == len(set(found.tolist())) == min(wanted, n)
    assert found.min() >= 0
    assert found.max() < n
    assert np.array_equal(found, built.candidates(query, wanted, seed))
    again = structure.from_arrays(built.arrays())
    assert np.array_equal(found, again.candidates(query, wanted, seed))


@pytest.mark.parametrize("bits", [1, 2])
def test_a_bucket_holds_the_rows_that_agree_in_all_of_its_functions(bits):
    """Pairs of bits as wholes; in every table, by brute force."""
    codes, queries = random_codes(2000, bits=bits), random_codes(10, bits=bits, seed=9)
    tables = BucketTables.of_width(codes, 4, 7, seed=3)
    for q in range(10):
        query = some(queries, [q])
        for table, functions in enumerate(tables.functions_):
            agree = (values(codes)[:, functions] == values(query)[:, functions]).all(axis=1)
            assert tables.bucket(query, table).tolist() == np.flatnonzero(agree).tolist()


@pytest.mark.parametrize("bits", [1, 2])
def test_tables_give_own_buckets_first_then_neighbours_then_any_rows(bits):
    """The order that is documented, held against brute force."""
    codes, query = random_codes(3000, bits=bits), random_codes(1, bits=bits, seed=5)
    tables = BucketTables.of_width(codes, 6 // bits, 3, seed=1)
    agree = np.array([(values(codes)[:, f] == values(query)[:, f]).sum(axis=1) for f in tables.functions_])
    width = tables.functions_.shape[1]
    own = set(np.flatnonzero((agree == width).any(axis=0)).tolist())
    near = set(np.flatnonzero((agree >= width - 1).any(axis=0)).tolist())
    assert 0 < len(own) < len(near) < 3000
    assert set(tables.candidates(query, len(own)).tolist()) == own
    fewer = tables.candidates(query, len(own) // 2)
    assert own.issuperset(fewer.tolist())
    assert set(tables.candidates(query, len(near)).tolist()) == near
    assert near.issubset(tables.candidates(query, len(near) + 100).tolist())


def test_a_bucket_that_is_too_full_is_not_always_read_from_its_beginning():
    """With other seeds other rows of the same bucket are taken, all of them sooner or later."""
    codes = random_codes(100, bias=0.0)
    tables = BucketTables.of_width(codes, 3, 2, seed=0)
    found = [tables.candidates(some(codes, [0]), 5, seed).tolist() for seed in range(200)]
    assert {row for rows in found for row in rows} == set(range(100))


@pytest.mark.parametrize("bits", [1, 2])
@pytest.mark.parametrize("n_functions", [5, 40])
def test_orders_give_rows_by_the_longest_common_prefix(bits, n_functions):
    """In the order of the longest prefix of whole functions shared in any order, by brute force."""
    codes = random_codes(1500, n_functions, bits)
    for seed in range(10):
        query = random_codes(1, n_functions, bits, seed=seed + 50)
        orders = PermutedOrders.build(codes, n_candidates=1, n_bytes=8 * 1500 * 6, seed=seed)
        assert len(orders.functions_) == 6
        agree = [(values(codes)[:, f] == values(query)[:, f]) for f in orders.functions_]
        prefix = np.max([np.cumprod(a, axis=1).sum(axis=1) for a in agree], axis=0)
        found = orders.candidates(query, 1500)
        assert sorted(found.tolist()) == list(range(1500))
        assert (np.diff(prefix[found]) <= 0).all()
        few = orders.candidates(query, 37)
        assert np.array_equal(few, found[:37])


@pytest.mark.parametrize("bits", [1, 2])
def test_every_order_is_sorted_by_its_permuted_code(bits):
    """Entries ascend by the permuted code, then by row."""
    codes = random_codes(500, 9, bits, bias=0.2)
    orders = PermutedOrders.build(codes, n_candidates=1, n_bytes=8 * 500 * 3, seed=0)
    for order, functions in zip(orders.orders_, orders.functions_, strict=True):
        rows = (order & np.uint64(0xFFFFFFFF)).astype(int)
        keys = [(*values(codes)[row, functions].tolist(), row) for row in rows]
        assert keys == sorted(keys)


@pytest.mark.parametrize("bits", [1, 2])
def test_the_likest_codes_are_those_with_the_fewest_disagreements(bits):
    """Whole pairs for H-Hash; ties in the order in which the rows were given."""
    codes, query = random_codes(800, 70, bits), random_codes(1, 70, bits, seed=4)
    rows = np.random.default_rng(0).permutation(800)[:500]
    unlike = (values(codes) != values(query)).sum(axis=1)
    expected = rows[np.argsort(unlike[rows], kind="stable")]
    for n in (1, 30, 500, 900):
        assert np.array_equal(likest(codes, query, rows, n), expected[:n])


def test_the_difference_measure_compares_the_agreements_of_first_and_second_bits():
    """|A_u − A_v|, smallest first."""
    codes, query = random_codes(800, 70, 2), random_codes(1, 70, 2, seed=4)
    same = (codes.unpacked() == query.unpacked()).astype(int)
    difference = np.abs(same[:, ::2].sum(axis=1) - same[:, 1::2].sum(axis=1))
    rows = np.arange(800)
    expected = np.argsort(difference, kind="stable")
    assert np.array_equal(likest(codes, query, rows, 100, "difference"), expected[:100])


def test_the_difference_measure_is_for_pairs_only():
    """One-bit families have no second bits."""
    check_measure("difference", 2)
    with pytest.raises(InputError, match="measure must be one of disagreements here, got 'difference'"):
        check_measure("difference", 1)


@given(
    n_rows=st.integers(1, 10**7),
    bits=st.integers(1, 2),
    wanted=st.integers(1, 20_000),
    n_bytes=st.integers(10**6, 10**9),
)
def test_the_table_rule_keeps_to_its_memory_and_reaches_the_wanted_number(n_rows, bits, wanted, n_bytes):
    """The number expected in the query's buckets is enough, unless that takes more than one trivial table."""
    width, n_tables = table_rule(n_rows, bits, wanted, n_bytes, 300)
    assert 1 <= n_tables <= MOST_TABLES
    bucket = n_rows / 2 ** (bits * width)
    if (width, n_tables) != (1, 1):
        assert n_tables * 4 * (n_rows + 2 ** (bits * width)) <= n_bytes
        assert n_tables * bucket >= wanted
    assert (n_tables - 1) * bucket < wanted


def test_the_rules_at_a_million():
    """What the documentation's figures rest on: 500 candidates of a million in 200 MB."""
    assert table_rule(10**6, 2, 500, 2 * 10**8, 300) == (8, 33)
    assert table_rule(10**6, 1, 500, 2 * 10**8, 300) == (16, 33)
    assert order_rule(10**6, 2 * 10**8) == 25
    assert order_rule(100, 2 * 10**8) == MOST_ORDERS
    assert order_rule(10**9, 2 * 10**8) == 1


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
    built = structure.build(random_codes(10), n_candidates=3, n_bytes=10**6, seed=0)
    with pytest.raises(
        InputError, match="needs 1 code of 40 functions of 1 bits, got 2 of 20 functions of 2"
    ):
        built.candidates(random_codes(2, 20, 2), 3)
