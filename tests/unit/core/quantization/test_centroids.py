"""The nearest centroid is that of a search of all, however many groups there are."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.quantization import centroids
from closecall.core.quantization.centroids import Centroids


def points(n: int, d: int, *, seed: int = 0) -> np.ndarray:
    """Points in a dozen clouds of different sizes."""
    rng = np.random.default_rng(seed)
    clouds = rng.standard_normal((12, d))
    widths = rng.uniform(0.05, 1, (12, 1))
    which = rng.integers(12, size=n)
    return (clouds[which] + widths[which] * rng.standard_normal((n, d))).astype(np.float32)


@pytest.mark.parametrize(("n", "d"), [(1, 3), (7, 1), (300, 32), (600, 5), (2000, 32)])
def test_the_nearest_of_all_is_found(n, d, monkeypatch):
    """Also of centroids that occur twice, and for points that are centroids, or far from all."""
    monkeypatch.setattr(centroids, "FEW", 20)
    own = points(n, d)
    own[n // 2] = own[0]
    grouped = Centroids.of(own)
    assert len(grouped.centres) == (1 if n <= 20 else int(4 * np.sqrt(n)))
    assert sorted(grouped.order) == list(range(n))
    wanted = np.concatenate([points(500, d, seed=1), own[:50], 100 * points(20, d, seed=2)])
    distances = ((wanted[:, None].astype(np.float64) - own[None]) ** 2).sum(axis=2)
    found = grouped.nearest(wanted)
    assert found.dtype == np.uint16
    apart = distances[np.arange(len(wanted)), found] - distances.min(axis=1)
    assert (apart <= 1e-5 * np.maximum(distances.min(axis=1), 1)).all()
    assert np.array_equal(found[:9], grouped.nearest(wanted[:9]))


def test_a_group_without_centroids(monkeypatch):
    """As where all centroids are the same."""
    monkeypatch.setattr(centroids, "FEW", 1)
    grouped = Centroids.of(np.ones((50, 4), dtype=np.float32))
    assert (np.diff(grouped.starts) == 0).any()
    assert len(grouped.nearest(points(10, 4))) == 10
