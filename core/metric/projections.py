"""Bregman projections: pass over the constraints (`core.metric.passes`) until all are satisfied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from closecall.core.errors import InputError
from closecall.core.metric.passes import Floats64, Items
from closecall.core.numerics.interruption import go_on


@dataclass(frozen=True, eq=False)
class Projections:
    """Result of the projections.

    Parameters
    ----------
    multipliers : array of shape (n_constraints,), float64
        λ ≥ 0; 0 for inactive constraints.
    bounds : array of shape (n_constraints,), float64
        ξ, the final bounds. They bound the squared distances of pairs. For triples, they bound the difference
        of the two squared distances plus twice the margin.
    passes : int
        Number of passes over all constraints.
    converged : bool
        Whether the last pass changed the multipliers by at most `tol` times their sum.
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
        Convergence tolerance: the change of the multipliers in a whole pass, as a fraction of their sum.
    max_passes : int
        Maximum number of passes.
    random_state : int
        Seed of the order of the constraints. The order hardly affects a converged result.

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

    def _project(
        self,
        learned: Floats64,
        what: str,
        targets: Floats64,
        one_pass: Callable[[Items, Floats64, Floats64, float], float],
    ) -> None:
        """Update `learned` in place, pass by pass, until the projections converge or `max_passes` is reached.

        Raises
        ------
        InputError
            If there is no slack and the constraints contradict each other; `what` names the learned object.
        """
        m = len(targets)
        multipliers, bounds = np.zeros(m), targets.copy()
        rng = np.random.default_rng(self.random_state)
        passes, converged = 0, False
        while passes < self.max_passes and not converged and np.isfinite(learned).all():
            go_on()
            changed = one_pass(rng.permutation(m), multipliers, bounds, self.gamma)
            passes += 1
            converged = bool(changed <= self.tol * multipliers.sum())
        if not np.isfinite(learned).all() or (not converged and np.isinf(self.gamma)):
            raise InputError(
                f"the constraints contradict each other: after {passes} passes no {what} satisfies all; "
                f"allow slack by a finite gamma, got gamma={self.gamma:g}"
            )
        self.projections_ = Projections(multipliers, bounds, passes, converged)
