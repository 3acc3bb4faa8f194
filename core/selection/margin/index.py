"""The margin index: exact scores where the nearest rows are likely to be, bytes and statistics elsewhere."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from core.blocks import even_blocks
from core.errors import InputError
from core.geometry import Hyperplane
from core.selection.base import Arrays, Choice, Progress, Query, QueryStrategy
from core.selection.margin.kernels import Found, Tables, add_moments, search, turned
from core.selection.margin.quantizer import BLOCK, MAX_CLUSTERS, Quantizer
from core.selection.nearest import at_most, balanced, float32_error, nearest_first
from core.selection.reader import PoolRows, Rows
from core.selection.scratch import scratch_array
from core.selection.subsample import Subsample

FIRST_FIT = 20_000
"""A smaller pool is clustered anew whenever it grows; a larger one when it has doubled."""

SAMPLE_ROWS = 65_536
"""Rows that principal directions and clusters are fitted to, evenly spaced."""

_PLACES_AT_ONCE = 65_536

BLOCK_ROWS = 4096
"""Rows encoded at a time; blocks begin at multiples of it, see `core.blocks`."""

STRAYED = 0.001
"""With more than this share of rows beyond the quantizer's limits, the pool is clustered anew.

So few can be scored beside all else. Their bytes say too little about them, and they are the outermost rows:
where a hyperplane passes beside the pool, one of them is often the nearest.
"""


LEAST_BUDGET = 2_500
"""In what it takes to find the clusters to read, some thousand rows can be read at random.

