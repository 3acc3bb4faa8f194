"""Bounding boxes of rows that are near each other: a k-d tree [1]_ of fixed shape.

Each level of the tree splits all nodes at their medians along one coordinate: the one with the largest
standard deviation. A split is assumed to halve the standard deviation of its coordinate. The tree is
complete: node v has the children 2v and 2v + 1, the root is node 1, and the leaves are the last n_leaves
nodes. All rows within a radius r of a row lie in leaves whose boxes are within r of that row.

References
----------
.. [1] J. L. Bentley, "Multidimensional binary search trees used for associative searching", CACM 18, 1975.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

Floats32 = NDArray[np.float32]

LEAF_ROWS = 64
"""Maximum number of rows in a leaf."""

BOX_COORDINATES = 16
"""Number of leading coordinates for which boxes have bounds. They fill one cache line."""


@dataclass(frozen=True, eq=False)
class BoxTree:
    """A k-d tree: rows in the order of the leaves, and the boxes of all nodes.

    Parameters
    ----------
    points : array of shape (N, n_coordinates), float32
        Coordinates of the rows, in the order of the leaves. The index of a row in this array is called its
        slot. n_coordinates is a multiple of `BOX_COORDINATES`.
    order : array of shape (N,), int64
        Row in each slot.
    slots : array of shape (N,), int64
        Slot of each row.
    starts : array of shape (n_leaves + 1,), int64
        First slot of each leaf, followed by N.
    lower, upper : array of shape (2 n_leaves, BOX_COORDINATES), float32
        For each node, the smallest and the largest value of each of the first `BOX_COORDINATES` coordinates.
        Row 0 is unused.
    """

    points: Floats32
    order: NDArray[np.int64]
    slots: NDArray[np.int64]
    starts: NDArray[np.int64]
    lower: Floats32
    upper: Floats32

    @classmethod
    def of(cls, points: Floats32) -> Self:
        """Build the tree of rows with coordinates `points`, of shape (N, n_coordinates), N ≥ 1."""
        n = len(points)
        depth = max(0, int(np.ceil(np.log2(n / LEAF_ROWS))))
        deviations = points.std(axis=0)
        order = np.arange(n)
        for level in range(depth):
            along = int(np.argmax(deviations))
            deviations[along] /= 2
            node = np.arange(n) * (1 << level) // n
            order = order[np.lexsort((points[order, along], node))]
        leaves = 1 << depth
        starts = -(-np.arange(leaves + 1) * n // leaves)
        inside = points[order]
        leading = inside[:, :BOX_COORDINATES]
        lower = np.empty((2 * leaves, leading.shape[1]), dtype=np.float32)
        upper = np.empty_like(lower)
        lower[leaves:] = np.minimum.reduceat(leading, starts[:-1])
        upper[leaves:] = np.maximum.reduceat(leading, starts[:-1])
        while leaves > 1:
            leaves //= 2
            below = slice(2 * leaves, 4 * leaves)
            lower[leaves : 2 * leaves] = lower[below].reshape(leaves, 2, -1).min(axis=1)
            upper[leaves : 2 * leaves] = upper[below].reshape(leaves, 2, -1).max(axis=1)
        slots = np.empty(n, dtype=np.int64)
        slots[order] = np.arange(n)
        return cls(inside, order, slots, starts, lower, upper)
