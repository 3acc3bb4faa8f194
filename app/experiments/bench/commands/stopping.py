"""The command ``closecall bench stopping``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option


@click.command("stopping")
@click.option(
    "--pool",
    "folders",
    required=True,
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder of a pool; repeat it for several.",
)
@click.option(
    "--sessions",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Sessions to simulate on each pool, each for another class while there are any.",
)
@click.option(
    "--items", type=click.IntRange(100), default=20_000, show_default=True, help="Items of each session."
)
@click.option(
    "--labels", type=click.IntRange(6), default=3_000, show_default=True, help="Answers of each session."
)
@click.option(
    "--batch", type=click.IntRange(1), default=5, show_default=True, help="Answers to one hyperplane."
)
@click.option(
    "--enough",
    type=click.FloatRange(0, 1),
    help="Agreement at which the advice is to stop.  [default: as on the page]",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws items, classes and labels."
)
@json_option
def bench_stopping(
    folders: tuple[Path, ...],
    sessions: int,
    items: int,
    labels: int,
    batch: int,
    enough: float | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Go on labeling after the advice to stop, and say what following it would have cost and saved.

    The annotator is simulated; the cost is in points of AUROC on items that were never asked about.
    """
    from closecall.app.experiments.bench.report import write_json
    from closecall.app.experiments.bench.stopping import Plan, measure_stopping, show_stopping
    from closecall.core.evaluation.stopping import ENOUGH
    from closecall.core.pool.pool import Pool

    plan = Plan(
        n_sessions=sessions,
        n_items=items,
        n_labels=labels,
        batch=batch,
        enough=ENOUGH if enough is None else enough,
        seed=seed,
    )
    rows: list[dict[str, Any]] = []
    for folder in folders:
        rows.append(measure_stopping(Pool.open(folder), plan))
        show_stopping(rows[-1])
        write_json(json_file, rows)
