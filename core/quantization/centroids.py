"""The nearest of many centroids, found without computing the distance to each of them.

The centroids are divided into groups, each with a centre and a radius: the largest distance from the centre
to a centroid of the group. By the triangle inequality, no centroid of a group is nearer to a point than the
distance to the centre minus the radius. The group with the nearest centre is searched first. Of the other
groups, only those are searched whose bound is below the smallest distance so far. The result is that of a
search of all centroids, apart from the rounding of equal distances.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel

Floats32 = NDArray[np.float32]
Labels = NDArray[np.uint16]

FEW = 512
"""Number of centroids up to which one group has them all."""

_ROWS_AT_ONCE = 4096
_ROUNDS = 5


class Centroids(NamedTuple):
    """Centroids by group. Made by `Centroids.of`.

    Parameters
    ----------
    points : array of shape (n, d), float32
        The centroids, group by group.
    order : array of shape (n,), int64
        The number of each of these centroids.
    starts : array of shape (n_groups + 1,), int64
        The first centroid of each group, then n.
    centres : array of shape (n_groups, d), float32
    radii : array of shape (n_groups,), float32
    """

    points: Floats32
    order: NDArray[np.int64]
    starts: NDArray[np.int64]
    centres: Floats32
    radii: Floats32

    @classmethod
    def of(cls, centroids: Floats32) -> Self:
        """Divide centroids, of shape (n, d), into about 4√n groups by Lloyd's algorithm."""
        n = len(centroids)
        n_groups = 1 if n <= FEW else int(4 * np.sqrt(n))
        centres = centroids[np.linspace(0, n - 1, n_groups).astype(np.int64)]
        for _ in range(_ROUNDS):
            labels = by_all_distances(centroids, centres)
            for group in range(n_groups):
                if (own := labels == group).any():
                    centres[group] = centroids[own].mean(axis=0)
        labels = by_all_distances(centroids, centres)
        order = np.argsort(labels, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_groups))])
        points = np.ascontiguousarray(centroids[order])
        distances = np.linalg.norm((points - centres[labels[order]]).astype(np.float64), axis=1)
        radii = np.zeros(n_groups)
        np.maximum.at(radii, labels[order], distances)
        return cls(points, order, starts, centres, (radii * (1 + 1e-5)).astype(np.float32))

    def nearest(self, P: Floats32) -> Labels:
        """Return the number of the nearest centroid for each row of P, of shape (len(P),)."""
        found = np.empty(len(P), dtype=np.int64)
        _nearest(np.ascontiguousarray(P), self.points, self.starts, self.centres, self.radii, found)
        return self.order[found].astype(np.uint16)


def by_all_distances(P: Floats32, centroids: Floats32) -> Labels:
    """Return the number of the nearest centroid for each row of P, from the distances to all centroids."""
    towards, squares = -2 * centroids.T, (centroids**2).sum(axis=1)
    labels = np.empty(len(P), dtype=np.uint16)
    for first in range(0, len(P), _ROWS_AT_ONCE):
        distances = P[first : first + _ROWS_AT_ONCE] @ towards
        distances += squares
        labels[first : first + _ROWS_AT_ONCE] = distances.argmin(axis=1)
    return labels


@fast_kernel
def _nearest(
    P: Floats32, points: Floats32, starts: NDArray[np.int64], centres: Floats32, radii: Floats32,
    found: NDArray[np.int64],
) -> None:  # fmt: skip
    """Write the position in `points` of the point nearest to each row of P to `found`."""
    n_groups, d = centres.shape
    bounds = np.empty(n_groups, dtype=np.float32)
    for i in range(P.shape[0]):
        best, closest, first = np.float32(np.finfo(np.float32).max), np.float32(np.finfo(np.float32).max), 0
        for group in range(n_groups):
            square = np.float32(0)
            for j in range(d):
                difference = P[i, j] - centres[group, j]
                square += difference * difference
            if square < closest:
                closest, first = square, group
            bound = max(np.float32(0), np.sqrt(square) - radii[group])
            bounds[group] = bound * bound
        for turn in range(n_groups + 1):
            group = first if turn == 0 else turn - 1
            if turn > 0 and (group == first or bounds[group] > best):
                continue
            for point in range(starts[group], starts[group + 1]):
                square = np.float32(0)
                for j in range(d):
                    difference = P[i, j] - points[point, j]
                    square += difference * difference
                if square < best:
                    best = square
                    found[i] = point
