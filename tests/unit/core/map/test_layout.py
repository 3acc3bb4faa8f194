from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.manifold import trustworthiness

from closecall.core.errors import InputError
from closecall.core.map.layout import PLACED_BY, POWER, Layout, lay_out, umap_positions


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clusters(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of three clusters far from each other, and the cluster of each."""
    rng = np.random.default_rng(seed)
    own = rng.integers(3, size=n)
    centres = np.random.default_rng(99).standard_normal((3, 20)) * 3
    return unit(centres[own] + rng.standard_normal((n, 20)) * 0.7), own


@pytest.fixture
def layout() -> Layout:
    """A layout of 200 rows whose positions are arbitrary."""
    rng = np.random.default_rng(1)
    X, _ = clusters(200)
    axes = np.linalg.qr(rng.standard_normal((20, 6)))[0].astype(np.float32)
    centre = (X.mean(axis=0) @ axes).astype(np.float32)
    return Layout(axes, centre, X @ axes - centre, rng.standard_normal((200, 2)).astype(np.float32))


def test_items_are_placed_by_their_nearest_sample_items(layout):
    """Compared with the definition, in float64, over all sample items."""
    X, _ = clusters(300, seed=5)
    components = X.astype(np.float64) @ layout.axes.astype(np.float64) - layout.centre
    expected = []
    for x in components:
        distances = np.linalg.norm(layout.sample.astype(np.float64) - x, axis=1)
        nearest = np.argsort(distances)[:PLACED_BY]
        weights = 1 / distances[nearest] ** POWER
        expected.append(weights @ layout.positions[nearest] / weights.sum())
    assert np.allclose(layout.place([X[:100], X[100:]]), expected, atol=1e-3)


def test_a_sample_item_is_placed_at_its_own_position(layout):
    """As Shepard's interpolation does."""
    X, _ = clusters(200)
    assert np.allclose(layout.place([X]), layout.positions, atol=1e-3)


def test_sparse_rows_are_placed_as_dense_ones(layout):
    """Texts have sparse rows."""
    X, _ = clusters(50, seed=5)
    assert np.allclose(layout.place([csr_array(X)]), layout.place([X]), atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 300), (300, 12), (300, 1), (20, 2)])
def test_the_axes_are_the_principal_ones(monkeypatch, shape):
    """Of dense and sparse rows, few and many columns: as many as there are, and up to 50."""
    monkeypatch.setattr("closecall.core.map.layout.umap_positions", lambda sample, **_: sample[:, :2])
    rng = np.random.default_rng(2)
    X = (rng.standard_normal(shape) * (rng.random(shape) < 0.4)).astype(np.float32)
    centred = X - X.mean(axis=0)
    spread = np.sort(np.linalg.svd(centred, compute_uv=False))[::-1]
    for rows in (X, csr_array(X)):
        sample = lay_out(rows).sample
        assert sample.shape == (shape[0], min(50, shape[0] - 1, shape[1]))
        assert np.allclose(np.linalg.norm(sample, axis=0), spread[: sample.shape[1]], rtol=1e-3, atol=1e-4)


def test_umap_starts_from_the_first_components(monkeypatch):
    """It gets the exact neighbours and the seed; compiling it takes ten seconds, so nothing is optimized."""
    given: dict[str, Any] = {}

    class Start:
        def __init__(self, **parameters):
            given.update(parameters)

        def fit_transform(self, sample):
            assert np.array_equal(sample, components)
            return given["init"]

    monkeypatch.setattr("closecall.core.map.layout._umap", lambda: SimpleNamespace(UMAP=Start))
    components = np.random.default_rng(3).standard_normal((60, 4)).astype(np.float32)
    positions = umap_positions(components, seed=5)
    assert np.corrcoef(positions[:, 0], components[:, 0])[0, 1] > 0.999
    assert np.corrcoef(positions[:, 1], components[:, 1])[0, 1] > 0.999
    neighbours, distances, _ = given["precomputed_knn"]
    exact = np.linalg.norm(components[:, None] - components[None], axis=2)
    assert np.allclose(distances, np.sort(exact)[:, :15], atol=1e-3)
    assert np.allclose(np.take_along_axis(exact, neighbours, axis=1), distances, atol=1e-3)
    assert (given["random_state"], given["n_jobs"]) == (5, 1)


@pytest.mark.slow
@pytest.mark.thorough
def test_near_items_are_near_on_the_map():
    """Clusters stay apart, for the sample and for the items placed by it, and neighbours stay neighbours."""
    X, own = clusters(400)
    others, of_others = clusters(300, seed=5)
    layout = lay_out(X)
    placed = layout.place([others])
    for positions, labels in ((layout.positions, own), (placed, of_others)):
        far = np.linalg.norm(positions[:, None] - positions[None], axis=2)
        np.fill_diagonal(far, np.inf)
        assert (labels[far.argmin(axis=1)] == labels).mean() > 0.98
    assert trustworthiness(X, layout.positions, n_neighbors=15) > 0.9
    assert trustworthiness(others, placed, n_neighbors=15) > 0.85
    again = lay_out(X)
    assert all(np.array_equal(a, b) for a, b in zip(vars(layout).values(), vars(again).values(), strict=True))
    sparse = lay_out(csr_array(X))
    assert trustworthiness(X, sparse.positions, n_neighbors=15) > 0.9


@pytest.mark.slow
@pytest.mark.thorough
def test_equal_items_get_finite_positions():
    """A pool may hold one image many times, and nothing else."""
    X = unit(np.ones((40, 5)))
    layout = lay_out(X)
    assert np.isfinite(layout.positions).all()
    assert np.isfinite(layout.place([X])).all()


def test_a_missing_package_is_named_with_its_extra(monkeypatch):
    """In one sentence."""
    monkeypatch.setitem(sys.modules, "umap", None)
    with pytest.raises(InputError, match=r'umap-learn, which cannot be .*: pip install "closecall\[map\]"$'):
        umap_positions(np.zeros((20, 2), np.float32), seed=0)
