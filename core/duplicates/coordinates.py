"""A few coordinates per row that bound the distance between rows from below.

Let V have m orthonormal columns. A row x gets the m coordinates Vᵀx, and as a last one the length of the
rest, √(‖x‖² − ‖Vᵀx‖²). By the reverse triangle inequality, the distance between two rows in these m + 1
coordinates is at most ‖x − y‖. A pair that is too far apart in them needs no exact distance, whatever V is.
The bound is tightest if V has the directions in which the rows are longest, so V has the leading right
singular vectors of a sample of rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.rows import Rows, cut, is_sparse, squared_norms

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]

N_DIRECTIONS = 31
"""Maximum number of columns of V. With the length of the rest, a row takes 128 bytes."""

_MULTIPLE = 16
"""The number of coordinates is a multiple of this number; see `kernels`."""

SLACK = 1e-5
"""Upper bound on the error of a distance in coordinates, which are rounded to float32."""

_SAMPLED = 4096
_ROWS_AT_ONCE = 4096


class RowBlocks(Protocol):
    """The part of a pool that near-duplicates are found in; `Pool` and `ArrayPool` have it."""

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
        """Yield the rows from `start_row` on, as (first row, features of shape (m, n_features))."""


def coordinates(pool: RowBlocks) -> Floats32:
    """Return the coordinates of all rows, of shape (N, 16) or (N, 32): Vᵀx, the rest, and zeros.

    m is at most `N_DIRECTIONS`, and at most the number of features. They are computed in float64, so that the
    coordinates of a row err by less than `SLACK` / 2 in total.
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
    """Return orthonormal columns, of shape (n_features, m)."""
    n = min(N_DIRECTIONS, *sample.shape)
    _, _, Vt = randomized_svd(sample.astype(np.float64), n, n_iter=2, random_state=0)
    return np.asarray(np.linalg.qr(Vt.T)[0])
