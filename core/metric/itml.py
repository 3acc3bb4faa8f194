"""Information-theoretic metric learning: the metric nearest to a given one that meets the constraints.

A positive definite A makes the squared distance d_A(x, y) = (x − y)ᵀA(x − y). Of all that meet the
constraints, the nearest to A₀ is looked for, near in the sense of the LogDet divergence

    D(A, A₀) = tr(AA₀⁻¹) − log det(AA₀⁻¹) − d,

which is finite for positive definite A only, so that A stays one [1]_. Each bound b of a pair has slack: it
may become ξ at the price of γ D(ξ, b), D of the 1 × 1 matrices [2]_:

    min D(A, A₀) + γ Σ D(ξ, b)   with d_A ≤ ξ for similar pairs and d_A ≥ ξ for dissimilar ones        (2)

**Bregman projections.** One constraint after the other is met with as little change as possible, again and
again, with v the difference of its rows, δ = 1 for similar pairs and −1 for others, and its multiplier λ ≥ 0:

    p = vᵀAv,   a = min(λ, δ γ/(γ + 1) (1/p − 1/ξ)),   λ ← λ − a,   ξ ← γξ/(γ + δaξ),
    A ← A + β Avvᵀ A,   β = δa/(1 − δap)                                                                  (3)

(`a` is derived from the Lagrangian: A'⁻¹ = A⁻¹ − δa vvᵀ and 1/ξ' = 1/ξ + δa/γ meet where d_A' = ξ'. [2]_
prints δ/2 (1/p − γ/ξ), which is the same for γ = 1 only.) Without slack, γ = ∞, ξ stays b and the factor is
1. It has converged when a whole pass changes the multipliers by no more than `tol` of their sum.

**Explicit.** Of A = GᵀG only G is kept. With y = Gv, so that p = yᵀy and Av = Gᵀy, (3) becomes

    G ← (I + αyyᵀ)G = G + αy(Gᵀy)ᵀ,   α = (√(1 + βp) − 1)/p                               (9 and Lemma 1)

at O(d²) a constraint; A cannot become indefinite by rounding.

**Implicit.** With A₀ = I and Φ the c constrained rows as columns, K₀ = ΦᵀΦ, G stays I + ΦSΦᵀ (Lemma 2), and
with u = e_i − e_j, a = u + SK₀u, so that Gv = Φa, and h = K₀a,

    p = aᵀh,   S ← S + αa(a + Sᵀh)ᵀ

which is the Lemma's update, written out: O(c²) a constraint, whatever the number of features, and all it
needs is K₀: of sparse rows, or of any positive kernel. The kernel under the metric is K₀ + K₀MK₀ among these
rows, with A = I + ΦMΦᵀ, M = S + Sᵀ + SᵀK₀S; that is what update (4) arrives at.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
.. [2] J. Davis, B. Kulis, P. Jain, S. Sra, I. Dhillon, "Information-theoretic metric learning", ICML 2007.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.metric.constraints import Constraints
from closecall.core.metric.metrics import ExplicitMetric, ImplicitMetric, Metric, gram
from closecall.core.metric.projections import Projecting, explicit_pass, implicit_pass
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse

Floats64 = NDArray[np.float64]
Form = Literal["auto", "explicit", "implicit"]


class ITML(Projecting):
    """Learns a `Metric` from `Constraints`.

    Parameters
    ----------
    form : "auto", "explicit" or "implicit"
        What is learned: G of shape (d, d), or S of shape (c, c) over the c constrained rows. "auto": implicit
        for sparse rows, for the others what is smaller. Without a prior both are the same metric.
    gamma, tol, max_passes, random_state
        See `core.metric.projections.Projecting`.

    Attributes
    ----------
    metric_ : Metric
    projections_ : Projections
    """

    metric_: Metric

    def __init__(
        self,
        *,
        gamma: float = 1.0,
        form: Form = "auto",
        tol: float = 1e-3,
        max_passes: int = 1_000,
        random_state: int = 0,
    ) -> None:
        super().__init__(gamma=gamma, tol=tol, max_passes=max_passes, random_state=random_state)
        self.form = form

    def fit(self, X: Rows, constraints: Constraints, *, prior: ArrayLike | None = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            The rows that `constraints` name.
        constraints : Constraints
            Which of them are similar.
        prior : array of shape (n_features, n_features), optional
            A₀, positive definite, for the explicit form; the identity if left out.

        Raises
        ------
        InputError
            If a parameter is out of range, the prior is not positive definite, or there is no slack and the
            constraints contradict each other.
        """
        self._check()
        if self._is_implicit(X, constraints, prior):
            used, places = np.unique(constraints.pairs, return_inverse=True)
            points = as_sparse(X)[used] if is_sparse(X) else np.asarray(X)[used]
            points = points.astype(np.float64)
            S = self.learn_kernel(gram(points, points), constraints, places.reshape(-1, 2))
            self.metric_ = ImplicitMetric(points, S)
        else:
            G = np.eye(X.shape[1]) if prior is None else _root(prior, X.shape[1])
            X = np.asarray(X, dtype=np.float64)
            differences = X[constraints.pairs[:, 0]] - X[constraints.pairs[:, 1]]
            self._project(G, "metric", constraints, partial(explicit_pass, G, differences))
            self.metric_ = ExplicitMetric(G)
        return self

    def learn_kernel(self, K0: ArrayLike, constraints: Constraints, pairs: NDArray[np.int64]) -> Floats64:
        """Learn S from a kernel alone.

        Parameters
        ----------
        K0 : array of shape (c, c)
            The kernel between c things, symmetric, and positive but for rounding.
        constraints : Constraints
            For which pairs are similar, and for the thresholds, which are of κ(x, x) + κ(y, y) − 2κ(x, y).
        pairs : array of shape (n_pairs, 2), int
            The same pairs by rows of K0.

        Returns
        -------
        array of shape (c, c), float64
            S, of which `core.metric.metrics.weights_of` makes the kernel under the metric.

        Raises
        ------
        InputError
            If K0 is not a positive kernel; and as `fit`.
        """
        self._check()
        K0 = positive_kernel(K0)
        S = np.zeros_like(K0)
        pairs = np.ascontiguousarray(pairs, dtype=np.int64)
        self._project(S, "metric", constraints, partial(implicit_pass, S, K0, pairs))
        return S

    def _is_implicit(self, X: Rows, constraints: Constraints, prior: ArrayLike | None) -> bool:
        form = self.form
        if form == "auto":
            fewer = len(np.unique(constraints.pairs)) < X.shape[1]
            form = "implicit" if is_sparse(X) or (fewer and prior is None) else "explicit"
        if form == "implicit" and prior is not None:
            raise InputError("a prior needs form='explicit' and dense rows: implicitly, it is the identity")
        if form == "explicit" and is_sparse(X):
            raise InputError("form='explicit' needs dense rows, got sparse ones: use form='implicit'")
        return form == "implicit"

    def _check(self) -> None:
        super()._check()
        if self.form not in ("auto", "explicit", "implicit"):
            raise InputError(f"form must be one of auto, explicit, implicit, got {self.form!r}")


