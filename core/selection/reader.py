"""What query strategies need of a pool, and wᵀx + b of chosen rows, read where they lie."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from core.geometry import Hyperplane
from core.kernels import prefetch

Ids = NDArray[np.int64]
Rows = NDArray[np.int64]
Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]

_COPIED_ROWS = 2048

_AHEAD = 4
_LINE = 16
"""float32 numbers in a line of the cache."""


class PoolRows(Protocol):
    """What a query strategy needs of a pool: a snapshot of N unit rows, in the order of their ids."""

    @property
    def ids(self) -> Ids:
        """The item ids of shape (N,), ascending."""

    @property
    def n_features(self) -> int:
        """The length of a row."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """The number format of the stored rows; if it is float32, `blocks` gives them without a copy."""

    def __len__(self) -> int:
        """N, the number of rows."""

    def scores(self, hyperplane: Hyperplane) -> NDArray[np.float32]:
        """wᵀx + b of every row, of shape (N,), computed in float32."""

    def score_blocks(self, hyperplanes: Sequence[Hyperplane]) -> Iterator[tuple[int, Floats32]]:
        """wᵀx + b under each of k hyperplanes, as (number of the first row, float32 of shape (k, m))."""

    def rows(self, rows: Rows) -> NDArray[np.float32]:
        """The features of these rows, of shape (len(rows), n_features)."""

    def blocks(self, start_row: int = 0) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """The rows from `start_row` on, as (number of the first, features of shape (m, n_features))."""

    def prefix(self, n_rows: int) -> PoolRows:
        """The pool as it was when it had only its first `n_rows` rows."""


class RowReader:
    """Reads the rows of a pool; any number of threads may use one.

    A float32 pool's segments are used as they are mapped. The rows of others are converted in small portions.
    """

    def __init__(self, pool: PoolRows) -> None:
        self._pool = pool
        self._segments: list[tuple[int, Floats32]] | None = None
        if pool.dtype == np.float32:
            self._segments = [(first, _read_only(X)) for first, X in pool.blocks()]
            self._starts = np.array([first for first, _ in self._segments], dtype=np.int64)

    def margins(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """|wᵀx + b| of these rows in float64, each a function of that row's features alone."""
        return np.abs(self._products(rows, hyperplane.normal) + hyperplane.bias)

    def rough_margins(self, rows: Rows, hyperplane: Hyperplane) -> Floats64:
        """As `margins`, summed in float32: wrong by at most `core.selection.nearest.float32_error`."""
        return np.abs(self._products(rows, hyperplane.normal.astype(np.float32)) + hyperplane.bias)

    def _products(self, rows: Rows, normal: NDArray[np.floating]) -> Floats64:
        out = np.empty(len(rows), dtype=np.float64)
        if self._segments is None:
            for start in range(0, len(rows), _COPIED_ROWS):
                X = self._pool.rows(rows[start : start + _COPIED_ROWS])
                places = np.arange(len(X))
                _products(_read_only(X), places, 0, normal, start + places, out)
            return out
        order = np.argsort(rows)
        ascending = rows[order]
        ends = [*np.searchsorted(ascending, self._starts).tolist(), len(rows)]
        for (first, X), start, end in zip(self._segments, ends[:-1], ends[1:], strict=True):
            if start < end:
                _products(X, ascending[start:end], first, normal, order[start:end], out)
        return out


def _read_only(X: Floats32) -> Floats32:
    """A view that compiled code knows by one type, whether the rows are mapped or copied."""
    X = np.asarray(X).view()
    X.flags.writeable = False
    return X


def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    """Sums may be taken in any order here, but it is one order for all rows."""
    return cast(Callable[..., None], njit(nogil=True, cache=True, fastmath={"contract", "reassoc"})(function))


@_compiled
def _products(
    X: Floats32, rows: Rows, first: int, normal: NDArray[np.floating], places: Rows, out: Floats64
) -> None:
    """out[places[i]] = wᵀx, x the row `rows[i] - first` of X, summed in the number format of `normal`."""
    zero = normal[0] - normal[0]
    last = rows.shape[0] - 1
    for i in range(rows.shape[0]):
        coming = rows[min(i + _AHEAD, last)] - first
        for j in range(0, X.shape[1], _LINE):
            prefetch(X, coming, j)
        x = X[rows[i] - first]
        total = zero
        for j in range(x.shape[0]):
            total += x[j] * normal[j]
        out[places[i]] = total
