"""A comparison, from its options to its report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np

from closecall.app.display.phrases import duration
from closecall.app.experiments.compare.claims import Measures
from closecall.app.experiments.compare.figures import draw_figures, first_pictures
from closecall.app.experiments.compare.folder import begun, print_size
from closecall.app.experiments.compare.lanes import fit_lanes
from closecall.app.experiments.compare.peers import make_peer
from closecall.app.experiments.compare.plan import STRATEGIES, Plan, chosen_classes
from closecall.app.experiments.compare.report import write_report
from closecall.app.experiments.compare.results import Results, write_results
from closecall.app.experiments.compare.workers import run_units
from closecall.core.errors import InputError
from closecall.core.linear.svm import ClassWeight
from closecall.core.pool.pool import Pool
from closecall.core.selection import covering, strategy_from
from closecall.core.simulation.drawing import MOST_CLASSES, SEEN_CLASSES, ItemsByClass

IMAGE_SECONDS, DOCUMENT_SECONDS = 5.0, 1.0
"""Seconds that an annotator needs for an image and for a document, as the paper assumes."""


@dataclass(frozen=True)
class Wish:
    """Options of the command, with classes and pool as given; see `plan.Plan`."""

    pool: Path | None
    classes: tuple[str, ...]
    most_classes: int | None
    runs: int
    iterations: int
    strategies: tuple[str, ...]
    peers: tuple[str, ...]
    first: int
    C: float
    class_weight: ClassWeight
    noise: float
    limit: float
    seed: int


def run_comparison(wish: Wish, out: Path, *, n_workers: int | None, label_seconds: float | None) -> None:
    """Run the unfinished units, then write results, figures and report; see `command`."""
    with begun(out, wish.pool, partial(plan_of, wish)) as (plan, pool):
        missing = plan.missing(out)
        n_workers = n_workers or os.cpu_count() or 1
        print_size(_size(plan, pool), plan, len(missing))
        if missing:
            fit_lanes(plan, pool, out, click.echo)
            with _shown(len(missing), plan.iterations) as advance:
                run_units(plan, missing, out, n_workers, advance)
        if label_seconds is None:
            label_seconds = DOCUMENT_SECONDS if pool.holds_texts else IMAGE_SECONDS
        results = Results.read(plan, pool, out)
        write_results(results, out, label_seconds=label_seconds)
        measures = Measures(results, label_seconds)
        figures = draw_figures(measures, first_pictures(measures), out)
        click.echo(f"The report is {write_report(measures, figures, out)}.")


def plan_of(wish: Wish, pool: Pool) -> Plan:
    """Return the plan for the requested options.

    Raises
    ------
    InputError
        If the pool is not suitable for races.
    """
    items = ItemsByClass(pool, wish.first)
    if len(items) < len(pool):
        raise InputError(
            f"the class of {len(pool) - len(items)} items of the pool {pool.path} is unknown: "
            f"answers can't be simulated"
        )
    seen = min(len(items.classes), SEEN_CLASSES if len(items.classes) > MOST_CLASSES else MOST_CLASSES)
    needed = seen * wish.first + wish.iterations
    if needed > len(pool):
        raise InputError(
            f"{wish.iterations} labels after {seen} × {wish.first} first ones need {needed} items, "
            f"the pool {pool.path} has {len(pool)}"
        )
    if not (pool.held_out.truth >= 0).any():
        raise InputError(f"the pool {pool.path} has no held-out items of known class to measure AUROC on")
    classes = chosen_classes(pool, items.classes.tolist(), wish.classes)
    if wish.most_classes is not None and not wish.classes and len(classes) > wish.most_classes:
        drawn = items.positives(np.random.default_rng(wish.seed), wish.most_classes)
        classes = tuple(sorted(drawn))
    strategies = tuple(dict.fromkeys(wish.strategies or covering(STRATEGIES, pool)))
    for word in strategies:
        strategy = strategy_from(word, random_state=wish.seed)
        strategy.check()
        strategy.check_pool(pool)
    for name in wish.peers:
        make_peer(name).check()
    return Plan(
        pool=str(pool.path),
        pool_digest=pool.digest,
        classes=classes,
        runs=wish.runs,
        iterations=wish.iterations,
        strategies=strategies,
        peers=tuple(dict.fromkeys(wish.peers)),
        first=wish.first,
        C=wish.C,
        class_weight=wish.class_weight,
        noise=wish.noise,
        seed=wish.seed,
        limit=wish.limit,
    )


def _size(plan: Plan, pool: Pool) -> str:
    return (
        f"{pool.title}: {len(pool):,} items; {len(plan.classes)} × {plan.runs} races of {len(plan.names)} "
        f"strategies over {plan.iterations} labels."
    )


@contextmanager
def _shown(n_units: int, n_rounds: int) -> Iterator[Callable[[int, int], None]]:
    """Show progress with an estimate: a bar on a terminal, otherwise a line per finished unit."""
    if sys.stdout.isatty():
        bar: Any = click.progressbar(length=n_units * n_rounds, label="Racing")
        with bar:
            yield lambda rounds, _: bar.update(max(0, min(rounds, bar.length) - bar.pos))
        return
    start, last = perf_counter(), 0

    def advance(rounds: int, finished: int) -> None:
        nonlocal last
        if finished > last:
            last = finished
            left = (perf_counter() - start) * (n_units * n_rounds / max(rounds, 1) - 1)
            ending = f", about {duration(left)} left" if finished < n_units else ""
            click.echo(f"{finished} of {n_units} races{ending}")

    yield advance
