"""Inner products of rows that are the same on every processor.

Sums of floats depend on the order of summation, which differs between processors and BLAS libraries. A
selection by such sums could not be repeated elsewhere. The entries are therefore rounded to multiples of
2⁻¹², so that float64 represents all products and sums exactly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from closecall.core.numerics.rows import Rows, is_sparse

_UNIT = 2.0**12
"""The sum of 4,096 products of entries up to 1 stays below 2⁵³ in units of 2⁻²⁴."""


def rounded(X: Rows) -> Rows:
    """Return the rows in float64, with every entry rounded to a multiple of 2⁻¹²."""
    if is_sparse(X):
        return csr_array((rounded(X.data), X.indices, X.indptr), shape=X.shape)
    return np.rint(_UNIT * np.asarray(X, dtype=np.float64)) / _UNIT


def squared_norms(X: Rows) -> NDArray[np.float64]:
    """Return the squared norms of `rounded` rows, of shape (len(X),)."""
    return np.asarray((X.multiply(X) if is_sparse(X) else X * X).sum(axis=1), dtype=np.float64)


def inner_products(X: Rows, Z: Rows) -> NDArray[np.float64]:
    """Return the inner products of the rows of X and Z, both `rounded`, of shape (len(X), len(Z))."""
    products = X @ Z.T
    return np.asarray(products.toarray() if is_sparse(products) else products, dtype=np.float64)
