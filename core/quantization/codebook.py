"""Rows as bytes that replace them: what a byte pool stores, and how its rows are computed from the bytes.

Let μ be the mean of the rows, V their principal directions, c the centroid of a row's cluster and Δ the steps
of a `core.quantization.quantizer.Quantizer`. The principal coordinates p = Vᵀ(x − μ) of a row x are stored as

    p_j = c_j + Δ_j (q_j + f_j / 256).

The byte q_j is stored for every coordinate, the byte f_j only for the first `FINE` coordinates, which vary
most. It is zero for the others. The stored row is x = μ + V p. Rounding changes it a little, so the rows of a
byte pool are not exactly those of its source.

**Unit norm.** With m = Vᵀμ, ‖x‖² = Σ_j (m_j + p_j)². The coordinates with one byte are rounded first. The
other sums m_j + p_j are then scaled by one factor, near 1, so that the norm is 1 again. What remains is the
rounding of the second bytes, some 10⁻⁶.

The margin of a hyperplane is computed without x: with u = Vᵀw,

    wᵀx + b = b + wᵀμ + Σ_j u_j p_j.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.byte_kernels import turned
from closecall.core.quantization.moments import add_moments, cluster_moments, tails
from closecall.core.quantization.quantizer import (
    BLOCK,
    CLUSTERED,
    Arrays,
    Floats32,
    Labels,
    Quantizer,
    n_clusters_for,
)

FINE = 64
"""Number of leading coordinates with a second byte."""

POOR = 0.1
"""Distance from a stored row to the row itself above which bytes describe the row poorly."""

MOST_SCALED = 0.1
"""Maximum change by the factor that restores the unit norm. Outliers that need more keep another norm."""

_OF_QUANTIZER = ("centre", "directions", "centroids", "steps")
_OF_MOMENTS = ("second_moments", "means", "variances")


class Encoded(NamedTuple):
    """The bytes of n rows, in the order of the rows.

    Parameters
    ----------
    labels : array of shape (n,), uint16
        The cluster of each row.
    codes : array of shape (n, n_blocks, BLOCK), int8
        The bytes q, padded with zeros.
    fine : array of shape (n, n_fine), int8
        The bytes f.
    tails : array of shape (n, n_blocks), uint8
        Scales of the rows; see `core.quantization.moments.tails`.
    is_poor : array of shape (n,), bool
        Whether the distance between a row and its stored row is more than `POOR`. It is not stored.
    """

    labels: Labels
    codes: NDArray[np.int8]
    fine: NDArray[np.int8]
    tails: NDArray[np.uint8]
    is_poor: NDArray[np.bool_]

    @classmethod
    def empty(cls, n: int, codebook: Codebook) -> Encoded:
        """Return arrays for the bytes of n rows, to be filled."""
        n_blocks = codebook.quantizer.n_blocks
        return cls(
            np.empty(n, dtype=np.uint16),
            np.empty((n, n_blocks, BLOCK), dtype=np.int8),
            np.empty((n, codebook.n_fine), dtype=np.int8),
            np.empty((n, n_blocks), dtype=np.uint8),
            np.empty(n, dtype=np.bool_),
        )

    def cut(self, first: int, end: int) -> Encoded:
        """Return the rows `first` to `end` − 1, without a copy."""
        return Encoded(
            self.labels[first:end],
            self.codes[first:end],
            self.fine[first:end],
            self.tails[first:end],
            self.is_poor[first:end],
        )

    def fill(self, first: int, rows: Encoded) -> None:
        """Replace the rows from `first` on by `rows`."""
        own = self.cut(first, first + len(rows.labels))
        own.labels[:] = rows.labels
        own.codes[:] = rows.codes
        own.fine[:] = rows.fine
        own.tails[:] = rows.tails
        own.is_poor[:] = rows.is_poor


class Turned(NamedTuple):
    """A hyperplane in principal coordinates.

    Parameters
    ----------
    normal : array of shape (d,), float64
        u = Vᵀw.
    at_centre : float
        wᵀμ + b.
    """

    normal: NDArray[np.float64]
    at_centre: float


@dataclass(frozen=True, eq=False)
class Codebook:
    """The quantizer of a byte pool, and statistics of the sample to which it was fitted.

    Parameters
    ----------
    quantizer : Quantizer
    second_moments : array of shape (n_blocks, BLOCK), float32
        Second moments of the bytes q.
    means, variances : arrays of shape (n_clusters, min(d, BLOCK)), float32
        Mean and variance of the leading principal coordinates in each cluster.
    """

    quantizer: Quantizer
    second_moments: Floats32
    means: Floats32
    variances: Floats32

    @classmethod
    def fitted(cls, X: Floats32, n_clusters: int, seed: int = 0) -> Codebook:
        """Fit a codebook to the sample X of shape (n, d)."""
        quantizer = Quantizer.fitted(X, n_clusters, seed)
        shape = (len(quantizer.centroids), quantizer.n_blocks, BLOCK)
        sums, squares = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        sizes = np.zeros(shape[0], dtype=np.int64)
        for first in range(0, len(X), BLOCK_ROWS):
            rows = X[first : first + BLOCK_ROWS]
            labels = quantizer.labels(rows)
            codes = quantizer.encode(rows, labels)
            sizes += np.bincount(labels, minlength=shape[0])
            strayed = np.zeros(len(rows), dtype=np.bool_)
            for block in range(shape[1]):
                part = np.ascontiguousarray(codes[:, block * BLOCK : (block + 1) * BLOCK])
                add_moments(part, labels, sums[:, block], squares[:, block], strayed)
        second_moments = (squares.sum(axis=0) / len(X)).astype(np.float32)
        moments = cluster_moments(quantizer, sizes, sums[:, 0], squares[:, 0], second_moments[0])
        return cls(quantizer, second_moments, *moments)

    def arrays(self) -> Arrays:
        """Return the arrays that define the codebook, by name."""
        return {**self.quantizer.arrays(), **{name: getattr(self, name) for name in _OF_MOMENTS}}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Codebook:
        """Return the codebook that these `arrays` define."""
        quantizer = Quantizer(**{name: arrays[name] for name in _OF_QUANTIZER})
        return cls(quantizer, **{name: arrays[name] for name in _OF_MOMENTS})

    @property
    def n_features(self) -> int:
        """Number d of features of a row."""
        return len(self.quantizer.centre)

    @property
    def n_fine(self) -> int:
        """Number of coordinates with a second byte."""
        return min(FINE, self.n_features)

    @cached_property
    def rows_of_directions(self) -> NDArray[np.float64]:
        """Vᵀ as float64: row j is the j-th principal direction."""
        return np.ascontiguousarray(self.quantizer.directions.T, dtype=np.float64)

    @cached_property
    def _turned_centre(self) -> NDArray[np.float64]:
        """M = Vᵀμ, of shape (d,)."""
        turned: NDArray[np.float64] = self.rows_of_directions @ self.quantizer.centre.astype(np.float64)
        return turned

    def encoded(self, X: Floats32) -> Encoded:
        """Return the bytes of the rows X of shape (n, d).

        A coordinate that is too large for its bytes gets the largest value that these can represent.
        """
        quantizer, n = self.quantizer, self.n_fine
        labels = quantizer.labels(X)
        points = quantizer.coordinates(X, labels)
        rounded = points.copy()
        fine_points = points[:, :n].astype(np.float64)
        codes = quantizer.rounded(rounded)
        fine_points = self._with_unit_norm(fine_points, labels, codes[:, n : self.n_features])
        units = np.clip(np.rint(fine_points * 256), -32512, 32639).astype(np.int32)
        codes[:, :n] = (units + 128) >> 8
        fine = (units - 256 * codes[:, :n].astype(np.int32)).astype(np.int8)
        blocks = codes.reshape(len(X), quantizer.n_blocks, BLOCK)
        by_block = np.ascontiguousarray(blocks.transpose(1, 0, 2))
        scales = tails(by_block, self.second_moments.astype(np.float64), quantizer.steps)
        errors = quantizer.steps * (codes[:, : self.n_features] - points)
        errors[:, :n] = quantizer.steps[:n] * (units / 256 - points[:, :n])
        is_poor = (errors**2).sum(axis=1) > POOR**2
        return Encoded(labels, blocks, fine, np.ascontiguousarray(scales.T), is_poor)

    def _with_unit_norm(
        self, points: NDArray[np.float64], labels: Labels, codes: NDArray[np.int8]
    ) -> NDArray[np.float64]:
        """Return the coordinates (p_j − c_j) / Δ_j of the first `n_fine` columns, scaled as described above.

        `codes` has the bytes of the other columns.
        """
        n, steps = points.shape[1], self.quantizer.steps.astype(np.float64)
        centroids = np.zeros((len(labels), n))
        leading = self.quantizer.centroids.shape[1]
        centroids[:, :leading] = self.quantizer.centroids[labels]
        sums = self._turned_centre[:n] + centroids + points * steps[:n]
        rest = 1 - ((self._turned_centre[n:] + codes * steps[n:]) ** 2).sum(axis=1)
        squares = (sums**2).sum(axis=1)
        factors = np.sqrt(np.maximum(rest, 0) / np.maximum(squares, np.finfo(np.float64).tiny))
        factors[np.abs(factors - 1) > MOST_SCALED] = 1
        scaled: NDArray[np.float64] = sums * factors[:, None] - self._turned_centre[:n] - centroids
        return scaled / steps[:n]

    def turned(self, hyperplane: Hyperplane) -> Turned:
        """Return the hyperplane in principal coordinates, with the same bits on every machine."""
        quantizer = self.quantizer
        normal = np.ascontiguousarray(hyperplane.normal, dtype=np.float64)
        along, at_centre = turned(quantizer.directions, quantizer.centre, normal)
        return Turned(along, at_centre + hyperplane.bias)

    def scan_weights(self, hyperplane: Hyperplane) -> tuple[NDArray[np.float64], ...]:
        """Return the numbers by which bytes are multiplied to compute wᵀx + b.

        Returns
        -------
        of_clusters : array of shape (n_clusters,)
            b + wᵀμ + Σ_j u_j c_j for each cluster; the score of a row starts with it.
        of_codes : array of shape (n_blocks, BLOCK)
            u_j Δ_j, padded with zeros.
        of_fine : array of shape (n_fine,)
            u_j Δ_j / 256.
        """
        normal, at_centre = self.turned(hyperplane)
        quantizer = self.quantizer
        centroids = quantizer.centroids.astype(np.float64)
        weights = np.zeros(quantizer.n_blocks * BLOCK, dtype=np.float64)
        weights[: len(normal)] = normal * quantizer.steps
        of_clusters = at_centre + centroids @ normal[: centroids.shape[1]]
        return of_clusters, weights.reshape(-1, BLOCK), weights[: self.n_fine] / 256


BLOCK_ROWS = 4096
"""Number of rows to encode at a time while a codebook is fitted."""


def codebook_bytes(n_items: int, n_features: int) -> int:
    """Return the largest size in bytes of the codebook of a pool with this number of items."""
    per_cluster = min(CLUSTERED, n_features) + 2 * min(BLOCK, n_features)
    return 4 * (n_features * (n_features + 3) + n_clusters_for(n_items) * per_cluster)
