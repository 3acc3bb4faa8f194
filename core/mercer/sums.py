"""The inner loops of the kernels on histograms, compiled by Numba; they hold no lock and start no threads.

scikit-learn's `additive_chi2_kernel` gives the same sums up to a constant, and takes nine times as long: it
branches at every entry, which keeps the vector instructions out. So would Numba's check for division by zero,
hence `np.divide`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel

Matrix = NDArray[np.float32]

_TILE = 64
"""Rows of B that meet all rows of A before the next ones do: they stay in the cache."""

_NOTHING = np.float32(1e-30)
"""Added to each denominator, so that 0 · 0 / (0 + 0) counts as 0."""


@fast_kernel
def chi_squared(A: Matrix, B: Matrix, out: Matrix) -> None:
    """Σ_f 2·a_f·b_f / (a_f + b_f) of each row a of A and b of B into `out`, of shape (len(A), len(B))."""
    for first in range(0, B.shape[0], _TILE):
        for i in range(A.shape[0]):
            for j in range(first, min(first + _TILE, B.shape[0])):
                total = np.float32(0)
                for f in range(A.shape[1]):
                    a, b = A[i, f], B[j, f]
                    total += np.divide(a * b, a + b + _NOTHING)
                out[i, j] = total + total


@fast_kernel
def intersection(A: Matrix, B: Matrix, out: Matrix) -> None:
    """Σ_f min(a_f, b_f) of each row a of A and b of B into `out`, of shape (len(A), len(B))."""
    for first in range(0, B.shape[0], _TILE):
        for i in range(A.shape[0]):
            for j in range(first, min(first + _TILE, B.shape[0])):
                total = np.float32(0)
                for f in range(A.shape[1]):
                    total += min(A[i, f], B[j, f])
                out[i, j] = total
