"""Compiled functions over the rows of a byte pool. Most have the same bits on every machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel, kernel, prefetch, strict_kernel

Codes = NDArray[np.int8]
Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]
Labels = NDArray[np.uint16]

_AHEAD = 8
_SECOND = 1 / 256


@strict_kernel
def turned(directions: Floats32, centre: Floats32, normal: Floats64) -> tuple[Floats64, float]:
    """Return Vᵀw, of shape (d,), and wᵀμ."""
    d = normal.shape[0]
    along = np.zeros(d, dtype=np.float64)
    at_centre = 0.0
    for i in range(d):
        at_centre += normal[i] * np.float64(centre[i])
        for j in range(d):
            along[j] += normal[i] * np.float64(directions[i, j])
    return along, at_centre


@strict_kernel
def places_of(rows: Ints64, labels: Labels, starts: Ints64, order: Ints32) -> Ints64:
    """Return the place of each row: the position at which `order` has the row. See `ByteRows`."""
    found = np.empty(rows.shape[0], dtype=np.int64)
    for i in range(rows.shape[0]):
        row = rows[i]
        low = starts[labels[row]]
        high = starts[np.int64(labels[row]) + 1]
        while high - low > 1:
            middle = (low + high) // 2
            if order[middle] <= row:
                low = middle
            else:
                high = middle
        found[i] = low
    return found


@fast_kernel
def products(
    codes: Codes, fine: Codes, places: Ints64, clusters: Labels,
    centroids: Floats32, steps: Floats32, normal: Floats64, out: Floats64,
) -> None:  # fmt: skip
    """Write uᵀp to `out`, for the row at each place, whose cluster is in `clusters`. The last bits may vary.

    `normal` is u, of shape (d,). `codes` has the shape (n_blocks, n, BLOCK), and `fine` (n, n_fine).
    """
    d, width = normal.shape[0], codes.shape[2]
    weights = np.empty(d, dtype=np.float64)
    for j in range(d):
        weights[j] = normal[j] * np.float64(steps[j])
    n = places.shape[0]
    for i in range(n):
        coming = places[min(i + _AHEAD, n - 1)]
        for block in range(codes.shape[0]):
            prefetch(codes[block], coming, 0)
        prefetch(fine, coming, 0)
        place, cluster = places[i], clusters[i]
        total = 0.0
        for j in range(centroids.shape[1]):
            total += normal[j] * np.float64(centroids[cluster, j])
        for j in range(fine.shape[1]):
            total += weights[j] * (np.float64(fine[place, j]) * _SECOND)
        for block in range(codes.shape[0]):
            for j in range(min(width, d - block * width)):
                total += weights[block * width + j] * np.float64(codes[block, place, j])
        out[i] = total


@strict_kernel
def coordinates(
    codes: Codes, fine: Codes, places: Ints64, clusters: Labels,
    centroids: Floats32, steps: Floats32, out: Floats64,
) -> None:  # fmt: skip
    """Write the principal coordinates of the row at each place to `out`, of shape (len(places), d)."""
    width, d = codes.shape[2], steps.shape[0]
    for i in range(places.shape[0]):
        place, cluster = places[i], clusters[i]
        for j in range(d):
            units = np.float64(codes[j // width, place, j % width])
            if j < fine.shape[1]:
                units += np.float64(fine[place, j]) * _SECOND
            out[i, j] = np.float64(steps[j]) * units
            if j < centroids.shape[1]:
                out[i, j] += np.float64(centroids[cluster, j])


@strict_kernel
def turned_back(points: Floats64, directions: Floats64, centre: Floats32, out: Floats32) -> None:
    """Write μ + V p of each of the `points` p to `out`, of shape (n, d); row j of `directions` is Vᵀ's."""
    n, d = points.shape
    sums = np.empty(d, dtype=np.float64)
    for i in range(n):
        for j in range(d):
            sums[j] = np.float64(centre[j])
        for k in range(d):
            point = points[i, k]
            for j in range(d):
                sums[j] += point * directions[k, j]
        for j in range(d):
            out[i, j] = np.float32(sums[j])


@kernel
def coordinates_in_order(
    codes: Codes, fine: Codes, first: int, starts: Ints64, centroids: Floats32, steps: Floats32, out: Floats32
) -> None:
    """Write the principal coordinates of the rows at the places from `first` on to `out`, in float32.

    `out` has the shape (m, d) for m places.
    """
    width, d = codes.shape[2], steps.shape[0]
    cluster = np.searchsorted(starts, first, side="right") - 1
    for i in range(out.shape[0]):
        place = first + i
        while place >= starts[cluster + 1]:
            cluster += 1
        for block in range(codes.shape[0]):
            start = block * width
            for j in range(min(width, d - start)):
                out[i, start + j] = steps[start + j] * np.float32(codes[block, place, j])
        for j in range(fine.shape[1]):
            out[i, j] += steps[j] * np.float32(_SECOND) * np.float32(fine[place, j])
        for j in range(centroids.shape[1]):
            out[i, j] += centroids[cluster, j]


@fast_kernel
def scan(  # noqa: D417
    codes: Codes, fine: Codes, starts: Ints64, order: Ints32,
    offsets: Floats32, weights: Floats32, fine_weights: Floats32, out: Floats32,
) -> None:  # fmt: skip
    """Write the score of each row to `out`, of shape (n,).

    Parameters
    ----------
    offsets : array of shape (n_clusters,), float32
        wᵀμ + b + Σ_j u_j c_j for each cluster.
    weights : array of shape (n_blocks, BLOCK), float32
        u_j Δ_j, padded with zeros.
    fine_weights : array of shape (n_fine,), float32
        u_j Δ_j / 256.
    """
    for cluster in range(offsets.shape[0]):
        for place in range(starts[cluster], starts[cluster + 1]):
            total = offsets[cluster]
            for j in range(fine.shape[1]):
                total += fine_weights[j] * np.float32(fine[place, j])
            for block in range(codes.shape[0]):
                for j in range(codes.shape[2]):
                    total += weights[block, j] * np.float32(codes[block, place, j])
            out[order[place]] = total
