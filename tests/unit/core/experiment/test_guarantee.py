"""Tables with the guarantee on pools, held against brute force and theory."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.experiment.guarantee import HYPERPLANES, angles_from, try_hyperplanes, try_items
from closecall.core.experiment.planes import Plane
from closecall.core.hashing.augment import Augmentation
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool
from tests.scale import scaled

D, N = 12, 300
HOW = {"radius": 0.25, "epsilon": 1.0, "megabytes": 50}


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


@pytest.fixture(scope="module")
def pool():
    return ArrayPool(unit(np.random.default_rng(0).standard_normal((N, D))))


@pytest.fixture(scope="module")
def planes():
    rng = np.random.default_rng(1)
    return [
        Plane(Hyperplane(rng.standard_normal(D), rng.normal(scale=0.2)), np.arange(5 * i, 5 * i + 5), 0, "")
        for i in range(20)
    ]


def true_angles(pool, plane):
    """From the hyperplane, of the appended rows, in the plain way."""
    X = np.column_stack([pool.rows(np.arange(N)).astype(np.float64), np.ones(N)])
    w = np.append(plane.hyperplane.normal, plane.hyperplane.bias)
    angles = np.arcsin(np.abs(unit(X) @ w) / np.linalg.norm(w))
    angles[plane.labeled] = np.inf
    return angles


def test_angles_are_those_of_the_appended_rows(pool, planes):
    """From the hyperplane, not from its normal."""
    found = angles_from(planes[0].hyperplane, pool, Augmentation(np.zeros(D, np.float32), 1.0))
    rest = ~np.isin(np.arange(N), planes[0].labeled)
    assert np.allclose(found[rest], true_angles(pool, planes[0])[rest], atol=1e-6)


@pytest.mark.parametrize("name", HYPERPLANES)
def test_the_nearest_row_is_found_as_often_as_expected(pool, planes, name):
    """Over draws of the functions, in the mean over hyperplanes; labeled rows don't count."""
    draws = scaled(quick=16, all=100)
    tried = [try_hyperplanes(pool, name, planes, seed=seed, **HOW) for seed in range(draws)]
    first = tried[0]
    angles = np.array([true_angles(pool, plane) for plane in planes])
    assert np.allclose(first.nearest, angles.min(axis=1), atol=1e-4)
    assert first.built == first.needed
    assert first.n_bytes < 50e6
    rates = np.array([one.found.mean() for one in tried])
    error = rates.std(ddof=1) / np.sqrt(draws)
    assert abs(rates.mean() - first.expected.mean()) < 4 * error + 1e-3
    meets = first.nearest <= HOW["radius"]
    assert meets.any()
    success = np.array([one.success[meets].mean() for one in tried])
    assert success.mean() >= first.built.success - 4 * success.std(ddof=1) / np.sqrt(draws)
    assert all((one.success | ~one.found)[meets].all() for one in tried)
    assert all((one.candidates >= one.found).all() for one in tried)


@pytest.mark.parametrize("sparse", [False, True])
def test_nearest_items_are_found_as_often_as_expected(sparse):
    """The same between rows, dense and sparse."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((N, D)) * (rng.random((N, D)) < (0.5 if sparse else 1))
    X[:, 0] += 0.5
    pool = ArrayPool(csr_array(unit(X).astype(np.float32)) if sparse else unit(X))
    Q = unit(rng.standard_normal((30, D)) + unit(X)[:30] * 5).astype(np.float32)
    queries = csr_array(Q) if sparse else Q
    draws = scaled(quick=16, all=100)
    tried = [try_items(pool, queries, seed=seed, **{**HOW, "radius": 0.6}) for seed in range(draws)]
    cosines = Q.astype(np.float64) @ unit(X).T
    assert np.allclose(tried[0].nearest, np.arccos(cosines.max(axis=1)), atol=1e-3)
    rates = np.array([one.found.mean() for one in tried])
    error = rates.std(ddof=1) / np.sqrt(draws)
    assert abs(rates.mean() - tried[0].expected.mean()) < 4 * error + 1e-3
    meets = tried[0].nearest <= 0.6
    assert meets.any()
    success = np.mean([one.success[meets].mean() for one in tried])
    assert success >= tried[0].built.success


def test_less_memory_guarantees_less(pool, planes):
    """And what was built says so; what is needed stays the same."""
    whole, small = (
        try_hyperplanes(pool, "h-hash", planes, seed=0, **{**HOW, "megabytes": size}) for size in (50, 1)
    )
    assert small.needed == whole.needed
    assert small.built.n_tables < whole.built.n_tables
    assert small.built.success < whole.built.success
    assert small.expected.mean() < whole.expected.mean()
    with pytest.raises(InputError, match="radius and epsilon must satisfy"):
        try_hyperplanes(pool, "h-hash", planes, seed=0, **{**HOW, "radius": 1.0})
