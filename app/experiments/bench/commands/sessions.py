"""The command ``closecall bench sessions``."""

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


@click.command("sessions")
@pool_option
@click.option(
    "--planes",
    "corpus",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File of sessions that bench planes simulated on the pool.",
)
@count_option("--sessions", 20, "Sessions at once.", dest="n_sessions")
@count_option("--rounds", 100, "Selections of each session.")
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
    help="Let sessions remember where selecting is slow, always, or never; repeat it to compare.",
)
@setting_option
@click.option(
    "--strategy",
    "word",
    default="margin-index",
    show_default=True,
    help="NAME or NAME:param=value,param=value.",
)
@indexes_option
@seed_option("everything random")
@json_option
def bench_sessions(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Replay many sessions side by side at a person's pace, and report how long each selection takes.

    As on the page, sessions keep scores of earlier hyperplanes. These come from passes over the pool in the
    background, and one pass serves several sessions.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.sessions import Sessions

    run(Sessions(**words), [folder], json_file)
