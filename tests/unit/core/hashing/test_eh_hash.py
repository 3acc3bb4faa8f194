from __future__ import annotations

import numpy as np
import pytest

from closecall.core.hashing import EHHash
from closecall.core.hashing.eh_hash import _sampled
from closecall.core.linear.hyperplane import Hyperplane

PLANE = Hyperplane(np.array([1.0, -2, 0.5, 3, 0.1, 1]), -0.7)


def test_the_dense_form_is_the_sign_of_a_quadratic_form():
    """sign(zᵀUz) for a symmetric U with the stored triangle, and its negation for the hyperplane."""
    X = (np.random.default_rng(0).standard_normal((1_000, 6)) + 1).astype(np.float32)
    hasher = EHHash(n_functions=20, rank="dense").fit(X)
    Z = hasher.augmentation_.points(X[:200]).astype(np.float64)
    w = hasher.augmentation_.hyperplane(PLANE).astype(np.float64)
    i, j = np.triu_indices(7)
    bits = hasher.hash_points(X[:200]).unpacked()
    query = hasher.hash_hyperplane(PLANE).unpacked()[0]
    for f in range(20):
        U = np.zeros((7, 7))
        U[i, j] = hasher.dense_[:, f]
        forms = np.einsum("ni,ij,nj->n", Z, U, Z)
        assert np.array_equal(bits[:, f][np.abs(forms) > 1e-5], (forms > 0)[np.abs(forms) > 1e-5])
        assert query[f] == (w @ U @ w <= 0)
    assert np.var(hasher.dense_[i != j]) / np.var(hasher.dense_[i == j]) == pytest.approx(2, rel=0.5)


def test_the_sampled_query_is_an_unbiased_estimate():
    """With the rescaling v_i/(t·p_i) the mean of many samples is vec(wwᵀ); without it would be far off."""
    rng = np.random.default_rng(0)
    w = rng.standard_normal(5).astype(np.float32)
    i, j = np.triu_indices(5)
    total = np.zeros(len(i))
    for _ in range(400):
        total += _sampled(w, 100, rng)
    expected = np.where(i == j, 1, 2) * w[i] * w[j]
    assert np.allclose(total / 400, expected, atol=0.15 * np.abs(expected).max())


def test_it_is_dense_where_that_is_no_dearer():
    """Up to 15 dimensions, and of rank 4 beyond."""
    rng = np.random.default_rng(0)
    assert EHHash().fit(rng.standard_normal((9, 14)).astype(np.float32)).rank_ is None
    assert EHHash().fit(rng.standard_normal((9, 15)).astype(np.float32)).rank_ == 4
