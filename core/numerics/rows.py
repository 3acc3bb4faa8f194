"""Rows of features, dense or sparse, under one interface.

Images usually have dense rows: NumPy arrays of float32. Texts have sparse rows, because a document contains
about a hundred words of a vocabulary of a hundred thousand. Images described by sets of local features have
sparse rows, too. Sparse rows are `scipy.sparse.csr_array` of float32, with the columns of each row ascending
and distinct. No function of this module makes sparse rows dense.

The order of summation over a row only depends on the row itself, so equal rows have equal sums, wherever the
rows are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, issparse, vstack

from closecall.core.numerics.jit import fast_kernel, kernel

Rows: TypeAlias = Any
"""An array of shape (n, n_features), float32, or a `csr_array`. Type checkers do not know `csr_array`."""

F = TypeVar("F", np.float32, np.float64)


def is_sparse(X: object) -> bool:
    """Return whether X is a sparse matrix of any kind."""
    return bool(issparse(X))


def as_sparse(X: Any) -> csr_array:
    """Return a dense or sparse matrix as sparse rows; copy it only if necessary.

    The column indices of each row ascend, and no zeros are stored.
    """
    sparse = csr_array(X, dtype=np.float32)
    if not sparse.has_canonical_format or not sparse.data.all():
        sparse = sparse.copy()
        sparse.sum_duplicates()
        sparse.eliminate_zeros()
    return sparse_rows(sparse.data, sparse.indices, sparse.indptr, sparse.shape[1])


def sparse_rows(
    values: NDArray[np.float32], columns: NDArray[Any], starts: NDArray[Any], n_features: int
) -> csr_array:
    """Make a `csr_array` from the arrays that it consists of, without a copy of the values.

    The column indices and row starts become int32 if they fit, as scikit-learn requires.
    """
    if starts[-1] <= np.iinfo(np.int32).max:
        columns, starts = columns.astype(np.int32, copy=False), starts.astype(np.int32, copy=False)
    return csr_array((values, columns, starts), shape=(len(starts) - 1, n_features))


def no_rows(n_features: int, *, sparse: bool) -> Rows:
    """Return an empty array of rows, of shape (0, n_features)."""
    return csr_array((0, n_features), dtype=np.float32) if sparse else np.empty((0, n_features), np.float32)


def cut(X: Rows, first: int, end: int) -> Rows:
    """Return the rows `first` to `end` − 1, without a copy; `end` may exceed the number of rows."""
    if not is_sparse(X):
        return X[first:end]
    first, end = min(first, X.shape[0]), min(end, X.shape[0])
    low, high = int(X.indptr[first]), int(X.indptr[end])
    indptr = X.indptr[first : end + 1] - X.indptr[first]
    return sparse_rows(X.data[low:high], X.indices[low:high], indptr, X.shape[1])


@dataclass(frozen=True, eq=False)
class PlacedRows:
    """Dense rows of one dtype, given by their memory addresses, so that memory-mapped rows need no copy.

    Parameters
    ----------
    places : array of shape (n,), uintp
        The address of each row, whose values are contiguous.
    n_features : int
        Number of values of a row.
    owners : tuple of array
        The matrices that contain the rows. They keep the memory alive.
    """

    places: NDArray[np.uintp]
    n_features: int
    owners: tuple[NDArray[np.floating], ...]

    @classmethod
    def of(cls, X: NDArray[np.floating]) -> PlacedRows:
        """Return the rows of a matrix, given by their addresses."""
        X = np.ascontiguousarray(X)
        width = np.uintp(X.shape[1] * X.itemsize)
        places = np.uintp(X.ctypes.data) + np.arange(len(X), dtype=np.uintp) * width
        return cls(places, X.shape[1], (X,))

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return len(self.places), self.n_features

    def __add__(self, other: PlacedRows) -> PlacedRows:
        places = np.concatenate([self.places, other.places])
        return PlacedRows(places, self.n_features, self.owners + other.owners)

    def in_order(self, order: NDArray[np.intp]) -> PlacedRows:
        """Return the rows at the positions that `order` lists, in the order of that list."""
        return PlacedRows(self.places[order], self.n_features, self.owners)


def joined(parts: Sequence[Rows]) -> Rows:
    """Concatenate one or more parts; the result is sparse if any part is sparse."""
    if len(parts) == 1:
        return parts[0]
    if any(map(is_sparse, parts)):
        return vstack([csr_array(part, dtype=np.float32) for part in parts], format="csr")
    return np.concatenate(parts)


def gathered(found: Sequence[tuple[NDArray[np.int64], Rows]]) -> Rows:
    """Return one float32 array of rows that were collected from several places.

    Each entry of `found` is a pair: the positions of its rows in the result, and the rows themselves.
    """
    if is_sparse(found[0][1]):
        order = np.argsort(np.concatenate([there for there, _ in found]))
        X = joined([X for there, X in found if len(there)] or [found[0][1]])
        return X if np.array_equal(order, np.arange(len(order))) else X[order]
    out = np.empty((sum(len(there) for there, _ in found), found[0][1].shape[1]), dtype=np.float32)
    for there, X in found:
        out[there] = X
    return out


def as_bytes(X: Rows) -> bytes:
    """Return the rows as bytes. Different rows have different bytes if the number of features is the same."""
    if not is_sparse(X):
        return bytes(X.astype("<f4").tobytes())
    columns = (X.indptr.astype("<i8"), X.indices.astype("<i4"), X.data.astype("<f4"))
    return b"".join(array.tobytes() for array in columns)


def squared_norms(X: csr_array) -> NDArray[np.float64]:
    """Return ‖x‖² of each row, of shape (n,), in float64."""
    row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    sums = np.bincount(row, X.data.astype(np.float64) ** 2, minlength=X.shape[0])
    return np.asarray(sums, dtype=np.float64)


def product(X: csr_array, weights: NDArray[F], rows: NDArray[np.int64] | None = None) -> NDArray[F]:
    """Return wᵀx of each row, or of the given `rows`, of shape (n,), summed in the dtype of the weights."""
    rows = np.arange(X.shape[0]) if rows is None else rows
    out = np.empty(len(rows), dtype=weights.dtype)
    _product(*parts(X), _seen(rows), _seen(weights), out)
    return out


def products(X: csr_array, matrix: NDArray[Any]) -> NDArray[np.float32]:
    """Return the product of X and a dense matrix of any dtype, as float32.

    The matrix has the shape (n_features, k), and the product the shape (n, k).
    """
    out = np.zeros((X.shape[0], matrix.shape[1]), dtype=np.float32)
    _products(*parts(X), _seen(matrix), out)
    return out


def parts(X: csr_array) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Return the row starts, columns and values of sparse rows, in the types that compiled code expects."""
    return (
        _seen(X.indptr.astype(np.int64)),
        _seen(X.indices.astype(np.int32, copy=False)),
        _seen(X.data.astype(np.float32, copy=False)),
    )


def _seen(array: NDArray[Any]) -> NDArray[Any]:
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@fast_kernel
def _product(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    rows: NDArray[np.int64],
    weights: NDArray[F],
    out: NDArray[F],
) -> None:
    for i in range(rows.shape[0]):
        total = weights.dtype.type(0)
        for k in range(starts[rows[i]], starts[rows[i] + 1]):
            total += values[k] * weights[columns[k]]
        out[i] = total


@kernel
def _products(
    starts: NDArray[np.int64],
    columns: NDArray[np.int32],
    values: NDArray[np.float32],
    matrix: NDArray[Any],
    out: NDArray[np.float32],
) -> None:
    for i in range(out.shape[0]):
        for k in range(starts[i], starts[i + 1]):
            value, column = values[k], columns[k]
            for j in range(out.shape[1]):
                out[i, j] += value * np.float32(matrix[column, j])
