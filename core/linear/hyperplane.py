"""Hyperplanes and distances between points."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse, product, sparse_rows, squared_norms

Floats = NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Hyperplane:
    """The set of points x with wᵀx + b = 0.

    Parameters
    ----------
    normal : array of shape (n_features,), float64
        w, not necessarily of unit norm.
    bias : float
        b, the weight of the constant 1 appended to every point.

    Raises
    ------
    InputError
        If the normal is not a vector, or a value is not finite.
    """

    normal: NDArray[np.float64]
    bias: float

    def __post_init__(self) -> None:
        normal = np.array(self.normal, dtype=np.float64)
        if normal.ndim != 1 or not np.isfinite(normal).all() or not np.isfinite(self.bias):
            raise InputError(
                f"a hyperplane needs a finite normal of shape (n_features,) and a finite bias, "
                f"got shape {normal.shape} and bias {self.bias}"
            )
        normal.flags.writeable = False
        object.__setattr__(self, "normal", normal)
        object.__setattr__(self, "bias", float(self.bias))

    def scores(self, X: Rows) -> NDArray[np.float64]:
        """Return the signed margins wᵀx + b in float64, of shape (n_samples,)."""
        if is_sparse(X):
            return product(as_sparse(X), self.normal) + self.bias
        return np.asarray(X, dtype=np.float64) @ self.normal + self.bias

    @cached_property
    def norm(self) -> float:
        """‖w‖ without the bias; |wᵀx + b| / ‖w‖ is the Euclidean distance from x to the hyperplane."""
        return float(np.linalg.norm(self.normal))

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify exactly this normal and bias."""
        raw = self.normal.tobytes() + np.float64(self.bias).tobytes()
        return hashlib.blake2b(raw, digest_size=8).hexdigest()


def unit_rows(X: Rows) -> Rows:
    """Return the rows of X, of shape (n_samples, n_features), scaled to unit norm; sparse rows stay sparse.

    Raises
    ------
    InputError
        If a row is zero or not finite, and so has no direction.
    """
    X = as_sparse(X) if is_sparse(X) else np.asarray(X, dtype=np.float32)
    norms = np.sqrt(squared_norms(X)) if is_sparse(X) else np.linalg.norm(X.astype(np.float64), axis=1)
    bad = np.flatnonzero(~np.isfinite(norms) | (norms == 0))
    if bad.size:
        what = "zero" if norms[bad[0]] == 0 else "not finite"
        raise InputError(
            f"row {bad[0]} is {what}: every row needs a direction ({bad.size} of {X.shape[0]} have none)"
        )
    narrow = norms.astype(np.float32)
    if is_sparse(X):
        values = X.data / np.repeat(narrow, np.diff(X.indptr))
        return sparse_rows(values, X.indices, X.indptr, X.shape[1])
    return X / narrow[:, None]


def euclidean(Q: Rows, X: Rows) -> NDArray[np.float64]:
    """Return ‖q − x‖ for each row q of Q and each row x of X, of shape (n_queries, n_points), in float64."""
    Q, X = Q.astype(np.float64), X.astype(np.float64)
    inner = Q @ X.T
    inner = inner.toarray() if is_sparse(inner) else inner
    squares = _own_squares(Q)[:, None] + _own_squares(X)[None, :] - 2 * inner
    return np.asarray(np.sqrt(np.maximum(squares, 0.0)))


def _own_squares(X: Rows) -> NDArray[np.float64]:
    return squared_norms(X) if is_sparse(X) else np.einsum("ij,ij->i", X, X)


def settled_signs(vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return eigenvectors (columns), with signs that make the entry of largest magnitude positive.

    With this choice, an eigenvector is unique. Otherwise, it is determined only up to its sign.
    """
    largest = np.abs(vectors).argmax(axis=0)
    return np.asarray(vectors * np.sign(vectors[largest, np.arange(vectors.shape[1])]))
