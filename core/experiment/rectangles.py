"""Codes of points distributed uniformly in a rectangle or box: figures 12 to 14 of the survey [1]_.

The true neighbours of a query are the k points nearest to it. Two measures say how well Hamming distances
follow true distances:

- precision within a Hamming distance below 2, as in figure 13: the share of true neighbours among the points
  whose codes differ from the code of the query in at most one bit, counted over all queries;
- the share of the k true neighbours of a query that are among the k points of smallest Hamming distance,
  with ties in random order (`core.experiment.retrieval`).

**LSH.** Hyperplanes through the mean cannot separate points that lie in the same direction from the mean. In
two dimensions, most of the information is lost. The survey uses Euclidean LSH, whose lines need not pass
through the mean. Here, all points get one more coordinate instead: a constant, the root mean square of the
distances from the mean. Hyperplanes through the origin of the larger space can cut the box anywhere. In one
draw with 32 bits and 5,000 points in a rectangle of 2:1, the 50 points of smallest Hamming distance included
36 % of the 50 true neighbours. Without the additional coordinate, they included 17 %.

**RBM.** In the same draw, a network with one layer of 256 units below the code finds 45 % of the true
neighbours, and a network with two layers of 64 units finds 20 %.

**On spectral bits.** Boosting and RBMs can also hash the bits of spectral hashing, as ±1, instead of the
coordinates of the points. There are as many spectral bits as bits in the final code. True neighbours are
still found by the coordinates.

**Eigenfunctions** of a rectangle with edges a and b are cos(kπx/a)·cos(mπy/b) for integers k, m ≥ 0. Their
eigenvalues increase with ω² = (kπ/a)² + (mπ/b)². Spectral hashing uses only eigenfunctions with k = 0 or
m = 0.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.retrieval import retrieve
from closecall.core.hashing import (
    BoostedPSH,
    Codes,
    DeepCodes,
    RandomHyperplaneLSH,
    SimilarityHasher,
    SpectralHash,
)
from closecall.core.hashing.boosted import Stumps, boosted
from closecall.core.hashing.deep import by_distance
from closecall.core.hashing.nca import activations
from closecall.core.hashing.pairs import Pairs
from closecall.core.linear.hyperplane import euclidean

Floats32 = NDArray[np.float32]
Floats64 = NDArray[np.float64]

Coder = Callable[[Floats32], Codes]
"""A fitted method to compute codes: takes points of shape (n, n_dimensions), and returns their codes."""

Learn = Callable[[Floats32, int, int, int], Coder]
"""A method to compute codes: takes points, the number of bits, the number k of true neighbours and the seed,
and returns the method fitted to the points.
"""


class Method(NamedTuple):
    """A method to compute codes: a hash family, and what it hashes.

    Parameters
    ----------
    family : str
        Name of the hash family.
    form : str
        `ON_SPECTRAL` if the family hashes the bits of spectral hashing, else "".
    """

    family: str
    form: str = ""


N_POINTS = 5_000
"""Number of points drawn in a box."""

WITHIN = 1
"""Hamming distance within which precision is measured."""

UNITS = 256
"""Number of units in the layer below the code, in networks of RBMs."""


@dataclass(frozen=True)
class Box:
    """A box in which points are uniformly distributed.

    Parameters
    ----------
    name : str
        Name in tables and figures.
    lengths : tuple of float
        Length of each edge.
    """

    name: str
    lengths: tuple[float, ...]

    @classmethod
    def of_aspect(cls, aspect: float) -> Self:
        """Return the rectangle of area 1 whose edges have the ratio `aspect`.

        Raises
        ------
        InputError
            If the ratio is not a finite number of at least 1.
        """
        if not (isfinite(aspect) and aspect >= 1):
            raise InputError(f"the aspect of a rectangle must be a finite number of at least 1, got {aspect}")
        return cls(f"rectangle {aspect:.12g}:1", (sqrt(aspect), 1 / sqrt(aspect)))

    def uniform(self, n: int, rng: np.random.Generator) -> Floats32:
        """Return `n` random points, of shape (n, n_dimensions)."""
        return np.asarray(rng.random((n, len(self.lengths))) * np.array(self.lengths), dtype=np.float32)

    def grid(self, n: int) -> Floats32:
        """Return the centres of about `n` nearly square cells of a rectangle, of shape (n_high, n_wide, 2).

        The first row of cells is the lowest.
        """
        a, b = self.lengths
        cell = sqrt(a * b / n)
        wide, high = (max(1, round(length / cell)) for length in self.lengths)
        x, y = (np.arange(wide) + 0.5) * a / wide, (np.arange(high) + 0.5) * b / high
        return np.stack(np.meshgrid(x, y), axis=-1).astype(np.float32)


TEN_DIMENSIONS = Box("box of ten dimensions", tuple((10 - i) / 10 for i in range(10)))
"""A box with edges 1, 0.9, …, 0.1; the survey does not say which edges its ten-dimensional box has."""


class Eigenfunction(NamedTuple):
    """An eigenfunction cos(kπx/a)·cos(mπy/b) of a rectangle with edges a and b and a corner at the origin.

    Parameters
    ----------
    modes : tuple of int
        k and m.
    squared : float
        (kπ/a)² + (mπ/b)².
    """

    modes: tuple[int, int]
    squared: float

    @property
    def is_product(self) -> bool:
        """Whether the function depends on both coordinates."""
        return min(self.modes) > 0

    def values(self, points: Floats32, box: Box) -> Floats64:
        """Return the values of the function, from −1 to 1, at points of shape (…, 2)."""
        turns = np.pi * np.array(self.modes) * points.astype(np.float64) / np.array(box.lengths)
        return np.asarray(np.cos(turns).prod(axis=-1))


class Score(NamedTuple):
    """Measures of how well Hamming distances follow true distances.

    Parameters
    ----------
    within : float or None
        Precision within the Hamming distance `WITHIN`; None if no point is within this distance.
    first : float
        Mean share of the k true neighbours that are among the k points of smallest Hamming distance.
    retrieved : float
        Mean number of points within the Hamming distance `WITHIN`.
    """

    within: float | None
    first: float
    retrieved: float


def eigenfunctions(box: Box, n: int) -> list[Eigenfunction]:
    """Return the n non-constant eigenfunctions of a rectangle with the smallest eigenvalues."""
    a, b = box.lengths
    every = [
        Eigenfunction((k, m), (k * np.pi / a) ** 2 + (m * np.pi / b) ** 2)
        for k in range(n + 1)
        for m in range(n + 1)
    ]
    return sorted(every, key=lambda one: one.squared)[1 : n + 1]


def score(coder: Coder, points: Floats32, queries: Floats32, neighbours: NDArray[np.int64]) -> Score:
    """Measure how well a method finds the true neighbours of queries.

    Parameters
    ----------
    coder : callable
        A fitted method.
    points : array of shape (n_points, n_dimensions), float32
        Points to search.
    queries : array of shape (n_queries, n_dimensions), float32
        Points whose neighbours are searched; they are not among `points`.
    neighbours : array of shape (n_queries, k), int64
        See `true_neighbours`.
    """
    found = retrieve(coder(points), coder(queries), neighbours)
    retrieved = found.rows[:, : WITHIN + 1].sum()
    good = (found.neighbours <= WITHIN).sum()
    return Score(
        float(good / retrieved) if retrieved else None,
        float(found.neighbours_found([neighbours.shape[1]]).mean()),
        float(retrieved / len(queries)),
    )


def true_neighbours(points: Floats32, queries: Floats32, k: int) -> NDArray[np.int64]:
    """For each query, return the row numbers of the k nearest points, nearest first; shape (n_queries, k)."""
    return np.argsort(euclidean(queries, points), axis=1, kind="stable")[:, :k]


def distances(coder: Coder, query: Floats32, points: Floats32) -> NDArray[np.int64]:
    """Return the Hamming distance of each point from one query, of shape (n_points,)."""
    return np.asarray((coder(points).unpacked() != coder(query[None]).unpacked()).sum(axis=1))


def _fitted(family: SimilarityHasher, X: Floats32) -> Coder:
    return family.fit(X).hash_points


def _lsh(X: Floats32, n_bits: int, k: int, seed: int) -> Coder:  # noqa: ARG001
    mean = X.mean(axis=0)
    height = np.sqrt(((X - mean) ** 2).sum(axis=1).mean())

    def lifted(P: Floats32) -> Floats32:
        return np.column_stack([P - mean, np.full(len(P), height)]).astype(np.float32)

    coder = _fitted(RandomHyperplaneLSH(centred=False, n_functions=n_bits, random_state=seed), lifted(X))
    return lambda P: coder(lifted(P))


def _boosting(X: Floats32, n_bits: int, k: int, seed: int) -> Coder:
    return _fitted(BoostedPSH(n_near=k, n_functions=n_bits, random_state=seed), X)


def _rbm(X: Floats32, n_bits: int, k: int, seed: int) -> Coder:
    return _fitted(DeepCodes(layers=(UNITS,), n_near=k, n_functions=n_bits, random_state=seed), X)


def _spectral(X: Floats32, n_bits: int, k: int, seed: int) -> Coder:  # noqa: ARG001
    return _fitted(SpectralHash(n_functions=n_bits, random_state=seed), X)


def _boosting_on_spectral(X: Floats32, n_bits: int, k: int, seed: int) -> Coder:
    spectral = _spectral(X, n_bits, k, seed)
    family = BoostedPSH()
    pairs = Pairs.by_distance(X, family.n_pairs, k, np.random.default_rng(seed))
    stumps, _ = boosted(Stumps.of(_signs(spectral, X), pairs, 1), n_bits, family.alpha)
    chosen = [stump.feature for stump in stumps]
    return lambda P: Codes.from_bits(spectral(P).unpacked()[:, chosen] == 1)


def _rbm_on_spectral(X: Floats32, n_bits: int, k: int, seed: int) -> Coder:
    spectral = _spectral(X, n_bits, k, seed)
    network = DeepCodes(layers=(UNITS,), n_functions=n_bits)
    every, rng = np.arange(len(X)), np.random.default_rng(seed)
    layers, _ = network.trained(_signs(spectral, X), every, by_distance(X, k), rng)
    return lambda P: Codes.from_bits(activations(_signs(spectral, P), layers)[-1] >= 0.5)


def _signs(coder: Coder, P: Floats32) -> Floats32:
    """Return the bits of points as ±1, of shape (n, n_bits)."""
    return np.asarray(2 * coder(P).unpacked().astype(np.float32) - 1)


ON_SPECTRAL = "on spectral bits"

METHODS: Mapping[Method, Learn] = {
    Method(RandomHyperplaneLSH.name): _lsh,
    Method(BoostedPSH.name): _boosting,
    Method(DeepCodes.name): _rbm,
    Method(SpectralHash.name): _spectral,
    Method(BoostedPSH.name, ON_SPECTRAL): _boosting_on_spectral,
    Method(DeepCodes.name, ON_SPECTRAL): _rbm_on_spectral,
}
"""All methods. Figure 14 has the methods without a form, in the same order."""