def logdet_divergence(A: Floats64, A0: Floats64) -> float:
    """D(A, A₀) = tr(AA₀⁻¹) − log det(AA₀⁻¹) − d of positive definite matrices."""
    ratio = np.linalg.solve(A0, A)
    sign, logarithm = np.linalg.slogdet(ratio)
    return float(np.trace(ratio) - logarithm - len(A)) if sign > 0 else np.inf


def positive_kernel(K: ArrayLike) -> Floats64:
    """K as float64, if it is a symmetric matrix without negative eigenvalues but for rounding.

    Raises
    ------
    InputError
        If it isn't.
    """
    K = np.array(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not np.isfinite(K).all() or not np.allclose(K, K.T):
        raise InputError(f"a kernel must be a finite symmetric matrix, got one of shape {K.shape}")
    values = np.linalg.eigvalsh(K) if len(K) else np.zeros(1)
    if values[0] < -1e-6 * max(values[-1], 1e-300):
        raise InputError(
            f"the kernel is not positive: its least eigenvalue is {values[0]:.3g}, "
            f"its greatest {values[-1]:.3g}"
        )
    return K


def _root(prior: ArrayLike, n_features: int) -> Floats64:
    """Some G with GᵀG = A₀."""
    A0 = np.asarray(prior, dtype=np.float64)
    if A0.shape != (n_features, n_features) or not np.allclose(A0, A0.T):
        raise InputError(
            f"the prior must be a symmetric matrix of {n_features} rows and columns, got shape {A0.shape}"
        )
    try:
        return np.ascontiguousarray(np.linalg.cholesky(A0).T)
    except np.linalg.LinAlgError as error:
        least = np.linalg.eigvalsh(A0)[0]
        raise InputError(
            f"the prior is not positive definite: its least eigenvalue is {least:.3g}"
        ) from error
