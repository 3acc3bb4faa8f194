"""Finding the nearest: by a scan of the whole pool, or by hashing; both end in exact angles.

The angle θ between a query q and a row x is what is ranked and shown, cos θ = qᵀx. Under a learned metric
A = GᵀG it is the angle between Gq and Gx,

    cos θ = qᵀAx / (‖Gq‖ ‖Gx‖),

for which the scan needs Aq, once, and ‖Gx‖ of every row, kept from the metric's preparation.

**Several queries.** An item is as near to several as to the nearest of them. Their mean finds fewer: from
one positive on, with 24 items labeled a round, ten rounds found 238.9 of 240 possible among digits and 115.6
among CIFAR-10's photographs, by the mean direction 236.4 and 92.6 (20,000 items each, means over 40 starts).
A class is seldom one cloud. Of very many queries, `MOST_QUERIES` are looked for.

**Exact after retrieval.** Whatever retrieves gives a few hundred rows; their angles are computed in float64,
and ties go to the lower id. The scan retrieves by float32 sums, which are wrong by at most E
(`core.selection.nearest.float32_error`), and so keeps every row that is within 2E of the last one: none of
the nearest is lost.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.pool.pool import Pool
from closecall.core.selection.nearest import float32_error

Ids = NDArray[np.int64]
Floats64 = NDArray[np.float64]

DECIMALS = 12
"""To which cosines are compared: the last digits of a matrix product depend on its shape."""

PAGE = 24
"""Items that are shown at once, to be answered."""

MOST_QUERIES = 100
"""Queries that are looked for at once; of more, these are spread evenly over their order."""


class Metric(Protocol):
    """What near means: A = GᵀG, and ‖Gx‖ of the pool's rows."""

    @property
    def n_items(self) -> int:
        """How many rows of the pool it knows the norms of, from the first on."""

    def weights(self, X: Rows) -> Floats64:
        """Ax of each row, of shape (n, n_features)."""

    def norms(self, X: Rows) -> Floats64:
        """‖Gx‖ of each row, of shape (n,)."""

    @property
    def row_norms(self) -> NDArray[np.float32]:
        """‖Gx‖ of each row of the pool, of shape (n_items,)."""


@dataclass(frozen=True, eq=False)
class Probe:
    """What is looked for, as a finder wants it.

    Parameters
    ----------
    X : array of shape (n_queries, n_features), float32, or csr_array
        Unit rows.
    exclude : array of shape (n_items,), int64
        Items that are never found.
    metric : Metric or None
        None for the angle between the features as they are.
    """

    X: Rows
    exclude: Ids
    metric: Metric | None = None

    @property
    def weights(self) -> Floats64:
        """The w of each query for which wᵀx is the cosine, or ‖Gx‖ times the cosine."""
        if self.metric is None:
            dense = self.X.toarray() if is_sparse(self.X) else self.X
            return np.asarray(dense, dtype=np.float64)
        return self.metric.weights(self.X) / self.metric.norms(self.X)[:, None]


@dataclass(frozen=True, eq=False)
class Found:
    """What was found.

    Parameters
    ----------
    ids : array of shape (n,), int64
        The nearest first.
    angles : array of shape (n,), float64
        In degrees.
    seconds : float
    compared : int
        How many of the rows were looked at, be it only their codes.
    in_full : int
        Of how many the exact angle was computed.
    items : int
        How many rows there are.
    """

    ids: Ids
    angles: Floats64
    seconds: float
    compared: int
    in_full: int
    items: int


class Finder(ABC):
    """Finds the nearest rows of one snapshot of a pool; any number of threads may ask.

    Parameters
    ----------
    pool : Pool
        The snapshot.
    """

    name: str
    """By which it is chosen, and told in a log."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    @property
    def n_items(self) -> int:
        """How many rows of the pool it covers."""
        return len(self.pool)

    def params(self) -> dict[str, Any]:
        """Whatever else must be known to make the same search again."""
        return {}

    def find(self, probe: Probe, n: int) -> Found:
        """The `n` items nearest to what is looked for, as far as they are retrieved."""
        started = time.perf_counter()
        weights = probe.weights
        rows, compared = self._retrieved(probe, weights, n)
        cosines = cosines_of(self.pool.rows(rows), weights, probe.metric)
        order = np.lexsort((rows, -cosines))
        order = order[~np.isin(self.pool.ids[rows[order]], probe.exclude)][:n]
        ids = self.pool.ids[rows[order]].astype(np.int64)
        angles = np.degrees(np.arccos(cosines[order]))
        seconds = time.perf_counter() - started
        return Found(ids, angles, seconds, compared, len(rows), self.n_items)

    @abstractmethod
    def _retrieved(self, probe: Probe, weights: Floats64, n: int) -> tuple[Ids, int]:
        """Rows among which the nearest are sought, and how many were looked at to find them."""


class ExactScan(Finder):
    """Compares every row with every query."""

    name = "exact"

    def _retrieved(self, probe: Probe, weights: Floats64, n: int) -> tuple[Ids, int]:
        planes = [Hyperplane(own, 0.0) for own in weights]
        cosines = np.empty(self.n_items, dtype=np.float32)
        for first, scores in self.pool.score_blocks(planes):
            cosines[first : first + scores.shape[1]] = scores.max(axis=0)
        error = max(map(float32_error, planes))
        if probe.metric is not None:
            norms = probe.metric.row_norms[: self.n_items]
            cosines /= norms
            error = error / float(norms.min()) + 2.0**-22
        wanted = min(n + len(probe.exclude), self.n_items)
        last = float(np.partition(cosines, self.n_items - wanted)[self.n_items - wanted])
        return np.flatnonzero(cosines >= np.float32(last - 2 * error)), self.n_items


def looked_for(items: Ids) -> Ids:
    """Those of some items that are looked for: all, or `MOST_QUERIES` spread evenly over their order."""
    return items[np.linspace(0, len(items) - 1, min(len(items), MOST_QUERIES)).astype(np.int64)]


def cosines_of(X: Rows, weights: Floats64, metric: Metric | None) -> Floats64:
    """The cosine of each row's least angle to a query, of shape (n,), in float64."""
    if not X.shape[0]:
        return np.empty(0)
    wide = X.astype(np.float64)
    cosines = np.asarray(wide @ weights.T).max(axis=1)
    if metric is not None:
        cosines = cosines / metric.norms(X)
    return np.asarray(np.clip(np.round(cosines, DECIMALS), -1.0, 1.0))
