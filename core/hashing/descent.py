"""Nesterov's accelerated gradient, by which learned families find the vectors of a bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats64 = NDArray[np.float64]
Objective = Callable[[Floats64], tuple[float, Callable[[], Floats64]]]
"""Gives the value at a point, and what gives the gradient there, of the same shape."""

_HALVINGS = 30


def descended(objective: Objective, start: Floats64, *, steps: int, least_gain: float) -> Floats64:
    """The best point on the way down from `start`.

    The step is halved until the objective falls as much as a gradient step should make it, grows again a
    little each time, and the momentum starts anew whenever the objective has risen: from one point that is
    kept to the next it only falls.

    Parameters
    ----------
    objective : callable
        What is to become small.
    start : array, float64
        Of any shape.
    steps : int
        At most.
    least_gain : float
        It ends where a step gains less than this share of the objective's size.
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
        # At first, as far as the point is from zero.
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
