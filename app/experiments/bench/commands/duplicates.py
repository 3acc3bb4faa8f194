"""The command ``closecall bench duplicates``."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from closecall.app.experiments.bench.commands.options import count_option, json_option, pool_option


@click.command("duplicates")
@pool_option
@click.option(
    "--what",
    type=click.Choice(["frames", "copies", "speed"]),
    default="frames",
    show_default=True,
    help="Frames of objects that turn before a camera, altered copies of photographs, or the time that "
    "near-duplicates of the whole pool take.",
)
@count_option("--apart", 3, "For frames: largest difference of the numbers of near-duplicates.")
@click.option(
    "--pattern",
    help="For frames: regular expression for their names, with groups kind, axis and frame.  "
    "[default: as in Fruits-360]",
)
@count_option("--photos", 500, "For copies: photographs to alter.", least=4)
@click.option(
    "--angle",
    "degrees",
    type=click.FloatRange(0, 180),
    metavar="DEGREES",
    help="For speed.  [default: as for pool duplicates]",
)
@json_option
def bench_duplicates(
    folder: Path, what: Literal["frames", "copies", "speed"], json_file: Path | None, **words: Any
) -> None:
    """Measure recall and precision of the search for near-duplicates, or the time that it takes.

    --what frames chooses the angle on half of the kinds of objects, and needs a pool whose source has names,
    with a subfolder for each kind. --what copies needs a source of images.
    """
    from closecall.app.experiments.bench.duplicates import EXPERIMENTS
    from closecall.app.experiments.bench.experiment import run

    run(EXPERIMENTS[what](**words), [folder], json_file)
