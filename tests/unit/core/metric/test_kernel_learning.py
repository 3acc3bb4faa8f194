"""Kernel learning by LogDet: algorithm 1, corrected, against ITML and what must hold at the optimum."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.metric import ITML, Constraints, KernelLearning
from closecall.core.metric.kernel_learning import root_of
from closecall.core.metric.metrics import weights_of

C, D = 24, 4


def rows(seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((C, D))
    X[:, 0] = 0.3 * X[:, 0] + np.arange(C) % 2
    return X, np.arange(C) % 2


def rbf(X, Y):
    return np.exp(-0.5 * ((X[:, None] - Y) ** 2).sum(axis=2))


def given_for(F, y, seed=0):
    return Constraints.from_labels(F, y, n_pairs=30, percentiles=(20, 80), random_state=seed)


@pytest.mark.parametrize("form", ["explicit", "implicit"])
@pytest.mark.parametrize("gamma", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("seed", [0, 1])
def test_it_agrees_with_itml(form, gamma, seed):
    """K = XAXᵀ, though K₀ = XXᵀ is singular; and κ + kᵀMk of rows that it has not seen is qᵀAx."""
    X, y = rows(seed)
    given = given_for(X, y, seed)
    learned = KernelLearning(gamma=gamma, tol=1e-11, max_passes=50_000).fit(X @ X.T, given)
    other = ITML(gamma=gamma, form=form, tol=1e-11, max_passes=50_000).fit(X, given)
    assert learned.projections_.converged
    assert np.allclose(learned.kernel_, other.metric_.inner(X, X), rtol=1e-8, atol=1e-8)
    assert np.allclose(learned.projections_.multipliers, other.projections_.multipliers, atol=1e-7)
    assert np.allclose(learned.projections_.bounds, other.projections_.bounds, rtol=1e-8)
    Q = np.random.default_rng(5).standard_normal((6, D))
    seen = Q @ X.T @ learned.weights_ @ X @ X.T
    assert np.allclose(Q @ X.T + seen, other.metric_.inner(Q, X), rtol=1e-8, atol=1e-8)
    assert np.abs(learned.kernel_ - X @ X.T).max() > 0.05


@pytest.mark.parametrize("passes", [1, 2, 5])
def test_it_agrees_with_itml_on_the_way(passes):
    """After each pass, of a kernel whose space has no end of dimensions: K, M, multipliers and bounds."""
    X, y = rows()
    K0 = rbf(X, X)
    given = given_for(root_of(K0), y)
    learned = KernelLearning(max_passes=passes, tol=1e-15, random_state=3).fit(K0, given)
    other = ITML(max_passes=passes, tol=1e-15, random_state=3)
    M = weights_of(other.learn_kernel(K0, given, given.pairs), K0)
    assert np.allclose(learned.kernel_, K0 + K0 @ M @ K0, atol=1e-10)
    assert np.allclose(learned.weights_, M, atol=1e-9)
    assert np.allclose(learned.projections_.multipliers, other.projections_.multipliers, atol=1e-9)
    assert np.allclose(learned.projections_.bounds, other.projections_.bounds, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.1, 1.0, np.inf])
def test_what_must_hold_at_the_optimum_does(gamma):
    """The Lagrangian is stationary, multipliers are not negative, and zero where there is room."""
    X, y = rows()
    K0 = rbf(X, X)
    given = given_for(root_of(K0), y)
    if np.isinf(gamma):
        given = Constraints.from_pairs(root_of(K0), [(0, 2), (1, 5)], [(0, 1), (4, 7)], percentiles=(25, 75))
    learned = KernelLearning(gamma=gamma, tol=1e-12, max_passes=50_000).fit(K0, given)
    ended, K = learned.projections_, learned.kernel_
    i, j = given.pairs.T
    U = np.zeros((len(given), C))
    U[np.arange(len(given)), i], U[np.arange(len(given)), j] = 1, -1
    sign = np.where(given.similar, 1, -1)
    inverse = np.linalg.inv(K0) + (U * (sign * ended.multipliers)[:, None]).T @ U
    assert np.allclose(K @ inverse, np.eye(C), atol=1e-6)
    if np.isfinite(gamma):
        assert np.allclose(1 / ended.bounds, 1 / given.targets - sign * ended.multipliers / gamma)
    else:
        assert np.array_equal(ended.bounds, given.targets)
    room = sign * (ended.bounds - np.einsum("ij,jk,ik->i", U, K, U))
    assert (ended.multipliers >= 0).all()
    assert (room > -1e-7).all()
    assert (ended.multipliers * room < 1e-7).all()
    assert (ended.multipliers > 0).any()
    assert np.linalg.eigvalsh(K)[0] > 0
    assert np.allclose(K, K.T, atol=1e-12)


def test_the_weights_make_the_kernel():
    """K = K₀ + K₀MK₀ (eq. 36), and M as there, where K₀ can be inverted."""
    X, y = rows()
    K0 = rbf(X, X) + 0.1 * np.eye(C)
    learned = KernelLearning().fit(K0, given_for(root_of(K0), y))
    M = np.linalg.solve(K0, np.linalg.solve(K0, learned.kernel_ - K0).T).T
    assert np.allclose(learned.weights_, M, atol=1e-8)
    assert np.allclose(K0 + K0 @ learned.weights_ @ K0, learned.kernel_, atol=1e-12)


def test_bad_input_gets_one_clear_sentence():
    """Parameters, kernels that are none, rows that aren't there, and constraints at odds with each other."""
    X, y = rows()
    K0 = rbf(X, X)
    given = given_for(X, y)
    with pytest.raises(InputError, match="gamma must be positive, got 0"):
        KernelLearning(gamma=0).fit(K0, given)
    with pytest.raises(InputError, match=r"tol must be positive and max_passes at least 1, got 0\.001 and 0"):
        KernelLearning(max_passes=0).fit(K0, given)
    with pytest.raises(InputError, match="a kernel must be a finite symmetric matrix"):
        KernelLearning().fit(K0[:5], given)
    with pytest.raises(
        InputError, match="the kernel is not positive semidefinite: its smallest eigenvalue is -1"
    ):
        KernelLearning().fit(-np.eye(C), given)
    with pytest.raises(InputError, match="constraints must be on the 10 rows of the kernel, got row 23"):
        KernelLearning().fit(K0[:10, :10], given)
    near = Constraints(np.array([[0, 1], [0, 2], [1, 2]]), np.array([True, True, False]), 0.01, 5.0)
    with pytest.raises(InputError, match="the constraints contradict each other"):
        KernelLearning(gamma=np.inf, max_passes=200).fit(np.eye(3), near)
