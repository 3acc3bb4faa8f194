"""Semantic hashing with Hamming balls of fixed radius: figure 4 of the survey [1]_.

Semantic hashing reads all items in the Hamming ball around the query's code. Each query is answered by a ball
of each radius, and by a scan of the same codes. The measured times include neither hashing the query nor
ranking the found items exactly.

In a pool of n items, at most the first log₂(n/16) bits of a code are its address in the table
(`core.search.ball`). Longer codes therefore do not take longer. In the survey, all bits of a code are its
address.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 2.2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import click
import numpy as np

from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.report import show_table
from closecall.app.experiments.bench.similar.curves import Floats
from closecall.core.experiment.queries import Items
from closecall.core.hashing.pool import hash_rows
from closecall.core.hashing.similarity import SimilarityHasher
from closecall.core.pool.pool import Pool
from closecall.core.search import HammingBall, HammingScan

FIGURE = "4"

LENGTHS = (8, 12, 16, 20, 24, 28, 32)
"""Code lengths, in bits."""

RADII = (0, 1, 2, 3, 4)
"""Default radii, in bits."""

N_NEAREST = 10
"""Number of items that a scan returns."""


def measure_balls(
    pool: Pool,
    fitted: Callable[[int], SimilarityHasher],
    radii: Sequence[int],
    warm_up: Items,
    queries: Items,
) -> list[Row]:
    """Return a row for each code length and radius.

    A row has ``paper_figure``, ``structure`` ("ball"), ``bits``, ``radius``, ``ms`` (the median time of a
    query), ``returned`` (the mean number of items in the ball), ``compared`` (the mean number of codes
    compared), ``empty`` (the share of queries whose ball has no item) and ``scan_ms`` (the median time of a
    scan of the same codes). All codes of a bucket are compared, so ``compared`` is larger than ``returned``.

    Parameters
    ----------
    pool : Pool
        The items.
    fitted : callable
        Takes a code length in bits, and returns a fitted family with that many functions of 1 bit.
    radii : sequence of int
        Radii of the balls, in bits.
    warm_up, queries : Items
        Queries to answer before timing starts, and queries to time.
    """
    rows: list[Row] = []
    for bits in LENGTHS:
        family = fitted(bits)
        codes = hash_rows(family, pool.blocks(), len(pool), lambda done: None)  # noqa: ARG005
        scan, table = HammingScan(codes), HammingBall.of_radius(codes, None).table_
        balls = [HammingBall(table, radius) for radius in radii]
        _time(family, scan, balls, warm_up)
        (seconds, returned, compared), scans = _time(family, scan, balls, queries)
        rows += [
            {
                "paper_figure": FIGURE,
                "structure": HammingBall.name,
                "bits": bits,
                "radius": radius,
                "ms": 1000 * float(np.median(seconds[:, place])),
                "returned": float(returned[:, place].mean()),
                "compared": float(compared[:, place].mean()),
                "empty": float((returned[:, place] == 0).mean()),
                "scan_ms": 1000 * float(np.median(scans)),
            }
            for place, radius in enumerate(radii)
        ]
    return rows


def show_balls(rows: Sequence[Row]) -> None:
    """Print a table with a line for each code length and radius, with means over random draws."""
    by_ball: dict[tuple[int, int], list[Row]] = {}
    for row in rows:
        by_ball.setdefault((row["bits"], row["radius"]), []).append(row)
    lines = []
    for (bits, radius), own in by_ball.items():
        ms, returned, empty, scan = (
            float(np.mean([row[name] for row in own])) for name in ("ms", "returned", "empty", "scan_ms")
        )
        lines.append(
            [f"{bits}", f"{radius}", f"{ms:.3f}", f"{scan:.3f}", f"{returned:,.1f}", f"{100 * empty:.1f}"]
        )
    click.echo("\nHamming balls of fixed radius; times are those of the search alone.\n")
    show_table(["bits", "radius", "ms", "scan, ms", "returned", "none, %"], lines, n_left=0)


def _time(
    family: SimilarityHasher, scan: HammingScan, balls: Sequence[HammingBall], queries: Items
) -> tuple[Floats, Floats]:
    """Answer each query with all balls, then with the scan, and time each search.

    The order of the balls is random for each query, because a large ball evicts the data of others from the
    processor's caches.

    Returns
    -------
    found : array of shape (3, n_queries, n_balls), float64
        For each query and ball: seconds, number of items in the ball, and number of codes compared.
    scans : array of shape (n_queries,), float64
        Seconds of the scan.
    """
    found, scans = np.empty((3, len(queries), len(balls))), np.empty(len(queries))
    rng = np.random.default_rng(0)
    for number, code in enumerate(family.queries(queries.X)):
        for place in rng.permutation(len(balls)).tolist():
            started = time.perf_counter()
            rows, compared = balls[place].within(code, 0)
            found[:, number, place] = time.perf_counter() - started, len(rows), compared
        started = time.perf_counter()
        scan.found(code, N_NEAREST, n_compared=0, measure="disagreements")
        scans[number] = time.perf_counter() - started
    return found, scans
