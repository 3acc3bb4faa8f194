"""Time and recall of finding the ten nearest items by codes: figures 2 and 4 of the survey [1]_.

For each query, every search structure and the exact scan are timed one after the other, so that they run
under the same conditions.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.peers import KNOBS, PEERS, FaissIndex, loaded
from closecall.app.experiments.bench.report import heading, show_table
from closecall.app.experiments.bench.similar.balls import RADII, measure_balls, show_balls
from closecall.app.experiments.bench.similar.drawn import Drawn, create_folder
from closecall.app.experiments.bench.similar.efforts import ENOUGH, by_effort, by_structure, cheapest, mean_of
from closecall.app.experiments.bench.similar.speed_figures import (
    FIGURE,
    draw_speed,
    lines_by_items,
    lines_by_radius,
)
from closecall.core.errors import InputError
from closecall.core.experiment.families import families_named
from closecall.core.experiment.queries import Items, held_out_queries
from closecall.core.hashing import FAMILIES, SimilarityHasher
from closecall.core.hashing.pool import fit_rows, hash_rows
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool
from closecall.core.search import built_for_points
from closecall.core.similar import ExactSearch, HashedSimilarity, Nearness, nearness_of

N_NEAREST = 10

COMPACT_BITS = 30
"""Number of bits of the compact codes. A Hamming ball and a second scan search these codes."""

STRUCTURES = ("scan", "table", "tables", "orders")
COMPACT = ("scan", "ball")
"""Structures that search compact codes. `STRUCTURES` search codes of the requested length."""

CANDIDATES = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000)
"""Numbers of candidates to rank exactly; each number is a search effort."""

COMPARED = {"table": (20, 80), "tables": (5, 20), "orders": (5, 20)}
"""Numbers of codes to compare per candidate, for structures with this parameter.

