"""wᵀx + b of many rows in float32: for one hyperplane, or for several in one pass over the rows.

One hyperplane is a matrix–vector product, which costs what reading the rows costs. Several are a matrix
product of few rows at a time, which come from memory once and stay in the cache for all hyperplanes: at 384
features, 4 hyperplanes cost about as much as 1.3 scans, and 20 as much as 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.jit import kernel
from closecall.core.numerics.rows import cut, is_sparse, product, products

Floats32 = NDArray[np.float32]

_SCORES = 1 << 20
"""How many scores to hand out at a time: 4 MB."""

_SMALL_PRODUCT = 10**6
"""Multiplications up to which OpenBLAS has a kernel of its own for matrix products, twice as fast."""

_CACHED_ROWS = 512
"""Rows converted, or multiplied by many hyperplanes, at a time: few enough to stay in one core's cache."""


def score_blocks(
    segments: Iterable[tuple[int, NDArray[Any] | csr_array]], hyperplanes: Sequence[Hyperplane]
) -> Iterator[tuple[int, Floats32]]:
    """The scores of all rows under each of k hyperplanes, block by block, whatever the number of rows.

    Parameters
    ----------
    segments : iterable of (int, array of shape (n, n_features), float32 or float16, or csr_array)
        Rows that follow each other, and which is the first of them.
    hyperplanes : sequence of Hyperplane
        k of them.

    Returns
    -------
    iterator of (int, array of shape (k, m), float32)
        A block's first row, and wᵀx + b of it and those that follow, the last bits of which may depend on k
        and on the number of threads. The array is the caller's to keep or to overwrite.
    """
    if not hyperplanes:
        return
    normals = np.array([hyperplane.normal for hyperplane in hyperplanes], dtype=np.float32)
    biases = np.array([[hyperplane.bias] for hyperplane in hyperplanes], dtype=np.float32)
    step = max(_SCORES // len(normals), _CACHED_ROWS)
    for first_row, X in segments:
        for first in range(0, X.shape[0], step):
            rows = cut(X, first, first + step)
            scores = _sparse_products(rows, normals) if is_sparse(rows) else _products(rows, normals)
            scores += biases
            yield first_row + first, scores


def _sparse_products(X: csr_array, normals: Floats32) -> Floats32:
    """wᵀx for each of the k normals, of shape (k, n), for sparse rows."""
    if len(normals) == 1:
        return product(X, normals[0])[None]
    return np.ascontiguousarray(products(X, np.ascontiguousarray(normals.T)).T)


def _products(X: NDArray[Any], normals: Floats32) -> Floats32:
    """wᵀx for each of the k normals, of shape (k, len(X))."""
    k, d = normals.shape
    out = np.empty((k, len(X)), dtype=np.float32)
    if k == 1 and X.dtype == np.float32:
        np.dot(X, normals[0], out=out[0])
        return out
    step = _CACHED_ROWS if X.dtype != np.float32 else _rows_at_a_time(k, d)
    W = np.ascontiguousarray(normals.T)
    converted = np.empty((step, d), dtype=np.float32)
    product = np.empty((step, k), dtype=np.float32)
    for first in range(0, len(X), step):
        rows = X[first : first + step]
        if X.dtype != np.float32:
            rows = _as_float32(rows, converted[: len(rows)])
        out[:, first : first + step] = np.matmul(rows, W, out=product[: len(rows)]).T
    return out


def _rows_at_a_time(k: int, d: int) -> int:
    small = _SMALL_PRODUCT // (k * d)
    return min(small, 2 * _CACHED_ROWS) if small >= _CACHED_ROWS // 8 else _CACHED_ROWS


def _as_float32(X: NDArray[np.float16], out: Floats32) -> Floats32:
    """The same numbers in `out`, four times as fast as numpy converts them.

    Sign, exponent and fraction are moved to where float32 has them; the exponents' biases, 15 and 127, differ
    by 112, which a multiplication by 2¹¹² makes good, for subnormal numbers, too. Infinities and NaN, which
    no pool holds, would become finite.
    """
    _move_bits(X.view(np.uint16), out.view(np.uint32))
    return np.multiply(out, np.float32(2.0**112), out=out)


@kernel
def _move_bits(halves: NDArray[np.uint16], out: NDArray[np.uint32]) -> None:
    for i in range(halves.shape[0]):
        for j in range(halves.shape[1]):
            bits = np.uint32(halves[i, j])
            sign = bits & np.uint32(0x8000)
            out[i, j] = (sign << np.uint32(16)) | ((bits ^ sign) << np.uint32(13))
