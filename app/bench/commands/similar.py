"""The command ``marginalia bench similar``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from app.bench.commands.options import json_option, pool_option
from app.sentences import sentences

if TYPE_CHECKING:
    from core.similar.index import StructureName


@click.command("similar")
@pool_option
@click.option(
    "--what",
    type=click.Choice(["kernels", "neighbours"]),
    default="kernels",
    show_default=True,
    help="Kernelized LSH, or nearest neighbours by a learned metric.",
)
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    default=("chi2", "intersection"),
    show_default=True,
    help="Of kernels: cosine, chi2, intersection or rbf:gamma=NUMBER.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How often landmarks or labels, and random vectors, are drawn.",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Held-out items to search for, and as many others to choose parameters by.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1e-4,
    show_default=True,
    help="Of kernels: R of recall@R, as a share of the pool.",
)
@click.option(
    "--landmarks",
    type=click.IntRange(100),
    default=1_000,
    show_default=True,
    help="Of kernels: items whose kernel values make a code.",
)
@click.option(
    "--labels",
    type=click.IntRange(2),
    default=2_000,
    show_default=True,
    help="Of neighbours: items whose classes the metric is learned from.",
)
@click.option(
    "--nearest",
    type=click.IntRange(1),
    default=10,
    show_default=True,
    help="Of neighbours: how many vote.",
)
@click.option(
    "--searched",
    type=click.FloatRange(0, 1, min_open=True),
    multiple=True,
    default=(0.02, 0.05),
    show_default=True,
    help="Of neighbours: shares of the pool that hashing searches.",
)
@click.option(
    "--structure",
    "structures",
    type=click.Choice(["tables", "orders", "scan"]),
    multiple=True,
    default=("tables",),
    show_default=True,
    help="Of neighbours: what hashing searches through; scan compares all codes.",
)
@click.option("--bits", type=click.IntRange(1), default=256, show_default=True, help="Bits of a code.")
@json_option
@sentences
def bench_similar(
    folder: Path,
    what: str,
    kernels: tuple[str, ...],
    draws: int,
    queries: int,
    share: float,
    landmarks: int,
    labels: int,
    nearest: int,
    searched: tuple[float, ...],
    structures: tuple[StructureName, ...],
    bits: int,
    json_file: Path | None,
) -> None:
    """Measure how well binary codes find what is similar: the papers' figures on this pool.

    kernels: how often kernelized LSH finds the nearest item by a kernel, in its original form, with few
    principal components, and with a transformed kernel: table 1 of "Revisiting Kernelized Locality-Sensitive
    Hashing".

    neighbours: how often the nearest items tell the class of another, by the original and by a learned
    metric, where all items are scanned, and where hashing searches a few per cent: figures 1 and 2 of "Fast
    Similarity Search for Learned Metrics". Texts are compared as sets of words, too, by Min-Hash.
    """
    from app.bench import neighbours, similar
    from app.bench.report import write_json
    from core.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        write_json(json_file, rows)

    pool = Pool.open(folder)
    if what == "kernels":
        of_kernels = similar.Plan(kernels, draws, queries, queries, share, landmarks, bits)
        similar.measure_kernelized(pool, of_kernels, done)
        similar.show_kernelized(rows, of_kernels)
    else:
        plan = neighbours.Plan(draws, queries, queries, nearest, labels, searched, bits, structures)
        neighbours.measure_neighbours(pool, plan, done)
        neighbours.show_neighbours(rows, plan)
