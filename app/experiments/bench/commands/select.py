"""The command ``closecall bench select``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    indexes_option,
    json_option,
    pool_option,
    seed_option,
    setting_option,
)
from closecall.app.runtime.dask_option import dask_option
from closecall.app.runtime.device_option import device_option


@click.command("select")
@pool_option
@click.option(
    "--planes",
    "corpus",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of hyperplanes that bench planes made.  [default: SVMs in the paper's setting]",
)
@click.option(
    "--planes-of",
    type=click.Path(path_type=Path),
    help="Pool with the same features and other items: train on its classes, or take --planes made for it."
    "  [default: --pool]",
)
@setting_option
@click.option(
    "--strategy",
    "words",
    multiple=True,
    help="NAME or NAME:param=value,param=value.  [default: all strategies, some with several budgets]",
)
@click.option(
    "--items",
    "sizes",
    type=click.IntRange(1),
    multiple=True,
    help="Only the first items of the pool.  [default: all]",
)
@count_option("--queries", 40, "Maximum number of hyperplanes of each setting and draw.")
@count_option(
    "--draws", 1, "Draws of hash functions and hyperplanes; three or more give intervals over draws."
)
@count_option("--threads", 1, "Threads of BLAS.")
@count_option(
    "--warm-up",
    3,
    "Hyperplanes before any is timed; as many as --queries for a pool that has long been in use.",
)
@click.option("--cold", is_flag=True, help="Let sessions remember nothing.")
@device_option
@indexes_option
@seed_option("everything random")
@dask_option
@json_option
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for time against rank, .svg or .png.",
)
@click.option(
    "--boxes",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for box plots of time and |wᵀx|, .svg or .png.",
)
def bench_select(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Compare query strategies on one pool, side by side: time, rank and |wᵀx + b| of the items they select.

    Each strategy is also compared with the random subsample that takes as long. Repeat --setting, --strategy
    and --items to measure several. The pool needs no classes if --planes-of names a pool with classes. With
    --draws, a second table compares the strategies with h-hash. Draws share the hyperplanes of --planes. With
    --device, the exhaustive scan is measured both on the processors and on the device.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.select import Selection

    run(Selection(**words), [folder], json_file)
