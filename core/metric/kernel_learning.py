"""The kernel nearest to a given one under which similar things are near, and others far.

Among c things, K₀ is a kernel matrix, and κ(x, x) + κ(y, y) − 2κ(x, y) the squared distance of two of them.
Of all K whose distances meet the constraints, up to slack, the nearest to K₀ in the LogDet divergence is
looked for (eq. 37 of [1]_):

    min D(K, K₀) + γ Σ D(ξ, b)   with uᵀKu ≤ ξ for similar pairs and uᵀKu ≥ ξ for others,   u = e_i − e_j

which is what `core.metric.itml` looks for, said of K instead of the metric: K = ΦᵀAΦ. Taken up and given
back for one constraint at a time, with δ = 1 for similar pairs and −1 for others, that is algorithm 1:

    p ← uᵀKu                                     (line 5)
    α ← min(λ, δ γ/(γ + 1) (1/p − 1/ξ))          (7)
    β ← δα/(1 − δαp)                             (8)
    ξ ← γξ/(γ + δαξ),   λ ← λ − α                (9, 10)
    K ← K + β Ku uᵀK                             (11)

**What was corrected.** Where the Lagrangian D(K, K₀) + γ Σ D(ξ, b) + Σ λδ(uᵀKu − ξ) is stationary,
K⁻¹ = K₀⁻¹ + Σ δλ uuᵀ and 1/ξ = 1/b − δλ/γ. So a step from λ to λ − α makes K⁻¹ less by δα uuᵀ, which by
Sherman and Morrison is line 11 with the β of line 8, and p becomes p' with 1/p' = 1/p − δα; and it makes 1/ξ
greater by δα/γ, which is line 9. They meet, p' = ξ', at the α of line 7, and λ ≥ 0 bounds it. [1]_ prints
line 5 as the matrix K uuᵀ, of which p is the trace; leaves out the 1 that δ is for similar pairs in line 6;
and the last K in line 11, without which K wouldn't stay symmetric. Lines 7 to 10 are right as printed. (In
its eq. 32 the bound of dissimilar pairs must be l, too, not u.)

Since p needs four numbers of K alone, a constraint that is met costs nothing, and another one O(c²).

**For things that are not among the c** the kernel is κ(x, y) + k(x)ᵀM k(y), with k(x) = κ of x and the c, and
K = K₀ + K₀MK₀ (eq. 36). There M = K₀⁻¹(K − K₀)K₀⁻¹, and kernel matrices are next to singular. But the
multipliers say the same without inverting one: K⁻¹ = K₀⁻¹ + C with C = Σ δλ uuᵀ gives

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
from closecall.core.metric.constraints import Constraints
from closecall.core.metric.itml import positive_kernel
from closecall.core.metric.projections import Projecting, kernel_pass

Floats64 = NDArray[np.float64]


class KernelLearning(Projecting):
    """Learns a kernel matrix from `Constraints`.

    Parameters
    ----------
    gamma, tol, max_passes, random_state
        See `core.metric.projections.Projecting`.

    Attributes
    ----------
    kernel_ : array of shape (c, c), float64
        K.
    weights_ : array of shape (c, c), float64
        M.
    projections_ : Projections
    """

    kernel_: Floats64
    weights_: Floats64

    def fit(self, K0: ArrayLike, constraints: Constraints) -> Self:
        """Learn K and M.

        Parameters
        ----------
        K0 : array of shape (c, c)
            The kernel between c things, symmetric, and positive but for rounding.
        constraints : Constraints
            Pairs of its rows; the thresholds are of κ(x, x) + κ(y, y) − 2κ(x, y), as `root_of` K0 has it.

        Raises
        ------
        InputError
            If a parameter is out of range, K0 is not a positive kernel or has not the rows that constraints
            name, or there is no slack and the constraints contradict each other.
        """
        self._check()
        K0 = positive_kernel(K0)
        if constraints.pairs.max() >= len(K0):
            raise InputError(
                f"constraints must be of the {len(K0)} rows of the kernel, got row {constraints.pairs.max()}"
            )
        K = K0.copy()
        self._project(K, "kernel", constraints, partial(kernel_pass, K, constraints.pairs))
        found = self.projections_
        self.kernel_ = K
        weights = np.where(constraints.similar, found.multipliers, -found.multipliers)
        self.weights_ = _weights(K0, constraints.pairs, weights)
        return self


def root_of(K: ArrayLike) -> Floats64:
    """Rows F with FFᵀ = K, of shape (c, c): constraints can be made of them, whose distances they have.

    Raises
    ------
    InputError
        If K is not a positive kernel.
    """
    values, vectors = np.linalg.eigh(positive_kernel(K))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0)))


def _weights(K0: Floats64, pairs: NDArray[np.int64], weights: Floats64) -> Floats64:
    """M of C, the sum of all uuᵀ, each times its weight δλ."""
    C = np.zeros_like(K0)
    i, j = pairs.T
    np.add.at(
        C, (np.concatenate([i, j, i, j]), np.concatenate([i, j, j, i])), np.kron([1, 1, -1, -1], weights)
    )
    M = -np.linalg.solve(np.eye(len(K0)) + C @ K0, C)
    return np.asarray((M + M.T) / 2)
