"""Codes from a deep network: stacked RBMs, fine-tuned by neighbourhood components analysis.

The method is described in section 3.3.2 of the survey [1]_, after Salakhutdinov and Hinton 2007 and Torralba,
Fergus and Weiss 2008. Layers are trained from the bottom up, each as a restricted Boltzmann machine (RBM,
`core.hashing.rbm`) on the output of the layer below. The first RBM has Gaussian visible units for
standardised features. The other RBMs have binary visible units, and the output of the layer below gives the
probabilities that these units are 1. The stack is then treated as a deterministic network of sigmoid units.
Back-propagation moves each row and its neighbours closer together in the output of the top layer
(`core.hashing.nca`). A bit is 1 if the output of a top unit is at least one half, that is, if its input is
not negative.

**Neighbours.** The neighbours of a row are its nearest rows, by distance between the features, in a
mini-batch of about 1,000 rows. If the network learns from labels, the neighbours are the rows of the same
class in the mini-batch.

**Size.** The default is two layers of 512 units below the top layer, for the 384 features of GIST. The
deepest networks in the papers have one more layer. The cost is proportional to the number of weights. The
default length of training is a fixed number of steps, so a larger sample does not take longer.

**Levelled layers.** A unit with nearly the same output for all rows gives no information to the layer above
and has no gradient to learn from. In the top layer, the bit of such a unit is useless. With few rows or
features, most units would become like this. After the training of an RBM, the offset of each hidden unit is
therefore set so that the unit's output is above one half for half of the rows. The weights of the unit are
scaled up if its input has a standard deviation below 1. Fine-tuning starts from these layers.

The table gives the percentage of the 50 nearest rows that are among the 500 rows whose codes differ least. It
was measured with one random seed and 500 queries on GIST of the 50,000 images of CIFAR-10, 20,000 of which
were used for fitting:

====  ====  ========  ====
bits  LSH   boosting  RBM
====  ====  ========  ====
16    10.0  12.9      31.8
32    17.4  22.6      45.9
64    28.3  32.8      59.9
128   43.2  46.0      72.7
====  ====  ========  ====

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from closecall.core.errors import InputError
from closecall.core.hashing import nca, rbm
from closecall.core.hashing.base import Arrays
from closecall.core.hashing.by_neighbours import ByNeighbours
from closecall.core.hashing.lsh import projected
from closecall.core.hashing.nca import Layer, Neighbourhood, activations, tuned
from closecall.core.hashing.pairs import Neighbours, check_enough, labelled, nearest_others
from closecall.core.hashing.rbm import n_batches, pretrained
from closecall.core.hashing.similarity import Floats32, Floats64
from closecall.core.numerics.rows import Rows

_LEAST_SPREAD = 1.0
"""Minimum standard deviation of a unit's input."""

_FARTHEST = 5.0
"""Limit of a standardised feature, in standard deviations. Without the limit, a feature that is nearly
constant would outweigh all other features in the few rows where its value differs.
"""