The numbers are larger for the structure "table", in which comparing a code costs less, because the codes of a
bucket are stored next to each other.
"""

N_BYTES = 200_000_000
"""Memory in bytes for bucket tables or permuted orders, in addition to the codes."""

MOST = 200_000
"""Maximum number of codes to compare, for structures with this parameter."""

WARM_UP = 3
"""Number of queries to answer before timing starts."""


class _Answer(NamedTuple):
    ids: NDArray[np.int64]
    seconds: float
    until_candidates: float


@dataclass(frozen=True, eq=False)
class _Contender:
    """A structure at one search effort: the columns of its row, and the function that answers a query."""

    words: Row
    ask: Callable[[Rows], _Answer]


@dataclass(frozen=True)
class Speed(Drawn):
    """Measurement of the time and recall@10 of search structures, in comparison with the exact scan.

    Parameters
    ----------
    draws, queries, bits
        See `Figure`; a Hamming ball uses codes of `COMPACT_BITS`.
    families : tuple of str
        At most one name in `core.hashing.FAMILIES`, of a family that needs no labels. If empty, the first
        family, LSH.
    sizes : tuple of int
        Pool sizes to measure: only the first items of the pool are used. All items if empty.
    peers : tuple of str
        Names in `app.experiments.bench.peers.PEERS`.
    radii : tuple of int
        Radii in bits of the Hamming balls to measure at the largest size. If empty, `balls.RADII` if figures
        are drawn, else none.
    figures
        See `Drawn`.
    """

    name: ClassVar[str] = "speed"

    families: tuple[str, ...]
    sizes: tuple[int, ...]
    peers: tuple[str, ...]
    radii: tuple[int, ...]

    def __post_init__(self) -> None:
        """See `Drawn.__post_init__`.

        Raises
        ------
        InputError
            If there is more than one family or no such family, if Hamming balls are requested for codes with
            several bits per function, or if `Drawn.__post_init__` raises it.
        """
        super().__post_init__()
        if len(self.families) > 1:
            raise InputError(f"one family is measured for speed, got {', '.join(self.families)}")
        bits = self._unfitted(1, 0).bits
        if self.ball_radii and bits > 1:
            raise InputError(
                f"Hamming balls of a radius, as in figure 4, need codes of 1 bit per function, and those of "
                f"{self.family} have {bits}"
            )

    @property
    def family(self) -> str:
        """Name of the hash family."""
        return families_named(self.families)[0]

    @property
    def ball_radii(self) -> list[int]:
        """Radii of Hamming balls to measure, ascending."""
        return sorted(set(self.radii or (RADII if self.figures is not None else ())))

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Yield the rows of each size and draw.

        There is a row for each structure and search effort, with ``paper_figure`` "2" and these columns:

        - ``ms`` and ``p90_ms``: median and 90th percentile of the time of a query;
        - ``lookup_ms``: median time of hashing the query and finding the candidates; for a peer (faiss),
          median time of the whole query;
        - ``exact_ms``: median time of the exact scan;
        - ``recall``: mean recall@10;
        - ``hash_seconds``: time of fitting the family and hashing all items;
        - ``build_seconds`` and ``bytes``: time to build the structure, and its size per item;
        - ``effort``, only for peers: value of the peer's own search parameter. Peers have no columns about
          codes and candidates.

        At the largest size, the rows of `measure_balls` follow.

        Raises
        ------
        InputError
            If the pool has fewer items than requested or too few held-out items, if the family does not
            apply, if a peer is not installed, if peers are requested for a family that does not search by
            angle, or if the folder of figures cannot be created.
        """
        create_folder(self.figures)
        for peer in self.peers:
            loaded(peer)
            if FAMILIES[self.family].estimates != "angle" and not FAMILIES[self.family].by_angle:
                raise InputError(
                    f"{peer} finds what is near by angle, and {self.family} looks for something else"
                )
        if FAMILIES[self.family].needs_labels:
            raise InputError(f"speed is measured of families that need no labels, {self.family} needs some")
        sizes = sorted(set(self.sizes)) or [len(pool)]
        if not N_NEAREST <= sizes[0] <= sizes[-1] <= len(pool):
            raise InputError(
                f"items must be from {N_NEAREST} to the {len(pool):,} of the pool {pool.path}, "
                f"got {', '.join(f'{size:,}' for size in sizes)}"
            )
        queries, warm_up = held_out_queries(pool, self.queries, WARM_UP)
        for size in sizes:
            part = pool.prefix(size)
            about = {**self.about(part), "family": self.family}
            peers = self._peers(part)
            for seed in range(self.draws):
                nearness, own = self._structures(part, seed)
                rows = _timed(ExactSearch(nearness), own + peers, warm_up, queries)
                if size == sizes[-1] and self.ball_radii:
                    fitted = partial(self._fitted, part.rows(fit_rows(size)), seed)
                    rows += measure_balls(part, fitted, self.ball_radii, warm_up, queries)
                yield [{**about, "draw": seed, **row} for row in rows]

    def _unfitted(self, bits: int, seed: int) -> SimilarityHasher:
        return FAMILIES[self.family](n_functions=bits, random_state=seed)

    def _fitted(self, rows: Rows, seed: int, bits: int) -> SimilarityHasher:
        return self._unfitted(bits, seed).fit(rows)

    def _structures(self, pool: Pool, seed: int) -> tuple[Nearness, list[_Contender]]:
        """Return the family's measure of similarity, and the search structures, each at several efforts."""
        rows, contenders = pool.rows(fit_rows(len(pool))), []
        for bits, names in ((self.n_bits, STRUCTURES), (COMPACT_BITS, COMPACT)):
            if names == COMPACT and self._unfitted(bits, seed).bits > 1:
                continue  # a Hamming ball needs codes with one bit per function
            started = time.perf_counter()
            family = self._fitted(rows, seed, bits)
            codes = hash_rows(family, pool.blocks(), len(pool), lambda done: None)  # noqa: ARG005
            hashing, nearness = time.perf_counter() - started, nearness_of(pool, family)
            for name in names:
                started = time.perf_counter()
                structure = built_for_points(name, codes, n_compared=MOST, n_bytes=N_BYTES, seed=seed)
                built = time.perf_counter() - started
                for n, compared in _efforts(name, len(pool)):
                    search = HashedSimilarity(
                        family, structure, nearness, n_compared=compared, n_candidates=n
                    )
                    words = {
                        "paper_figure": FIGURE,
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

    def _peers(self, pool: Pool) -> list[_Contender]:
        contenders = []
        for name in self.peers:
            index = FaissIndex(name, pool)
            words = {
                "paper_figure": FIGURE,
                "structure": name,
                "build_seconds": index.build_seconds,
                "bytes": index.n_bytes / len(pool),
            }
            for effort in index.efforts:
                contenders.append(_Contender({**words, "effort": effort}, partial(_by_peer, index, effort)))
        return contenders

    def show_tables(self, rows: Sequence[Row]) -> None:
        """See `Figure.show_tables`; prints a table for each size, with a mark at the effort of `cheapest`."""
        of_structures, of_balls = _apart(rows)
        for size in dict.fromkeys(row["items"] for row in of_structures):
            of_size = [row for row in of_structures if row["items"] == size]
            exact = np.mean([row["exact_ms"] for row in of_size])
            label = FAMILY_LABELS.get(self.family, self.family)
            lines = []
            for (name, _), own in by_structure(of_size).items():
                efforts = by_effort(own)
                best = cheapest(efforts)
                for effort in efforts:
                    mean = mean_of(effort)
                    cells = [
                        f"{mean['recall']:.2f}",
                        f"{mean['ms']:.2f}",
                        f"{mean['exact_ms'] / mean['ms']:.0f}",
                        f"the cheapest from {ENOUGH:g} on" if effort is best else "",
                    ]
                    lines.append([name, *_effort(name, mean), *cells])
            click.echo(heading(of_size[0], f"codes of {label}; the exact scan takes {exact:.2f} ms.\n"))
            show_table(["structure", "bits", "compared", "candidates", "recall@10", "ms", "×", ""], lines)
        if of_balls:
            show_balls(of_balls)

    def draw(self, rows: Sequence[Row], folder: Path) -> str:
        """See `Drawn.draw`."""
        of_structures, of_balls = _apart(rows)
        draw_speed(lines_by_items(of_structures) + lines_by_radius(of_balls), folder)
        return "Bars are 95 % intervals over draws."

    def legend(self, rows: Sequence[Row]) -> str:  # noqa: ARG002
        """See `Figure.legend`."""
        return (
            f"Milliseconds in the median over {self.queries:,} held-out queries, one thread, all structures "
            "and the exact scan by turns; × is the exact scan's time over it. The likeliest rows of each "
            "structure are ranked exactly."
        )


def _efforts(name: str, n_rows: int) -> list[tuple[int, int]]:
    """Return the search efforts of a structure as pairs: number of candidates, and number of codes compared.

    Scans and balls ignore the second number.
    """
    candidates = [n for n in CANDIDATES if n <= n_rows] or [n_rows]
    factors = COMPARED.get(name, (1,))
    return [(n, factor * n) for factor in factors for n in candidates if factor * n <= max(MOST, n)]


def _by_codes(search: HashedSimilarity, query: Rows) -> _Answer:
    """Search by codes. Before the search, look up the candidates separately, to time the lookup alone."""
    started = time.perf_counter()
    code = search.family.queries(query)[0]
    search.structure.found(code, search.n_candidates, n_compared=search.n_compared, measure=search.measure)
    lookup = time.perf_counter() - started
    found = search.neighbours(query, N_NEAREST)
    return _Answer(found.ids, found.seconds, lookup)


def _by_peer(index: FaissIndex, effort: int, query: Rows) -> _Answer:
    started = time.perf_counter()
    ids = index.find(query, N_NEAREST, effort)
    seconds = time.perf_counter() - started
    return _Answer(ids, seconds, seconds)


def _timed(exact: ExactSearch, contenders: Sequence[_Contender], warm_up: Items, queries: Items) -> list[Row]:
    took = [list[tuple[float, float, float]]() for _ in contenders]
    scans = []
    for asked, counts in ((warm_up, False), (queries, True)):
        for query in asked.first(len(asked)):
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


def _effort(name: str, mean: Row) -> tuple[str, str, str]:
    """Return three cells of a table that describe a search effort: bits, codes compared, and candidates.

    For a peer (faiss), the first two cells are empty, and the third has the peer's own search parameter.
    """
    if name in PEERS:
        return "", "", f"{KNOBS[name]} {mean['effort']:.0f}" if KNOBS[name] else ""
    compared = f"{mean['compared']:,.0f}" if name in COMPARED else ""
    return f"{mean['bits']:.0f}", compared, f"{mean['candidates']:,.0f}"


def _apart(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the rows about structures, and the rows about balls of fixed radius."""
    return [row for row in rows if "radius" not in row], [row for row in rows if "radius" in row]
