"""Rotation of n sparse rows into n dimensions, which keeps their inner products.

The n rows of a matrix X span at most n dimensions, whatever the number of features. Let G = XXᵀ be their Gram
matrix and G = ZZᵀ its Cholesky factorization. The rows of Z have the same inner products as the rows of X, so
a rotation maps the rows of X to the rows of Z. Anything that only depends on inner products, such as a
support vector machine or the angles between rows, can be computed from the n × n matrix Z. The rows of X need
not be made dense.

All sums are computed in float64, in the order of the rows and of their columns, in plain IEEE arithmetic. The
same rows therefore give the same bits on every machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.numerics.jit import strict_kernel
from closecall.core.numerics.rows import parts

RIDGE = 1e-12
"""Relative increase of the diagonal of G, which keeps pivots positive if rows are linearly dependent."""

_COLUMNS = 32
"""Number of columns factored at a time; a multiple of four."""


def rotated(X: csr_array) -> NDArray[np.float64]:
    """Return the lower triangular Z, of shape (n, n), whose rows have the inner products of the rows of X.

    X has n non-zero rows. The factorization takes n³/6 multiplications. The inner product of two rows takes
    one multiplication for each feature that is non-zero in both. The rotation of 400 documents takes 10 ms.
    """
    n = X.shape[0]
    Z = np.zeros((n, n))
    _gram(*parts(X.tocsc()), Z)
    Z[np.diag_indices(n)] *= 1 + RIDGE
    _factor(Z)
    return Z


def combination(weights: NDArray[np.float64], X: csr_array) -> NDArray[np.float64]:
    """Return Σᵢ weights[i]·xᵢ, dense, of shape (n_features,), summed in the order of the rows."""
    out = np.zeros(X.shape[1])
    _combine(*parts(X), weights, out)
    return out


@strict_kernel
def _gram(
    starts: NDArray[np.int64], rows: NDArray[np.int32], values: NDArray[np.float32], G: NDArray[np.float64]
) -> None:
    """Add the lower triangle of XXᵀ to G, column by column of X."""
    for c in range(starts.shape[0] - 1):
        for a in range(starts[c], starts[c + 1]):
            value, i = np.float64(values[a]), rows[a]
            for b in range(starts[c], a + 1):
                G[i, rows[b]] += value * values[b]


@strict_kernel
def _factor(G: NDArray[np.float64]) -> None:
    """Replace the lower triangle of G by its Cholesky factor, several columns at a time.

    The contributions of four columns to all later columns are subtracted at once, so that G is read into the
    cache less often.
    """
    n = G.shape[0]
    panel = np.empty((_COLUMNS, n))
    for first in range(0, n, _COLUMNS):
        end = min(first + _COLUMNS, n)
        for i in range(first, n):
            for k in range(first, min(i + 1, end)):
                left = G[i, k]
                for j in range(first, k):
                    left -= G[i, j] * G[k, j]
                G[i, k] = np.sqrt(left) if k == i else left / G[k, k]
                panel[k - first, i] = G[i, k]
        for i in range(end, n):
            for k in range(0, end - first, 4):
                a, b, c, d = panel[k, i], panel[k + 1, i], panel[k + 2, i], panel[k + 3, i]
                for j in range(end, i + 1):
                    of_two = a * panel[k, j] + b * panel[k + 1, j]
                    G[i, j] -= of_two + (c * panel[k + 2, j] + d * panel[k + 3, j])


@strict_kernel
def _combine(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    weights: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    for i in range(weights.shape[0]):
        for k in range(starts[i], starts[i + 1]):
            out[columns[k]] += weights[i] * values[k]
