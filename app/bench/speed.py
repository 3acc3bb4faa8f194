"""How long finding the nearest ten takes by codes, beside the exact scan, and how many of them are found.

Queries take turns between all ways and the exact scan, so that all meet the same machine and the same caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click
import numpy as np

from app.bench.draws import Row, heading, row_of
from app.compare.similar.names import LABELS
from core.blas import one_thread
from core.errors import InputError
from core.experiment.kernelized import held_out_queries
from core.hashing import FAMILIES
from core.hashing.pool import fit_rows, hash_rows
from core.pool import Pool
from core.rows import Rows
from core.search import built_for_points
from core.similar import ExactSearch, HashedSimilarity, nearness_of

N_NEAREST = 10

ENOUGH = 0.8
"""The recall at which the cheapest way of each structure is told."""

COMPACT_BITS = 30
"""Of the codes that a Hamming ball looks up."""

CANDIDATES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
"""So many rows, the likest by their codes, are ranked by their angles."""

COMPARED = {"table": (20, 80), "tables": (5, 20), "orders": (5, 20)}
"""Of structures that choose whose codes are compared: so many for each candidate. One large table keeps those
that it compares side by side, so that they cost less."""

N_BYTES = 200_000_000
"""Of memory for several tables and orders, beside the codes."""

MOST = 200_000
"""Codes that are compared at most, of those that choose."""

WARM_UP = 3
"""Queries of each way before those that count."""

LEGEND = (
    "Milliseconds in the median over {queries:,} held-out queries, one thread, all ways and the exact scan "
    "by turns; × is the exact scan's time over it. Of each structure the likest rows are ranked exactly."
)


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    family : str
        Name in `core.hashing.FAMILIES` of one that needs no labels.
    draws : int
        Seeds 0 … draws − 1 of whatever is random.
    n_queries : int
        Held-out items to search for.
    n_functions : int
        Bits of a code, but of a Hamming ball's.
    sizes : sequence of int
        The first so many items of the pool; all where there is none.
    """

    family: str
    draws: int
    n_queries: int
    n_functions: int
    sizes: Sequence[int]


@dataclass(frozen=True, eq=False)
class _Way:
    """A structure over codes, how long these took, and how long it took to build."""

    name: str
    search: HashedSimilarity
    hashing: float
    building: float

    def efforts(self, n_rows: int) -> list[tuple[int, int]]:
        """How many candidates are ranked, and how many codes compared; of a scan all are, a ball looks up."""
        factors = COMPARED.get(self.name, (1,))
        candidates = [n for n in CANDIDATES if n <= n_rows] or [n_rows]
        return [(n, factor * n) for factor in factors for n in candidates if factor * n <= max(MOST, n)]


