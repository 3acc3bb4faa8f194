"""Nesterov's accelerated gradient method, for hash families that learn the vectors of each bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats64 = NDArray[np.float64]
Objective = Callable[[Floats64], tuple[float, Callable[[], Floats64]]]
"""Function to minimise. It takes a point and returns two results: its value at the point, and a function
without arguments that returns the gradient at the point, in the shape of the point.
"""

_HALVINGS = 30


def descended(objective: Objective, start: Floats64, *, steps: int, least_gain: float) -> Floats64:
    """Minimise an objective from `start` and return the best point found.

    A step starts from the last accepted point, moved ahead by the momentum. A step first tries a size of
    at most 1.5 times the size of the previous step. The size is halved until the objective decreases by at
    least half of the amount that the gradient predicts. If the new point is worse than the last accepted
    point, it is rejected and the momentum is reset. Accepted points therefore never become worse.

    Parameters
    ----------
    objective : callable
        The function to minimise.
    start : array, float64
        Starting point, of any shape.
    steps : int
        Maximum number of steps.
    least_gain : float
        The descent ends when a step reduces the objective by less than this fraction of its absolute value.
    """
    best = here = ahead = start
    least = value = objective(here)[0]
    step, momentum = np.inf, 1.0
    for _ in range(steps):
        value_ahead, slope = objective(ahead)
        gradient = slope()
        steepness = float((gradient**2).sum())
        if steepness == 0:
            break
        # The limit of a step is the norm of the point. Without a limit, the first step would be infinite.
        step = min(1.5 * step, float(np.linalg.norm(ahead)) / steepness**0.5)
        for _ in range(_HALVINGS):
            there = ahead - step * gradient
            value_there = objective(there)[0]
            if value_there <= value_ahead - step / 2 * steepness:
                break
            step /= 2
        if value_there > value:
            if momentum == 1:
                break
            ahead, momentum = here, 1.0
            continue
        after = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = there + (momentum - 1) / after * (there - here)
        gained = value - value_there
        here, value, momentum = there, value_there, after
        if value < least:
            best, least = here, value
        if gained < least_gain * abs(value):
            break
    return best
