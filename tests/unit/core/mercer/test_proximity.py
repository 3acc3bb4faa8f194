"""The proximity distribution kernel, held against its definition by plain loops, and hashed."""

from __future__ import annotations

from collections import Counter
from math import dist

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.hashing import RandomHyperplaneLSH
from closecall.core.mercer import LocalFeatures, ProximityDistribution, proximity

ALPHA = 1e-3


def images(n: int, seed: int = 0, *, n_words: int = 6) -> list[LocalFeatures]:
    """Sets of 0 to 14 features on a grid, so that many are equally far, about a common layout."""
    rng = np.random.default_rng(seed)
    layout = np.random.default_rng(99)
    words, places = layout.integers(0, n_words, 14), layout.integers(0, 6, (14, 2))
    made = []
    for _ in range(n):
        kept = rng.permutation(14)[: rng.integers(0, 15)]
        other = rng.random(len(kept)) < 0.3
        own = np.where(other, rng.integers(0, n_words, len(kept)), words[kept])
        made.append(LocalFeatures.of(own, places[kept] + rng.integers(-1, 2, (len(kept), 2))))
    return made


def counted(own: LocalFeatures, R: int) -> Counter[tuple[int, int, int]]:
    """H(i, j, r): second features that fewer than r others are nearer to the first than."""
    words, at = own.words.tolist(), own.positions.tolist()
    H: Counter[tuple[int, int, int]] = Counter()
    for p in range(len(words)):
        for q in range(len(words)):
            nearer = sum(dist(at[p], at[o]) < dist(at[p], at[q]) for o in range(len(words)) if o != p)
            for r in range(1, R + 1):
                if p != q and nearer < r:
                    H[words[p], words[q], r] += 1
    return H


def kernel(A: list[LocalFeatures], B: list[LocalFeatures], R: int, *, normalised: bool = True) -> np.ndarray:
    """K̃ or K of all pairs, of shape (len(A), len(B)); 0 with a set of fewer than two features."""
    counts = [[counted(own, R) for own in sets] for sets in (A, B)]
    K = np.array([[sum((a & b).values()) for b in counts[1]] for a in counts[0]], dtype=float)
    if not normalised:
        return K
    sizes = [[max(1, sum(H.values())) for H in sets] for sets in counts]
    return np.asarray(K / np.sqrt(np.outer(*sizes)))


def inner(A: csr_array, B: csr_array) -> np.ndarray:
    return np.asarray((A.astype(np.float64) @ B.astype(np.float64).T).toarray())


@pytest.mark.parametrize("normalised", [False, True])
@pytest.mark.parametrize("R", [1, 3, 20])
def test_the_inner_product_is_the_kernel(R: int, normalised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all fitted sets, and of these with new ones; R may exceed the features; however many at once."""
    monkeypatch.setattr(proximity, "_ENTRIES_AT_ONCE", 100)
    fitted, new = images(12), images(7, seed=1)
    embedding = ProximityDistribution(n_neighbours=R, normalised=normalised).fit(fitted)
    X, Q = embedding.transform(fitted), embedding.transform(new)
    assert X.shape == (12, embedding.n_features_)
    expected = kernel(fitted, fitted, R, normalised=normalised)
    assert np.allclose(inner(X, X), expected)
    assert np.allclose(inner(Q, X), kernel(new, fitted, R, normalised=normalised))
    assert np.ptp(expected[np.triu_indices(12, 1)]) > 0.2


def test_it_is_positive_semidefinite() -> None:
    """On random sets, by the definition as well as by rows."""
    rng = np.random.default_rng(4)
    sets = [
        LocalFeatures.of(rng.integers(0, 4, size), rng.random((size, 3))) for size in rng.integers(2, 12, 25)
    ]
    X = ProximityDistribution(n_neighbours=4).fit_transform(sets)
    for K in (kernel(sets, sets, 4), inner(X, X)):
        eigenvalues = np.linalg.eigvalsh(K)
        assert eigenvalues.min() > -1e-6
        assert eigenvalues.max() > 1
        assert np.allclose(np.diag(K), 1)


def test_a_count_by_hand() -> None:
    """Words 0, 1, 2 on a line at 0, 1 and 3: who is near whom, by rank."""
    line = LocalFeatures.of([0, 1, 2], [[0], [1], [3]])
    pair = LocalFeatures.of([0, 1], [[0], [1]])
    X = ProximityDistribution(n_neighbours=2, normalised=False).fit_transform([line, pair])
    assert inner(X, X).tolist() == [[9, 4], [4, 4]]


def test_only_the_layout_matters() -> None:
    """Positions may be moved, turned and scaled, and features be in any order; other places are not alike."""
    rng = np.random.default_rng(2)
    words, at = rng.integers(0, 8, 40), rng.random((40, 2))
    order = rng.permutation(40)
    turn = np.array([[0.6, -0.8], [0.8, 0.6]])
    own = LocalFeatures.of(words, at)
    same = LocalFeatures.of(words[order], (at @ turn.T * 7 - 3)[order])
    mixed = LocalFeatures.of(words, at[order])
    X = ProximityDistribution(n_neighbours=3).fit_transform([own, same, mixed]).toarray()
    assert np.array_equal(X[0], X[1])
    assert X[0] @ X[2] < 0.7


def test_collisions_follow_the_kernel() -> None:
    """Random hyperplanes over the embedding agree with probability 1 − arccos(K̃)/π."""
    sets, k = [own for own in images(9) if len(own.words) > 1], 10_000
    X = ProximityDistribution(n_neighbours=3).fit_transform(sets)
    bits = RandomHyperplaneLSH(centred=False, n_functions=k).fit(X).hash_points(X).unpacked()
    pairs = np.triu_indices(len(sets), 1)
    agree = (bits[:, None] == bits[None]).sum(axis=2)[pairs]
    expected = 1 - np.arccos(kernel(sets, sets, 3)[pairs]) / np.pi
    low, high = stats.binom.interval(1 - ALPHA / len(agree), k, expected)
    assert ((low <= agree) & (agree <= high)).all()
    assert np.ptp(expected) > 0.05


def test_sets_without_pairs_are_rows_of_zeros() -> None:
    """Those of no feature and of one; and no sets give no rows."""
    none, one = LocalFeatures.of([], []), LocalFeatures.of([3], [[0, 0]])
    embedding = ProximityDistribution().fit([none, *images(5)])
    assert embedding.transform([none, one]).nnz == 0
    assert embedding.transform([]).shape == (0, embedding.n_features_)


def test_what_cannot_be_embedded_is_refused() -> None:
    """In one sentence."""
    one = LocalFeatures.of([3], [[0, 0]])
    with pytest.raises(InputError, match="n_neighbours must be at least 1, got 0"):
        ProximityDistribution(n_neighbours=0).fit(images(3))
    for sets in ([], [one, one]):
        with pytest.raises(InputError, match=f"at least one set of two .*, got none in {len(sets)} sets"):
            ProximityDistribution().fit(sets)
