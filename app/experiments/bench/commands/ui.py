"""The command ``closecall bench ui``."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    json_option,
    labels_before_option,
    pace_option,
    positive_option,
    seed_option,
)
from closecall.app.runtime.interruption import NEEDS_NEW_FOLDER, if_stopped
from closecall.core.errors import InputError


@click.command("ui")
@click.option(
    "--pool",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the pool.  [for zoom, default: photographs of 12 megapixels, made for the measurement]",
)
@positive_option
@count_option("--answers", 200, "Answers of each mode.", dest="n_answers")
@pace_option
@labels_before_option
@click.option(
    "--mode",
    "modes",
    type=click.Choice(["paced", "burst", "fallback", "grid", "zoom"]),
    multiple=True,
    help="Only this mode; repeat it for several.  [default: all but zoom]",
)
@click.option(
    "--network",
    type=click.FloatRange(0),
    metavar="SECONDS",
    help="Read images across a slow network: a server on this machine sends each image after SECONDS, cuts "
    "some off and refuses others (403). At first, the cache of images is empty.",
)
@count_option("--images", 40, "For zoom: images to zoom in on in each way.", dest="n_images")
@click.option("--strategy", help="Query strategy.  [default: the page's]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the projects in this folder."
)
@seed_option("the labels before, and of the photographs")
@json_option
@if_stopped(NEEDS_NEW_FOLDER)
def bench_ui(
    folder: Path | None, json_file: Path | None, modes: tuple[Any, ...], n_images: int, **words: Any
) -> None:
    """Label in a real browser: measure the time from key press to next image, and check what is stored.

    --mode zoom measures the time from zooming in until the image is on the screen at full resolution.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.photographs import make_pool
    from closecall.app.experiments.bench.ui import Labeling
    from closecall.app.experiments.bench.zoom import Zooming

    if "zoom" not in modes:
        if folder is None:
            raise InputError("--pool is missing: only --mode zoom makes a pool")
        run(Labeling(modes=modes, **words), [folder], json_file)
        return
    if set(modes) != {"zoom"}:
        raise InputError("--mode zoom can't be combined with other modes")
    if words["network"] is not None:
        raise InputError("--network can't be combined with --mode zoom")
    with ExitStack() as stack:
        if folder is None:
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="closecall-"))
            click.echo(f"Making {n_images + 1} photographs of 12 megapixels.")
            folder = make_pool(Path(made), n_images + 1, words["seed"])
        run(Zooming(n_images, words["pace"], words["out"]), [folder], json_file)
