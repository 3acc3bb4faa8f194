"""A comparison of similarity families, from its options to its report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

import click

from closecall.app.display.phrases import duration
from closecall.app.experiments.compare.folder import begun, print_size
from closecall.app.experiments.compare.similar.figures import draw_figures
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.plan import Plan, Unit
from closecall.app.experiments.compare.similar.report import write_report
from closecall.app.experiments.compare.similar.results import Lane, Results, write_results, write_unit
from closecall.core.errors import InputError
from closecall.core.experiment.families import families_named
from closecall.core.experiment.similarity import Truths, measure_family
from closecall.core.mercer import kernel_from
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool

SEARCHED, TIMED = 200, 25
"""Maximum number of queries for the search structures, and for the exact scan one by one."""


@dataclass(frozen=True)
class Wish:
    """Options of the command, with the pool as given; see `app.experiments.compare.similar.plan.Plan`."""

    pool: Path | None
    families: tuple[str, ...]
    bits: tuple[int, ...]
    draws: int
    queries: int
    neighbours: int
    share: float
    kernel: str
    landmarks: int
    labels: int
    seed: int


def run_comparison(wish: Wish, out: Path) -> None:
    """Measure the missing units, then write results, figures and report; see the command."""
    with begun(out, wish.pool, partial(plan_of, wish)) as (plan, pool):
        missing = plan.missing(out)
        print_size(_size(plan, pool), plan, len(missing))
        with one_thread():
            _measure(plan, pool, missing, out)
        results = Results.read(plan, pool, out)
        if not results.lanes:
            raise InputError(
                f"no family applies to the pool {pool.path}: {'; '.join(results.refused.values())}"
            )
        write_results(results, out)
        click.echo(f"The report is {write_report(results, draw_figures(results, out), out)}.")


def plan_of(wish: Wish, pool: Pool) -> Plan:
    """Return the plan for the requested options.

    Raises
    ------
    InputError
        If there is no such family or kernel, or the pool has too few items.
    """
    families = families_named(wish.families)
    if len(pool) < wish.neighbours:
        raise InputError(
            f"{wish.neighbours} neighbours are to be found, and the pool {pool.path} has {len(pool)} items"
        )
    kernel_from(wish.kernel)
    plan = Plan(
        pool=str(pool.path),
        pool_digest=pool.digest,
        families=families,
        bits=tuple(sorted(set(wish.bits))),
        draws=wish.draws,
        queries=wish.queries,
        neighbours=wish.neighbours,
        share=wish.share,
        kernel=wish.kernel,
        landmarks=wish.landmarks,
        labels=wish.labels,
        seed=wish.seed,
    )
    plan.queries_of(pool)
    return plan


def _measure(plan: Plan, pool: Pool, units: list[Unit], out: Path) -> None:
    """Measure the units one after the other, and write each as soon as it is finished."""
    queries, choosing = plan.queries_of(pool)
    truths = Truths(pool, queries, plan.neighbours, TIMED)
    draws = {unit.draw: plan.draw(unit.draw, pool, choosing) for unit in units}
    start = perf_counter()
    for done, unit in enumerate(units, 1):
        measured = measure_family(
            unit.family,
            pool,
            draws[unit.draw],
            truths,
            bits=plan.bits,
            retrieved=plan.retrieved(len(pool)),
            n_searched=SEARCHED,
            told=partial(_print_form, unit.family),
        )
        write_unit(out, unit, measured)
        left = (perf_counter() - start) * (len(units) / done - 1)
        ending = f", about {duration(left)} left" if done < len(units) else ""
        click.echo(f"{done} of {len(units)} families{ending}")


def _size(plan: Plan, pool: Pool) -> str:
    return (
        f"{pool.title}: {len(pool):,} items; {len(plan.families)} families × {plan.draws} draws, "
        f"{plan.queries:,} queries."
    )


def _print_form(family: str, form: str) -> None:
    click.echo(f"  {lane_label(Lane(family, form))}")
