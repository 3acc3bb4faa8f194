"""Bregman projections: constraints met one after the other, with as little change as possible.

The steps of `core.metric.itml`, eq. 3, where they come from: whatever is learned, a pair at the squared
distance p gets the same a, λ, ξ and β. By β are then changed the metric's root G, as A ← A + β Avvᵀ A has it,
or S, of which the same metric is made implicitly, or a kernel matrix (`core.metric.kernel_learning`).
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
"""Meets all constraints once, given signs δ, an order, multipliers λ, bounds ξ and γ; gives by how much the
multipliers changed."""


@dataclass(frozen=True, eq=False)
class Projections:
    """How the projections ended.

    Parameters
    ----------
    multipliers : array of shape (n_pairs,), float64
        λ, at least 0; 0 for constraints that don't matter.
    bounds : array of shape (n_pairs,), float64
        ξ, what each squared distance had to keep to in the end.
    passes : int
        Over all constraints.
    converged : bool
    """

    multipliers: Floats64
    bounds: Floats64
    passes: int
    converged: bool


class Projecting:
    """What learns by such projections.

    Parameters
    ----------
    gamma : float
        γ > 0, the price of slack: the greater, the more exactly constraints are met. `np.inf` allows none.
    tol : float
        It has converged when a whole pass changes the multipliers by no more than this share of their sum.
    max_passes : int
        It ends after so many, converged or not.
    random_state : int
        In which order constraints are taken, which matters only while it hasn't converged.

    Attributes
    ----------
    projections_ : Projections
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
        """Change `learned`, by pass after pass, until it meets the constraints.

        Raises
        ------
        InputError
            If there is no slack and the constraints contradict each other: no `what` meets them.
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
                f"the constraints contradict each other: after {passes} passes no {what} meets all of them; "
                f"allow slack by a finite gamma, got gamma={self.gamma:g}"
            )
        self.projections_ = Projections(multipliers, bounds, passes, converged)


@kernel
def _step(
    p: float, sign: float, number: int, multipliers: Floats64, bounds: Floats64, gamma: float
) -> tuple[float, float]:
    """Meet one constraint at the distance p: β, and by how much its multiplier changed."""
    share = 1.0 if np.isinf(gamma) else gamma / (gamma + 1)
    a = min(multipliers[number], sign * share * (1 / p - 1 / bounds[number]))
    beta = sign * a / (1 - sign * a * p)
    if not np.isinf(gamma):
        bounds[number] = gamma * bounds[number] / (gamma + sign * a * bounds[number])
    multipliers[number] -= a
    return beta, abs(a)


@kernel
def _root_step(beta: float, p: float) -> float:
    """α of eq. 9: what β is for the metric's root."""
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
    """One pass over all constraints, of G of shape (d, d); by how much the multipliers changed."""
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
    """As `explicit_pass`, of S of shape (c, c)."""
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
    """As `explicit_pass`, of K of shape (c, c); a constraint that is met costs nothing."""
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
