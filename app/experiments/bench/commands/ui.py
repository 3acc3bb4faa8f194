"""The command ``closecall bench ui``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    json_option,
    labels_before_option,
    pool_option,
    positive_option,
    seed_option,
)
from closecall.app.runtime.interruption import NEEDS_NEW_FOLDER, if_stopped


@click.command("ui")
@pool_option
@positive_option
@count_option("--answers", 200, "Answers of each mode.", dest="n_answers")
@click.option(
    "--pace",
    type=click.FloatRange(0),
    default=0.7,
    show_default=True,
    help="Seconds that the person looks at an image.",
)
@labels_before_option
@click.option(
    "--mode",
    "modes",
    type=click.Choice(["paced", "burst", "fallback", "grid"]),
    multiple=True,
    help="Only this mode; repeat it for several.",
)
@click.option("--strategy", help="Query strategy.  [default: the page's]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the projects in this folder."
)
@seed_option("the labels before")
@json_option
@if_stopped(NEEDS_NEW_FOLDER)
def bench_ui(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Label in a real browser: measure the time from key press to next image, and check what is stored."""
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.ui import Labeling

    run(Labeling(**words), [folder], json_file)
