"""The command ``closecall bench build``."""

from __future__ import annotations

from pathlib import Path

import click

from closecall.app.experiments.bench.commands.options import json_option
from closecall.app.runtime.interruption import NEEDS_NEW_FOLDER, if_stopped


@click.command("build")
@json_option
@click.option(
    "--items", type=click.IntRange(1), default=100_000, show_default=True, help="Items of the digits."
)
@click.option("--source", "word", help="Another source, as for pool build.  [default: digits:ITEMS]")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the pool in this new folder."
)
@click.option(
    "--threads", type=click.IntRange(1), help="Threads that compute features.  [default: all cores]"
)
@if_stopped(NEEDS_NEW_FOLDER)
def bench_build(
    json_file: Path | None, items: int, word: str | None, out: Path | None, threads: int | None
) -> None:
    """Build a pool, and report its speed and memory.

    If the features come from an image model, also compare the speed with that of the model alone. This takes
    a minute more.
    """
    from closecall.app.experiments.bench.build import Building
    from closecall.app.experiments.bench.experiment import record
    from closecall.core.sources import source_from

    record(Building(out, threads), [source_from(word or f"digits:{items}")], json_file)
