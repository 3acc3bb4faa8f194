"""The margin index: exact scores where the nearest rows are likely to be, bytes and statistics elsewhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from core.blocks import even_blocks
from core.errors import InputError
from core.geometry import Hyperplane
from core.selection.base import Arrays, Choice, Progress, Query, QueryStrategy
from core.selection.margin.kernels import add_moments
from core.selection.margin.quantizer import BLOCK, MAX_CLUSTERS, Quantizer
from core.selection.margin.search import Memory, nearest
from core.selection.nearest import balanced
from core.selection.reader import PoolRows
from core.selection.scratch import scratch_array

FIRST_FIT = 20_000
"""A smaller pool is clustered anew whenever it grows; a larger one when it has doubled."""

SAMPLE_ROWS = 65_536
"""Rows that principal directions and clusters are fitted to, evenly spaced."""

_PLACES_AT_ONCE = 65_536

BLOCK_ROWS = 4096
"""Rows encoded at a time; blocks begin at multiples of it, see `core.blocks`."""

STRAYED = 0.001
"""With more than this share of rows beyond the quantizer's limits, the pool is clustered anew."""


class MarginIndex(QueryStrategy):
    """The nearest items, found by clusters and bytes.

    Rows lie in the order of their clusters. A query computes for each cluster how densely its rows lie about
    the hyperplane, and reads the densest clusters first: one byte a coordinate, and of rows that turn out to
    be far away only the first few. Those that may be the nearest are scored exactly, from the pool.

    Parameters
    ----------
    budget : int or None
        Look at no more rows than this. With None, near-exact: look at all rows that may be nearer than what
        was found.
    confidence : float
        About how probable it is that the nearest of the rows looked at is found, 0 … 1 (see
        `core.selection.margin.search`).
    n_clusters : int or None
        By default about the square root of the number of rows.
    random_state : int
    """

    name = "margin-index"
    query_params = frozenset({"budget", "confidence"})

    quantizer_: Quantizer
    labels_: NDArray[np.uint16]
    order_: NDArray[np.int32]
    codes_: NDArray[np.int8]
    sums_: NDArray[np.int64]
    squares_: NDArray[np.int64]
    fit_rows_: int
    strayed_: int

    def __init__(
        self,
        *,
        budget: int | None = 10_000,
        confidence: float = 0.99,
        n_clusters: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(random_state=random_state)
        self.budget = budget
        self.confidence = confidence
        self.n_clusters = n_clusters

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.prepare`."""
        self._check()
        self._build(pool, _fit_rows(len(pool)), None, progress)
        self._follow(pool, progress)

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.grow`: encode the new rows, or cluster anew if the pool has doubled."""
        self._check()
        fit_rows = _fit_rows(len(pool))
        self._build(pool, max(fit_rows, old.fit_rows_), old if old.fit_rows_ >= fit_rows else None, progress)
        self._follow(pool, progress)

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return nearest(self, query)

    def remember(self, hyperplanes: Sequence[Hyperplane]) -> list[object]:
        """See `QueryStrategy.remember`: the scores of all rows, for a search without a budget."""
        if self.budget is not None:
            return [None for _ in hyperplanes]
        hyperplanes = [balanced(hyperplane)[0] for hyperplane in hyperplanes]
        scores = np.empty((len(hyperplanes), self.n_items), dtype=np.float32)
        for first, block in self.pool_.score_blocks(hyperplanes):
            scores[:, first : first + block.shape[1]] = block
        pairs = zip(hyperplanes, scores, strict=True)
        return [Memory(hyperplane, row[self.order_], self.order_) for hyperplane, row in pairs]

    def arrays(self) -> Arrays:
        """See `QueryStrategy.arrays`."""
        return {
            **self.quantizer_.arrays(),
            "labels": self.labels_,
            "order": self.order_,
            "codes": self.codes_,
            "sums": self.sums_,
            "squares": self.squares_,
            "counts": np.array([self.fit_rows_, self.strayed_], dtype=np.int64),
        }

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        self._check()
        named = ("centre", "directions", "centroids", "steps")
        self.quantizer_ = Quantizer(**{name: arrays[name] for name in named})
        self.labels_ = arrays["labels"]
        self.order_ = arrays["order"]
        self.codes_ = arrays["codes"]
        self.sums_, self.squares_ = arrays["sums"], arrays["squares"]
        self.fit_rows_, self.strayed_ = map(int, arrays["counts"])
        self._summarize()

    def _check(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise InputError(f"budget must be at least 1, or none, got {self.budget}")
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence must be between 0 and 1, got {self.confidence}")
        if self.n_clusters is not None and not 1 <= self.n_clusters <= MAX_CLUSTERS:
            raise InputError(f"n_clusters must be from 1 to {MAX_CLUSTERS}, or none, got {self.n_clusters}")

    def _follow(self, pool: PoolRows, progress: Progress | None) -> None:
        """Cluster all rows anew if too many are unlike those that the clusters were fitted to."""
        if self.strayed_ > STRAYED * len(pool) and self.fit_rows_ < len(pool):
            self._build(pool, len(pool), None, progress)

    def _build(self, pool: PoolRows, fit_rows: int, old: Self | None, progress: Progress | None) -> None:
        kept = 0
        self.fit_rows_ = fit_rows
        if old is None:
            sample = pool.rows(np.arange(0, fit_rows, -(-fit_rows // SAMPLE_ROWS)))
            wanted = self.n_clusters or _n_clusters(fit_rows)
            self.quantizer_ = Quantizer.fitted(sample, wanted, self.random_state)
        else:
            self.quantizer_ = old.quantizer_
            kept = old.n_items // BLOCK_ROWS * BLOCK_ROWS
        n, quantizer = len(pool), self.quantizer_

        def advanced(rows: int) -> None:
            if progress is not None:
                progress(rows, n)

        self.labels_ = np.empty(n, dtype=np.uint16)
        if old is not None:
            self.labels_[:kept] = old.labels_[:kept]
        for first, labels in _each_block(pool, kept, lambda _, X: quantizer.labels(X)):
            self.labels_[first : first + len(labels)] = labels
            advanced((kept + first) // 2)
        self.order_ = np.argsort(self.labels_, kind="stable").astype(np.int32)
        places = np.empty(n, dtype=np.int32)
        places[self.order_] = np.arange(n, dtype=np.int32)
        codes = scratch_array((quantizer.n_blocks, n, BLOCK), np.int8)
        if old is not None:
            _copy(old.codes_, old.order_, kept, codes, places)
        encode = lambda first, X: quantizer.encode(X, self.labels_[first : first + len(X)])  # noqa: E731
        for first, rows in _each_block(pool, kept, encode):
            there = places[first : first + len(rows)]
            for block, of_block in enumerate(codes):
                of_block[there] = rows[:, block * BLOCK : (block + 1) * BLOCK]
            advanced((n + first + len(rows)) // 2)
        self.codes_ = codes
        self._count()
        self._summarize()

    def _count(self) -> None:
        """Sums over the bytes of each cluster: of integers, so that it doesn't matter in which order."""
        shape = (len(self.quantizer_.centroids), self.quantizer_.n_blocks, BLOCK)
        self.sums_ = np.zeros(shape, dtype=np.int64)
        self.squares_ = np.zeros(shape, dtype=np.int64)
        strayed = np.zeros(len(self.labels_), dtype=np.bool_)
        by_place = self.labels_[self.order_]
        for block, codes in enumerate(self.codes_):
            add_moments(codes, by_place, self.sums_[:, block], self.squares_[:, block], strayed)
        self.strayed_ = int(np.count_nonzero(strayed))

    def _summarize(self) -> None:
        """Each cluster's mean and variances, as if it had one average row more."""
        quantizer = self.quantizer_
        self.centre_ = quantizer.centre.astype(np.float64)
        self.sizes_ = np.bincount(self.labels_, minlength=len(quantizer.centroids))
        self.starts_ = np.concatenate([[0], np.cumsum(self.sizes_)])
        self.second_moments_ = (self.squares_.sum(axis=0) / len(self.labels_)).astype(np.float32)
        rows = self.sizes_[:, None] + 1
        mean = self.sums_[:, 0] / rows
        variance = (self.squares_[:, 0] + self.second_moments_[0]) / rows - mean**2
        steps = np.zeros(BLOCK)
        steps[: len(quantizer.steps[:BLOCK])] = quantizer.steps[:BLOCK]
        mean *= steps
        mean[:, : quantizer.centroids.shape[1]] += quantizer.centroids
        n_leading = min(BLOCK, len(quantizer.steps))
        self.means_ = np.ascontiguousarray(mean[:, :n_leading], dtype=np.float32)
        self.variances_ = np.ascontiguousarray((variance * steps**2)[:, :n_leading], dtype=np.float32)
        self.shares_ = self.sizes_ / len(self.labels_)
        # Compiled code knows arrays that may be written to by another type; loaded ones may not.
        for array in self.arrays().values():
            array.flags.writeable = False


def _fit_rows(n_rows: int) -> int:
    """How many of the first rows the clusters of a pool of `n_rows` are fitted to."""
    fit_rows = min(n_rows, FIRST_FIT)
    while 2 * fit_rows <= n_rows and fit_rows >= FIRST_FIT:
        fit_rows *= 2
    return fit_rows


def _n_clusters(n_rows: int) -> int:
    """The power of two nearest to the square root of `n_rows`."""
    return int(min(2 ** round(np.log2(n_rows) / 2), MAX_CLUSTERS))


def _each_block(
    pool: PoolRows, start_row: int, compute: Callable[[int, NDArray[np.float32]], NDArray[Any]]
) -> Iterator[tuple[int, NDArray[Any]]]:
    """(number of the first row, result) of `compute` for each block of rows, in order, on all cores."""
    blocks = even_blocks((X for _, X in pool.blocks(start_row)), BLOCK_ROWS)
    numbered = zip(count(start_row, BLOCK_ROWS), blocks)
    workers = os.cpu_count() or 1
    with ThreadPoolExecutor(workers) as threads:
        while some := list(islice(numbered, 8 * workers)):
            results = threads.map(lambda block: compute(*block), some)
            yield from zip((first for first, _ in some), results, strict=True)


def _copy(
    old: NDArray[np.int8],
    order: NDArray[np.int32],
    kept: int,
    new: NDArray[np.int8],
    places: NDArray[np.int32],
) -> None:
    """Put the bytes of the first `kept` rows to their new places."""
    for first in range(0, len(order), _PLACES_AT_ONCE):
        rows = order[first : first + _PLACES_AT_ONCE]
        there = np.flatnonzero(rows < kept)
        for block in range(len(new)):
            new[block][places[rows[there]]] = old[block][first + there]
