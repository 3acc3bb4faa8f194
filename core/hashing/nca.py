"""Fine-tuning a network of sigmoid units by neighbourhood components analysis.

Let f(x) be the output of the top layer for x. A point x_n chooses another point x_l with the probability

    p_nl = exp(−‖f(x_n) − f(x_l)‖²) / Σ_{m≠n} exp(−‖f(x_n) − f(x_m)‖²),   p_nn = 0.

Training maximises the expected number of points that choose one of their neighbours N(n) [1]_ [2]_:

    O = Σ_n p_n,   p_n = Σ_{l ∈ N(n)} p_nl.

With D_nl = ‖f(x_n) − f(x_l)‖², the derivatives are ∂O/∂D_nl = p_nl·(p_n − [l ∈ N(n)]), where the bracket is 1
for neighbours and 0 otherwise. Let A be the sum of the matrix of these derivatives and its transpose. The
gradient ∂O/∂f(x_n) = 2·Σ_l A_nl·(f(x_n) − f(x_l)) is back-propagated through the layers.

(In the survey cited in `core.hashing.deep`, the denominator of p_nl is printed as a sum over m ≠ l, with
distances from f(x_l). The probabilities of one point's choices then do not add up to 1. The survey also does
not exclude l = n, and it minimises O.)

Each step uses a mini-batch and only considers neighbours in this mini-batch. The optimiser is Adam [3]_,
whereas the survey uses conjugate gradients.

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
from closecall.core.numerics.interruption import go_on

Floats = NDArray[np.floating]
Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]
Layer = tuple[Floats, Floats]
"""Weights of shape (n_inputs, n_units), and offsets of the units, of shape (n_units,)."""

Neighbourhood = Callable[[NDArray[np.int64]], NDArray[np.bool_]]
"""Function that takes the row numbers of a batch, of shape (n,), and returns a bool array of shape (n, n).

Entry (i, j) of the result is true if row j of the batch is a neighbour of row i.
"""

BATCH = 1000
"""Approximate number of rows in a mini-batch."""

_RATE = 1e-3
_KEPT = (0.9, 0.999)
_LEAST = 1e-8


def activations(X: Floats, layers: Sequence[Layer]) -> list[Floats]:
    """Return X and the outputs of all layers of sigmoid units for the rows of X, from bottom to top."""
    found = [X]
    for weights, offsets in layers:
        found.append(np.asarray(expit(found[-1] @ weights + offsets)))
    return found


def objective(F: Floats, near: NDArray[np.bool_]) -> tuple[float, Floats]:
    """Return the expected number of points that choose a neighbour, and its gradient with respect to F.

    Parameters
    ----------
    F : array of shape (n, n_units)
        Output of the top layer for each point.
    near : array of shape (n, n), bool
        Whether point l (column) is a neighbour of point n (row); the diagonal is False.

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
    """Return the `objective` for the rows of X, and its gradient with respect to each layer.

    X has shape (n, n_features). The gradient with respect to a layer has the form of a `Layer`.
    """
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
    """Fine-tune layers. Return the new layers, and one value of the objective per step.

    The value of a step is the objective on the mini-batch of this step, before the step changes the layers.
    It is divided by the size of the mini-batch.

    Parameters
    ----------
    X : array of shape (n, n_features)
        Input of the first layer.
    layers : sequence of Layer
        Layers to start from, which are not modified.
    neighbourhood : callable
        Function that returns which rows of a batch are neighbours; see `Neighbourhood`.
    n_steps : int
        Number of steps, each on a mini-batch of about 1,000 rows.
    rng : Generator
        Draws the batches.
    """
    layers = [(weights.copy(), offsets.copy()) for weights, offsets in layers]
    parts = [part for layer in layers for part in layer]
    means, squares = ([np.zeros_like(part) for part in parts] for _ in range(2))
    met = np.empty(n_steps)
    for number, batch in enumerate(islice(batches(len(X), BATCH, rng), n_steps)):
        go_on()
        value, gradients = slopes_of(X[batch], layers, neighbourhood(batch))
        met[number] = value / len(batch)
        # Both running means start at zero, so they are too small by this factor in the first steps.
        lacking = [1 - kept ** (number + 1) for kept in _KEPT]
        flat = [slope / len(batch) for layer in gradients for slope in layer]
        for part, mean, square, slope in zip(parts, means, squares, flat, strict=True):
            mean += (1 - _KEPT[0]) * (slope - mean)
            square += (1 - _KEPT[1]) * (slope * slope - square)
            part += _RATE / lacking[0] * mean / (np.sqrt(square / lacking[1]) + _LEAST)
    return layers, met
