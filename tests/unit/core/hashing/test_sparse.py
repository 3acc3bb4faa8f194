"""Hashing of sparse rows: the bits of the same rows made dense, and directions without centring them."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, EHHash, HHash, LBHHash
from closecall.core.hashing.augment import Augmentation
from closecall.core.hashing.directions import principal_directions
from closecall.core.hashing.projection import drawn
from closecall.core.linear.hyperplane import Hyperplane, unit_rows

FAMILIES = [(HHash, {}), (BHHash, {}), (EHHash, {"rank": 3}), (EHHash, {"rank": "auto"})]


def bags(n: int, d: int, seed: int = 0) -> csr_array:
    rng = np.random.default_rng(seed)
    X = random_array((n, d), density=min(1, 20 / d), rng=rng, dtype=np.float32).tolil()
    X[np.arange(n), rng.integers(0, d, n)] = 1
    return unit_rows(csr_array(X) @ csr_array(np.diag(1 / np.arange(1, d + 1) ** 0.3)))


def plane(d: int, seed: int = 1) -> Hyperplane:
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal(d) * (rng.random(d) < 0.5)
    return Hyperplane(normal, float(rng.standard_normal()))


@pytest.mark.parametrize(("family", "params"), FAMILIES)
@pytest.mark.parametrize("centred", [True, False])
def test_bits_are_those_of_the_dense_rows_under_the_same_functions(family, params, centred) -> None:
    """Of points and hyperplanes, with all features, but for projections without a sign to speak of."""
    X = bags(300, 80)
    sparse = family(n_functions=70, centred=centred, **params).fit(X)
    arrays = {name: a.astype(np.float32) if a.dtype == np.int8 else a for name, a in sparse.arrays().items()}
    dense = family(n_functions=70, centred=centred, **params).restored(arrays)
    differ = sparse.hash_points(X).unpacked() != dense.hash_points(X.toarray()).unpacked()
    assert differ.mean() < 1e-4
    for seed in range(5):
        one, other = (hasher.query(plane(80, seed)) for hasher in (sparse, dense))
        assert np.array_equal(one.code.packed, other.code.packed)
        assert np.allclose(one.weights, other.weights, rtol=1e-3, atol=1e-3 * np.abs(other.weights).max())


@pytest.mark.parametrize("n", [30, 200, 1500])
def test_directions_are_those_of_the_dense_rows(n) -> None:
    """From the Gram matrix of few rows, by Lanczos' method of many: mean, directions and constant agree."""
    X = bags(n, 120)
    sparse = Augmentation.fitted(X, centred=True, scale=1.3, n_directions=5)
    dense = Augmentation.fitted(X.toarray(), centred=True, scale=1.3, n_directions=5)
    assert np.allclose(sparse.centre, dense.centre, rtol=0, atol=1e-6)
    assert sparse.constant == pytest.approx(dense.constant, rel=1e-5)
    assert np.allclose(sparse.directions, dense.directions, rtol=0, atol=1e-4)
    assert np.allclose(sparse.points(X), dense.points(X.toarray()), rtol=0, atol=1e-4)
    w = plane(120)
    assert np.allclose(sparse.hyperplane(w), dense.hyperplane(w), rtol=0, atol=1e-4)


def test_rows_that_span_less_get_directions_all_the_same() -> None:
    """Orthonormal ones, of which those beyond the span have no energy."""
    X = bags(3, 50)[[0, 1, 2, 0, 1]]
    energies, directions = principal_directions(X, X.toarray().mean(axis=0).astype(np.float64), 8)
    assert np.allclose(directions.T @ directions, np.eye(8), rtol=0, atol=1e-9)
    assert np.count_nonzero(energies > 1e-9) == 2
    assert np.array_equal(energies, np.sort(energies))


def test_scores_are_kept_by_points_that_are_never_made() -> None:
    """[w, (b + wᵀμ)/c]ᵀ[x − μ, c] = wᵀx + b up to the norm of the first."""
    X = bags(50, 4000)
    augmentation = Augmentation.fitted(X, centred=True, scale=1.0, n_directions=None)
    w = plane(4000)
    scores = (augmentation.points(X) @ augmentation.hyperplane(w)[:, None])[:, 0]
    length = np.hypot(w.norm, (w.bias + w.normal @ augmentation.centre) / augmentation.constant)
    assert np.allclose(length * scores, w.scores(X), rtol=0, atol=1e-4)


def test_numbers_drawn_as_bytes_are_gaussian() -> None:
    """Mean, variance and kurtosis within four standard errors; another seed gives others."""
    numbers = drawn(np.random.default_rng(0), (1000, 300), as_bytes=True).astype(np.float64) / 32
    n = numbers.size
    assert abs(numbers.mean()) < 4 / n**0.5
    assert abs(numbers.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs((numbers**4).mean() - 3) < 4 * (96 / n) ** 0.5
    assert abs(np.corrcoef(numbers.T)[np.triu_indices(300, 1)]).max() < 0.2


def test_a_large_vocabulary_is_never_made_dense() -> None:
    """EH-Hash of all 100,000 features: the functions take a byte a number, and nothing else counts."""
    rng = np.random.default_rng(0)
    rows, words = np.repeat(np.arange(3000), 50), rng.integers(0, 100_000, 150_000)
    X = csr_array((np.ones(150_000, np.float32), (rows, words)), shape=(3000, 100_000))
    X.sum_duplicates()
    X = unit_rows(X)
    tracemalloc.start()
    hasher = EHHash(n_functions=100, rank=2).fit(X)
    hasher.hash_points(X)
    hasher.query(plane(100_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert hasher.factors_.nbytes == 100_001 * 400
    assert most < hasher.factors_.nbytes + 60e6


def test_what_would_be_too_large_is_refused_in_one_sentence() -> None:
    """Learned functions of all features, and a dense U."""
    X = csr_array((np.ones(10, np.float32), (np.arange(10), np.arange(10))), shape=(10, 50_000))
    with pytest.raises(InputError, match=r"learns from sparse rows of at most 4,000 features, got 50,000"):
        LBHHash(n_functions=4).fit(X)
    with pytest.raises(InputError, match=r"rank='dense' takes at most 1,000 features, got 50,000"):
        EHHash(rank="dense").fit(X)
