"""How long finding the nearest ten takes by codes, beside the exact scan, and how many of them are found.

Queries take turns between all ways and the exact scan, so that all meet the same machine and the same caches.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.experiments.bench.draws import Row, heading, row_of
from closecall.app.experiments.bench.peers import KNOBS, PEERS, FaissIndex, loaded
from closecall.core.errors import InputError
from closecall.core.experiment.kernelized import held_out_queries
from closecall.core.hashing import FAMILIES
from closecall.core.hashing.pool import fit_rows, hash_rows
from closecall.core.numerics.blas import one_thread
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool
from closecall.core.search import built_for_points
from closecall.core.similar import ExactSearch, HashedSimilarity, Nearness, nearness_of

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
    peers : sequence of str
        Of `app.experiments.bench.peers.PEERS`.
    """

    family: str
    draws: int
    n_queries: int
    n_functions: int
    sizes: Sequence[int]
    peers: Sequence[str] = ()


class _Answer(NamedTuple):
    ids: NDArray[np.int64]
    seconds: float
    until_candidates: float


@dataclass(frozen=True, eq=False)
class _Contender:
    """A structure that looks just so far, what its row says of it, and how it is asked."""

    words: Row
    ask: Callable[[Rows], _Answer]


def measure_speed(pool: Pool, plan: Plan, done: Callable[[Row], None]) -> None:
    """Time and recall@10 of search structures, beside the exact scan.

    `done` is given a row for each size, draw, structure and effort: `ms` in all, of which `lookup_ms`
    until the candidates are known, `exact_ms` of the scan beside it, `recall`, of the family `hash_seconds`,
    and of the structure `build_seconds` and `bytes` an item. A peer has neither codes nor candidates, but a
    number of its own that tells how far it looks, `effort`.

    Raises
    ------
    InputError
        If the pool has fewer items than asked for, too few are held out, the family does not apply, or a peer
        can't be had or is no peer of it.
    """
    for peer in plan.peers:
        loaded(peer)
        if FAMILIES[plan.family].estimates != "angle" and not FAMILIES[plan.family].by_angle:
            raise InputError(
                f"{peer} finds what is near by angle, and {plan.family} looks for something else"
            )
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
            peers = _peers(part, plan)
            for seed in range(plan.draws):
                nearness, own = _own(part, plan, seed)
                for row in _timed(ExactSearch(nearness), own + peers, X[warm_up], X[places]):
                    done({**words, "draw": seed, **row})


def _own(pool: Pool, plan: Plan, seed: int) -> tuple[Nearness, list[_Contender]]:
    """What is looked for, and our structures."""
    rows, contenders = pool.rows(fit_rows(len(pool))), []
    own = ("scan", "table", "tables", "orders")
    for bits, names in ((plan.n_functions, own), (COMPACT_BITS, ("ball",))):
        started = time.perf_counter()
        family = FAMILIES[plan.family](n_functions=bits, random_state=seed)
        if names == ("ball",) and family.bits > 1:
            continue  # a ball's codes are of single bits
        family.fit(rows)
        codes = hash_rows(family, pool.blocks(), len(pool), lambda done: None)  # noqa: ARG005
        hashing, nearness = time.perf_counter() - started, nearness_of(pool, family)
        for name in names:
            started = time.perf_counter()
            structure = built_for_points(name, codes, n_compared=MOST, n_bytes=N_BYTES, seed=seed)
            built = time.perf_counter() - started
            for n, compared in _efforts(name, len(pool)):
                search = HashedSimilarity(family, structure, nearness, n_compared=compared, n_candidates=n)
                words = {
                    "structure": name,
                    "bits": bits,
                    "candidates": n,
                    "compared": compared,
                    "hash_seconds": hashing,
                    "build_seconds": built,
                    "bytes": search.bytes_an_item,
                }
                contenders.append(_Contender(words, partial(_by_codes, search)))
    return nearness, contenders


def _efforts(name: str, n_rows: int) -> list[tuple[int, int]]:
    """How many candidates are ranked, and how many codes compared; of a scan all are, a ball looks up."""
    candidates = [n for n in CANDIDATES if n <= n_rows] or [n_rows]
    factors = COMPARED.get(name, (1,))
    return [(n, factor * n) for factor in factors for n in candidates if factor * n <= max(MOST, n)]


