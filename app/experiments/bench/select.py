"""Query strategies side by side on one pool: what a selection costs, and how near to the hyperplane it comes.

Every hyperplane is put to every strategy before the next one is, each time in another order, so that all of
them meet the same caches and the same noise, and a ratio compares times taken a moment apart. The random
subsample is measured among them (`app.experiments.bench.subsample`), so that each can be compared with the
one that takes as long.

A hyperplane of a session comes with what the strategy remembers of the one before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from threadpoolctl import threadpool_limits

from closecall.app.experiments.bench.contenders import Contender, contenders
from closecall.app.experiments.bench.results import Judged, Results, Row
from closecall.app.experiments.bench.rounds import Round, rounds_of
from closecall.app.experiments.bench.subsample import EqualTimeSubsample
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce, margins_of
from closecall.core.experiment.planes import Plane
from closecall.core.pool.pool import Pool


@dataclass(frozen=True)
class Plan:
    """What is measured, and how.

    Parameters
    ----------
    words : sequence of str
        Strategies, see `core.selection.words`. The exhaustive scan and a bare BLAS product always take part.
    sizes : sequence of int
        Numbers of items: so many first rows of the pool.
    queries : int
        Hyperplanes of each setting, at most.
    threads : int
        That BLAS may use in one call.
    warm_up : int
        Hyperplanes that are asked before anything is timed.
    cold : bool
        Whether sessions remember nothing.
    indexes : Path or None
        Folder in which indexes are kept from one run to the next.
    seed : int
        For whatever is random: strategies, subsamples, the order of measuring.
    """

    words: Sequence[str]
    sizes: Sequence[int]
    queries: int = 40
    threads: int = 1
    warm_up: int = 3
    cold: bool = False
    indexes: Path | None = None
    seed: int = 0


def measure_selection(
    pool: Pool, planes: Sequence[Plane], plan: Plan, done: Callable[[list[Row]], None]
) -> list[Row]:
    """Select one item for each hyperplane with each strategy.

    Parameters
    ----------
    pool : Pool
        All of it; `Plan.sizes` says what is measured.
    planes : sequence of Plane
        Of any number of settings, sessions in the order of their rounds.
    plan : Plan
        What is measured.
    done : callable
        Is given the rows of each setting as soon as it has been measured.

    Returns
    -------
    list of dict
        One row a strategy, setting and number of items, see `Results.row`. Where there are several settings
        of single hyperplanes, or of sessions, further rows are about all of them together.

    Raises
    ------
    InputError
        If the pool has fewer items than asked for, or a strategy cannot be had.
    """
    for size in plan.sizes:
        if not 1 <= size <= len(pool):
            raise InputError(f"--items must be from 1 to {len(pool)} for the pool {pool.path}, got {size}")
    settings: dict[str, list[Plane]] = {}
    for plane in planes:
        settings.setdefault(plane.setting, []).append(plane)
    rows: list[Row] = []
    with threadpool_limits(plan.threads, user_api="blas"):
        for size in plan.sizes:
            rows += _measure_size(pool.prefix(size), settings, plan, done)
    return rows


def _measure_size(
    pool: Pool, settings: dict[str, list[Plane]], plan: Plan, done: Callable[[list[Row]], None]
) -> list[Row]:
    taking_part = contenders(plan.words, pool, plan.indexes, plan.seed)
    _warm_up(pool, taking_part, next(iter(settings.values()))[: plan.warm_up])
    rows: list[Row] = []

    def tell(results: Results) -> None:
        found = [
            {
                "data": pool.path.resolve().name,
                "items": len(pool),
                "dim": pool.n_features,
                "threads": plan.threads,
                "warm_up": plan.warm_up,
                "cold": plan.cold,
                "fit_seconds": contender.fit_seconds,
                **results.row(contender.word, plan.seed),
            }
            for contender in taking_part
        ]
        rows.extend(found)
        done(found)

    kinds: dict[str, list[Results]] = {}
    for setting, planes in settings.items():
        results = _measure(pool, taking_part, setting, rounds_of(planes, plan.queries), plan)
        kinds.setdefault("all sessions" if planes[0].session >= 0 else "all single", []).append(results)
        tell(results)
    for kind, parts in kinds.items():
        if len(parts) > 1:
            tell(Results.joined(kind, parts))
    return rows


def _warm_up(pool: Pool, taking_part: Sequence[Contender], planes: Sequence[Plane]) -> None:
    """Have kernels compiled, and the pool and the indexes mapped into this process."""
    for plane in planes:
        pool.scores(plane.hyperplane)
        for contender in taking_part:
            memory, _ = contender.remember(plane.hyperplane)
            contender.answer(plane, None)
            contender.answer(plane, memory)


def _measure(
    pool: Pool, taking_part: Sequence[Contender], setting: str, rounds: Sequence[Round], plan: Plan
) -> Results:
    rng = np.random.default_rng(plan.seed)
    subsample = EqualTimeSubsample(pool, plan.seed, plan.threads)
    results = Results(setting, subsample, judged={contender.word: [] for contender in taking_part})
    with click.progressbar(rounds, label=f"{setting}, {len(pool):,} items", show_pos=True) as bar:
        for plane, before in bar:
            results.sessions.append(plane.session)
            memories: list[tuple[object, float]] = [(None, 0.0)] * len(taking_part)
            if before is not None and not plan.cold:
                memories = [contender.remember(before) for contender in taking_part]
            answers = {}
            for place in rng.permutation(len(taking_part) + 1).tolist():
                if place == len(taking_part):
                    subsample.time(plane.hyperplane)
                else:
                    answers[place] = taking_part[place].answer(plane, memories[place][0])
            truth = BruteForce(pool, plane.hyperplane, exclude=plane.labeled)
            subsample.rank(truth.margins)
            for place, contender in enumerate(taking_part):
                item = answers[place].item
                margin = float(margins_of(pool.rows_of([item]), plane.hyperplane)[0])
                results.judged[contender.word].append(
                    Judged(answers[place], memories[place][1], margin, truth.rank(item))
                )
    return results
