"""The command ``closecall bench stopping``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import count_option, json_option, seed_option


@click.command("stopping")
@click.option(
    "--pool",
    "folders",
    required=True,
    type=click.Path(path_type=Path),
    multiple=True,
    help="Folder of a pool; repeat it for several.",
)
@count_option(
    "--sessions", 10, "Sessions to simulate on each pool, for different classes while there are any."
)
@count_option("--items", 20_000, "Items of each session.", least=100)
@count_option("--labels", 3_000, "Answers of each session.", least=6)
@count_option("--batch", 5, "Answers to one hyperplane.")
@click.option(
    "--enough",
    type=click.FloatRange(0, 1),
    help="Agreement from which on the advice is to stop.  [default: as on the page]",
)
@seed_option("items, classes and labels")
@json_option
def bench_stopping(folders: tuple[Path, ...], json_file: Path | None, **words: Any) -> None:
    """Continue labeling after the advice to stop, and report what following it would have cost and saved.

    The annotator is simulated; the cost is in points of AUROC on items that are never labeled.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.stopping import Stopping

    run(Stopping(**words), folders, json_file)
