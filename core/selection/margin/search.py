"""Looking for the rows nearest to a hyperplane: in the densest clusters first, and ever closer.

**Order.** Within a cluster wᵀx + b is taken to be normal, with the mean and variance that it has over the
cluster's rows. Clusters are read in the order of that density at zero.

**Cascade.** A row's score is summed block by block of bytes. The row is dropped once its partial score is
farther from zero than r + zσ + κσ². Here r is the approximate distance of the n-th nearest so far; σ² is the
variance of what hasn't been read of the row, w_j² E[p_j²] for each coordinate to come and w_j² Δ_j² / 12 for
each byte's rounding; z is the normal quantile that loses a row with a probability of 1 − confidence, shared
by all blocks. And κ is the slope of the density of scores: where a hyperplane passes far beside the pool,
there are many more rows a little farther away, and the nearest is rather one that its rest brought near. A
normal rest, tilted by that slope, has its mean κσ² nearer to zero.

What is left is scored exactly, from the pool.

**Remembering.** With the scores s₀ of all rows under an earlier hyperplane w₀, wᵀx + b = α s₀ + δᵀx + β where
δ = w − α w₀, and α makes the variance of δᵀx smallest. The cascade then sums δᵀx + β, after a first look
at α s₀ and the cluster's mean of the rest alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from core.geometry import Hyperplane
from core.hashing.projection import combined
from core.selection.base import Choice, Query
from core.selection.margin.kernels import outlook, search
from core.selection.margin.quantizer import BLOCK
from core.selection.nearest import at_most, balanced, float32_error, nearest_first

if TYPE_CHECKING:
    from core.selection.margin.index import MarginIndex

Floats32 = NDArray[np.float32]
Ids = NDArray[np.int64]
Ints32 = NDArray[np.int32]

_PROMISING = 32
_LEAST_VARIANCE = np.float32(1e-30)
_NOTHING = np.empty(0, dtype=np.float32)


@dataclass(frozen=True, eq=False)
class Memory:
    """What a session remembers: every row's score under one of its hyperplanes.

    Parameters
    ----------
    hyperplane : Hyperplane
    scores : array of shape (N,), float32
        wᵀx + b in the order of the index.
    order : array of shape (N,), int32
        That order; tells whether it is still the index's.
    """

    hyperplane: Hyperplane
    scores: Floats32
    order: Ints32


@dataclass(frozen=True, eq=False)
class Turned:
    """A hyperplane in the coordinates of the index.

    Parameters
    ----------
    normal : array of shape (d,), float32
        Vᵀw.
    at_centre : float
        wᵀμ + b.
    """

    normal: Floats32
    at_centre: float

    @classmethod
    def of(cls, hyperplane: Hyperplane, index: MarginIndex) -> Turned:
        """The hyperplane seen along the principal directions."""
        normal = combined(hyperplane.normal.astype(np.float32), index.quantizer_.directions)
        return cls(normal, hyperplane.bias + float(hyperplane.normal @ index.centre_))

    def minus(self, factor: float, other: Turned) -> Turned:
        """The difference to `factor` times the other one."""
        normal = self.normal - np.float32(factor) * other.normal
        return Turned(normal, self.at_centre - factor * other.at_centre)


class Affine:
    """An affine function x ↦ wᵀx + b as the index computes it, from clusters and bytes.

    Attributes
    ----------
    weights : array of shape (n_blocks, BLOCK), int16
    units : array of shape (n_blocks,), float32
        A row's score is offsets[its cluster] + Σ_block units[block] · (weights[block] · its bytes).
    offsets : array of shape (n_clusters,), float32
    means, variances : arrays of shape (n_clusters,), float32
        Of the function, over the rows of each cluster.
    unread : array of shape (n_blocks,), float32
        Standard deviation of the error that is left after each block.
    """

    def __init__(self, index: MarginIndex, turned: Turned) -> None:
        quantizer = index.quantizer_
        n_blocks, n_clusters = quantizer.n_blocks, len(quantizer.centroids)
        self.weights = np.empty((n_blocks, BLOCK), dtype=np.int16)
        self.units = np.empty(n_blocks, dtype=np.float32)
        self.unread = np.empty(n_blocks, dtype=np.float32)
        self.offsets = np.empty(n_clusters, dtype=np.float32)
        self.means = np.empty(n_clusters, dtype=np.float32)
        self.variances = np.empty(n_clusters, dtype=np.float32)
        outlook(
            turned.normal, np.float32(turned.at_centre),
            quantizer.steps, index.second_moments_, quantizer.centroids, index.means_, index.variances_,
            self.weights, self.units, self.unread, self.offsets, self.means, self.variances,
        )  # fmt: skip
        np.maximum(self.variances, _LEAST_VARIANCE, out=self.variances)

    def log_densities(self) -> Floats32:
        """Of the function's values at zero, in each cluster, up to a constant."""
        return np.asarray(-(self.means**2) / (2 * self.variances) - 0.5 * np.log(self.variances))


