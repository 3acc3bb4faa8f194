"""Information-theoretic metric learning: the metric that is closest to a given metric under constraints.

A positive definite A defines the squared distance d_A(x, y) = (x − y)ᵀA(x − y). Among all A that satisfy the
constraints, ITML finds the A closest to A₀ in the LogDet divergence

    D(A, A₀) = tr(AA₀⁻¹) − log det(AA₀⁻¹) − d,

where A has the shape (d, d). The divergence is finite only for positive definite A, so A stays positive
definite [1]_. The bound b of each pair has slack: it may become ξ at a cost of γ D(ξ, b), where D is the
divergence of 1 × 1 matrices [2]_. With equation numbers as in [1]_, the problem is

    min D(A, A₀) + γ Σ D(ξ, b)   with d_A ≤ ξ for similar pairs and d_A ≥ ξ for dissimilar ones        (2)

**Bregman projections.** In repeated passes, the constraints are satisfied one after the other, each with the
smallest possible change of A. Let v be the difference of the two rows of a pair, λ ≥ 0 its multiplier,
and δ = 1 for a similar and −1 for a dissimilar pair. The update is

    p = vᵀAv,   a = min(λ, δ γ/(γ + 1) (1/p − 1/ξ)),   λ ← λ − a,   ξ ← γξ/(γ + δaξ),
    A ← A + β Avvᵀ A,   β = δa/(1 − δap)                                                                  (3)

The formula for a follows from the Lagrangian. If A' and ξ' are the values after the update, then
A'⁻¹ = A⁻¹ − δa vvᵀ and 1/ξ' = 1/ξ + δa/γ, and a is determined by d_A' = ξ'. [2]_ prints δ/2 (1/p − γ/ξ)
instead, which is equal only for γ = 1. Without slack (γ = ∞), ξ remains b and the factor γ/(γ + 1) is 1. The
projections have converged when a whole pass changes the multipliers by at most `tol` times their sum.

**Explicit form.** Only the factor G of A = GᵀG is stored. With y = Gv, so that p = yᵀy and Av = Gᵀy, (3)
becomes

    G ← (I + αyyᵀ)G = G + αy(Gᵀy)ᵀ,   α = (√(1 + βp) − 1)/p                               (9 and Lemma 1)

This costs O(d²) per constraint, and rounding cannot make A indefinite.

**Implicit form.** Let A₀ = I, let the columns of Φ be the c constrained rows, and let K₀ = ΦᵀΦ. Then G always
has the form I + ΦSΦᵀ (Lemma 2). For the rows i and j, let u = e_i − e_j be the difference of unit vectors,
a = u + SK₀u the vector with Gv = Φa (not the number a of (3)), and h = K₀a. The update of G becomes

    p = aᵀh,   S ← S + αa(a + Sᵀh)ᵀ

It costs O(c²) per constraint for any number of features. It needs only K₀, which may come from sparse rows or
from any positive semidefinite kernel. The kernel matrix of the c rows under the metric is K₀ + K₀MK₀, where
A = I + ΦMΦᵀ and M = S + Sᵀ + SᵀK₀S. Update (4) of [1]_ gives the same result.

**Relative constraints** state that row i is nearer to row j than to row k [3]_. Let b > 0 be the margin. The
bound ξ starts at b and never falls below it. The constraint is

    d_A(x_i, x_j) − d_A(x_i, x_k) + 2b ≤ ξ,   at a cost of γ D(ξ, b)

Without slack, ξ = b, so the squared distances differ by at least b. With slack, any triples are feasible. Let
v = x_i − x_j and w = x_i − x_k. A step μ of the multiplier changes A⁻¹ by μ(vvᵀ − wwᵀ) and 1/ξ by −μ/γ. Let
p = vᵀAv, q = wᵀAw, r = vᵀAw, t = p − q and Δ = pq − r². With A' after the step,

    d_A'(x_i, x_j) − d_A'(x_i, x_k) = (t − 2μΔ)/(1 + μt − μ²Δ)

The denominator is det A / det A'. Between its roots, the difference falls from +∞ to −∞ as μ grows. If the
constraint still holds after a step of −λ, then μ = −λ. Otherwise, bisection finds the only μ at which both
sides of the constraint are equal. The update consists of two updates (3), one with v and δa = −μ, and one
with w and δa = μ. The update that shrinks A comes first, so that A stays positive definite. If v and w are
parallel, μ may not exist without slack.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
.. [2] J. Davis, B. Kulis, P. Jain, S. Sra, I. Dhillon, "Information-theoretic metric learning", ICML 2007.
.. [3] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, footnote 5,
   without slack.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.metric.constraints import AnyConstraints
from closecall.core.metric.metrics import ExplicitMetric, ImplicitMetric, Metric, gram
from closecall.core.metric.projections import Projecting
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse

Floats64 = NDArray[np.float64]
Form = Literal["auto", "explicit", "implicit"]


class ITML(Projecting):
    """Information-theoretic metric learning of a `Metric` from pairs or triples.

    Parameters
    ----------
    form : "auto", "explicit" or "implicit"
        For d features, the explicit form learns the factor G of A = GᵀG, of shape (d, d). For c constrained
        rows, the implicit form learns the matrix S of `ImplicitMetric`, of shape (c, c). "auto" uses the
        implicit form for sparse rows, and for dense rows if c < d and there is no prior. Without a prior,
        both forms give the same metric.
    gamma, tol, max_passes, random_state
        See `core.metric.projections.Projecting`.

    Attributes
    ----------
    metric_ : Metric
        The learned metric.
    projections_ : Projections
        Result of the projections.
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

    def fit(self, X: Rows, constraints: AnyConstraints, *, prior: ArrayLike | None = None) -> Self:
        """Learn the metric.

        Parameters
        ----------
        X : array or csr_array of shape (n_samples, n_features)
            The rows that `constraints` refers to.
        constraints : Constraints or RelativeConstraints
            Similar and dissimilar pairs, or triples.
        prior : array of shape (n_features, n_features), optional
            A₀, positive definite, for the explicit form; the identity by default.

        Raises
        ------
        InputError
            If a parameter is out of range, if the prior is not positive definite, if the form does not fit
            the rows or the prior, or if there is no slack and the constraints contradict each other.
        """
        self._check()
        used, places = np.unique(constraints.items, return_inverse=True)
        places = places.reshape(-1, constraints.items.shape[1])
        points = (as_sparse(X) if is_sparse(X) else np.asarray(X))[used].astype(np.float64)
        if self._is_implicit(X, len(used), prior):
            S = self.learn_kernel(gram(points, points), constraints, places)
            self.metric_ = ImplicitMetric(points, S)
        else:
            G = np.eye(X.shape[1]) if prior is None else _root(prior, X.shape[1])
            one_pass = partial(constraints.passes.explicit, G, points, places, constraints.terms)
            self._project(G, "metric", constraints.targets, one_pass)
            self.metric_ = ExplicitMetric(G)
        return self

    def learn_kernel(self, K0: ArrayLike, constraints: AnyConstraints, items: NDArray[np.int64]) -> Floats64:
        """Learn the matrix S of the implicit form from a kernel matrix alone.

        Parameters
        ----------
        K0 : array of shape (c, c)
            Kernel matrix of c items, symmetric, and positive semidefinite up to rounding.
        constraints : Constraints or RelativeConstraints
            Pairs or triples. Their bounds refer to the squared distances κ(x, x) + κ(y, y) − 2κ(x, y), where
            κ is the kernel.
        items : array of shape (n_constraints, 2 or 3), int
            The pairs or triples of `constraints`, as row numbers of K0.

        Returns
        -------
        array of shape (c, c), float64
            S. `core.metric.metrics.weights_of(S, K0)` returns the weights of the kernel under the metric.

        Raises
        ------
        InputError
            If a parameter is out of range, if K0 is not positive semidefinite, or if there is no slack and
            the constraints contradict each other.
        """
        self._check()
        K0 = positive_kernel(K0)
        S = np.zeros_like(K0)
        items = np.ascontiguousarray(items, dtype=np.int64)
        one_pass = partial(constraints.passes.implicit, S, K0, items, constraints.terms)
        self._project(S, "metric", constraints.targets, one_pass)
        return S

    def _is_implicit(self, X: Rows, n_used: int, prior: ArrayLike | None) -> bool:
        form = self.form
        if form == "auto":
            fewer = n_used < X.shape[1] and prior is None
            form = "implicit" if is_sparse(X) or fewer else "explicit"
        if form == "implicit" and prior is not None:
            raise InputError(
                "a prior needs form='explicit' and dense rows: implicit ITML starts from the identity"
            )
        if form == "explicit" and is_sparse(X):
            raise InputError("form='explicit' needs dense rows, got sparse ones: use form='implicit'")
        return form == "implicit"

    def _check(self) -> None:
        super()._check()
        if self.form not in ("auto", "explicit", "implicit"):
            raise InputError(f"form must be one of auto, explicit, implicit, got {self.form!r}")


def positive_kernel(K: ArrayLike) -> Floats64:
    """Return K as float64 after checking that it is symmetric and positive semidefinite up to rounding.

    Raises
    ------
    InputError
        Unless K is finite, symmetric and positive semidefinite.
    """
    K = np.array(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1] or not np.isfinite(K).all() or not np.allclose(K, K.T):
        raise InputError(f"a kernel must be a finite symmetric matrix, got one of shape {K.shape}")
    values = np.linalg.eigvalsh(K) if len(K) else np.zeros(1)
    if values[0] < -1e-6 * max(values[-1], 1e-300):
        raise InputError(
            f"the kernel is not positive semidefinite: its smallest eigenvalue is {values[0]:.3g}, "
            f"its largest {values[-1]:.3g}"
        )
    return K


def _root(prior: ArrayLike, n_features: int) -> Floats64:
    """Return a matrix G with GᵀG = A₀, where A₀ is `prior`."""
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
            f"the prior is not positive definite: its smallest eigenvalue is {least:.3g}"
        ) from error
