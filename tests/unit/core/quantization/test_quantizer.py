from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from closecall.core.quantization import quantizer
from closecall.core.quantization.quantizer import BLOCK, CLUSTERED, HEADROOM, Quantizer

DIMENSIONS = [1, 2, 31, 32, 33, 63, 64, 65, 130]
every_dimension = pytest.mark.parametrize("d", DIMENSIONS)


def sample(n: int, d: int, *, seed: int = 0) -> np.ndarray:
    """Rows with correlated features of different spread, away from the origin."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ (rng.standard_normal((d, d)) * rng.exponential(size=d)) / d
    return (X + rng.standard_normal(d)).astype(np.float32)


def along(fitted: Quantizer, X: np.ndarray) -> np.ndarray:
    """The rows' coordinates along the principal directions, in float64."""
    return (X.astype(np.float64) - fitted.centre) @ fitted.directions.astype(np.float64)


def decoded(fitted: Quantizer, codes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The coordinates that the bytes stand for."""
    P = codes[:, : len(fitted.steps)] * fitted.steps.astype(np.float64)
    P[:, : fitted.centroids.shape[1]] += fitted.centroids[labels]
    return P


@every_dimension
def test_directions_are_orthonormal_and_in_the_order_of_variance(d):
    """They diagonalise the covariance, and its greatest eigenvalue comes first."""
    X = sample(400, d)
    fitted = Quantizer.fitted(X, 5, seed=0)
    V = fitted.directions.astype(np.float64)
    assert np.allclose(V.T @ V, np.eye(d), atol=1e-6)
    assert np.allclose(fitted.centre, X.mean(axis=0, dtype=np.float64), atol=1e-6)
    covariance = np.atleast_2d(np.cov(X.T.astype(np.float64), bias=True))
    spread = np.linalg.eigvalsh(covariance)[::-1]
    assert np.allclose(V.T @ covariance @ V, np.diag(spread), atol=1e-6 * spread[0])


@every_dimension
def test_bytes_say_where_a_row_is_to_within_half_a_step(d):
    """Also of rows that were not fitted, if they are within the headroom; the last block ends in zeros."""
    X = sample(500, d)
    fitted = Quantizer.fitted(X[:300], 7, seed=1)
    assert (fitted.steps > 0).all()
    for rows in (X[:300], X[300:]):
        labels = fitted.labels(rows)
        codes = fitted.encode(rows, labels)
        assert codes.dtype == np.int8
        assert codes.shape == (len(rows), fitted.n_blocks * BLOCK)
        assert fitted.n_blocks * BLOCK - BLOCK < d <= fitted.n_blocks * BLOCK
        assert not codes[:, d:].any()
        wrong = np.abs(decoded(fitted, codes, labels) - along(fitted, rows))
        inside = np.abs(codes[:, :d]) < 127
        assert (wrong <= fitted.steps / 2 + 1e-6)[inside].all()
        assert inside.all() or rows is not X[:300]


def test_the_headroom_is_left_above_the_fitted_rows_and_is_not_idle():
    """The largest fitted coordinate takes 127 / HEADROOM steps."""
    X = sample(1000, 70)
    fitted = Quantizer.fitted(X, 6, seed=0)
    largest = np.abs(fitted.encode(X, fitted.labels(X)).astype(int)).max(axis=0)[:70]
    assert (np.abs(largest - 127 / HEADROOM) <= 1).all()


def test_rows_far_beyond_the_limits_keep_their_sign_and_never_wrap_around():
    """A byte ends at ±127."""
    X = sample(300, 40)
    fitted = Quantizer.fitted(X, 4, seed=0)
    far = (fitted.centre + 1e4 * (X - fitted.centre)).astype(np.float32)
    labels = fitted.labels(far)
    codes = fitted.encode(far, labels)[:, :40].astype(int)
    P = along(fitted, far)
    P[:, : fitted.centroids.shape[1]] -= fitted.centroids[labels]
    beyond = np.abs(P) > 128 * fitted.steps
    assert beyond.mean() > 0.9
    assert np.array_equal(codes[beyond], 127 * np.sign(P[beyond]))


@every_dimension
def test_a_row_belongs_to_the_cluster_whose_centroid_is_nearest(d):
    """In the leading coordinates, also where there are more rows than are looked at together."""
    X = sample(quantizer._ROWS_AT_ONCE + 60, d)
    fitted = Quantizer.fitted(X[:500], 20, seed=0)
    labels = fitted.labels(X)
    leading = along(fitted, X)[:, :CLUSTERED]
    assert fitted.centroids.shape == (20, min(d, CLUSTERED))
    distances = ((leading[:, None] - fitted.centroids[None]) ** 2).sum(axis=2)
    chosen = distances[np.arange(len(X)), labels]
    assert (chosen <= distances.min(axis=1) + 1e-6 * (leading**2).sum(axis=1).max()).all()
    assert len(np.unique(labels)) == 20


def test_each_round_of_k_means_brings_the_centroids_nearer(monkeypatch):
    """Lloyd's algorithm never increases the sum of squares; in the end each centroid is its rows' mean."""
    X = sample(600, 6)

    def squares(iterations: int) -> float:
        monkeypatch.setattr(quantizer, "ITERATIONS", iterations)
        fitted = Quantizer.fitted(X, 12, seed=3)
        distances = ((along(fitted, X)[:, None] - fitted.centroids[None]) ** 2).sum(axis=2)
        return float(distances.min(axis=1).sum())

    sums = [squares(iterations) for iterations in (0, 1, 2, 4, 8, 15, 60)]
    assert all(later <= earlier for earlier, later in pairwise(sums))
    assert sums[5] < 0.8 * sums[0]
    fitted = Quantizer.fitted(X, 12, seed=3)
    P, labels = along(fitted, X), fitted.labels(X)
    means = [P[labels == c].mean(axis=0) for c in range(12)]
    assert np.allclose(fitted.centroids, means, atol=1e-5)


def test_a_cluster_without_rows_starts_again_elsewhere():
    """Of few distinct rows with many copies each, every one has a centroid of its own."""
    few = sample(5, 3)
    X = np.repeat(few, [200, 100, 50, 20, 10], axis=0)
    fitted = Quantizer.fitted(X, 12, seed=0)
    assert len(np.unique(fitted.labels(few))) == 5
    assert np.allclose(fitted.centroids[fitted.labels(few)], along(fitted, few), atol=1e-6)


def test_the_same_rows_and_seed_give_the_same_quantizer_and_another_seed_another_one():
    """Nothing else is random about it; the seed says where the clusters start."""
    X = sample(700, 40)
    one, again, other = (Quantizer.fitted(X, 30, seed).arrays() for seed in (4, 4, 5))
    assert all(np.array_equal(array, again[name]) for name, array in one.items())
    assert not np.array_equal(one["centroids"], other["centroids"])
    assert np.array_equal(one["directions"], other["directions"])


def test_the_number_of_threads_changes_nothing():
    """To the last bit, with as many features as LAPACK shares out among threads."""
    X = sample(700, 384)
    quantizers = []
    for threads in (1, 2, 3):
        with threadpool_limits(threads):
            quantizers.append(Quantizer.fitted(X, 5, seed=0).arrays())
    for name, array in quantizers[0].items():
        assert np.array_equal(array, quantizers[1][name]), name
        assert np.array_equal(array, quantizers[2][name]), name


def test_a_direction_has_one_sign_however_the_rows_are_ordered():
    """An eigenvector times −1 is an eigenvector, too: its largest entry is positive."""
    X = sample(500, 33)
    fitted = Quantizer.fitted(X, 3, seed=0)
    largest = np.abs(fitted.directions).argmax(axis=0)
    assert (fitted.directions[largest, np.arange(33)] > 0).all()
    turned_round = Quantizer.fitted(X[::-1].copy(), 3, seed=0)
    assert np.allclose(fitted.directions, turned_round.directions, atol=1e-3)


@pytest.mark.parametrize(
    "X",
    [
        pytest.param(sample(1, 5), id="one row"),
        pytest.param(sample(1, 1), id="one number"),
        pytest.param(sample(3, 70), id="fewer rows than clusters and features"),
        pytest.param(np.repeat(sample(1, 40), 50, axis=0), id="copies of one row"),
        pytest.param(np.repeat(sample(2, 40), 50, axis=0), id="copies of two rows"),
        pytest.param(np.pad(sample(90, 3), ((0, 0), (0, 67)), constant_values=0.25), id="constant features"),
        pytest.param(1e-20 * sample(60, 8), id="minute"),
    ],
)
def test_a_sample_without_spread_is_one(X):
    """Steps stay positive, numbers finite, labels in range, and bytes decode to within half a step."""
    fitted = Quantizer.fitted(X, 8, seed=0)
    assert len(fitted.centroids) == min(8, len(X))
    assert all(np.isfinite(array).all() for array in fitted.arrays().values())
    assert (fitted.steps > 0).all()
    labels = fitted.labels(X)
    assert labels.max() < len(fitted.centroids)
    codes = fitted.encode(X, labels)
    wrong = np.abs(decoded(fitted, codes, labels) - along(fitted, X))
    assert (wrong <= fitted.steps / 2 + 1e-6 * np.abs(X).max()).all()


def test_a_direction_without_spread_takes_no_part_in_the_error():
    """Its step is small beside the others', and yet not so small that rounding errors reach its limits."""
    X = (sample(600, 3) @ sample(3, 30) + 1).astype(np.float32)
    fitted = Quantizer.fitted(X[:200], 4, seed=0)
    assert (fitted.steps[3:] <= 2e-6 * fitted.steps.max()).all()
    assert np.abs(fitted.encode(X, fitted.labels(X))[:, 3:].astype(int)).max() < 127
