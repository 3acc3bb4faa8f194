"""Min-Hash, held against the overlaps of plain Python sets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import MinHash
from closecall.core.hashing.minhash import BITS, overlaps
from closecall.core.search import SIMILARITY_STRUCTURES
from closecall.core.selection import ArrayPool
from closecall.core.similar import ExactSearch, HashedSimilarity, nearness_of
from tests.scale import scaled, thorough

N_WORDS = 400
ALPHA = 1e-3
K = scaled(quick=8_000, all=20_000)


def bags(n: int, seed: int = 0, *, most: int = 60) -> csr_array:
    """Rows of less than `most` weights; every three in the order have many words in common."""
    rng = np.random.default_rng(seed)
    X = np.zeros((n, N_WORDS), dtype=np.float32)
    for i, row in enumerate(X):
        size = rng.integers(most // 3, most)
        row[(37 * (i // 3) + rng.permutation(most + 5)[:size]) % N_WORDS] = rng.lognormal(0, 1, size)
    return csr_array(X)


def overlap(a: np.ndarray, b: np.ndarray, *, weighted: bool) -> float:
    """The definition, by Python's own sets and sums."""
    if not weighted:
        A, B = set(np.flatnonzero(a).tolist()), set(np.flatnonzero(b).tolist())
        return len(A & B) / len(A | B)
    pairs = list(zip(a.tolist(), b.tolist(), strict=True))
    return sum(map(min, pairs)) / sum(map(max, pairs))


def agreeing(hasher: MinHash, A: csr_array, B: csr_array) -> np.ndarray:
    """In how many functions each two rows agree, of shape (n_A, n_B)."""
    values = []
    for X in (A, B):
        bits = hasher.hash_points(X).unpacked().reshape(X.shape[0], -1, hasher.bits).astype(np.int64)
        values.append((bits << np.arange(hasher.bits)).sum(axis=2))
    return (values[0][:, None] == values[1][None]).sum(axis=2)


def within(counts: np.ndarray, expected: np.ndarray) -> bool:
    """Whether all counts lie in their binomial intervals, together with probability 1 − ALPHA."""
    low, high = stats.binom.interval(1 - ALPHA / counts.size, K, np.clip(expected, 0, 1))
    return bool(((low <= counts) & (counts <= high)).all())


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bits", BITS)
def test_collisions_are_as_frequent_as_sets_overlap(bits, weighted):
    """Of b bits s + (1 − s) 2⁻ᵇ, for sets of any sizes, from disjoint to equal ones."""
    X = bags(12)
    s = np.array([[overlap(a, b, weighted=weighted) for b in X.toarray()] for a in X.toarray()])
    hasher = MinHash(weighted=weighted, bits=bits, n_functions=K).fit(X)
    assert np.allclose(hasher.between(X, X), s, rtol=1e-6)
    assert (np.diag(hasher.between(X, X)) == 1).all()
    expected = s + (1 - s) * 2.0**-bits
    assert np.allclose(hasher.collision_probability(s), expected)
    counts = agreeing(hasher, X, X)
    assert within(counts, expected)
    assert (np.diag(counts) == K).all()
    assert (s == 0).any()
    assert 0.2 < s[~np.eye(12, dtype=bool)].max() < 1


def test_of_sets_of_unlike_sizes_the_accident_is_the_same():
    """Where the sets cover most of the vocabulary, too: it is always 2⁻ᵇ of what doesn't overlap."""
    rows = np.zeros((2, 40), dtype=np.float32)
    rows[0], rows[1, :3] = 1, 1
    hasher = MinHash(bits=1, n_functions=K).fit(csr_array(rows))
    counts = agreeing(hasher, csr_array(rows[:1]), csr_array(rows[1:]))
    assert within(counts, np.array([[0.5 + 0.5 * 3 / 40]]))


def test_weights_are_those_of_chum_and_others():
    """One weight a word, idf, gives Σ of the common over Σ of all; counts give the copies of each word."""
    rng = np.random.default_rng(3)
    members, idf = rng.random((6, 30)) < 0.5, rng.random(30) * 5 + 0.1
    by_idf = [[idf[a & b].sum() / idf[a | b].sum() for b in members] for a in members]
    assert np.allclose(overlaps(csr_array(members * idf), csr_array(members * idf), weighted=True), by_idf)
    counts = rng.integers(0, 4, (6, 30))
    copies = np.array([[row[word] > copy for word in range(30) for copy in range(4)] for row in counts])
    plain = overlaps(csr_array(copies.astype("f4")), csr_array(copies.astype("f4")))
    assert np.allclose(overlaps(csr_array(counts), csr_array(counts), weighted=True), plain)


