"""Quantization of the rows of a pool: principal directions, clusters, and one byte per coordinate.

A row x becomes p = Vᵀ(x − μ), where μ is the mean of the rows and V has the principal directions of the pool,
in descending order of variance. The row is assigned to the cluster whose centroid is nearest in the first
`CLUSTERED` coordinates, and encoded by the bytes

    q_j = round((p_j − c_j) / Δ_j).

Here c is the centroid, with zeros beyond the first `CLUSTERED` coordinates, and Δ_j is a step that depends on
the coordinate. With u = Vᵀw,

    wᵀx + b ≈ (b + wᵀμ + Σ_j u_j c_j) + Σ_j (u_j Δ_j) q_j.

The first term is one number per cluster, and the second is a weighted sum of integers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import settled_signs
from closecall.core.numerics.blas import one_thread
from closecall.core.quantization.centroids import Centroids

Arrays = dict[str, NDArray[np.generic]]
Floats32 = NDArray[np.float32]
Labels = NDArray[np.uint16]

BLOCK = 64
"""Number of coordinates that are read together; their bytes fill one cache line."""

CLUSTERED = 32
"""Number of leading coordinates by which rows are clustered."""

HEADROOM = 1.5
"""Largest value that a byte can encode, as a multiple of the largest coordinate of the fitted rows."""

MAX_CLUSTERS = 8192
ITERATIONS = 15
_ROWS_AT_ONCE = 4096
_TILE = 64


@dataclass(frozen=True, eq=False)
class Quantizer:
    """Map from rows to clusters and bytes.

    Parameters
    ----------
    centre : array of shape (d,), float32
        Mean μ of the rows.
    directions : array of shape (d, d), float32
        Principal directions V: orthonormal columns in descending order of variance.
    centroids : array of shape (n_clusters, min(d, CLUSTERED)), float32
        Centroids c of the clusters.
    steps : array of shape (d,), float32
        Positive steps Δ, one for each coordinate.
    """

    centre: Floats32
    directions: Floats32
    centroids: Floats32
    steps: Floats32

    @classmethod
    @one_thread()
    def fitted(cls, X: Floats32, n_clusters: int, seed: int) -> Quantizer:
        """Fit a quantizer to the sample X of shape (n, d): principal directions, then Lloyd's k-means."""
        centre: NDArray[np.float64] = X.mean(axis=0, dtype=np.float64)
        starts = range(0, len(X), _ROWS_AT_ONCE)

        def centred(start: int) -> NDArray[np.float64]:
            return X[start : start + _ROWS_AT_ONCE].astype(np.float64) - centre

        P = np.empty(X.shape, dtype=np.float32)
        covariance = sum(rows.T @ rows for rows in map(centred, starts)) / len(X)
        _, vectors = np.linalg.eigh(covariance)
        vectors = settled_signs(vectors[:, ::-1])
        for start in starts:
            P[start : start + _ROWS_AT_ONCE] = centred(start) @ vectors
        directions = np.ascontiguousarray(vectors, dtype=np.float32)
        n_leading = min(CLUSTERED, X.shape[1])
        leading = np.ascontiguousarray(P[:, :n_leading])
        centroids = _k_means(leading, min(n_clusters, len(X)), np.random.default_rng(seed))
        P[:, :n_leading] -= centroids[Centroids.of(centroids).nearest(leading)]
        steps = HEADROOM / 127 * np.abs(P).max(axis=0)
        # A coordinate without variation gets a step that is small compared with the others.
        steps = np.maximum(steps, 1e-6 * steps.max() or 1.0).astype(np.float32)
        return cls(centre.astype(np.float32), directions, centroids, steps)

    def arrays(self) -> Arrays:
        """Return the arrays that define the quantizer, by name."""
        return {
            "centre": self.centre,
            "directions": self.directions,
            "centroids": self.centroids,
            "steps": self.steps,
        }

    @property
    def n_blocks(self) -> int:
        """Number of blocks of `BLOCK` bytes per row; the last block is padded with zeros."""
        return -(-len(self.centre) // BLOCK)

    @cached_property
    def _grouped(self) -> Centroids:
        return Centroids.of(self.centroids)

    def labels(self, X: Floats32) -> Labels:
        """Return the cluster of each row, of shape (n,), uint16."""
        leading = self.directions[:, : self.centroids.shape[1]]
        return self._grouped.nearest(in_whole_tiles(X - self.centre, leading))

    def encode(self, X: Floats32, labels: Labels) -> NDArray[np.int8]:
        """Return the bytes of rows, of shape (n, n_blocks * BLOCK), int8, given the cluster of each row."""
        return self.rounded(self.coordinates(X, labels))

    def coordinates(self, X: Floats32, labels: Labels) -> Floats32:
        """Return the coordinates (p_j − c_j) / Δ_j of rows, of shape (n, d), given their clusters."""
        P: Floats32 = in_whole_tiles(X - self.centre, self.directions)
        P[:, : self.centroids.shape[1]] -= self.centroids[labels]
        P /= self.steps
        return P

    def rounded(self, P: Floats32) -> NDArray[np.int8]:
        """Return the bytes of the `coordinates` P, of shape (n, n_blocks * BLOCK); P is overwritten."""
        np.rint(P, out=P)
        np.clip(P, -127, 127, out=P)
        codes = np.zeros((len(P), self.n_blocks * BLOCK), dtype=np.int8)
        codes[:, : P.shape[1]] = P
        return codes


def in_whole_tiles(X: Floats32, matrix: Floats32) -> Floats32:
    """Return the product of X, of shape (n, d), and a matrix, computed with a multiple of `_TILE` rows.

    BLAS treats few rows, and the last rows of a matrix, in other ways. With whole tiles, the bits of a row's
    product don't depend on how many other rows there are.
    """
    n = len(X)
    if n % _TILE:
        X = np.concatenate([X, np.zeros((-n % _TILE, X.shape[1]), dtype=X.dtype)])
    product: Floats32 = np.matmul(X, matrix, dtype=np.float32)
    return product[:n]


def n_clusters_for(n_rows: int) -> int:
    """Return the power of two nearest to the square root of `n_rows`, at most `MAX_CLUSTERS`."""
    return int(min(2 ** round(np.log2(n_rows) / 2), MAX_CLUSTERS))


def _k_means(P: Floats32, n_clusters: int, rng: np.random.Generator) -> Floats32:
    """Run Lloyd's algorithm from random rows; a cluster that loses all its rows restarts at a random row.

    Sums are taken in a fixed order, so the same rows give the same centroids.
    """
    centroids = P[np.sort(rng.choice(len(P), n_clusters, replace=False))]
    for _ in range(ITERATIONS):
        labels = Centroids.of(centroids).nearest(P)
        order = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels, minlength=n_clusters)
        filled = np.flatnonzero(sizes)
        firsts = (np.cumsum(sizes) - sizes)[filled]
        sums = np.add.reduceat(P[order].astype(np.float64), firsts, axis=0)
        centroids = P[rng.choice(len(P), n_clusters)]
        centroids[filled] = sums / sizes[filled, None]
    return centroids
