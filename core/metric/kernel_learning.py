"""Kernel learning: the kernel matrix that is closest to a given kernel matrix under constraints.

Let K₀ be the kernel matrix of c items. The squared distance of two items x and y is κ(x, x) + κ(y, y) −
2κ(x, y). Among all K whose distances satisfy the constraints, up to slack, kernel learning finds the K
closest to K₀ in the LogDet divergence D (eq. 37 of [1]_):

    min D(K, K₀) + γ Σ D(ξ, b)   with uᵀKu ≤ ξ for similar pairs and uᵀKu ≥ ξ for others,   u = e_i − e_j

Here, i and j are the two items of a pair, e_i is the i-th unit vector, and b is the bound of the pair, which
slack changes to ξ. This is the problem of `core.metric.itml` in terms of K = ΦᵀAΦ instead of the metric A,
where the columns of Φ are the items. Algorithm 1 projects onto one constraint at a time. With the multiplier
λ ≥ 0 of a pair, and δ = 1 for a similar and −1 for a dissimilar pair, it computes

    p ← uᵀKu                                     (line 5)
    α ← min(λ, δ γ/(γ + 1) (1/p − 1/ξ))          (7)
    β ← δα/(1 − δαp)                             (8)
    ξ ← γξ/(γ + δαξ),   λ ← λ − α                (9, 10)
    K ← K + β Ku uᵀK                             (11)

**Corrections to the paper.** The Lagrangian D(K, K₀) + γ Σ D(ξ, b) + Σ λδ(uᵀKu − ξ) is stationary where
K⁻¹ = K₀⁻¹ + Σ δλ uuᵀ and 1/ξ = 1/b − δλ/γ. A step from λ to λ − α therefore subtracts δα uuᵀ from K⁻¹. By the
Sherman–Morrison formula this is line 11 with the β of line 8, and p becomes p' with 1/p' = 1/p − δα. The step
also adds δα/γ to 1/ξ, which is line 9. Setting p' = ξ' gives the α of line 7, bounded by λ ≥ 0. [1]_ differs
in three places. It prints line 5 as the matrix K uuᵀ, whose trace is p. Line 6 omits that δ is 1 for similar
pairs. Line 11 omits the last K, without which K would not stay symmetric. Lines 7 to 10 are correct as
printed. (In eq. 32 of [1]_, the bound of dissimilar pairs should be l instead of u.)

Computing p takes only three entries of K. An inactive constraint therefore costs O(1), and an active
constraint O(c²).

**For any other items** x and y, the learned kernel is κ(x, y) + k(x)ᵀM k(y), where k(x) holds κ between x and
the c items, and K = K₀ + K₀MK₀ (eq. 36). Solving this equation for M would require the inverse of K₀, but
kernel matrices are almost singular. The multipliers give M without this inverse. Let C = Σ δλ uuᵀ. Then
K⁻¹ = K₀⁻¹ + C implies

    M = −C(I + K₀C)⁻¹.

References
----------
.. [1] Y. Li, H. Cheng, "Supervised hashing with learned metric", section 4 and algorithm 1; after P. Jain,
   B. Kulis, J. Davis, I. Dhillon, "Metric and kernel learning using a linear transformation", JMLR 2012.
"""

from __future__ import annotations

from functools import partial
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.metric.constraints import AnyConstraints
from closecall.core.metric.itml import positive_kernel
from closecall.core.metric.projections import Projecting

Floats64 = NDArray[np.float64]


class KernelLearning(Projecting):
    """Learning of a kernel matrix from pairs or triples.

    Parameters
    ----------
    gamma, tol, max_passes, random_state
        See `core.metric.projections.Projecting`.

    Attributes
    ----------
    kernel_ : array of shape (c, c), float64
        The learned kernel matrix K.
    weights_ : array of shape (c, c), float64
        M, which extends the kernel to other items.
    projections_ : Projections
        Result of the projections.
    """

    kernel_: Floats64
    weights_: Floats64

    def fit(self, K0: ArrayLike, constraints: AnyConstraints) -> Self:
        """Learn the kernel matrix K, and the matrix M that extends the kernel to other items.

        Parameters
        ----------
        K0 : array of shape (c, c)
            Kernel matrix of c items, symmetric, and positive semidefinite up to rounding.
        constraints : Constraints or RelativeConstraints
            Pairs or triples of rows of K0. Their bounds refer to squared distances, so make the constraints
            from the rows of `root_of(K0)`, which have these distances.

        Raises
        ------
        InputError
            If a parameter is out of range, if K0 is not positive semidefinite or lacks rows of the
            constraints, or if there is no slack and the constraints contradict each other.
        """
        self._check()
        K0 = positive_kernel(K0)
        if constraints.items.max() >= len(K0):
            raise InputError(
                f"constraints must be on the {len(K0)} rows of the kernel, got row {constraints.items.max()}"
            )
        K = K0.copy()
        one_pass = partial(constraints.passes.kernel, K, constraints.items, constraints.terms)
        self._project(K, "kernel", constraints.targets, one_pass)
        self.kernel_ = K
        self.weights_ = _weights(K0, *constraints.weighted(self.projections_.multipliers))
        return self


def root_of(K: ArrayLike) -> Floats64:
    """Return F with FFᵀ = K, of shape (c, c); constraints on K can be made from the rows of F.

    Raises
    ------
    InputError
        If K is not positive semidefinite.
    """
    values, vectors = np.linalg.eigh(positive_kernel(K))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def _weights(K0: Floats64, pairs: NDArray[np.int64], weights: Floats64) -> Floats64:
    """Return M, given the pairs and their weights δλ in C = Σ δλ uuᵀ."""
    C = np.zeros_like(K0)
    i, j = pairs.T
    np.add.at(
        C, (np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])), np.kron([1, 1, -1, -1], weights)
    )
    M = -np.linalg.solve(np.eye(len(K0)) + C @ K0, C)
    return np.asarray((M + M.T) / 2)
