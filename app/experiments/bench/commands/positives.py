"""The command ``closecall bench positives``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option


@click.command("positives")
@pool_option
@click.option(
    "--strategy",
    "words",
    multiple=True,
    help=(
        "NAME or NAME:param=value,param=value; or similar, or similar:metric=learned: the page Find similar."
        "  [default: random, margin-index, likely-positive, mixtures]"
    ),
)
@click.option(
    "--searches",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Searches, each for another class while there are any.",
)
@click.option(
    "--wanted", type=click.IntRange(1), default=50, show_default=True, help="Positives to be found."
)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=3_000,
    show_default=True,
    help="Answers after which a search is given up.",
)
@click.option(
    "--batch", type=click.IntRange(1), default=1, show_default=True, help="Answers to one hyperplane."
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=0.01,
    show_default=True,
    help="Only classes that make up at most this share of the pool.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Draws classes and first items."
)
@json_option
def bench_positives(
    folder: Path,
    words: tuple[str, ...],
    searches: int,
    wanted: int,
    most: int,
    batch: int,
    share: float,
    seed: int,
    json_file: Path | None,
) -> None:
    """Count the labels it takes to find positives of rare classes, by query strategy or by Find similar.

    The annotator is simulated, and each search begins with one item of the class and five others. On Find
    similar whole pages are answered, of the items nearest to all yes answers.
    """
    from closecall.app.experiments.bench.positives import (
        DEFAULT_WORDS,
        Plan,
        measure_positives,
        show_positives,
    )
    from closecall.app.experiments.bench.report import write_json
    from closecall.core.pool.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        write_json(json_file, rows)

    plan = Plan(
        words=words or DEFAULT_WORDS,
        searches=searches,
        wanted=wanted,
        most=most,
        batch=batch,
        most_share=share,
        seed=seed,
    )
    measure_positives(Pool.open(folder), plan, done)
    show_positives(rows, plan)
