"""Geometric Min-Hash, held against its definition by plain loops and by all orders of a few words."""

from __future__ import annotations

from itertools import permutations, product
from math import dist
from typing import Any

import numpy as np
import pytest
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.hashing import GeometricMinHash
from closecall.core.mercer import LocalFeatures
from closecall.core.search import HammingScan

ALPHA = 1e-3
K = 10_000
RADIUS = 1.5


def images(n: int, seed: int = 0) -> list[LocalFeatures]:
    """Copies of one layout of words, some of which repeat: features are lost, moved, and renamed."""
    rng = np.random.default_rng(seed)
    words, places = rng.integers(0, 24, 30), rng.uniform(0, 6, (30, 2))
    scales = rng.choice([0.7, 1.0, 1.4], 30)
    made = []
    for i in range(n):
        kept = rng.random(30) < 0.9
        own = np.where(rng.random(30) < 0.15 * (i % 3), rng.integers(0, 40, 30), words)
        at = places + rng.normal(0, 0.1 * (i % 4), (30, 2))
        made.append(LocalFeatures.of(own[kept], at[kept], scales[kept]))
    return made


def neighbourhoods(own: LocalFeatures) -> dict[int, frozenset[int]]:
    """The words around each word that occurs once, by Python's own loops."""
    words, at, scales = own.words.tolist(), own.positions.tolist(), own.scales.tolist()
    return {
        word: frozenset(
            words[j] for j in range(len(words)) if j != i and dist(at[i], at[j]) <= RADIUS * scales[i]
        )
        for i, word in enumerate(words)
        if words.count(word) == 1
    }


def collides(a: LocalFeatures, b: LocalFeatures, t: int) -> float:
    """How probably the values are equal, by the formula."""
    A, B = neighbourhoods(a), neighbourhoods(b)
    if not A and not B:
        return 1.0
    total = 0.0
    for word in A.keys() & B.keys():
        union = A[word] | B[word]
        total += (len(A[word] & B[word]) / len(union) if union else 1.0) ** t
    return total / len(A.keys() | B.keys())


def agreeing(hasher: GeometricMinHash, A: list[LocalFeatures], B: list[LocalFeatures]) -> np.ndarray:
    """In how many functions each two sets agree, of shape (n_A, n_B)."""
    bits = [hasher.hash_sets(sets).unpacked().reshape(len(sets), -1, hasher.bits) for sets in (A, B)]
    return (bits[0][:, None] == bits[1][None]).all(axis=3).sum(axis=2)


def within(counts: np.ndarray, expected: np.ndarray) -> bool:
    """Whether all counts lie in their binomial intervals, together with probability 1 − ALPHA."""
    low, high = stats.binom.interval(1 - ALPHA / counts.size, K, np.clip(expected, 0, 1))
    return bool(((low <= counts) & (counts <= high)).all())


@pytest.mark.parametrize(("t", "bits"), [(1, 1), (1, 4), (1, 16), (2, 4), (3, 16)])
def test_collisions_are_as_frequent_as_theory_says(t: int, bits: int) -> None:
    """Of b bits s + (1 − s) 2⁻ᵇ, from images that are nearly the same to those that have little in common."""
    sets = [*images(8), *images(2, seed=1)]
    hasher = GeometricMinHash(radius=RADIUS, n_secondary=t, bits=bits, n_functions=K)
    s = np.array([[collides(a, b, t) for b in sets] for a in sets])
    assert np.allclose(hasher.between(sets, sets), s)
    expected = s + (1 - s) * 2.0**-bits
    assert np.allclose(hasher.collision_probability(s), expected)
    counts = agreeing(hasher, sets, sets)
    assert within(counts, expected)
    assert (np.diag(counts) == K).all()
    others = s[~np.eye(len(sets), dtype=bool)]
    assert others.min() < 0.05
    assert others.max() > 0.3


def test_the_formula_is_the_share_of_orders() -> None:
    """All 576 pairs of orders of four words, one for the central feature and one for the secondary."""
    a = LocalFeatures.of([0, 1, 2, 3], [[0, 0], [1, 0], [2, 0], [9, 9]])
    b = LocalFeatures.of([0, 1, 2, 3, 3], [[0, 0], [1, 0], [0, 1], [1, 1], [9, 9]])
    orders = list(permutations(range(4)))

    def value(own: LocalFeatures, first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, int | None]:
        near = neighbourhoods(own)
        central = min(near, key=first.index)
        return central, min(near[central], key=second.index, default=None)

    same = [value(a, *both) == value(b, *both) for both in product(orders, orders)]
    hasher = GeometricMinHash(radius=RADIUS)
    assert hasher.between([a], [b]).item() == pytest.approx(np.mean(same))
    assert 0 < np.mean(same) < 1


