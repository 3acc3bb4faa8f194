"""Pools and hyperplanes for the tests of the margin index, and the definition of what it looks for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool
from closecall.core.selection.margin import MarginIndex

WHERE = ("bulk", "side", "beside")


def near_exact(pool: ArrayPool, confidence: float = 0.99, **params: object) -> MarginIndex:
    """An index without a budget."""
    return MarginIndex(budget=None, confidence=confidence, **params).fit(pool)


def clustered_pool(n: int, d: int, *, seed: int = 0) -> ArrayPool:
    """A dozen Gaussians about a common direction, with some directions wider than others; ids with gaps."""
    rng = np.random.default_rng(seed)
    X = 0.7 * rng.standard_normal((12, d))[rng.integers(12, size=n)]
    X += rng.standard_normal((n, d)) * np.linspace(1.5, 0.4, d)
    X[:, 0] += np.sqrt(d) / 2
    return ArrayPool(X, ids=3 + 2 * np.arange(n))


def heavy_tailed_pool(n: int, d: int, *, seed: int = 0) -> ArrayPool:
    """Student's t with 3 degrees of freedom in every coordinate; all directions are alike."""
    rng = np.random.default_rng(seed)
    X = rng.standard_t(3, (n, d))
    X[:, 0] += np.sqrt(d)
    return ArrayPool(X, ids=3 + 2 * np.arange(n))


def uneven_pool(n: int, d: int, *, seed: int = 0) -> ArrayPool:
    """Wide leading directions; in the others one row of fifty is three times as wide as the rest."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.linspace(1.5, 0.4, d)
    X[::50, 64:] *= 3
    X[:, 0] += 3 * np.sqrt(d)  # or unit norms would undo that
    return ArrayPool(X, ids=3 + 2 * np.arange(n))


def features(pool: ArrayPool) -> NDArray[np.float64]:
    """All rows of the pool."""
    return pool.rows(np.arange(len(pool))).astype(np.float64)


def planes_of(pool: ArrayPool, n: int, where: str, *, seed: int = 0) -> list[Hyperplane]:
    """Hyperplanes through the `bulk` of the pool, at its outermost items (`side`), or `beside` them all."""
    rng = np.random.default_rng([seed, WHERE.index(where)])
    normals = rng.standard_normal((n, pool.n_features))
    scores = np.sort(normals @ features(pool).T, axis=1)
    shares = rng.uniform(0.1, 0.9, n)
    cuts = {
        "bulk": scores[np.arange(n), (shares * len(pool)).astype(int)],
        "side": scores[:, -5:].mean(axis=1),
        "beside": scores[:, -1] + 2 * scores.std(axis=1),
    }[where]
    return [Hyperplane(normal, -cut) for normal, cut in zip(normals, cuts, strict=True)]


def true_margins(pool: ArrayPool, planes: list[Hyperplane]) -> NDArray[np.float64]:
    """|wᵀx + b| under each hyperplane of every item, of shape (len(planes), N)."""
    normals = np.array([plane.normal for plane in planes])
    return np.abs(normals @ features(pool).T + np.array([[plane.bias] for plane in planes]))


def shares_found(
    index: MarginIndex, planes: list[Hyperplane], true: NDArray[np.float64], n: int = 1
) -> float:
    """For which share of the hyperplanes the n selected items are the n nearest there are."""
    hits = [
        index.select(plane, n).margins[-1] <= np.partition(margins, n - 1)[n - 1] + 1e-12
        for plane, margins in zip(planes, true, strict=True)
    ]
    return float(np.mean(hits))
