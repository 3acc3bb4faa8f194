"""Learned inner products xᵀAy with A = GᵀG: explicit for few features, implicit for many or sparse features.

A metric computes inner products, norms, and the projections of Gx on random directions that hashing needs
(`core.hashing.metric_lsh`). In the implicit form, G = I + ΦSΦᵀ, where the columns of Φ are c rows. Φ and S
are stored instead of G or A. Let z = Φᵀx and z' = Φᵀy be the inner products of x and y with the c rows. Then

    xᵀAy = xᵀy + zᵀM z',   M = S + Sᵀ + SᵀK₀S,   and   rᵀGx = (r + Φγ)ᵀx,   γ = Sᵀ(Φᵀr)                    (8)

with K₀ = ΦᵀΦ. Equation numbers are those of [1]_.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows, is_sparse, sparse_rows

Arrays = dict[str, NDArray[Any]]
Floats64 = NDArray[np.float64]


class Metric(ABC):
    """The inner product xᵀAy for a positive semidefinite A = GᵀG, learned by ITML or given."""

    n_features: int

    @abstractmethod
    def inner(self, Q: Rows, X: Rows) -> Floats64:
        """Return QAXᵀ, of shape (n_queries, n_points), in float64."""

    @abstractmethod
    def squared_norms(self, X: Rows) -> Floats64:
        """Return xᵀAx of each row, of shape (n_points,), in float64."""

    @abstractmethod
    def directions(self, Q: Rows) -> Floats64:
        """Return Aq for each row q, of shape (n_queries, n_features); xᵀ(Aq) is the inner product."""

    @abstractmethod
    def carried(self, R: NDArray[Any]) -> NDArray[np.float32]:
        """Return GᵀR, of shape (n_features, k), so that rᵀGx becomes an ordinary inner product with x.

        Parameters
        ----------
        R : array of shape (n_features, k), float32 or int8
            Vectors r as columns.
        """

    @abstractmethod
    def arrays(self) -> Arrays:
        """Return the arrays that define the metric, by name; see `metric_from_arrays`."""

    def squared_distances(self, Q: Rows, X: Rows) -> Floats64:
        """Return (q − x)ᵀA(q − x), of shape (n_queries, n_points), in float64; eq. 1."""
        squares = self.squared_norms(Q)[:, None] + self.squared_norms(X)[None, :] - 2 * self.inner(Q, X)
        return np.maximum(squares, 0.0)

    def _check(self, X: Rows) -> None:
        if X.shape[1] != self.n_features:
            raise InputError(f"the metric has {self.n_features} features, got rows of {X.shape[1]}")


class ExplicitMetric(Metric):
    """A metric given by its factor G.

    Parameters
    ----------
    G : array of shape (n, n_features)
        Factor of A = GᵀG.
    """

    def __init__(self, G: NDArray[Any]) -> None:
        self.G = np.ascontiguousarray(G, dtype=np.float64)
        self.n_features = self.G.shape[1]

    @property
    def A(self) -> Floats64:  # noqa: N802
        """A = GᵀG, of shape (n_features, n_features)."""
        return np.asarray(self.G.T @ self.G)

    def inner(self, Q: Rows, X: Rows) -> Floats64:
        """See `Metric.inner`."""
        return np.asarray(self._mapped(Q) @ self._mapped(X).T)

    def squared_norms(self, X: Rows) -> Floats64:
        """See `Metric.squared_norms`."""
        mapped = self._mapped(X)
        return np.asarray(np.einsum("ij,ij->i", mapped, mapped))

    def directions(self, Q: Rows) -> Floats64:
        """See `Metric.directions`."""
        return np.asarray(self._mapped(Q) @ self.G)

    def carried(self, R: NDArray[Any]) -> NDArray[np.float32]:
        """See `Metric.carried`: the rᵀG of eq. 6."""
        return np.asarray(self.G.T @ R, dtype=np.float32)

    def arrays(self) -> Arrays:
        """See `Metric.arrays`."""
        return {"G": self.G}

    def _mapped(self, X: Rows) -> Floats64:
        self._check(X)
        return np.asarray(X.astype(np.float64) @ self.G.T)


class ImplicitMetric(Metric):
    """A metric given by c rows and a matrix S: G = I + ΦSΦᵀ.

    Parameters
    ----------
    points : array or csr_array of shape (c, n_features)
        The constrained rows, Φᵀ.
    S : array of shape (c, c)
        As returned by `core.metric.ITML.learn_kernel`.

    Raises
    ------
    InputError
        If S does not have one row and one column per point.
    """

    def __init__(self, points: Rows, S: NDArray[Any]) -> None:
        self.points = points
        self.S = np.ascontiguousarray(S, dtype=np.float64)
        self.n_features = points.shape[1]
        if self.S.shape != (points.shape[0],) * 2:
            raise InputError(
                f"S must have one row and one column for each of {points.shape[0]} points, "
                f"got shape {self.S.shape}"
            )
        self._M = weights_of(self.S, gram(points, points))

    def inner(self, Q: Rows, X: Rows) -> Floats64:
        """See `Metric.inner`."""
        to_q, to_x = self._seen(Q), self._seen(X)
        return np.asarray(gram(Q, X) + to_q @ self._M @ to_x.T)

    def squared_norms(self, X: Rows) -> Floats64:
        """See `Metric.squared_norms`."""
        Z, X = self._seen(X), X.astype(np.float64)
        own = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
        return np.asarray(np.asarray(own).ravel() + np.einsum("ij,ij->i", Z @ self._M, Z))

    def directions(self, Q: Rows) -> Floats64:
        """See `Metric.directions`."""
        dense = Q.toarray() if is_sparse(Q) else np.asarray(Q)
        return np.asarray(dense.astype(np.float64) + (self._seen(Q) @ self._M) @ self.points)

    def carried(self, R: NDArray[Any]) -> NDArray[np.float32]:
        """Return r + Φγ with γ = Sᵀ(Φᵀr), eq. 8; see `Metric.carried`."""
        seen = np.asarray(self.points.astype(np.float64) @ R.astype(np.float64))
        added = self.points.T @ (self.S.T @ seen)
        return np.asarray(R + added.astype(np.float32), dtype=np.float32)

    def arrays(self) -> Arrays:
        """See `Metric.arrays`."""
        if not is_sparse(self.points):
            return {"points": self.points, "S": self.S}
        named = {part: getattr(self.points, part) for part in ("data", "indices", "indptr")}
        return {"S": self.S, "n-features": np.array(self.n_features), **named}

    def _seen(self, X: Rows) -> Floats64:
        """Return z = Φᵀx of each row, of shape (n, c)."""
        self._check(X)
        return gram(X, self.points)


def weights_of(S: Floats64, K0: Floats64) -> Floats64:
    """Return M, with which the kernel under the metric is κ(x, y) + k(x)ᵀM k(y).

    Here, κ is the kernel without the metric, and k(x) holds κ between x and the c constrained items.

    Parameters
    ----------
    S : array of shape (c, c)
        As returned by `core.metric.ITML.learn_kernel`.
    K0 : array of shape (c, c)
        κ between the constrained items.

    Returns
    -------
    array of shape (c, c)
        M = S + Sᵀ + SᵀK₀S.
    """
    return S + S.T + S.T @ K0 @ S


def metric_from_arrays(arrays: Arrays) -> Metric:
    """Return the metric defined by these arrays; the inverse of `Metric.arrays`."""
    if "G" in arrays:
        return ExplicitMetric(arrays["G"])
    if "points" in arrays:
        return ImplicitMetric(arrays["points"], arrays["S"])
    points = sparse_rows(arrays["data"], arrays["indices"], arrays["indptr"], int(arrays["n-features"]))
    return ImplicitMetric(points, arrays["S"])


def gram(A: Rows, B: Rows) -> Floats64:
    """Return ABᵀ in float64, as a dense array, for dense or sparse rows."""
    product = A.astype(np.float64) @ B.astype(np.float64).T
    return np.asarray(product.toarray() if is_sparse(product) else product, dtype=np.float64)
