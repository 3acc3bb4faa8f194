"""Rows of a pool in the order of their clusters, with their quantized coordinates."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.blocks import even_blocks
from closecall.core.quantization.moments import add_moments, cluster_moments, scales, tails
from closecall.core.quantization.quantizer import BLOCK, Quantizer, n_clusters_for
from closecall.core.selection.base import Arrays, Progress
from closecall.core.selection.margin.tables import Statistics, Tables
from closecall.core.selection.reader import PoolRows, Rows
from closecall.core.selection.scratch import scratch_array

FIRST_FIT = 20_000
"""Number of rows up to which a pool is clustered again whenever rows are added.

A larger pool is clustered again only when its number of rows has doubled.
"""

SAMPLE_ROWS = 65_536
"""Maximum number of evenly spaced rows to which principal directions and clusters are fitted."""

BLOCK_ROWS = 4096
"""Number of rows encoded at a time. Blocks start at multiples of this number; see `core.numerics.blocks`."""

STRAYED = 0.001
"""Fraction of strayed rows above which the whole pool is clustered again.

A row has strayed if a coordinate is too large for its byte, so that the bytes do not describe the row well.
Strayed rows are the outermost rows of the pool. If a hyperplane passes outside the pool, the nearest row is
often a strayed row. If there are few strayed rows, every query over all rows scores them exactly, which costs
little.
"""

_PLACES_AT_ONCE = 65_536


@dataclass(frozen=True, eq=False)
class Layout:
    """Position and bytes of each of N rows.

    Parameters
    ----------
    quantizer : Quantizer
    labels : array of shape (N,), uint16
        The cluster of each row.
    order : array of shape (N,), int32
        The row at each position; the rows of a cluster are contiguous and ascending.
    codes : array of shape (n_blocks, N, BLOCK), int8
        Bytes of the row at each position.
    tails : array of shape (n_blocks, N), uint8
        Scales of the row at each position; see `core.quantization.moments.tails`.
    sums, squares : arrays of shape (n_clusters, n_blocks, BLOCK), int64
        Sums of the bytes, and of the squared bytes, over the rows of each cluster. The sums are integers, so
        they do not depend on the order of the rows.
    strayed : array of shape (n_strayed,), int64
        Rows with a coordinate that is too large for its byte, ascending; see `STRAYED`.
    fit_rows : int
        The quantizer was fitted to a sample of the first `fit_rows` rows of the pool.
    """

    quantizer: Quantizer
    labels: NDArray[np.uint16]
    order: NDArray[np.int32]
    codes: NDArray[np.int8]
    tails: NDArray[np.uint8]
    sums: NDArray[np.int64]
    squares: NDArray[np.int64]
    strayed: Rows
    fit_rows: int

    @classmethod
    def built(
        cls, pool: PoolRows, n_clusters: int | None, seed: int, old: Layout | None, progress: Progress | None
    ) -> Layout:
        """Build the layout of a pool.

        If too many rows of the new layout have strayed (`STRAYED`), the clusters are fitted again, to all
        rows of the pool.

        `old` is a layout of the first rows of the same pool. Its clusters and bytes are kept, unless the pool
        has doubled since the clusters were fitted, or strayed rows had caused a fit to all rows.
        """
        fit_rows = _fit_rows(len(pool))
        kept = old if old is not None and old.fit_rows == fit_rows else None
        built = cls._of_rows(pool, fit_rows, n_clusters, seed, kept, progress)
        if len(built.strayed) > STRAYED * len(pool) and fit_rows < len(pool):
            return cls._of_rows(pool, len(pool), n_clusters, seed, None, progress)
        return built

    @classmethod
    def _of_rows(
        cls,
        pool: PoolRows,
        fit_rows: int,
        n_clusters: int | None,
        seed: int,
        old: Layout | None,
        progress: Progress | None,
    ) -> Layout:
        n, kept = len(pool), 0
        if old is None:
            sample = pool.rows(np.arange(0, fit_rows, -(-fit_rows // SAMPLE_ROWS)))
            quantizer = Quantizer.fitted(sample, n_clusters or n_clusters_for(fit_rows), seed)
        else:
            quantizer = old.quantizer
            kept = len(old.labels) // BLOCK_ROWS * BLOCK_ROWS

        def advanced(rows: int) -> None:
            if progress is not None:
                progress(rows, n)

        labels = np.empty(n, dtype=np.uint16)
        if old is not None:
            labels[:kept] = old.labels[:kept]
        for first, some in _each_block(pool, kept, lambda _, X: quantizer.labels(X)):
            labels[first : first + len(some)] = some
            advanced((kept + first) // 2)
        order = np.argsort(labels, kind="stable").astype(np.int32)
        places = np.empty(n, dtype=np.int32)
        places[order] = np.arange(n, dtype=np.int32)
        codes = scratch_array((quantizer.n_blocks, n, BLOCK), np.int8)
        if old is not None:
            _copy(old.codes, old.order, kept, codes, places)
        encode = lambda first, X: quantizer.encode(X, labels[first : first + len(X)])  # noqa: E731
        for first, rows in _each_block(pool, kept, encode):
            there = places[first : first + len(rows)]
            for block, of_block in enumerate(codes):
                of_block[there] = rows[:, block * BLOCK : (block + 1) * BLOCK]
            advanced((n + first + len(rows)) // 2)
        shape = (len(quantizer.centroids), quantizer.n_blocks, BLOCK)
        sums, squares = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        strayed = np.zeros(n, dtype=np.bool_)
        by_place = labels[order]
        for block, of_block in enumerate(codes):
            add_moments(of_block, by_place, sums[:, block], squares[:, block], strayed)
        strayed_rows = np.sort(order[strayed]).astype(np.int64)
        by_block = tails(codes, squares.sum(axis=0) / n, quantizer.steps)
        return cls(quantizer, labels, order, codes, by_block, sums, squares, strayed_rows, fit_rows)

    def statistics(self) -> Statistics:
        """Return the statistics from which queries are planned."""
        quantizer = self.quantizer
        sizes = np.bincount(self.labels, minlength=len(quantizer.centroids))
        second_moments = (self.squares.sum(axis=0) / len(self.labels)).astype(np.float32)
        means, variances = cluster_moments(
            quantizer, sizes, self.sums[:, 0], self.squares[:, 0], second_moments[0]
        )
        parts = (
            quantizer.centre, quantizer.directions, quantizer.steps, quantizer.centroids, second_moments,
            means, variances, scales(), np.concatenate([[0], np.cumsum(sizes)]),
        )  # fmt: skip
        return Statistics(*(read_only(array) for array in parts))

    def tables(self, starts: NDArray[np.int64], ids: NDArray[np.int64]) -> Tables:
        """Return the tables for queries.

        `starts` are those of the statistics, and `ids`, of shape (N,), the item ids of the rows.
        """
        return Tables(*(read_only(array) for array in (starts, self.codes, self.tails, self.order, ids)))

    def arrays(self) -> Arrays:
        """Return the arrays that define the layout, by name."""
        return {
            **self.quantizer.arrays(),
            "labels": self.labels,
            "order": self.order,
            "codes": self.codes,
            "tails": self.tails,
            "sums": self.sums,
            "squares": self.squares,
            "strayed": self.strayed,
            "fit-rows": np.array([self.fit_rows]),
        }

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Layout:
        """Return the layout defined by these `arrays`."""
        quantizer = Quantizer(
            **{name: arrays[name] for name in ("centre", "directions", "centroids", "steps")}
        )
        names = ("labels", "order", "codes", "tails", "sums", "squares", "strayed")
        return cls(quantizer, **{name: arrays[name] for name in names}, fit_rows=int(arrays["fit-rows"][0]))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a contiguous read-only view, so that compiled code sees one type for every kind of array."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


def _fit_rows(n_rows: int) -> int:
    """Return how many of the first rows of a pool with `n_rows` rows are used to fit the clusters."""
    fit_rows = min(n_rows, FIRST_FIT)
    while 2 * fit_rows <= n_rows and fit_rows >= FIRST_FIT:
        fit_rows *= 2
    return fit_rows


def _each_block(
    pool: PoolRows, start_row: int, compute: Callable[[int, NDArray[np.float32]], NDArray[Any]]
) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield, for each block of rows in order, its first row and the result of `compute`; use all cores."""
    blocks = even_blocks((X for _, X in pool.blocks(start_row)), BLOCK_ROWS)
    numbered = zip(count(start_row, BLOCK_ROWS), blocks)
    workers = os.cpu_count() or 1
    with one_thread(), ThreadPoolExecutor(workers) as threads:
        while some := list(islice(numbered, 4 * workers)):
            results = threads.map(lambda block: compute(*block), some)
            yield from zip((first for first, _ in some), results, strict=True)


def _copy(
    old: NDArray[np.int8],
    order: NDArray[np.int32],
    kept: int,
    new: NDArray[np.int8],
    places: NDArray[np.int32],
) -> None:
    """Copy the bytes of the first `kept` rows to their new positions."""
    for first in range(0, len(order), _PLACES_AT_ONCE):
        rows = order[first : first + _PLACES_AT_ONCE]
        there = np.flatnonzero(rows < kept)
        for block in range(len(new)):
            new[block][places[rows[there]]] = old[block][first + there]