@dataclass(frozen=True)
class Tolerance:
    """How far from zero a partial score may be, beyond the distance of the best row so far.

    Parameters
    ----------
    z : float
        Of the normal distribution.
    slope : float
        κ, by how much the logarithm of the density of scores grows per unit away from zero.
    """

    z: float
    slope: float

    @classmethod
    def of(cls, index: MarginIndex, whole: Affine) -> Tolerance:
        """Of a hyperplane, with the scores of the pool taken to be normal: κ = |mean| / variance."""
        mean = float(index.shares_ @ whole.means)
        variance = float(index.shares_ @ (whole.variances + whole.means**2)) - mean**2
        n_looks = index.quantizer_.n_blocks + 1
        z = NormalDist().inv_cdf(1 - (1 - index.confidence) / (2 * n_looks))
        return cls(z, abs(mean) / max(variance, float(_LEAST_VARIANCE)))

    def __call__(self, deviations: Floats32) -> Floats32:
        """For unread rests of these standard deviations σ: zσ + κσ²."""
        return np.asarray(self.z * deviations + self.slope * deviations**2, dtype=np.float32)


def nearest(index: MarginIndex, query: Query) -> Choice:
    """The n nearest rows, as far as `index.budget` and `index.confidence` allow."""
    n_rows = len(index.order_)
    limit = n_rows if index.budget is None else min(n_rows, max(index.budget, query.n))
    found = _nearest_of_densest(index, query, limit)
    if len(found.ids) < query.n and limit < n_rows:
        return _nearest_of_densest(index, query, n_rows)
    return found


def _nearest_of_densest(index: MarginIndex, query: Query, n_rows: int) -> Choice:
    """The n nearest of `n_rows` rows, those of the clusters that are densest about the hyperplane."""
    hyperplane, unit = balanced(query.plane())
    turned = Turned.of(hyperplane, index)
    whole = Affine(index, turned)
    tolerance = Tolerance.of(index, whole)
    by, old, slope = whole, _NOTHING, 0.0
    if (
        isinstance(query.memory, Memory)
        and query.memory.order is index.order_
        and n_rows == len(index.order_)
    ):
        by, slope = _change(index, turned, query.memory)
        old = query.memory.scores
    clusters = np.argsort(-whole.log_densities())
    until = index.sizes_[clusters].cumsum()
    clusters = clusters[: int(np.searchsorted(until, n_rows)) + 1]
    begins, ends = index.starts_[clusters], index.starts_[clusters + 1]
    ends[-1] -= until[len(clusters) - 1] - n_rows
    errors = tolerance(by.unread)
    best = np.full(query.n, np.inf, dtype=np.float32)
    places = np.empty(n_rows + 1, dtype=np.int32)
    scores = np.empty(n_rows + 1, dtype=np.float32)
    found, looked = search(
        index.codes_, by.weights, by.units, errors, begins, ends, by.offsets[clusters],
        old, np.float32(slope), by.means[clusters], tolerance(np.sqrt(by.variances[clusters])),
        index.order_, index.pool_.ids, query.exclude, best, places, scores,
    )  # fmt: skip
    distances = np.abs(scores[:found])
    near = distances <= best[-1] + 2 * errors[-1]
    ids, margins = _settled(
        index, query, hyperplane, places[:found][near], distances[near], float(errors[-1])
    )
    return Choice(ids, margins * unit, scored=looked)


def _settled(
    index: MarginIndex,
    query: Query,
    hyperplane: Hyperplane,
    places: Ints32,
    distances: Floats32,
    error: float,
) -> tuple[Ids, NDArray[np.float64]]:
    """The n nearest rows by their exact margins; `distances` are wrong by no more than `error`.

    The most promising are scored first: how near they are tells which of the others need not be.
    """
    rows = index.order_[places].astype(np.int64)
    ids = index.pool_.ids[rows]
    free = query.allowed(ids)
    rows, ids, distances = rows[free], ids[free], distances[free]
    some = query.n + _PROMISING
    if len(rows) > some:
        order = np.argpartition(distances, some)
        rows, ids, distances = rows[order], ids[order], distances[order]
    margins = index.reader_.margins(rows[:some], hyperplane)
    first, margins = nearest_first(ids[:some], margins, query.n)
    if len(rows) <= some:
        return first, margins
    rest = some + np.flatnonzero(distances[some:] <= margins[-1] + error)
    rough = index.reader_.rough_margins(rows[rest], hyperplane)
    rest = rest[at_most(rough, margins[-1] + float32_error(hyperplane))]
    more = index.reader_.margins(rows[rest], hyperplane)
    return nearest_first(np.concatenate([first, ids[rest]]), np.concatenate([margins, more]), query.n)


def _change(index: MarginIndex, turned: Turned, memory: Memory) -> tuple[Affine, float]:
    """The function to add to `slope` times the remembered scores, and the slope."""
    before = Turned.of(memory.hyperplane, index)
    spread = index.second_moments_.ravel()[: len(turned.normal)] * index.quantizer_.steps**2
    weighted = spread * before.normal
    slope = float(weighted @ turned.normal) / (float(weighted @ before.normal) or 1.0)
    return Affine(index, turned.minus(slope, before)), slope
