"""Bregman projections: satisfy one constraint after the other, each with the smallest possible change.

These are the steps of eq. 3 in `core.metric.itml`. A pair at squared distance p gets the same a, λ, ξ and β
whatever is learned. β then updates one of three things: the factor G of the metric, as in A ← A + β Avvᵀ A;
the matrix S that represents the same metric implicitly; or a kernel matrix (`core.metric.kernel_learning`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.metric.constraints import Constraints
from closecall.core.numerics.jit import kernel

Floats64 = NDArray[np.float64]

Pass = Callable[[Floats64, NDArray[np.int64], Floats64, Floats64, float], float]
"""One pass over all constraints.

Takes signs δ, an order, multipliers λ, bounds ξ and γ, and returns the total change of the multipliers.
"""


@dataclass(frozen=True, eq=False)
class Projections:
    """Result of the projections.

    Parameters
    ----------
    multipliers : array of shape (n_pairs,), float64
        λ ≥ 0; 0 for inactive constraints.
    bounds : array of shape (n_pairs,), float64
        ξ, the final bounds on the squared distances.
    passes : int
        Number of passes over all constraints.
    converged : bool
    """

    multipliers: Floats64
    bounds: Floats64
    passes: int
    converged: bool


class Projecting:
    """Base class of learners that use Bregman projections.

    Parameters
    ----------
    gamma : float
        γ > 0, the cost of slack: larger values satisfy the constraints more exactly. `np.inf` allows no
        slack.
    tol : float
        Convergence tolerance: the change of the multipliers in a whole pass, as a share of their sum.
    max_passes : int
        Maximum number of passes.
    random_state : int
        Seed of the order of the constraints, which affects the result only until convergence.

    Attributes
    ----------
    projections_ : Projections
        Result of the last fit.
    """

    projections_: Projections

    def __init__(
        self, *, gamma: float = 1.0, tol: float = 1e-3, max_passes: int = 1_000, random_state: int = 0
    ) -> None:
        self.gamma = gamma
        self.tol = tol
        self.max_passes = max_passes
        self.random_state = random_state

    def _check(self) -> None:
        if not self.gamma > 0:
            raise InputError(f"gamma must be positive, got {self.gamma:g}")
        if not self.tol > 0 or self.max_passes < 1:
            raise InputError(
                f"tol must be positive and max_passes at least 1, got {self.tol:g} and {self.max_passes}"
            )

    def _project(self, learned: Floats64, what: str, constraints: Constraints, one_pass: Pass) -> None:
        """Update `learned` in place, pass by pass, until it satisfies the constraints.

        Raises
        ------
        InputError
            If there is no slack and the constraints contradict each other; `what` names the learned object.
        """
        m = len(constraints)
        multipliers, bounds = np.zeros(m), constraints.targets.copy()
        signs = np.where(constraints.similar, 1.0, -1.0)
        rng = np.random.default_rng(self.random_state)
        passes, converged = 0, False
        while passes < self.max_passes and not converged and np.isfinite(learned).all():
            changed = one_pass(signs, rng.permutation(m), multipliers, bounds, self.gamma)
            passes += 1
            converged = bool(changed <= self.tol * multipliers.sum())
        if not np.isfinite(learned).all() or (not converged and np.isinf(self.gamma)):
            raise InputError(
                f"the constraints contradict each other: after {passes} passes no {what} satisfies all; "
                f"allow slack by a finite gamma, got gamma={self.gamma:g}"
            )
        self.projections_ = Projections(multipliers, bounds, passes, converged)


@kernel
def _step(
    p: float, sign: float, number: int, multipliers: Floats64, bounds: Floats64, gamma: float
) -> tuple[float, float]:
    """Project onto one constraint at distance p; return β and the absolute change of its multiplier."""
    share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
    a = min(multipliers[number], sign * share * (1 / p - 1 / bounds[number]))
    beta = sign * a / (1 - sign * a * p)
    if not np.isinf(gamma):
        bounds[number] = gamma * bounds[number] / (gamma + sign * a * bounds[number])
    multipliers[number] -= a
    return beta, abs(a)


@kernel
def _root_step(beta: float, p: float) -> float:
    """Return α of eq. 9, the counterpart of β for the factor G."""
    return float((np.sqrt(1 + beta * p) - 1) / p)


@kernel
def explicit_pass(
    G: Floats64,
    differences: Floats64,
    signs: Floats64,
    order: NDArray[np.int64],
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Project G of shape (d, d) onto each constraint once; return the total change of the multipliers."""
    changed = 0.0
    for number in order:
        y = G @ differences[number]
        p = y @ y
        if p > 0:
            beta, change = _step(p, signs[number], number, multipliers, bounds, gamma)
            changed += change
            w = _root_step(beta, p) * (y @ G)
            for i in range(G.shape[0]):
                for j in range(G.shape[1]):
                    G[i, j] += y[i] * w[j]
    return changed


@kernel
def implicit_pass(
    S: Floats64,
    K0: Floats64,
    pairs: NDArray[np.int64],
    signs: Floats64,
    order: NDArray[np.int64],
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Do the same as `explicit_pass` for S of shape (c, c)."""
    changed = 0.0
    for number in order:
        i, j = pairs[number]
        a = S @ (K0[i] - K0[j])
        a[i] += 1
        a[j] -= 1
        h = K0 @ a
        p = a @ h
        if p > 0:
            beta, change = _step(p, signs[number], number, multipliers, bounds, gamma)
            changed += change
            b = _root_step(beta, p) * (a + h @ S)
            for row in range(S.shape[0]):
                for column in range(S.shape[1]):
                    S[row, column] += a[row] * b[column]
    return changed


@kernel
def kernel_pass(
    K: Floats64,
    pairs: NDArray[np.int64],
    signs: Floats64,
    order: NDArray[np.int64],
    multipliers: Floats64,
    bounds: Floats64,
    gamma: float,
) -> float:
    """Do the same as `explicit_pass` for K of shape (c, c); inactive constraints cost O(1)."""
    changed = 0.0
    for number in order:
        i, j = pairs[number]
        p = K[i, i] + K[j, j] - 2 * K[i, j]
        if p > 0:
            beta, change = _step(p, signs[number], number, multipliers, bounds, gamma)
            if change != 0:
                changed += change
                column = K[i] - K[j]
                for row in range(K.shape[0]):
                    scaled = beta * column[row]
                    for other in range(K.shape[0]):
                        K[row, other] += scaled * column[other]
    return changed
