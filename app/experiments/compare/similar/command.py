"""The command ``closecall compare similar``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.runtime.interruption import RESUMES, if_stopped

QUICK: dict[str, Any] = {"bits": (16, 64, 256), "draws": 1, "queries": 200, "landmarks": 300}
"""Default sizes with --quick."""

FULL: dict[str, Any] = {"bits": (16, 32, 64, 128, 256), "draws": 3, "queries": 1_000, "landmarks": 1_000}


@click.command("similar")
@click.option(
    "--pool",
    "folder",
    type=click.Path(path_type=Path),
    help="Folder of the pool.  [default: 50,000 digits, drawn on demand]",
)
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the results; an interrupted comparison is continued.",
)
@click.option("--quick", is_flag=True, help="1 draw, 200 queries, 300 landmarks, 16, 64 and 256 bits.")
@click.option("--family", "families", multiple=True, help="Only these hash families.  [default: all]")
@click.option(
    "--bits",
    multiple=True,
    type=click.IntRange(1, 4096),
    help="Hash functions of a code.  [default: 16, 32, 64, 128, 256]",
)
@click.option("--draws", type=click.IntRange(1), help="Draws of everything random.  [default: 3]")
@click.option(
    "--queries",
    type=click.IntRange(1),
    help="Held-out items to search for, and as many others to choose rank and scale by.  [default: 1000]",
)
@click.option(
    "--neighbours",
    type=click.IntRange(10),
    default=50,
    show_default=True,
    help="How many true neighbours are to be found.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1e-4,
    show_default=True,
    help="R of recall@R, as a share of the pool.",
)
@click.option(
    "--kernel",
    help="Of kernelized hashing: cosine, chi2, intersection or rbf:gamma=NUMBER.  "
    "[default: chi2; cosine if the pool has negative features]",
)
@click.option(
    "--landmarks",
    type=click.IntRange(20),
    help="Items whose kernel values make a code of kernelized hashing.  [default: 1000]",
)
@click.option(
    "--labels",
    type=click.IntRange(2),
    default=1_000,
    show_default=True,
    help="Labels that families learn from, the same for all that do.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of everything random."
)
@if_stopped(RESUMES)
def compare_similar(
    folder: Path | None,
    out: Path,
    quick: bool,
    families: tuple[str, ...],
    bits: tuple[int, ...],
    draws: int | None,
    queries: int | None,
    landmarks: int | None,
    **words: Any,
) -> None:
    """Compare hash families and search structures for finding similar items.

    Measures how many similar items the codes find, by code length and cost, and how near tables and permuted
    orders come to the exact scan. If interrupted, run the same command again to continue.
    """
    from closecall.app.experiments.compare.similar.comparison import run_comparison
    from closecall.app.runtime.extras import load

    load("matplotlib", "reports")
    sizes = QUICK if quick else FULL
    run_comparison(
        folder,
        out,
        families=families,
        bits=bits or sizes["bits"],
        draws=draws or sizes["draws"],
        queries=queries or sizes["queries"],
        landmarks=landmarks or sizes["landmarks"],
        **words,
    )
