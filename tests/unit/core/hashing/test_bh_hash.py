"""Learned bilinear hashing: its gradient against differences, its objective, and what it is for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, LBHHash
from closecall.core.hashing.bh_hash import descended, learn, objective, signs, wanted_agreement
from closecall.core.learning.round import Labels
from closecall.core.learning.round import learn as learn_svm
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool
from tests.scale import thorough


def unit_rows(n=120, d=7, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d)) + 0.5
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def clustered(n=3000, d=20, n_clusters=12, seed=0):
    """Unit rows in clusters that lie unevenly, as photographs of a few kinds do; and which is where."""
    rng = np.random.default_rng(seed)
    spread = np.geomspace(3, 0.3, d)
    centres = rng.standard_normal((n_clusters, d)) * spread
    cluster = rng.integers(n_clusters, size=n)
    X = centres[cluster] + 0.3 * rng.standard_normal((n, d)) * spread
    return ArrayPool(X).rows(np.arange(n)), cluster


def test_the_wanted_agreement_is_that_of_parallel_and_of_orthogonal_points():
    """1 from the mean of the greatest cosines on, −1 up to the mean of the smallest, 2|cos| − 1 between."""
    X = unit_rows()
    S = wanted_agreement(X)
    cosines = np.abs(X @ X.T)
    ordered = np.sort(cosines.ravel())
    tail = int(0.05 * len(ordered))
    high, low = ordered[-tail:].mean(), ordered[:tail].mean()
    assert 0 < low < high < 1
    assert (S[cosines > high] == 1).all()
    assert (S[cosines < low] == -1).all()
    between = (cosines < high) & (cosines > low)
    assert np.allclose(S[between], 2 * cosines[between] - 1)
    assert np.array_equal(S, S.T)


def test_the_gradient_is_that_of_the_objective():
    """Against central differences, and the objective against its definition."""
    X = unit_rows(40)
    R = 8 * wanted_agreement(X)
    pair = np.random.default_rng(1).standard_normal((2, 7))
    value, gradient = objective(X, R, pair)

    def g(p):
        t = (X.astype(float) @ p[0]) * (X.astype(float) @ p[1])
        smooth = 2 / (1 + np.exp(-t)) - 1
        return -smooth @ R.astype(float) @ smooth

    assert value == pytest.approx(g(pair), rel=1e-4)
    for i in range(2):
        for j in range(7):
            step = np.zeros((2, 7))
            step[i, j] = 1e-5
            difference = (g(pair + step) - g(pair - step)) / 2e-5
            assert gradient[i, j] == pytest.approx(difference, rel=1e-3, abs=1e-3 * np.abs(gradient).max())


def test_the_descent_goes_down_to_where_it_is_flat():
    """The objective falls by much, and from where it ends nothing near is much lower."""
    X = unit_rows()
    R = 4 * wanted_agreement(X)
    rng = np.random.default_rng(0)
    for _ in range(5):
        start = rng.standard_normal((2, 7)).astype(np.float32)
        found = descended(X, R, start)
        before, after = (objective(X, R, pair.astype(np.float64))[0] for pair in (start, found))
        assert after < before
        further = objective(X, R, descended(X, R, found).astype(np.float64))[0]
        assert before - after > 5 * (after - further)


def test_each_bit_takes_off_what_is_left_of_the_wanted_agreement():
    """‖BBᵀ/k − S‖² of learned codes is below half of that of the random ones they start from."""
    X, _ = clustered(300, 12)
    S = wanted_agreement(X)
    start = np.random.default_rng(0).standard_normal((16, 2, 12)).astype(np.float32)
    left = []
    for pairs in (start, learn(X, start)):
        B = np.array([signs(X, pair) for pair in pairs])
        left.append(((B.T @ B / 16 - S) ** 2).mean())
    assert left[1] < 0.5 * left[0]


def test_it_is_a_function_of_the_sample_and_the_seed():
    """The same seed learns the same functions."""
    X, _ = clustered(500)
    one, two = (LBHHash(n_functions=5, n_samples=100).fit(X) for _ in range(2))
    assert np.array_equal(one.factors_, two.factors_)
    other = LBHHash(n_functions=5, n_samples=100, random_state=1).fit(X)
    assert not np.array_equal(one.factors_, other.factors_)
    restored = LBHHash(n_functions=5, n_samples=100).restored(one.arrays())
    plane = Hyperplane(np.ones(20), 0.1)
    assert np.array_equal(restored.hash_points(X).packed, one.hash_points(X).packed)
    assert np.array_equal(restored.hash_hyperplane(plane).packed, one.hash_hyperplane(plane).packed)


@pytest.mark.parametrize(
    ("n_functions", "n_directions"), [(16, None), thorough(16, 8), thorough(32, None), (32, 8)]
)
def test_with_few_bits_it_finds_nearer_points_than_random_functions(n_functions, n_directions):
    """Of the points whose codes agree most with the hyperplane's, more are among the nearest."""
    X, cluster = clustered()
    labeled = np.concatenate([np.flatnonzero(cluster == c)[:5] for c in range(12)])
    labels = [Labels(labeled, X[labeled], cluster[labeled] == c) for c in range(12)]
    planes = [learn_svm(some, C=1.0, class_weight=None).hyperplane for some in labels]
    precision = {BHHash: [], LBHHash: []}
    for kind, seed in product(precision, range(4)):
        hasher = kind(n_functions=n_functions, n_directions=n_directions, random_state=seed).fit(X[:500])
        codes = hasher.hash_points(X).unpacked()
        for plane in planes:
            agree = (codes == hasher.hash_hyperplane(plane).unpacked()).sum(axis=1)
            nearest = np.argsort(np.abs(plane.scores(X)))[:150]
            likest = np.argsort(-agree, kind="stable")[:150]
            precision[kind].append(np.isin(likest, nearest).mean())
    assert np.mean(precision[LBHHash]) > 2 * np.mean(precision[BHHash])


def test_samples_are_counted():
    """Zero samples are none to learn from."""
    with pytest.raises(InputError, match="n_samples must be at least 1, got 0"):
        LBHHash(n_samples=0).fit(unit_rows())
