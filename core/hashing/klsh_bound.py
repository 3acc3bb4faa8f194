"""Lower bound on the similarity of a query and the item that kernelized LSH finds (theorem 3 of [1]_).

Let κ be a normalised kernel, and Φ the map to its feature space. Let λ₁ ≥ λ₂ ≥ … be the eigenvalues of the
covariance C of Φ(x) over the n items, and y* the item with the largest κ(q, y) for a query q. KLSH estimates
k principal components from m landmarks, which are sampled items. φ(x) is the projection of a point x on these
components. For any ξ > 0, the error of the projection is

    e = √λ_k + η,   η = 2 (1 + √(ξ/2)) / (δ_k √m),   δ_k = (λ_k − λ_{k+1}) / 2

Let N(x) = ‖φ(x)‖ be the length of a projection. Points with N(x) ≤ 1 − e are left out. Among the other
points, LSH finds an item ŷ with O(n^{1/(1+ε)}) evaluations of the kernel, for any ε > 0. If e < 1, the
following holds with probability at least (1 − exp(−ξ))/2:

    κ(q, ŷ) ≥ (1 + ε)(1 − e) κ(q, y*) − ε − (2 + ε) e²                                              (eq. 16)
            → (1 + ε) κ(q, y*) − ε   for e → 0                                                      (eq. 17)

Because C is unknown, λ_k is estimated from the landmarks, as the k-th eigenvalue of their centred kernel
matrix K̄ (`core.hashing.klsh`) divided by m. The theorem assumes Gaussian vectors, as in `KernelPCALSH`, and
angles measured from the origin.

**Size.** Since δ_k ≤ λ_k/2, e is at least 3 ((1 + √(ξ/2))² / m)^{1/6}, for any kernel and k. The condition
e < 1 therefore requires at least 730 landmarks. The bound is positive only for e < 1/2, which requires more
than 46,656 landmarks. The bound explains the effects of k, m and the eigenvalues. In practice, m is too small
for a useful bound.

**Points that are left out.** Lemma 2 of [1]_ says that the condition N(x) > 1 − e holds for any x with
probability at least 1 − exp(−ξ). This is not true of all distributions. If Φ(x) is far from the origin and
varies little, N(x) is small for all x. The condition is also too weak for eq. 16, because it admits points at
distances up to √(2e − e²) from the subspace of the k components. Eq. 16 does hold if κ(q, y*) ≥ e² and the
points q, y* and ŷ are all within the distance e of the subspace. A point x is within this distance if
N(x) ≥ √(1 − e²) (`RetrievalBound.sufficient_norm`). The proof of the theorem is in a supplement that was not
available.

References
----------
.. [1] K. Jiang, Q. Que, B. Kulis: Revisiting Kernelized Locality-Sensitive Hashing for Improved Large-Scale
   Image Retrieval, CVPR 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, sqrt
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.klsh import KernelHasher
from closecall.core.hashing.similarity import Floats64
from closecall.core.numerics.rows import Rows


@dataclass(frozen=True)
class RetrievalBound:
    """Lower bound on the similarity of a query and the item that kernelized LSH finds; see the module.

    Parameters
    ----------
    n_landmarks : int
        Number of landmarks, m.
    eigenvalue, next_eigenvalue : float
        λ_k and λ_{k+1}, the k-th and the next eigenvalue of the covariance in feature space.
    xi : float
        Parameter ξ. A larger ξ increases both the probability that the bound holds and the error.

    Raises
    ------
    InputError
        Unless m ≥ 1, 0 ≤ λ_{k+1} ≤ λ_k, 0 < λ_k < ∞ and 0 < ξ < ∞.
    """

    n_landmarks: int
    eigenvalue: float
    next_eigenvalue: float
    xi: float = 1.0

    def __post_init__(self) -> None:
        if self.n_landmarks < 1:
            raise InputError(f"n_landmarks must be at least 1, got {self.n_landmarks}")
        if not 0 <= self.next_eigenvalue <= self.eigenvalue < inf or self.eigenvalue == 0:
            raise InputError(
                f"eigenvalue must be positive and finite, and next_eigenvalue from 0 to eigenvalue, got "
                f"{self.eigenvalue:g} and {self.next_eigenvalue:g}"
            )
        if not 0 < self.xi < inf:
            raise InputError(f"xi must be positive and finite, got {self.xi:g}")

    @classmethod
    def of(cls, family: KernelHasher, *, xi: float = 1.0) -> Self:
        """Return the bound for a fitted family of rank k. If the family has only k eigenvalues, λ_{k+1} is 0.

        Raises
        ------
        InputError
            If the family measures angles from the mean, or if its components are those of the uncentred
            kernel matrix.
        """
        _require_published(family)
        found = family.eigenvalues() / family.n_landmarks
        k = family.basis_.shape[1]
        following = float(found[k]) if k < len(found) else 0.0
        return cls(family.n_landmarks, float(found[k - 1]), following, xi)

    @property
    def eta(self) -> float:
        """Error η of estimating k principal components from m landmarks; infinite if λ_k = λ_{k+1}."""
        delta = (self.eigenvalue - self.next_eigenvalue) / 2
        return 2 * (1 + sqrt(self.xi / 2)) / (delta * sqrt(self.n_landmarks)) if delta else inf

    @property
    def error(self) -> float:
        """Error e = √λ_k + η of projecting points on k estimated components."""
        return sqrt(self.eigenvalue) + self.eta

    @property
    def applies(self) -> bool:
        """Whether the theorem applies, that is, e < 1."""
        return self.error < 1

    @property
    def success(self) -> float:
        """Minimum probability that the bound holds: (1 − exp(−ξ))/2."""
        return (1 - exp(-self.xi)) / 2

    @property
    def least_norm(self) -> float:
        """The norm 1 − e. The theorem only considers points whose projection has a larger norm."""
        return 1 - self.error

    @property
    def sufficient_norm(self) -> float:
        """The norm √(1 − e²), or 1 if e ≥ 1. The bound is valid for projections of at least this norm."""
        return sqrt(1 - self.error**2) if self.applies else 1.0

    def kept(self, norms: ArrayLike) -> NDArray[np.bool_]:
        """Return, for each point, whether the theorem considers it, given the points' `projected_norms`."""
        return np.asarray(norms, dtype=np.float64) > self.least_norm

    def similarity(self, nearest: ArrayLike, epsilon: float) -> Floats64:
        """Return the lower bound on the similarity of the query and the item found (eq. 16).

        The result has the shape of `nearest`. A bound below the minimum of the kernel gives no information.

        Parameters
        ----------
        nearest : array of any shape
            κ(q, y*), the value of the kernel for each query q and its nearest item y*.
        epsilon : float
            Parameter ε > 0 of the approximate search. A query takes O(n^{1/(1+ε)}) evaluations of the kernel.

        Raises
        ------
        InputError
            If the theorem does not apply, or ε is not positive and finite.
        """
        if not self.applies:
            raise InputError(
                f"the bound applies only if η < 1 − √λ_k, got η = {self.eta:.3g} and √λ_k = "
                f"{sqrt(self.eigenvalue):.3g}: it takes more landmarks than {self.n_landmarks}, a wider gap "
                f"between the eigenvalues, or a smaller xi"
            )
        return _bound(nearest, epsilon, self.error)


