"""The command ``closecall bench select``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option


@click.command("select")
@pool_option
@click.option(
    "--planes",
    "corpus",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Hyperplanes that bench planes made of it.  [default: SVMs in the paper's setting]",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    help="Only the hyperplanes of this setting, or all that contain it.",
)
@click.option(
    "--strategy",
    "words",
    multiple=True,
    help="NAME or NAME:param=value,param=value.  [default: all there are, some with several budgets]",
)
@click.option(
    "--items",
    "sizes",
    type=click.IntRange(1),
    multiple=True,
    help="Only so many first items of the pool.  [default: all]",
)
@click.option(
    "--queries",
    type=click.IntRange(1),
    default=40,
    show_default=True,
    help="Hyperplanes of each setting, at most.",
)
@click.option("--threads", type=click.IntRange(1), default=1, show_default=True, help="Threads of BLAS.")
@click.option(
    "--warm-up",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Hyperplanes to ask before any is timed; as many as --queries for a pool that has long been in use.",
)
@click.option("--cold", is_flag=True, help="Let sessions remember nothing.")
@click.option(
    "--indexes",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder in which indexes are kept for the next time.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds whatever is random."
)
@json_option
@click.option(
    "--figure",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for time against rank, .svg or .png.",
)
def bench_select(
    folder: Path,
    corpus: Path | None,
    settings: tuple[str, ...],
    words: tuple[str, ...],
    sizes: tuple[int, ...],
    queries: int,
    threads: int,
    warm_up: int,
    cold: bool,
    indexes: Path | None,
    seed: int,
    json_file: Path | None,
    figure: Path | None,
) -> None:
    """Compare query strategies on one pool, side by side: time, rank and |wᵀx| of what they select.

    Each is compared with the random subsample that takes as long, too. Repeat --setting, --strategy and
    --items to measure several.
    """
    from closecall.app.experiments.bench.contenders import default_words
    from closecall.app.experiments.bench.figure import check_figure, draw
    from closecall.app.experiments.bench.report import LEGEND, show_selection, write_json
    from closecall.app.experiments.bench.rounds import planes_for
    from closecall.app.experiments.bench.select import Plan, measure_selection
    from closecall.core.pool.pool import Pool

    check_figure(figure)
    pool = Pool.open(folder)
    planes = planes_for(pool, corpus, settings, queries, seed)
    plan = Plan(
        words=words or default_words(),
        sizes=sizes or [len(pool)],
        queries=queries,
        threads=threads,
        warm_up=warm_up,
        cold=cold,
        indexes=indexes,
        seed=seed,
    )
    rows = []

    def done(found: list[dict[str, Any]]) -> None:
        rows.extend(found)
        show_selection(found)
        write_json(json_file, rows)

    measure_selection(pool, planes, plan, done)
    click.echo(f"\n{LEGEND}")
    if figure is not None:
        draw(rows, figure)
