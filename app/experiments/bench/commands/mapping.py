"""The command ``closecall bench map``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    json_option,
    pace_option,
    pool_option,
    positive_option,
    seed_option,
)
from closecall.app.runtime.interruption import NEEDS_NEW_FOLDER, if_stopped


@click.command("map")
@pool_option
@count_option("--sample", 10_000, "Items on which trustworthiness is measured.")
@count_option("--neighbours", 15, "Neighbours that trustworthiness counts.")
@count_option(
    "--answers",
    20,
    "Answers while the page is watched; with 0, no browser is started.",
    least=0,
    dest="n_answers",
)
@pace_option
@positive_option
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the map in this new folder."
)
@seed_option("the map, the sample and the labels before")
@json_option
@if_stopped(NEEDS_NEW_FOLDER)
def bench_map(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Make the map of a pool, and watch the page Map in a real browser.

    Measured are the time of UMAP and of placing the other items, the trustworthiness of the map, and the time
    between frames while a person zooms, pans or, in another window, answers. The pool keeps its own map.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.mapping import MapMaking

    run(MapMaking(**words), [folder], json_file)