def test_a_repeated_word_is_no_centre_but_a_neighbour() -> None:
    """By hand: of the words 0, 1, 1 only 0 is a candidate, and 1 is around it."""
    a = LocalFeatures.of([0, 1, 1], [[0, 0], [1, 0], [0, 1]])
    b = LocalFeatures.of([0, 1], [[0, 0], [1, 0]])
    assert GeometricMinHash(radius=RADIUS).between([a], [a, b]).tolist() == [[1, 0.5]]


def test_the_image_may_be_moved_turned_and_scaled() -> None:
    """Positions and scales together; and its features may be in any order."""
    rng = np.random.default_rng(2)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    sets = images(6)
    changed = []
    for own in sets:
        order = rng.permutation(len(own.words))
        at = own.positions @ turn.T * 3 + [100, -20]
        changed.append(LocalFeatures.of(own.words[order], at[order], own.scales[order] * 3))
    hasher = GeometricMinHash(radius=RADIUS, n_secondary=2)
    assert np.array_equal(hasher.hash_sets(sets).packed, hasher.hash_sets(changed).packed)


def test_the_same_words_elsewhere_are_another_image() -> None:
    """Unlike in Min-Hash."""
    own = images(1)[0]
    mixed = LocalFeatures.of(
        own.words, own.positions[np.random.default_rng(0).permutation(len(own.words))], own.scales
    )
    assert GeometricMinHash(radius=RADIUS).between([own], [own, mixed])[0] == pytest.approx([1, 0], abs=0.3)


def test_equal_seeds_give_equal_codes() -> None:
    """Other seeds others."""
    sets = images(5)
    codes = [GeometricMinHash(radius=RADIUS, random_state=seed).hash_sets(sets).packed for seed in (3, 3, 4)]
    assert np.array_equal(codes[0], codes[1])
    assert not np.array_equal(codes[0], codes[2])


def test_images_without_candidates_are_alike() -> None:
    """Those without features, and those whose words all repeat; lone features have empty neighbourhoods."""
    none = LocalFeatures.of([], [])
    repeated = LocalFeatures.of([5, 5], [[0, 0], [1, 1]])
    lone = LocalFeatures.of([5], [[0, 0]])
    far = LocalFeatures.of([5, 6], [[0, 0], [50, 50]])
    sets = [none, repeated, lone, far]
    hasher = GeometricMinHash(radius=RADIUS, bits=2, n_functions=K)
    s = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0.5], [0, 0, 0.5, 1]])
    assert hasher.between(sets, sets).tolist() == s.tolist()
    assert within(agreeing(hasher, sets, sets), s + (1 - s) / 4)
    assert len(hasher.hash_sets([])) == 0
    assert hasher.between([], sets).shape == (0, 4)


def test_changed_copies_are_found_by_codes() -> None:
    """In a pool of 200 images of 20 layouts, a scan of the codes finds images of the query's layout."""
    layouts = [images(10, seed=seed) for seed in range(20)]
    pool = [one for copies in layouts for one in copies[:9]]
    hasher = GeometricMinHash(radius=RADIUS)
    scan = HammingScan.build(hasher.hash_sets(pool), None, n_compared=1, n_bytes=10**6, seed=0)
    for layout, query in enumerate(hasher.queries([copies[9] for copies in layouts])):
        found = scan.found(query, 3, n_compared=1, measure="disagreements")
        assert (found.rows // 9 == layout).all()


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"radius": 0.0}, "radius must be positive and finite, got 0"),
        ({"radius": np.nan}, "radius must be positive and finite, got nan"),
        ({"radius": np.inf}, "radius must be positive and finite, got inf"),
        ({"n_secondary": 0}, "n_secondary must be at least 1, got 0"),
        ({"n_functions": 0}, "n_functions must be at least 1, got 0"),
        ({"random_state": -1}, "random_state must be at least 0, got -1"),
        ({"bits": 3}, "bits must be one of 1, 2, 4, 8, 16, got 3"),
    ],
)
def test_parameters_out_of_range(params: dict[str, Any], message: str) -> None:
    """In one sentence."""
    with pytest.raises(InputError, match=message):
        GeometricMinHash(**{"radius": RADIUS, **params})
