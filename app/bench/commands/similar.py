"""The command ``marginalia bench similar``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from app.bench.commands.options import json_option, pool_option
from app.sentences import sentences


@click.command("similar")
@pool_option
@click.option(
    "--kernel",
    "kernels",
    multiple=True,
    default=("chi2", "intersection"),
    show_default=True,
    help="cosine, chi2, intersection or rbf:gamma=NUMBER.",
)
@click.option(
    "--draws",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="How often landmarks and random vectors are drawn.",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=1_000,
    show_default=True,
    help="Held-out items to search for, and as many others to choose rank and scale by.",
)
@click.option(
    "--share",
    type=click.FloatRange(0, 1, min_open=True),
    default=1e-4,
    show_default=True,
    help="R of recall@R, as a share of the pool.",
)
@click.option(
    "--landmarks",
    type=click.IntRange(100),
    default=1_000,
    show_default=True,
    help="Items whose kernel values make a code.",
)
@click.option("--bits", type=click.IntRange(1), default=256, show_default=True, help="Bits of a code.")
@json_option
@sentences
def bench_similar(
    folder: Path,
    kernels: tuple[str, ...],
    draws: int,
    queries: int,
    share: float,
    landmarks: int,
    bits: int,
    json_file: Path | None,
) -> None:
    """Measure how often kernelized LSH finds the nearest item by a kernel.

    In its original form, with few principal components, and with a transformed kernel: table 1 of
    "Revisiting Kernelized Locality-Sensitive Hashing".
    """
    from app.bench.report import write_json
    from app.bench.similar import Plan, measure_kernelized, show_kernelized
    from core.pool import Pool

    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        write_json(json_file, rows)

    plan = Plan(kernels, draws, queries, queries, share, landmarks, bits)
    measure_kernelized(Pool.open(folder), plan, done)
    show_kernelized(rows, plan)