def measure_speed(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> None:
    """Time and recall@10 of search structures, beside the exact scan.

    `done` is given a row for each size, draw, structure and effort: `ms` in all, of which `lookup_ms`
    until the candidates are known, `exact_ms` of the scan beside it, `recall`, of the family `hash_seconds`,
    and of the structure `build_seconds` and `bytes` an item.

    Raises
    ------
    InputError
        If the pool has fewer items than asked for, too few are held out, or the family does not apply.
    """
    if FAMILIES[plan.family].needs_labels:
        raise InputError(f"speed is measured of families that need no labels, {plan.family} needs some")
    sizes = sorted(set(plan.sizes)) or [len(pool)]
    if not N_NEAREST <= sizes[0] <= sizes[-1] <= len(pool):
        raise InputError(
            f"items must be from {N_NEAREST} to the {len(pool):,} of the pool {pool.path}, "
            f"got {', '.join(f'{size:,}' for size in sizes)}"
        )
    places, warm_up = held_out_queries(pool, plan.n_queries, WARM_UP)
    X = pool.held_out.X
    with one_thread():
        for size in sizes:
            part = pool.prefix(size)
            words = row_of(pool, "speed", family=plan.family, queries=plan.n_queries) | {"items": size}
            for seed in range(plan.draws):
                ways = _built(part, plan, seed)
                for row in _timed(part, ways, X[warm_up], X[places]):
                    done({**words, "draw": seed, **row})


def _built(pool: Pool, plan: Plan, seed: int) -> list[_Way]:
    rows, ways = pool.rows(fit_rows(len(pool))), []
    for bits, names in ((plan.n_functions, ("scan", "table", "tables", "orders")), (COMPACT_BITS, ("ball",))):
        started = time.perf_counter()
        family = FAMILIES[plan.family](n_functions=bits, random_state=seed).fit(rows)
        codes = hash_rows(family, pool.blocks(), len(pool), lambda done: None)  # noqa: ARG005
        hashing, nearness = time.perf_counter() - started, nearness_of(pool, family)
        for name in names:
            started = time.perf_counter()
            structure = built_for_points(name, codes, n_compared=MOST, n_bytes=N_BYTES, seed=seed)
            search = HashedSimilarity(family, structure, nearness)
            ways.append(_Way(name, search, hashing, time.perf_counter() - started))
    return ways


def _timed(pool: Pool, ways: Sequence[_Way], warm_up: Rows, queries: Rows) -> list[Row]:
    exact = ExactSearch(nearness_of(pool, ways[0].search.family))
    contenders = [(way, *effort) for way in ways for effort in way.efforts(len(pool))]
    took = {contender: list[tuple[float, float, float]]() for contender in contenders}
    scans = []
    for number, X in enumerate((warm_up, queries)):
        for place in range(X.shape[0]):
            query = X[place : place + 1]
            nearest = exact.neighbours(query, N_NEAREST)
            scans.append((number, nearest.seconds))
            for way, n, compared in contenders:
                search = way.search
                search.n_candidates, search.n_compared = n, compared
                started = time.perf_counter()
                code = search.family.queries(query)[0]
                search.structure.found(code, n, n_compared=compared, measure=search.measure)
                lookup = time.perf_counter() - started
                found = search.neighbours(query, N_NEAREST)
                recall = float(np.isin(nearest.ids, found.ids).mean())
                if number:
                    took[way, n, compared].append((found.seconds, lookup, recall))
    exact_ms = 1000 * float(np.median([seconds for number, seconds in scans if number]))
    rows = []
    for (way, n, compared), values in took.items():
        seconds, lookups, recalls = np.array(values).T
        rows.append(
            {
                "structure": way.name,
                "bits": way.search.family.n_functions,
                "candidates": n,
                "compared": compared,
                "recall": float(recalls.mean()),
                "ms": 1000 * float(np.median(seconds)),
                "p90_ms": 1000 * float(np.quantile(seconds, 0.9)),
                "lookup_ms": 1000 * float(np.median(lookups)),
                "exact_ms": exact_ms,
                "hash_seconds": way.hashing,
                "build_seconds": way.building,
                "bytes": way.search.bytes_an_item,
            }
        )
    return rows


def show_speed(rows: Sequence[Row], plan: Plan) -> None:
    """Print a table a size, and the cheapest of each structure that finds enough."""
    for size in dict.fromkeys(row["items"] for row in rows):
        of_size = [row for row in rows if row["items"] == size]
        exact = np.mean([row["exact_ms"] for row in of_size])
        label = LABELS.get(plan.family, plan.family)
        click.echo(heading(of_size[0], f"codes of {label}; the exact scan takes {exact:.2f} ms.\n"))
        click.echo(
            f"{'structure':<12}{'bits':>5}{'compared':>10}{'candidates':>12}{'recall@10':>11}{'ms':>9}{'×':>7}"
        )
        for name in dict.fromkeys(row["structure"] for row in of_size):
            means = [
                _mean([row for row in of_size if _effort(row) == effort])
                for effort in dict.fromkeys(_effort(row) for row in of_size if row["structure"] == name)
            ]
            enough = [mean for mean in means if mean["recall"] >= ENOUGH]
            best = min(enough, key=lambda mean: mean["ms"], default=None)
            for mean in means:
                mark = f"  the cheapest from {ENOUGH:g} on" if mean is best else ""
                compared = f"{mean['compared']:,.0f}" if name in COMPARED else ""
                click.echo(
                    f"{name:<12}{mean['bits']:>5.0f}{compared:>10}{mean['candidates']:>12,.0f}{mean['recall']:>11.2f}"
                    f"{mean['ms']:>9.2f}{mean['exact_ms'] / mean['ms']:>7.0f}{mark}"
                )
    click.echo(f"\n{LEGEND.format(queries=plan.n_queries)}")


def _effort(row: Row) -> tuple[str, int, int]:
    return row["structure"], row["candidates"], row["compared"]


def _mean(rows: Sequence[Row]) -> dict[str, float]:
    """Over draws."""
    names = ("bits", "compared", "candidates", "recall", "ms", "exact_ms")
    return {name: float(np.mean([row[name] for row in rows])) for name in names}
