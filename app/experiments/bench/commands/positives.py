"""The command ``closecall bench positives``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    count_option,
    json_option,
    pool_option,
    seed_option,
    share_option,
)


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
@count_option("--searches", 20, "Searches, for different classes while there are any.")
@count_option("--wanted", 50, "Positives to find.")
@count_option("--most", 3_000, "Answers after which a search is given up.")
@count_option("--batch", 1, "Answers to one hyperplane.")
@share_option("--share", 0.01, "Only classes that make up at most this share of the pool.")
@seed_option("classes and first items")
@json_option
def bench_positives(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Count the labels needed to find positives of rare classes, by query strategy or by Find similar.

    The annotator is simulated, and each search begins with one item of the class and five others. On Find
    similar, the annotator answers whole pages of the items nearest to all yes answers.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.positives import Positives

    run(Positives(**words), [folder], json_file)
