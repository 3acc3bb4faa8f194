"""The command ``closecall bench sessions``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option


@click.command("sessions")
@pool_option
@click.option(
    "--planes",
    "corpus",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Sessions that bench planes simulated on it.",
)
@click.option(
    "--sessions",
    "n_sessions",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="Sessions at once.",
)
@click.option(
    "--rounds", type=click.IntRange(1), default=100, show_default=True, help="Selections of each session."
)
@click.option(
    "--pace",
    type=click.FloatRange(0, min_open=True),
    default=0.7,
    show_default=True,
    help="Seconds from one answer to the next.",
)
@click.option(
    "--memory",
    "modes",
    type=click.Choice(["auto", "on", "off"]),
    multiple=True,
    default=["auto"],
    show_default=True,
    help="Whether sessions remember: where selecting is slow, always, or never; repeat it to compare.",
)
@click.option(
    "--setting",
    "settings",
    multiple=True,
    help="Only the hyperplanes of this setting, or all that contain it.",
)
@click.option(
    "--strategy",
    "word",
    default="margin-index",
    show_default=True,
    help="NAME or NAME:param=value,param=value.",
)
@click.option(
    "--indexes",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder in which indexes are kept for the next time.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds whatever is random."
)
@json_option
def bench_sessions(
    folder: Path,
    corpus: Path,
    n_sessions: int,
    rounds: int,
    pace: float,
    modes: tuple[Any, ...],
    settings: tuple[str, ...],
    word: str,
    indexes: Path | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Replay many sessions side by side at a person's pace, and say how long each selection takes.

    Sessions remember earlier hyperplanes as on the page: one pass over the pool in the background for all.
    """
    from closecall.app.experiments.bench.report import show_sessions, write_json
    from closecall.app.experiments.bench.rounds import planes_for
    from closecall.app.experiments.bench.sessions import Plan, measure_sessions
    from closecall.core.pool.pool import Pool

    pool = Pool.open(folder)
    planes = planes_for(pool, corpus, settings, 0, seed)
    rows: list[dict[str, Any]] = []

    def done(row: dict[str, Any]) -> None:
        rows.append(row)
        show_sessions(row)
        write_json(json_file, rows)

    plan = Plan(
        word=word,
        modes=modes,
        n_sessions=n_sessions,
        n_rounds=rounds,
        pace=pace,
        indexes=indexes,
        seed=seed,
    )
    measure_sessions(pool, planes, plan, done)
