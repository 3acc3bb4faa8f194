"""Pictures of vectors: a grid of colored cells, one per number, in rows from left to right.

Zero is dark, positive numbers are amber, and negative numbers are blue. Numbers of larger magnitude are
brighter. Each vector is divided by its largest absolute number, because only the direction of a vector
matters. The grid is as nearly square as the length allows. For example, 784 numbers are drawn as 28 × 28, so
flattened images can be recognized.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

_ZERO, _POSITIVE, _NEGATIVE = (
    np.array(rgb, np.float32) for rgb in ((30, 34, 44), (255, 194, 84), (92, 176, 255))
)
_CELL_WITH_GAP = 8  # pixels; smaller cells touch
_FLATTEST = 4  # largest ratio of columns to rows for which a full grid is preferred to a square with gaps


def heat_map(values: NDArray[np.float32], size: int) -> Image.Image:
    """Draw a vector of shape (n_features,), in mode RGB, with the longest side at most `size` pixels."""
    n = len(values)
    columns = _columns(n)
    rows = -(-n // columns)
    cells = np.broadcast_to(_ZERO, (rows * columns, 3)).copy()
    cells[:n] = _colours(values)
    grid = np.rint(cells).astype(np.uint8).reshape(rows, columns, 3)
    cell = size // columns
    if cell < 1:
        small = (size, max(1, round(size * rows / columns)))
        return Image.fromarray(grid).resize(small, Image.Resampling.BOX)
    large = grid.repeat(cell, axis=0).repeat(cell, axis=1)
    if cell >= _CELL_WITH_GAP:
        gap = max(1, cell // 12)
        for line in range(gap):
            large[line::cell] = _ZERO
            large[:, line::cell] = _ZERO
    return Image.fromarray(large)


def _columns(n: int) -> int:
    """Return the number of columns of a grid of n cells. It is at least the number of rows."""
    least = math.isqrt(n - 1) + 1
    exact = (columns for columns in range(least, n + 1) if n % columns == 0)
    columns = next(exact)
    return columns if columns * columns <= _FLATTEST * n else least


def _colours(values: NDArray[np.float32]) -> NDArray[np.float32]:
    largest = np.abs(values).max()
    share = (values / largest)[:, None] if largest else np.zeros((len(values), 1), np.float32)
    towards = np.where(share >= 0, _POSITIVE, _NEGATIVE)
    return np.asarray(_ZERO + np.abs(share) * (towards - _ZERO), dtype=np.float32)