def _by_codes(search: HashedSimilarity, query: Rows) -> _Answer:
    """Candidates are looked up once more, for the time that it takes."""
    started = time.perf_counter()
    code = search.family.queries(query)[0]
    search.structure.found(code, search.n_candidates, n_compared=search.n_compared, measure=search.measure)
    lookup = time.perf_counter() - started
    found = search.neighbours(query, N_NEAREST)
    return _Answer(found.ids, found.seconds, lookup)


def _peers(pool: Pool, plan: Plan) -> list[_Contender]:
    contenders = []
    for name in plan.peers:
        index = FaissIndex(name, pool)
        words = {"structure": name, "build_seconds": index.build_seconds, "bytes": index.n_bytes / len(pool)}
        for effort in index.efforts:
            contenders.append(_Contender({**words, "effort": effort}, partial(_by_peer, index, effort)))
    return contenders


def _by_peer(index: FaissIndex, effort: int, query: Rows) -> _Answer:
    started = time.perf_counter()
    ids = index.find(query, N_NEAREST, effort)
    seconds = time.perf_counter() - started
    return _Answer(ids, seconds, seconds)


def _timed(exact: ExactSearch, contenders: Sequence[_Contender], warm_up: Rows, queries: Rows) -> list[Row]:
    took = [list[tuple[float, float, float]]() for _ in contenders]
    scans = []
    for X, counts in ((warm_up, False), (queries, True)):
        for place in range(X.shape[0]):
            query = X[place : place + 1]
            nearest = exact.neighbours(query, N_NEAREST)
            answers = [contender.ask(query) for contender in contenders]
            if not counts:
                continue
            scans.append(nearest.seconds)
            for own, answer in zip(took, answers, strict=True):
                recall = float(np.isin(nearest.ids, answer.ids).mean())
                own.append((answer.seconds, answer.until_candidates, recall))
    exact_ms = 1000 * float(np.median(scans))
    rows = []
    for contender, values in zip(contenders, took, strict=True):
        seconds, lookups, recalls = np.array(values).T
        times = {
            "recall": float(recalls.mean()),
            "ms": 1000 * float(np.median(seconds)),
            "p90_ms": 1000 * float(np.quantile(seconds, 0.9)),
            "lookup_ms": 1000 * float(np.median(lookups)),
            "exact_ms": exact_ms,
        }
        rows.append({**contender.words, **times})
    return rows


def show_speed(rows: Sequence[Row], plan: Plan) -> None:
    """Print a table a size, and the cheapest of each structure that finds enough."""
    for size in dict.fromkeys(row["items"] for row in rows):
        of_size = [row for row in rows if row["items"] == size]
        exact = np.mean([row["exact_ms"] for row in of_size])
        label = FAMILY_LABELS.get(plan.family, plan.family)
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
                click.echo(
                    f"{name:<12}{_looked(name, mean):>27}{mean['recall']:>11.2f}{mean['ms']:>9.2f}"
                    f"{mean['exact_ms'] / mean['ms']:>7.0f}{mark}"
                )
    click.echo(f"\n{LEGEND.format(queries=plan.n_queries)}")


def _looked(name: str, mean: Row) -> str:
    """How far it looked: bits, codes compared and candidates, or a peer's own number."""
    if name in PEERS:
        return f"{KNOBS[name]} {mean['effort']:.0f}" if KNOBS[name] else ""
    compared = f"{mean['compared']:,.0f}" if name in COMPARED else ""
    return f"{mean['bits']:.0f}{compared:>10}{mean['candidates']:>12,.0f}"


def _effort(row: Row) -> tuple[Any, ...]:
    return tuple(row.get(name) for name in ("structure", "candidates", "compared", "effort"))


def _mean(rows: Sequence[Row]) -> Row:
    """Over draws."""
    names = ("bits", "compared", "candidates", "effort", "recall", "ms", "exact_ms")
    return {name: float(np.mean([row[name] for row in rows])) for name in names if name in rows[0]}