class DeepCodes(ByNeighbours):
    """Hash family whose bits are the top layer of a network that is trained to keep neighbours together.

    Parameters
    ----------
    layers : sequence of int
        Number of units in each layer below the top; may be empty.
    neighbours : "distance" or "class"
        With "distance", the neighbours of a row are its `n_near` nearest rows in a mini-batch. With "class",
        the neighbours are all other rows of the same class in the mini-batch, and `fit` needs the classes.
    n_near : int
        Number of nearest rows that count as neighbours, capped at half of the other rows in a mini-batch.
    n_steps : int
        Number of mini-batches of about 100 rows with which each layer is trained by contrastive divergence.
    n_tuning : int
        Number of mini-batches of about 1,000 rows for fine-tuning; 0 skips fine-tuning.
    most_passes : int
        Maximum number of passes over the rows, both for each layer and for fine-tuning. If there are few
        rows, this limit makes training shorter than `n_steps` and `n_tuning`.

    Other parameters are those of `SimilarityHasher`.

    Attributes
    ----------
    means_, scales_ : array of shape (n_features,), float32
        Mean and standard deviation of each feature.
    layers_ : list of (array of shape (n_inputs, n_units), array of shape (n_units,)), float32
        Weights and offsets of each layer; the last entry is the top layer.
    met_ : array of shape (number of tuning steps,), float64
        Objective before each step of fine-tuning: the expected fraction of rows in the mini-batch that choose
        a neighbour (`core.hashing.nca`).
    """

    name = "rbm"

    means_: Floats32
    scales_: Floats32
    met_: Floats64
    layers_: list[Layer]
    _fitted = ("means_", "scales_", "met_")
    _least: ClassVar[dict[str, int]] = {
        **ByNeighbours._least,
        "n_steps": 0,
        "n_tuning": 0,
        "most_passes": 0,
    }

    def __init__(
        self,
        *,
        layers: Sequence[int] = (512, 512),
        neighbours: Neighbours = "distance",
        n_near: int = 10,
        n_steps: int = 2_000,
        n_tuning: int = 500,
        most_passes: int = 25,
        n_functions: int = 256,
        random_state: int = 0,
    ) -> None:
        super().__init__(n_functions=n_functions, random_state=random_state)
        self.layers = layers
        self.neighbours = neighbours
        self.n_near = n_near
        self.n_steps = n_steps
        self.n_tuning = n_tuning
        self.most_passes = most_passes

    def arrays(self) -> Arrays:
        """See `SimilarityHasher.arrays`."""
        parts: Arrays = {}
        for number, (weights, offsets) in enumerate(self.layers_):
            parts |= {f"weights-{number}": weights, f"offsets-{number}": offsets}
        return super().arrays() | parts

    def restored(self, arrays: Arrays) -> Self:
        """See `SimilarityHasher.restored`."""
        numbers = range(len(self.layers) + 1)
        self.layers_ = [(arrays[f"weights-{number}"], arrays[f"offsets-{number}"]) for number in numbers]
        return super().restored(arrays)

    def trained(
        self, v: Floats32, taught: NDArray[np.int64], near: Neighbourhood, rng: np.random.Generator
    ) -> tuple[list[Layer], Floats64]:
        """Train a network and return it, without changing this family.

        Parameters
        ----------
        v : array of shape (n, n_features), float32
            Rows whose columns have zero mean and unit variance.
        taught : array of shape (n_taught,), int64
            Indices of the rows to fine-tune with.
        near : callable
            Function that finds neighbours in a mini-batch of the rows in `taught`.
        rng : Generator
            Draws initial weights, batches and samples.

        Returns
        -------
        layers, met
            See the attributes `layers_` and `met_`.
        """
        n_steps = min(self.n_steps, self.most_passes * n_batches(len(v), rbm.BATCH))
        n_tuning = min(self.n_tuning, self.most_passes * n_batches(len(taught), nca.BATCH))
        stacked: list[Layer] = []
        seen = v
        for n_units in (*self.layers, self.n_functions):
            machine = pretrained(seen, n_units, gaussian=not stacked, n_steps=n_steps, rng=rng)
            stacked.append(levelled(seen, np.asarray(machine.weights, dtype=np.float32)))
            seen = np.asarray(activations(seen, stacked[-1:])[-1], dtype=np.float32)
        return tuned(v[taught], stacked, near, n_steps=n_tuning, rng=rng)

    def _learn(self, X: Floats32, y: NDArray[np.int64] | None, rng: np.random.Generator) -> None:
        if y is None:
            check_enough(len(X))
        taught = np.arange(len(X)) if y is None else labelled(y)
        self.means_ = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        scales = X.std(axis=0, dtype=np.float64)
        self.scales_ = np.where(scales > 0, scales, 1).astype(np.float32)
        standard = self._standardised(X)
        near = by_distance(X, self.n_near) if y is None else by_class(y[taught])
        self.layers_, self.met_ = self.trained(standard, taught, near, rng)

    def _values(self, X: Rows) -> Floats32:
        inside = self._standardised(X)
        for weights, offsets in self.layers_[:-1]:
            inside = expit(projected(inside, weights) + offsets)
        weights, offsets = self.layers_[-1]
        return np.asarray(projected(inside, weights) + offsets)

    def _standardised(self, X: Floats32) -> Floats32:
        return np.asarray(np.clip((X - self.means_) / self.scales_, -_FARTHEST, _FARTHEST))

    def _check(self) -> None:
        super()._check()
        if any(not isinstance(n_units, Integral) or n_units < 1 for n_units in self.layers):
            raise InputError(f"layers must be integers of at least 1, got {list(self.layers)}")


def levelled(below: Floats32, weights: Floats32) -> Layer:
    """Return a layer in which the output of each unit is above one half for half of the rows.

    Parameters
    ----------
    below : array of shape (n, n_inputs)
        Input of the layer.
    weights : array of shape (n_inputs, n_units)
        Weights of a trained RBM. They are scaled up for units whose input has a standard deviation below
        `_LEAST_SPREAD`.
    """
    inputs = below @ weights
    spread = inputs.std(axis=0)
    factors = np.where(spread > 0, np.maximum(_LEAST_SPREAD / np.where(spread > 0, spread, 1), 1), 1)
    return (weights * factors).astype(np.float32), (-np.median(inputs, axis=0) * factors).astype(np.float32)


def by_distance(X: Floats32, n_near: int) -> Neighbourhood:
    """Return a function that finds, for each row of a batch, the nearest other rows of the batch.

    Batches contain rows of X. The function finds `n_near` rows, but at most half of the other rows.
    """

    def neighbourhood(batch: NDArray[np.int64]) -> NDArray[np.bool_]:
        n = len(batch)
        nearest = nearest_others(X[batch], np.arange(n), min(n_near, max(1, (n - 1) // 2)))
        near = np.zeros((n, n), dtype=np.bool_)
        np.put_along_axis(near, nearest, True, axis=1)
        return near

    return neighbourhood


def by_class(y: NDArray[np.int64]) -> Neighbourhood:
    """Return a function that finds, for each row of a batch, the other rows of the same class.

    The class of every row must be known.
    """

    def neighbourhood(batch: NDArray[np.int64]) -> NDArray[np.bool_]:
        near = y[batch][:, None] == y[batch]
        np.fill_diagonal(near, False)
        return np.asarray(near)

    return neighbourhood
