"""Fine-tuning a network of sigmoid units by neighbourhood components analysis.

Let f(x) be what the top layer gives for x. Chosen at random with the probability

    p_nl = exp(−‖f(x_n) − f(x_l)‖²) / Σ_{m≠n} exp(−‖f(x_n) − f(x_m)‖²),   p_nn = 0,

how often a point comes to one of its neighbours N(n) is to be made great [1]_ [2]_:

    O = Σ_n p_n,   p_n = Σ_{l ∈ N(n)} p_nl.

With D_nl = ‖f(x_n) − f(x_l)‖² the slopes are ∂O/∂D_nl = p_nl·(p_n − [l ∈ N(n)]), and with A the sum of their
matrix and its transpose, ∂O/∂f(x_n) = 2·Σ_l A_nl·(f(x_n) − f(x_l)); from there they are propagated back
through the layers.

(As printed in the survey, p_nl is normalised over m ≠ l about x_l, so that the probabilities of one point's
choices don't add up to 1, l = n is not left out, and O is said to be minimised.)

Each step is taken on a mini-batch and the neighbours among itself; by Adam [3]_, where the survey has
conjugate gradients.

References
----------
.. [1] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood components analysis", NIPS 2004.
.. [2] R. Salakhutdinov, G. Hinton, "Learning a nonlinear embedding by preserving class neighbourhood
   structure", AISTATS 2007.
.. [3] D. P. Kingma, J. Ba, "Adam: a method for stochastic optimization", ICLR 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from closecall.core.hashing.rbm import batches

Floats = NDArray[np.floating]
Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Layer = tuple[Floats, Floats]
"""W of shape (n_inputs, n_units), and what each unit adds, of shape (n_units,)."""

Neighbourhood = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""For the numbers of a batch's rows, of shape (n,): which are whose neighbours, of shape (n, n)."""

BATCH = 1000
"""Rows of a mini-batch, about."""

_RATE = 1e-3
_KEPT = (0.9, 0.999)
_LEAST = 1e-8


def activations(X: Floats, layers: Sequence[Layer]) -> list[Floats]:
    """X, and what each layer of sigmoid units gives for it, the top one last."""
    found = [X]
    for weights, offsets in layers:
        found.append(np.asarray(expit(found[-1] @ weights + offsets)))
    return found


def objective(F: Floats, near: NDArray[np.bool_]) -> tuple[float, Floats]:
    """O of some points, and its gradient.

    Parameters
    ----------
    F : array of shape (n, n_units)
        f(x) of each point.
    near : array of shape (n, n), bool
        Which points l are neighbours of point n; none of itself.

    Returns
    -------
    (float, array of shape (n, n_units))
    """
    squares = (F * F).sum(axis=1)
    D = squares[:, None] + squares - 2 * (F @ F.T)
    np.fill_diagonal(D, np.inf)
    D -= D.min(axis=1, keepdims=True)
    P = np.exp(-D)
    P /= P.sum(axis=1, keepdims=True)
    p = np.where(near, P, 0).sum(axis=1)
    slopes = P * (p[:, None] - near)
    A = slopes + slopes.T
    return float(p.sum()), 2 * (A.sum(axis=1)[:, None] * F - A @ F)


def slopes_of(X: Floats, layers: Sequence[Layer], near: NDArray[np.bool_]) -> tuple[float, list[Layer]]:
    """O of the rows of X, of shape (n, n_features), and its gradient by each layer's weights and offsets."""
    found = activations(X, layers)
    value, back = objective(found[-1], near)
    gradients: list[Layer] = []
    for (weights, _), below, above in reversed(list(zip(layers, found[:-1], found[1:], strict=True))):
        back = back * above * (1 - above)
        gradients.append((below.T @ back, back.sum(axis=0)))
        back = back @ weights.T
    return value, gradients[::-1]


def tuned(
    X: Floats32,
    layers: Sequence[Layer],
    neighbourhood: Neighbourhood,
    *,
    n_steps: int,
    rng: np.random.Generator,
) -> tuple[list[Layer], Floats64]:
    """The layers after so many steps, and before each of them O of its mini-batch, a share of its rows.

    Parameters
    ----------
    X : array of shape (n, n_features)
        What goes into the first layer.
    layers : sequence of Layer
        They stay as they are.
    neighbourhood : callable
        Which rows of a batch are neighbours.
    n_steps : int
        As many mini-batches of about 1,000 rows.
    rng : Generator
        Draws the batches.
    """
    layers = [(weights.copy(), offsets.copy()) for weights, offsets in layers]
    parts = [part for layer in layers for part in layer]
    means, squares = ([np.zeros_like(part) for part in parts] for _ in range(2))
    met = np.empty(n_steps)
    for number, batch in enumerate(islice(batches(len(X), BATCH, rng), n_steps)):
        value, gradients = slopes_of(X[batch], layers, neighbourhood(batch))
        met[number] = value / len(batch)
        # Both means begin at zero, and are the smaller by this the fewer numbers are in them.
        lacking = [1 - kept ** (number + 1) for kept in _KEPT]
        flat = [slope / len(batch) for layer in gradients for slope in layer]
        for part, mean, square, slope in zip(parts, means, squares, flat, strict=True):
            mean += (1 - _KEPT[0]) * (slope - mean)
            square += (1 - _KEPT[1]) * (slope * slope - square)
            part += _RATE / lacking[0] * mean / (np.sqrt(square / lacking[1]) + _LEAST)
    return layers, met
