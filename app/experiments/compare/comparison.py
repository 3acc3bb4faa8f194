"""Running a comparison of strategies from start to end: races, results, figures and report."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from closecall.app.display.phrases import counted
from closecall.app.experiments.compare.figures import draw_figures, first_pictures
from closecall.app.experiments.compare.folder import begun, time_left
from closecall.app.experiments.compare.lanes import fit_lanes
from closecall.app.experiments.compare.measures import Measures
from closecall.app.experiments.compare.race_plan import RacePlan
from closecall.app.experiments.compare.report import write_report
from closecall.app.experiments.compare.results import RaceResults, write_results
from closecall.app.experiments.compare.workers import run_units

IMAGE_SECONDS, DOCUMENT_SECONDS = 5.0, 1.0
"""Default seconds that an annotator needs to label an image and a document, from the H-Hash paper."""


def run_comparison(
    folder: Path | None, out: Path, *, n_workers: int | None, label_seconds: float | None, **words: Any
) -> None:
    """Run the races that are not finished yet, then write results, figures and report.

    Parameters
    ----------
    folder : Path or None
        The pool's folder; if None, the default pool, see `app.experiments.compare.folder.begun`.
    out : Path
        The comparison's folder.
    n_workers : int or None
        Number of worker processes; if None, one per core.
    label_seconds : float or None
        Seconds that an annotator needs for a label. If None, `DOCUMENT_SECONDS` for a pool of texts, else
        `IMAGE_SECONDS`.
    **words
        See `RacePlan.of`.
    """
    with begun(out, folder, partial(RacePlan.of, **words)) as (plan, pool):
        missing = plan.missing(out)
        if missing:
            fit_lanes(plan, pool, out, {unit.run for unit in missing}, click.echo)
            with _shown(len(missing), plan.iterations) as advance:
                run_units(plan, missing, out, n_workers or os.cpu_count() or 1, advance)
        if label_seconds is None:
            label_seconds = DOCUMENT_SECONDS if pool.holds_texts else IMAGE_SECONDS
        results = RaceResults.read(plan, pool, out)
        write_results(results, out, label_seconds=label_seconds)
        measures = Measures(results, label_seconds)
        figures = draw_figures(measures, first_pictures(measures), out)
        for name, reasons in results.failures.items():
            click.echo(f"{name} can't run here: {next(iter(reasons.values()))}.", err=True)
        click.echo(f"The report is {write_report(measures, figures, out)}.")


@contextmanager
def _shown(n_units: int, n_rounds: int) -> Iterator[Callable[[int, int], None]]:
    """Show progress and the time left, and yield the callback for `run_units`.

    On a terminal, progress is a bar; elsewhere, it is a line whenever a race has finished.
    """
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
            left = time_left(start, max(rounds, 1) / (n_units * n_rounds)) if finished < n_units else ""
            click.echo(f"{finished} of {counted(n_units, 'race')}{left}")

    yield advance
