"""Statistics over all bytes: the moments of each cluster, and the scale of the unread part of each row.

**Tails.** Let p be a row in principal coordinates (see `core.quantization.quantizer`). Rows differ in
their last coordinates: among images of digits, the last coordinates of a few rows have ten times the usual
sum of squares. A row is read block by block. For each block, each row therefore has its own scale s of the
coordinates that follow the block,

    s² = Σ_j m_j p_j² / Σ_j m_j²,   over these coordinates j, with m_j = E[p_j²] over all rows.

Let w be the normal of a hyperplane. It is a weighted sum of rows, so w_j² is about proportional to m_j. The
part of wᵀp from these coordinates is therefore about s times as large as for an average row. Divided by s,
this part is approximately normally distributed. One byte stores s, rounded up by less than 5 %.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel, strict_kernel
from closecall.core.quantization.quantizer import BLOCK, Quantizer

_LEVELS = 16
_ONE = 128


def scales() -> NDArray[np.float32]:
    """Return the scales that the bytes 0 … 255 stand for, of shape (256,).

    The scale doubles whenever the byte increases by 16. Byte 255 encodes all scales above the scale of 254.
    """
    levels: NDArray[np.float32] = np.exp2((np.arange(256) - _ONE) / _LEVELS).astype(np.float32)
    levels[-1] = 2.0**32
    return levels


def tails(  # noqa: D417
    codes: NDArray[np.int8], second_moments: NDArray[np.float64], steps: NDArray[np.float32]
) -> NDArray[np.uint8]:
    """Return, for each block and row, the scale of the coordinates of the row that follow the block.

    The result has shape (n_blocks, N), uint8. The function `scales` says which scale a byte stands for.

    Parameters
    ----------
    codes : array of shape (n_blocks, N, BLOCK), int8
    second_moments : array of shape (n_blocks, BLOCK), float64
        Second moments of the bytes, over all rows.
    steps : array of shape (d,), float32
        Steps of the quantizer.
    """
    n_blocks, n_rows, _ = codes.shape
    widths = np.zeros(second_moments.size)
    widths[: len(steps)] = steps / steps.max()
    moments = second_moments * widths.reshape(second_moments.shape) ** 2
    weights = moments * widths.reshape(second_moments.shape) ** 2
    total, sums = 0.0, np.zeros(n_rows)
    found = np.zeros((n_blocks, n_rows), dtype=np.uint8)
    for block in range(n_blocks - 1, 0, -1):
        _add_squares(codes[block], weights[block], sums)
        total += float((moments[block] ** 2).sum())
        if total > 0:
            with np.errstate(divide="ignore"):
                levels = np.ceil(_LEVELS / 2 * np.log2(sums / total)) + _ONE
            found[block - 1] = np.clip(levels, 0, 255)
    return found


def cluster_moments(  # noqa: D417
    quantizer: Quantizer,
    sizes: NDArray[np.int64],
    sums: NDArray[np.int64],
    squares: NDArray[np.int64],
    second_moments: NDArray[np.float32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the mean and the variance of the leading principal coordinates in each cluster.

    Both arrays have the shape (n_clusters, min(d, BLOCK)). To smooth the moments of each cluster, one average
    row is added to the cluster.

    Parameters
    ----------
    quantizer : Quantizer
    sizes : array of shape (n_clusters,), int64
        Number of rows in each cluster.
    sums, squares : arrays of shape (n_clusters, BLOCK), int64
        Sums of the leading bytes, and of their squares, over the rows of each cluster.
    second_moments : array of shape (BLOCK,), float32
        Second moments of the leading bytes, over all rows.
    """
    n_leading = min(BLOCK, len(quantizer.steps))
    mean = sums / (sizes[:, None] + 1)
    variance = (squares + second_moments) / (sizes[:, None] + 1) - mean**2
    steps = np.zeros(BLOCK)
    steps[:n_leading] = quantizer.steps[:BLOCK]
    mean *= steps
    mean[:, : quantizer.centroids.shape[1]] += quantizer.centroids
    return (
        np.ascontiguousarray(mean[:, :n_leading], dtype=np.float32),
        np.ascontiguousarray((variance * steps**2)[:, :n_leading], dtype=np.float32),
    )


@strict_kernel
def _add_squares(codes: NDArray[np.int8], weights: NDArray[np.float64], sums: NDArray[np.float64]) -> None:
    for i in range(codes.shape[0]):
        total = 0.0
        for j in range(codes.shape[1]):
            total += weights[j] * np.float64(np.int32(codes[i, j]) * np.int32(codes[i, j]))
        sums[i] += total


@kernel
def add_moments(  # noqa: D417
    codes: NDArray[np.int8],
    labels: NDArray[np.uint16],
    sums: NDArray[np.int64],
    squares: NDArray[np.int64],
    strayed: NDArray[np.bool_],
) -> None:
    """Add the bytes of each row, and the squared bytes, to the sums of its cluster; mark strayed rows.

    A row has strayed if one of its bytes has the largest magnitude, 127.

    `sums`, `squares` and `strayed` are updated in place.

    Parameters
    ----------
    codes : array of shape (n, BLOCK), int8
    labels : array of shape (n,), uint16
    sums, squares : arrays of shape (n_clusters, BLOCK), int64
    strayed : array of shape (n,), bool
    """
    for i in range(codes.shape[0]):
        c = labels[i]
        for j in range(codes.shape[1]):
            q = np.int64(codes[i, j])
            sums[c, j] += q
            squares[c, j] += q * q
            strayed[i] |= abs(q) == 127