def limit(nearest: ArrayLike, epsilon: float) -> Floats64:
    """Return the limit of the bound as the error e of the projection goes to 0 (eq. 17).

    The arguments are those of `RetrievalBound.similarity`.

    Raises
    ------
    InputError
        If ε is not positive and finite.
    """
    return _bound(nearest, epsilon, 0.0)


def projected_norms(family: KernelHasher, X: Rows) -> Floats64:
    """Return N(x) = ‖φ(x)‖ (eq. 14), the norm of the projection φ(x), for each row x of X.

    The norms are from 0 to 1. The result has shape (n_samples,).

    Raises
    ------
    InputError
        If the family measures angles from the mean, or if its components are those of the uncentred kernel
        matrix.
    """
    _require_published(family)
    return np.asarray(np.linalg.norm(family.embedded(X).astype(np.float64), axis=1))


def _bound(nearest: ArrayLike, epsilon: float, error: float) -> Floats64:
    if not 0 < epsilon < inf:
        raise InputError(f"epsilon must be positive and finite, got {epsilon:g}")
    kappa = np.asarray(nearest, dtype=np.float64)
    return np.asarray((1 + epsilon) * (1 - error) * kappa - epsilon - (2 + epsilon) * error**2)


def _require_published(family: KernelHasher) -> None:
    if family.centred or not family.landmarks_centred:
        raise InputError(
            f"the bound is about components around the mean and angles from the origin, as klsh and kpca-lsh "
            f"have with centred=False, got {family.name} with centred={family.centred}"
        )
