"""The command ``closecall bench ui``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option


@click.command("ui")
@pool_option
@click.option("--positive", help="The class that is asked for.  [default: the pool's first]")
@click.option(
    "--answers",
    "n_answers",
    type=click.IntRange(1),
    default=200,
    show_default=True,
    help="Answers of each mode.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0),
    default=0.7,
    show_default=True,
    help="Seconds that the person looks at an image.",
)
@click.option("--labels", "n_labels", type=click.IntRange(0), default=0, help="Labels that are there before.")
@click.option(
    "--mode",
    "modes",
    type=click.Choice(["paced", "burst", "fallback", "grid"]),
    multiple=True,
    help="Only this one; repeat it for several.",
)
@click.option("--strategy", help="What chooses.  [default: the page's]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the projects in this folder."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds the labels before.")
@json_option
def bench_ui(
    folder: Path,
    positive: str | None,
    n_answers: int,
    pace: float,
    n_labels: int,
    modes: tuple[Any, ...],
    strategy: str | None,
    out: Path | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Label in a real browser: from a key press to the next image on the screen, and what was stored."""
    from closecall.app.experiments.bench.annotator import MODES
    from closecall.app.experiments.bench.report import show_ui, write_json
    from closecall.app.experiments.bench.ui import Plan, measure_ui
    from closecall.core.pool.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        show_ui(row)
        write_json(json_file, rows)

    plan = Plan(
        positive=positive,
        modes=modes or MODES,
        n_answers=n_answers,
        pace=pace,
        n_labels=n_labels,
        strategy=strategy,
        seed=seed,
    )
    measure_ui(Pool.open(folder), plan, out, done)
