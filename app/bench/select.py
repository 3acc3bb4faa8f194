"""Query strategies side by side on one pool: what a selection costs, and how near to the hyperplane it comes.

Every hyperplane is put to every strategy before the next one is, in an order that changes, so that all of
them meet the same caches and the same noise, and a ratio compares times taken a moment apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter
from typing import Any

import click
import numpy as np
from threadpoolctl import threadpool_limits

from core.errors import InputError
from core.experiment.planes import Plane, one_vs_all
from core.experiment.rank import margins_of, median_rank_of_best, rank_of
from core.pool import Pool
from core.search import STRUCTURES
from core.selection import make_strategy, strategy_class, strategy_names
from core.selection.hashed import HashedSearch
from core.svm import ClassWeight

REFERENCE = "exhaustive"
BLAS_SCAN = "blas-scan"

Answer = tuple[int, int]
"""The selected item's id, and how many items were scored."""


@dataclass(frozen=True)
class Setting:
    """How the hyperplanes are trained.

    Parameters
    ----------
    labels_per_class : int
        Drawn at random from every class.
    C : float
    class_weight : "balanced" or None
    seed : int
        Draws the labels; seeds the indexes, too.
    """

    labels_per_class: int = 5
    C: float = 1.0
    class_weight: ClassWeight = None
    seed: int = 0


@dataclass
class Contender:
    """A strategy that takes part, and what was measured of it, query by query."""

    name: str
    select: Callable[[Plane], Answer]
    structure: str | None = None
    fit_seconds: float = 0.0
    ms: list[float] = field(default_factory=list)
    scored: list[int] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    ranks: list[int] = field(default_factory=list)


def measure_selection(
    pool: Pool, names: Sequence[str] | None, setting: Setting, *, queries: int = 40, threads: int = 1
) -> list[dict[str, Any]]:
    """Select one item for each of `queries` hyperplanes with each strategy.

    Parameters
    ----------
    pool : Pool
        Its truth must be known.
    names : sequence of str or None
        Strategies; ``h-hash:orders`` names a search structure other than the usual one. All, with all
        structures, by default. The exhaustive scan and a bare BLAS product always take part.
    setting : Setting
        How the hyperplanes are trained.
    queries : int
        How many hyperplanes.
    threads : int
        Threads that BLAS may use in one call.

    Returns
    -------
    list of dict
        One row a strategy. ``median_ms`` and ``p95_ms`` are wall-clock times of one selection;
        ``ratio_to_exhaustive`` is the median over the hyperplanes of time / time of the exhaustive scan;
        ``rank_median`` counts nearer items by brute force;
        ``rank_of_random_same_scored`` is the median rank that as many items drawn at random would have.
    """
    click.echo(f"{pool.title}: {len(pool):,} items, {pool.n_features} features.")
    planes = one_vs_all(
        pool,
        queries,
        labels_per_class=setting.labels_per_class,
        C=setting.C,
        class_weight=setting.class_weight,
        seed=setting.seed,
    )
    with threadpool_limits(threads, user_api="blas"):
        contenders = [_contender(name, pool, setting.seed) for name in _names(names)]
        contenders.append(Contender(BLAS_SCAN, partial(_blas_scan, pool)))
        for contender in contenders:
            contender.select(planes[0])
        with click.progressbar(planes, label="Selecting", show_pos=True) as bar:
            for number, plane in enumerate(bar):
                first = number % len(contenders)
                for contender in contenders[first:] + contenders[:first]:
                    _measure(contender, pool, plane)
    reference = next(contender for contender in contenders if contender.name == REFERENCE)
    return [_row(contender, reference, pool, threads) for contender in contenders]


def _names(names: Sequence[str] | None) -> list[str]:
    """The strategies to fit, the exhaustive one among them; a colon separates a structure."""
    if names is None:
        names = [
            f"{name}:{structure}" if structure else name
            for name in strategy_names()
            for structure in (STRUCTURES if issubclass(strategy_class(name), HashedSearch) else (None,))
        ]
    for name in names:
        strategy, _, structure = name.partition(":")
        hashed = issubclass(strategy_class(strategy), HashedSearch)
        if structure and not (hashed and structure in STRUCTURES):
            allowed = " or :".join(STRUCTURES)
            raise InputError(f"a hashing strategy can be followed by :{allowed}, got {name!r}")
    return list(dict.fromkeys([REFERENCE, *names]))


def _contender(name: str, pool: Pool, seed: int) -> Contender:
    plain, _, structure = name.partition(":")
    usual = getattr(make_strategy(plain), "structure", None)
    strategy = make_strategy(plain, random_state=seed, **({"structure": structure} if structure else {}))
    click.echo(f"Fitting {name} …", nl=False)
    start = perf_counter()
    strategy.fit(pool)
    seconds = perf_counter() - start
    click.echo(f" {seconds:.1f} s")

    def select(plane: Plane) -> Answer:
        found = strategy.select(plane.hyperplane, exclude=plane.labeled, seed=seed)
        return int(found.ids[0]), found.scored

    used = getattr(strategy, "structure", None)
    return Contender(plain if used == usual else name, select, used, seconds)


def _blas_scan(pool: Pool, plane: Plane) -> Answer:
    """What anyone could write: a matrix–vector product in float32, and the smallest absolute value."""
    w = plane.hyperplane.normal.astype(np.float32)
    scores = np.empty(len(pool), dtype=np.float32)
    for first, X in pool.blocks():
        np.dot(X, w, out=scores[first : first + len(X)])
    scores += np.float32(plane.hyperplane.bias)
    np.abs(scores, out=scores)
    scores[pool.row_of(plane.labeled)] = np.inf
    return int(pool.ids[scores.argmin()]), len(pool)


def _measure(contender: Contender, pool: Pool, plane: Plane) -> None:
    start = perf_counter()
    item, scored = contender.select(plane)
    contender.ms.append(1000 * (perf_counter() - start))
    contender.scored.append(scored)
    contender.margins.append(float(margins_of(pool.rows_of([item]), plane.hyperplane)[0]))
    contender.ranks.append(rank_of(pool, plane.hyperplane, item, exclude=plane.labeled))


def _row(contender: Contender, reference: Contender, pool: Pool, threads: int) -> dict[str, Any]:
    scored = float(np.median(contender.scored))
    return {
        "strategy": contender.name,
        "structure": contender.structure,
        "items": len(pool),
        "threads": threads,
        "queries": len(contender.ms),
        "median_ms": float(np.median(contender.ms)),
        "p95_ms": float(np.percentile(contender.ms, 95)),
        "margin_median": float(np.median(contender.margins)),
        "rank_median": float(np.median(contender.ranks)),
        "rank_of_random_same_scored": median_rank_of_best(scored, len(pool)),
        "scored_median": scored,
        "ratio_to_exhaustive": float(np.median(np.divide(contender.ms, reference.ms))),
        "fit_seconds": contender.fit_seconds,
    }
