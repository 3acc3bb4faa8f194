"""Restricted Boltzmann machines, and learning them by contrastive divergence.

Equation numbers are those of [1]_. A machine has visible units v, hidden units h, biases b and c of these
units, and weights W. The hidden units are binary. If the visible units are binary, too, the joint energy is

    E(v, h) = −bᵀv − cᵀh − vᵀWh.                                                                      (16)

The visible units may also be Gaussian, that is, real numbers whose variance given h is 1. These are used for
standardised features. In this case, ‖v − b‖²/2 replaces −bᵀv. The joint density is p(v, h) ∝ exp(−E). The
hidden units are independent given the visible units, and vice versa. With the logistic function σ,

    p(h_j = 1 | v) = σ(c_j + Σ_i v_i w_ij),   p(v_i = 1 | h) = σ(b_i + Σ_j w_ij h_j).                 (18)

A Gaussian v_i has the mean b_i + Σ_j w_ij h_j given h. Summed over h, p(v) ∝ exp(−F(v)) with the free energy

    F(v) = −bᵀv − Σ_j log(1 + exp(c_j + Σ_i v_i w_ij)),   or ‖v − b‖²/2 instead of −bᵀv.              (17)

The gradient of the mean log p(v) over the data is

    ∂/∂w_ij = mean of v_i h_j under the data − mean of v_i h_j under the model.

The gradient with respect to b_i has v_i instead of v_i h_j, and the gradient with respect to c_j has h_j.

Contrastive divergence [2]_ approximates the mean under the model by the mean after a few steps of Gibbs
sampling that start at the data. More steps give a better approximation.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 3.3.2.
.. [2] G. E. Hinton, "Training products of experts by minimizing contrastive divergence", Neural Computation
   2002.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from closecall.core.numerics.interruption import go_on

Floats = NDArray[np.floating]
Floats32 = NDArray[np.float32]

BATCH = 100
"""Approximate number of rows in a mini-batch."""

_SPREAD = 0.01
"""Standard deviation of the initial weights."""

_DECAY = 2e-4
_MOMENTA = (0.5, 0.9)
"""Momentum in the first tenth of the steps, and afterwards."""

_RATE = 0.1
_GAUSSIAN_RATE = 0.01
_SHARED_RATE = 2.5
"""With Gaussian visible units, the learning rate is at most this number divided by the number of hidden
units. The updates of all hidden units add up in the mean of a visible unit, and their sum must not overshoot.
"""


@dataclass(eq=False)
class RBM:
    """A restricted Boltzmann machine.

    Parameters
    ----------
    weights : array of shape (n_visible, n_hidden)
        Weights W between visible and hidden units.
    visible, hidden : array of shape (n_visible,), (n_hidden,)
        Biases b of the visible units and c of the hidden units.
    gaussian : bool
        Whether visible units are Gaussian. Otherwise they are binary.
    """

    weights: Floats
    visible: Floats
    hidden: Floats
    gaussian: bool

    def hidden_means(self, v: Floats) -> Floats:
        """Return, for each row of v, the probability that each hidden unit is 1, of shape (n, n_hidden)."""
        return np.asarray(expit(v @ self.weights + self.hidden))

    def visible_means(self, h: Floats) -> Floats:
        """Return, for each row of h, the mean of each visible unit, of shape (n, n_visible)."""
        inputs = h @ self.weights.T + self.visible
        return np.asarray(inputs if self.gaussian else expit(inputs))

    def visible_sample(self, h: Floats, rng: np.random.Generator) -> Floats:
        """Draw the visible units given each row of h, of shape (n, n_visible)."""
        means = self.visible_means(h)
        return means + normal(means, rng) if self.gaussian else bits(means, rng)


def contrastive_divergence(
    machine: RBM, v: Floats, rng: np.random.Generator, n_steps: int = 1
) -> tuple[Floats, Floats, Floats]:
    """Estimate the gradient of the mean log p(v) with respect to the weights W and the biases b and c.

    Parameters
    ----------
    machine : RBM
        Machine, which is not modified.
    v : array of shape (n, n_visible)
        The data; each row is the start of a chain.
    rng : Generator
        Samples the chains.
    n_steps : int
        Number of steps of Gibbs sampling.
    """
    first = machine.hidden_means(v)
    sampled, h = v, first
    for _ in range(n_steps):
        sampled = machine.visible_sample(bits(h, rng), rng)
        h = machine.hidden_means(sampled)
    n = len(v)
    return (v.T @ first - sampled.T @ h) / n, (v - sampled).mean(axis=0), (first - h).mean(axis=0)


def pretrained(v: Floats32, n_hidden: int, *, gaussian: bool, n_steps: int, rng: np.random.Generator) -> RBM:
    """Train an RBM by one-step contrastive divergence, on mini-batches, with momentum and weight decay.

    The weights W are updated as if the energy contained −(v − μ)ᵀWh, where μ is the mean of the data. Without
    this centring, visible units that are mostly on would move all hidden units in the same direction. The
    hidden biases absorb the term μᵀWh, so that the result has the energy of eq. 16.

    Parameters
    ----------
    v : array of shape (n, n_visible)
        The data. If `gaussian`, each column has zero mean and unit variance. Otherwise values are from 0
        to 1.
    n_hidden : int
        Number of hidden units.
    gaussian : bool
        Whether visible units are Gaussian. Otherwise they are binary.
    n_steps : int
        Number of steps, each on a mini-batch of about 100 rows.
    rng : Generator
        Draws initial weights, batches and samples.
    """
    start = _SPREAD * rng.standard_normal((v.shape[1], n_hidden), dtype=np.float32)
    mean = v.mean(axis=0, dtype=np.float64).astype(np.float32)
    # Initially each visible unit is on as often as in the data, or has the data's mean.
    visible = mean if gaussian else np.log(np.clip(mean, 0.01, 0.99) / np.clip(1 - mean, 0.01, 0.99))
    machine = RBM(start, visible.astype(np.float32), np.zeros(n_hidden, dtype=np.float32), gaussian)
    parts = [machine.weights, machine.visible, machine.hidden]
    speeds = [np.zeros_like(part) for part in parts]
    rate = np.float32(min(_GAUSSIAN_RATE, _SHARED_RATE / n_hidden) if gaussian else _RATE)
    for number, batch in enumerate(islice(batches(len(v), BATCH, rng), n_steps)):
        go_on()
        momentum = np.float32(_MOMENTA[number >= n_steps // 10])
        of_weights, of_visible, of_hidden = contrastive_divergence(machine, v[batch], rng)
        centred = of_weights - np.outer(mean, of_hidden) - np.float32(_DECAY) * machine.weights
        for part, speed, gradient in zip(parts, speeds, (centred, of_visible, of_hidden), strict=True):
            speed *= momentum
            speed += rate * gradient
            part += speed
        machine.hidden -= mean @ speeds[0]
    return machine


def batches(n: int, size: int, rng: np.random.Generator) -> Iterator[NDArray[np.int64]]:
    """Yield batches of about `size` row numbers without end.

    Each pass over the n rows has a new random order.
    """
    while True:
        yield from np.array_split(rng.permutation(n), n_batches(n, size))


def n_batches(n: int, size: int) -> int:
    """Return the number of batches of about `size` in one pass over n rows."""
    return max(1, round(n / size))


def bits(means: Floats, rng: np.random.Generator) -> Floats:
    """Draw ones with the probabilities `means` and zeros otherwise, in the dtype of `means`."""
    return (rng.random(means.shape, dtype=_drawn(means)) < means).astype(means.dtype)


def normal(means: Floats, rng: np.random.Generator) -> Floats:
    """Draw standard Gaussian numbers in the shape and dtype of `means`."""
    return rng.standard_normal(means.shape, dtype=_drawn(means))


def _drawn(like: Floats) -> type[np.float32] | type[np.float64]:
    return np.float32 if like.dtype == np.float32 else np.float64
