"""The command ``closecall bench guarantee``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    json_option,
    pool_option,
    seed_option,
)


@click.command("guarantee")
@pool_option
@click.option(
    "--family",
    "families",
    type=click.Choice(["h-hash", "bh-hash", "eh-hash", "lsh"]),
    multiple=True,
    help=(
        "Hash family of the tables; repeat it for several. For hyperplanes h-hash, bh-hash or eh-hash, for "
        "similar items lsh.  [default: h-hash, bh-hash, lsh]"
    ),
)
@click.option(
    "--radius",
    "radii",
    type=click.FloatRange(0, 90, min_open=True, max_open=True),
    multiple=True,
    default=[3.0, 10.0],
    show_default=True,
    help="r, in degrees from the hyperplane or between items; repeat it for several.",
)
@click.option(
    "--epsilon",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="ε: items farther than (1 + ε) r are far.",
)
@count_option("--megabytes", 200, "Memory for tables, codes and functions, in MB.")
@count_option("--queries", 100, "Hyperplanes, trained as in the H-Hash paper, and held-out items.")
@count_option("--draws", 5, "How often to draw functions.")
@seed_option("queries and functions")
@json_option
def bench_guarantee(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Compare bucket tables with their guarantee: tables needed, tables that fit, and measured success.

    For each radius r, the (r, ε) rule of locality-sensitive hashing determines the tables, as far as memory
    permits. The success rate is over the queries that have an item within r.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.guarantee import Guarantees

    run(Guarantees(**words), [folder], json_file)
