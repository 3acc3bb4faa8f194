"""Measurements: ``marginalia bench``. What is printed is for people, what ``--json`` gets is for programs."""

from __future__ import annotations

from pathlib import Path

import click

from app.sentences import sentences

_json = click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the results as JSON.",
)


@click.group()
def bench() -> None:
    """Measure building a pool and selecting from it."""


@bench.command("build")
@_json
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
@sentences
def bench_build(
    json_file: Path | None, items: int, word: str | None, out: Path | None, threads: int | None
) -> None:
    """Build a pool and say how fast, with how much memory."""
    from app.bench.build import measure_build
    from app.bench.report import write_json

    result = measure_build(word or f"digits:{items}", out, threads=threads)
    write_json(json_file, result)


@bench.command("select")
@click.option("--pool", "folder", required=True, type=click.Path(path_type=Path), help="Folder of the pool.")
@_json
@click.option(
    "--queries", type=click.IntRange(1), default=40, show_default=True, help="Hyperplanes to query with."
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of BLAS.")
@click.option(
    "--strategies",
    help="Names with commas between; h-hash:orders names a structure.  [default: all there are]",
)
@click.option(
    "--labels", type=click.IntRange(1), default=5, show_default=True, help="Labels a class that each SVM has."
)
@click.option("--c", "c", type=float, default=1.0, show_default=True, help="C of the SVMs.")
@click.option("--balanced", is_flag=True, help="Train the SVMs with balanced class weights.")
@click.option(
    "--seed", type=int, default=0, show_default=True, help="Draws the labels and seeds the indexes."
)
@sentences
def bench_select(
    folder: Path,
    json_file: Path | None,
    queries: int,
    threads: int,
    strategies: str | None,
    labels: int,
    c: float,
    balanced: bool,
    seed: int,
) -> None:
    """Compare query strategies on one pool, side by side: time, rank and |wᵀx| of what they select.

    The hyperplanes are SVMs trained one class against the rest on a few labels of every class.
    """
    from app.bench.report import show_selection, write_json
    from app.bench.select import Setting, measure_selection
    from core.pool import Pool

    setting = Setting(labels, c, "balanced" if balanced else None, seed)
    names = [name.strip() for name in strategies.split(",")] if strategies else None
    rows = measure_selection(Pool.open(folder), names, setting, queries=queries, threads=threads)
    show_selection(rows, setting)
    write_json(json_file, rows)
