"""Running a comparison of hash families from start to end: measurements, results, figures and report."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from closecall.app.display.phrases import counted
from closecall.app.experiments.compare.folder import begun, time_left
from closecall.app.experiments.compare.similar.figures import draw_figures
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.plan import (
    MOST_SEARCHED,
    MOST_TIMED,
    FamilyUnit,
    SimilarityPlan,
)
from closecall.app.experiments.compare.similar.report import write_report
from closecall.app.experiments.compare.similar.results import (
    Lane,
    SimilarityResults,
    write_results,
    write_unit,
)
from closecall.core.errors import InputError
from closecall.core.experiment.similarity import Truths, measure_family
from closecall.core.numerics.blas import one_thread
from closecall.core.pool.pool import Pool


def run_comparison(folder: Path | None, out: Path, **words: Any) -> None:
    """Measure the units that are not finished yet, then write results, figures and report.

    Parameters
    ----------
    folder : Path or None
        The pool's folder; if None, the default pool, see `begun`.
    out : Path
        The comparison's folder.
    **words
        See `SimilarityPlan.of`.

    Raises
    ------
    InputError
        If no family applies to the pool, or for the reasons that `begun` names.
    """
    with begun(out, folder, partial(SimilarityPlan.of, **words)) as (plan, pool):
        with one_thread():
            _measure(plan, pool, plan.missing(out), out)
        results = SimilarityResults.read(plan, pool, out)
        if not results.lanes:
            raise InputError(
                f"no family applies to the pool {pool.path}: {'; '.join(results.refused.values())}"
            )
        write_results(results, out)
        click.echo(f"The report is {write_report(results, draw_figures(results, out), out)}.")


def _measure(plan: SimilarityPlan, pool: Pool, units: list[FamilyUnit], out: Path) -> None:
    """Measure the units one after the other, and write the results of each as soon as it is finished."""
    queries, choosing = plan.queries_of(pool)
    truths = Truths(pool, queries, plan.neighbours, MOST_TIMED)
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
            n_searched=MOST_SEARCHED,
            told=partial(_print_form, unit.family),
        )
        write_unit(out, unit, measured)
        left = time_left(start, done / len(units)) if done < len(units) else ""
        click.echo(f"{done} of {counted(len(units), 'family', 'families')}{left}")


def _print_form(family: str, form: str) -> None:
    click.echo(f"  {lane_label(Lane(family, form))}")