At 1,000,000 × 384, of digits and of photographs, a budget of 2,500 came nearer than the random rows that can
be read in the same time, and one of 1,000 didn't where the hyperplane cuts through the bulk.
"""

PROMISING = 32
"""Rows that are scored exactly first, beside as many as are wanted."""

MANY = 256
"""More rows than this are scored in float32 before those that are left in float64."""


@dataclass(frozen=True, eq=False)
class Memory:
    """What a session remembers: every row's score under one of its hyperplanes.

    Parameters
    ----------
    scores : array of shape (N,), float32
        wᵀx + b in the order of the index.
    normal : array of shape (d,), float32
    at_centre : float
        The hyperplane, see `core.selection.margin.kernels.turned`.
    order : array of shape (N,), int32
        The order of the index, by which it is known.
    """

    scores: NDArray[np.float32]
    normal: NDArray[np.float32]
    at_centre: float
    order: NDArray[np.int32]


_NOTHING = Memory(np.empty(0, np.float32), np.empty(0, np.float32), 0.0, np.empty(0, np.int32))


class MarginIndex(QueryStrategy):
    """The nearest items, found by clusters and bytes.

    Rows lie in the order of their clusters. A query computes for each cluster how densely its rows lie about
    the hyperplane, and reads the densest clusters first: one byte a coordinate, and of rows that turn out to
    be far away only the first few. Those that may be the nearest are scored exactly, from the pool.

    Parameters
    ----------
    budget : int or None
        Look at no more rows than this. With None, near-exact: look at all rows that may be nearer than what
        was found. A budget below `LEAST_BUDGET` is spent on a random subsample instead, with a warning.
    confidence : float
        About how probable it is that the nearest of the rows looked at is found, 0 … 1 (see
        `core.selection.margin.kernels`).
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
    strayed_: Rows
    _subsample: Subsample | None

    def __init__(
        self,
        *,
        budget: int | None = None,
        confidence: float = 0.997,
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
        """See `QueryStrategy.grow`: encode the new rows, if a new index would begin with these clusters.

        It doesn't where the pool has doubled, or where the clusters had followed rows that strayed.
        """
        self._check()
        fit_rows = _fit_rows(len(pool))
        self._build(pool, fit_rows, old if old.fit_rows_ == fit_rows else None, progress)
        self._follow(pool, progress)

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        if self._subsample is not None:
            return self._subsample.choose(query)
        n_rows = self.n_items
        limit = n_rows if self.budget is None else min(n_rows, max(self.budget, query.n))
        choice = self._nearest(query, limit)
        if len(choice.ids) < query.n and limit < n_rows:
            return self._nearest(query, n_rows)
        return choice

    def remember(self, hyperplanes: Sequence[Hyperplane]) -> list[object]:
        """See `QueryStrategy.remember`: the scores of all rows, for a search without a budget."""
        if self.budget is not None:
            return [None for _ in hyperplanes]
        hyperplanes = [balanced(hyperplane)[0] for hyperplane in hyperplanes]
        scores = np.empty((len(hyperplanes), self.n_items), dtype=np.float32)
        for first, block in self.pool_.score_blocks(hyperplanes):
            scores[:, first : first + block.shape[1]] = block
        pairs = zip(hyperplanes, scores, strict=True)
        return [
            Memory(row[self.order_], *turned(self.tables_, hyperplane.normal, hyperplane.bias), self.order_)
            for hyperplane, row in pairs
        ]

    def _nearest(self, query: Query, limit: int) -> Choice:
        """The n nearest of the `limit` rows that are the most likely to be near; of all, strayed ones too."""
        hyperplane, unit = balanced(query.plane())
        memory, excluded = _NOTHING, query.exclude
        strayed = self.strayed_ if limit == self.n_items else self.strayed_[:0]
        if isinstance(query.memory, Memory) and query.memory.order is self.order_ and limit == self.n_items:
            memory = query.memory
        if len(strayed):
            ids = self.pool_.ids[strayed]
            excluded = np.sort(np.concatenate([excluded, ids]))
            strayed = strayed[query.allowed(ids)]
        found = search(
            self.tables_, hyperplane.normal, hyperplane.bias, _read_only(excluded), query.n, limit,
            self.z_, memory.scores, memory.normal, memory.at_centre,
        )  # fmt: skip
        rows, margins = self._settled(found, hyperplane, query.n)
        if len(strayed):
            exact = self.reader_.margins(strayed, hyperplane)
            rows, margins = nearest_first(
                np.concatenate([rows, strayed]), np.concatenate([margins, exact]), query.n
            )
        scored = min(found.looked + len(strayed), self.n_items)
        return Choice(self.pool_.ids[rows], margins * unit, scored=scored)

    def _settled(self, found: Found, hyperplane: Hyperplane, n: int) -> tuple[Rows, NDArray[np.float64]]:
        """The n nearest of the rows found by their exact margins, ties by the lower row.

        The most promising are scored first: how near they are tells which of the others need not be.
        """
        some = n + PROMISING
        if len(found.rows) <= some:
            return nearest_first(found.rows, self.reader_.margins(found.rows, hyperplane), n)
        order = np.argpartition(found.distances, some)
        rows, distances = found.rows[order], found.distances[order]
        nearest, margins = nearest_first(rows[:some], self.reader_.margins(rows[:some], hyperplane), n)
        rest = rows[some:][distances[some:] <= margins[-1] + found.error]
        if len(rest) > MANY:
            rough = self.reader_.rough_margins(rest, hyperplane)
            rest = rest[at_most(rough, margins[-1] + float32_error(hyperplane))]
        exact = self.reader_.margins(rest, hyperplane)
        return nearest_first(np.concatenate([nearest, rest]), np.concatenate([margins, exact]), n)

    def arrays(self) -> Arrays:
        """See `QueryStrategy.arrays`."""
        return {
            **self.quantizer_.arrays(),
            "labels": self.labels_,
            "order": self.order_,
            "codes": self.codes_,
            "sums": self.sums_,
            "squares": self.squares_,
            "strayed": self.strayed_,
            "fit-rows": np.array([self.fit_rows_]),
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
        self.strayed_ = arrays["strayed"]
        self.fit_rows_ = int(arrays["fit-rows"][0])
        self._summarize()

    def _check(self) -> None:
        if self.budget is not None and self.budget < 1:
            raise InputError(f"budget must be at least 1, or none, got {self.budget}")
        if not 0 < self.confidence < 1:
            raise InputError(f"confidence must be between 0 and 1, got {self.confidence}")
        if self.n_clusters is not None and not 1 <= self.n_clusters <= MAX_CLUSTERS:
            raise InputError(f"n_clusters must be from 1 to {MAX_CLUSTERS}, or none, got {self.n_clusters}")

        if self.budget is not None and self.budget < LEAST_BUDGET:
            warnings.warn(
                f"a budget of {self.budget:,} rows is spent on a random subsample, since clusters find "
                f"nothing nearer in the same time: give margin-index at least {LEAST_BUDGET:,}, or none",
                stacklevel=4,
            )

    def _follow(self, pool: PoolRows, progress: Progress | None) -> None:
        """Cluster all rows anew if too many are unlike those that the clusters were fitted to."""
        if len(self.strayed_) > STRAYED * len(pool) and self.fit_rows_ < len(pool):
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
        self.strayed_ = np.sort(self.order_[strayed]).astype(np.int64)

    def _summarize(self) -> None:
        """Each cluster's mean and variances, as if it had one average row more."""
        quantizer = self.quantizer_
        sizes = np.bincount(self.labels_, minlength=len(quantizer.centroids))
        second_moments = (self.squares_.sum(axis=0) / len(self.labels_)).astype(np.float32)
        mean = self.sums_[:, 0] / (sizes[:, None] + 1)
        variance = (self.squares_[:, 0] + second_moments[0]) / (sizes[:, None] + 1) - mean**2
        steps = np.zeros(BLOCK)
        steps[: len(quantizer.steps[:BLOCK])] = quantizer.steps[:BLOCK]
        mean *= steps
        mean[:, : quantizer.centroids.shape[1]] += quantizer.centroids
        n_leading = min(BLOCK, len(quantizer.steps))
        parts = (
            quantizer.centre, quantizer.directions, quantizer.steps, quantizer.centroids, second_moments,
            np.ascontiguousarray(mean[:, :n_leading], dtype=np.float32),
            np.ascontiguousarray((variance * steps**2)[:, :n_leading], dtype=np.float32),
            np.concatenate([[0], np.cumsum(sizes)]),
            self.codes_, self.order_, self.pool_.ids,
        )  # fmt: skip
        self._subsample = None
        if self.budget is not None and self.budget < LEAST_BUDGET:
            self._subsample = Subsample(n_scored=self.budget, random_state=self.random_state).fit(self.pool_)
        self.tables_ = Tables(*(_read_only(array) for array in parts))
        n_looks = quantizer.n_blocks + 1
        self.z_ = -NormalDist().inv_cdf((1 - self.confidence) / (2 * n_looks))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The array as compiled code knows it by one type, be it mapped, a slice of another, or neither."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


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