@pytest.mark.parametrize("weighted", [False, True])
def test_each_member_comes_first_as_often_as_it_weighs(weighted):
    """A row's value is that of one of its members alone, each in proportion to its weight."""
    weights = np.array([0.02, 0.1, 0.5, 1, 1, 3], dtype=np.float32)
    alone = csr_array(np.diag(weights))
    hasher = MinHash(weighted=weighted, bits=16, n_functions=K).fit(alone)
    counts = agreeing(hasher, alone, csr_array(weights[None]))
    share = weights / weights.sum() if weighted else np.full(6, 1 / 6)
    assert within(counts, (share + (1 - share) * 2.0**-16)[:, None])
    assert K <= counts.sum() < 1.001 * K


@pytest.mark.parametrize("weighted", [False, True])
def test_empty_sets_are_alike_and_unlike_all_others(weighted):
    """They are the set of one thing that no other row has."""
    X = csr_array(np.array([[0, 0, 0], [0, 2, 1], [0, 0, 0]], dtype=np.float32))
    hasher = MinHash(weighted=weighted, bits=2, n_functions=K).fit(X)
    s = np.array([[1.0, 0, 1], [0, 1, 0], [1, 0, 1]])
    assert np.array_equal(hasher.between(X, X), s)
    assert within(agreeing(hasher, X, X), s + (1 - s) / 4)
    assert len(hasher.queries(X[:1])) == 1


@pytest.mark.parametrize("weighted", [False, True])
def test_the_order_of_the_vocabulary_does_not_matter(weighted):
    """Other places of the features draw other functions, which collide as often."""
    X = bags(8)
    shuffled = csr_array(X.toarray()[:, np.random.default_rng(1).permutation(N_WORDS)])
    hasher = MinHash(weighted=weighted, n_functions=K).fit(X)
    assert (hasher.hash_points(X).packed != hasher.hash_points(shuffled).packed).any()
    assert np.allclose(hasher.between(X, X), hasher.between(shuffled, shuffled))
    expected = hasher.collision_probability(hasher.between(X, X))
    assert within(agreeing(hasher, shuffled, shuffled), expected)


def test_the_size_of_the_vocabulary_does_not_matter():
    """Of ten million features a row takes what its members take, and gets the same code."""
    X = bags(50)
    wide = csr_array((X.data, X.indices, X.indptr), shape=(50, 10_000_000))
    for weighted in (False, True):
        few, many = (MinHash(weighted=weighted).fit(rows).hash_points(rows) for rows in (X, wide))
        assert np.array_equal(few.packed, many.packed)


def test_a_zero_is_no_member():
    """Whether it is stored or not."""
    stored = csr_array((np.array([1, 0, 2], "f4"), [0, 1, 3], [0, 3]), shape=(1, 5))
    plain = csr_array(stored.toarray())
    for weighted in (False, True):
        hasher = MinHash(weighted=weighted).fit(plain)
        assert np.array_equal(hasher.hash_points(stored).packed, hasher.hash_points(plain).packed)
        assert hasher.between(stored, plain) == 1


OF_EACH_KIND = {("scan", 1), ("tables", 4), ("orders", 16), ("table", 1)}
"""Every structure and every number of bits."""


@pytest.mark.parametrize(
    ("structure", "bits"),
    [
        pair if pair in OF_EACH_KIND else thorough(*pair)
        for pair in product(["scan", "tables", "orders", "table"], [1, 4, 16])
    ],
)
def test_near_sets_are_found_by_codes(structure, bits):
    """Nearly as by all overlaps, in a pool of a thousand."""
    pool = ArrayPool(bags(1000, most=30))
    queries = pool.rows(np.arange(0, 1000, 50))
    hasher = MinHash(weighted=True, bits=bits).fit(queries)
    search = HashedSimilarity.built(pool, hasher, structure=structure, n_compared=300, n_candidates=100)
    assert search.measure == ("weights" if bits == 1 else "disagreements")
    exact = ExactSearch(nearness_of(pool, hasher))
    hits = []
    for i in range(len(range(0, 1000, 50))):
        wanted, found = (one.neighbours(queries[[i]], 2) for one in (exact, search))
        assert found.values[0] == 1
        assert (np.diff(wanted.values) <= 0).all()
        hits.append(np.isin(wanted.ids, found.ids).mean())
    assert np.mean(hits) > 0.8
    assert structure in SIMILARITY_STRUCTURES


@pytest.mark.parametrize(
    ("params", "rows", "message"),
    [
        ({}, np.ones((2, 3)), "min-hash compares the sets.* needs sparse rows.* texts .*: got dense rows"),
        ({}, csr_array([[1.0, -0.25]]), "none may be negative: got -0.25"),
        ({"weighted": True}, csr_array([[1.0, -2]]), "none may be negative: got -2"),
        ({"bits": 3}, csr_array([[1.0]]), "bits must be one of 1, 2, 4, 8, 16, got 3"),
    ],
)
def test_what_are_no_sets_is_refused(params, rows, message):
    """In one sentence."""
    with pytest.raises(InputError, match=message):
        MinHash(**params).fit(rows)
