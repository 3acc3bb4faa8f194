"""Coordinates of rows that give lower bounds on the distances between rows.

Let V be a matrix with m orthonormal columns. The first m coordinates of a row x are Vᵀx. The last coordinate
is the length of the remainder, √(‖x‖² − ‖Vᵀx‖²). By the reverse triangle inequality, the distance between the
coordinates of two rows x and y is at most ‖x − y‖, whatever V is. If this lower bound is already too large,
the exact distance need not be computed. The bound is tightest if the columns of V are the directions in which
the rows are longest. The columns are therefore the leading right singular vectors of a sample of rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.rows import Rows, cut, is_sparse, squared_norms

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]

N_DIRECTIONS = 31
"""Maximum number m of columns of V. A row has m + 1 coordinates, so at most 32."""

_MULTIPLE = 16
"""Zeros are appended to the coordinates until their number is a multiple of this constant; see `kernels`."""

SLACK = 1e-5
"""Upper bound on the error of a distance between coordinates, which are rounded to float32."""

_SAMPLED = 4096
_ROWS_AT_ONCE = 4096


class RowBlocks(Protocol):
    """Interface through which near-duplicates are found in a pool. `Pool` and `ArrayPool` provide it."""

    @property
    def n_features(self) -> int:
        """Length of a row."""

    @property
    def is_sparse(self) -> bool:
        """Whether rows are `csr_array`s instead of arrays."""

    def __len__(self) -> int:
        """Return the number of rows, N."""

    def rows(self, rows: NDArray[np.int64], /) -> Rows:
        """Return the features of these rows, of shape (len(rows), n_features)."""

    def blocks(self, start_row: int = 0, /) -> Iterator[tuple[int, Rows]]:
        """Yield blocks of rows from `start_row` on, as (first row, features of shape (m, n_features))."""


def coordinates(pool: RowBlocks) -> Floats32:
    """Return the coordinates of all rows, filled up with zeros to the shape (N, 16) or (N, 32).

    Coordinates are computed in float64 and rounded to float32. For each row, the Euclidean norm of the errors
    of its coordinates is less than `SLACK` / 2.
    """
    sample = pool.rows(np.unique(np.linspace(0, len(pool) - 1, _SAMPLED).astype(np.int64)))
    V = _directions(sample)
    n_columns = -(-(V.shape[1] + 1) // _MULTIPLE) * _MULTIPLE
    out = np.zeros((len(pool), n_columns), dtype=np.float32)

    def project(part: tuple[int, Rows]) -> None:
        first, X = part[0], part[1].astype(np.float64)
        projected = X @ V
        squares = squared_norms(X) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
        rest = squares - np.einsum("ij,ij->i", projected, projected)
        rows = out[first : first + X.shape[0]]
        rows[:, : V.shape[1]], rows[:, V.shape[1]] = projected, np.sqrt(np.maximum(rest, 0))

    with one_thread(), ThreadPoolExecutor(os.cpu_count()) as threads:
        for first, X in pool.blocks():
            starts = range(0, X.shape[0], _ROWS_AT_ONCE)
            parts = ((first + start, cut(X, start, start + _ROWS_AT_ONCE)) for start in starts)
            list(threads.map(project, parts))
    return out


def _directions(sample: Rows) -> Floats64:
    """Return the matrix V of this module's docstring, of shape (n_features, m), for a sample of rows."""
    from sklearn.utils.extmath import randomized_svd  # a slow import, which reading groups doesn't need

    n = min(N_DIRECTIONS, *sample.shape)
    _, _, Vt = randomized_svd(sample.astype(np.float64), n, n_iter=2, random_state=0)
    return np.asarray(np.linalg.qr(Vt.T)[0])
