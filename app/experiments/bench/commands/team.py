"""The command ``closecall bench team``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import (
    json_option,
    labels_before_option,
    pool_option,
    positive_option,
)
from closecall.app.runtime.interruption import NEEDS_NEW_FOLDER, if_stopped


@click.command("team")
@pool_option
@positive_option
@click.option("--annotators", type=click.IntRange(1), default=20, show_default=True, help="People at once.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=5.0,
    show_default=True,
    help="How long they label.",
)
@click.option(
    "--pace",
    type=click.FloatRange(0, min_open=True),
    default=0.7,
    show_default=True,
    help="Mean seconds that a person looks at an image.",
)
@click.option(
    "--noise",
    type=click.FloatRange(0, 1),
    default=0.05,
    show_default=True,
    help="Share of wrong answers.",
)
@labels_before_option
@click.option(
    "--leave",
    type=click.IntRange(0),
    default=2,
    show_default=True,
    help="People who close their page without notice.",
)
@click.option(
    "--lease",
    type=click.FloatRange(0, min_open=True),
    help="Seconds until their leases expire.  [default: a fifth of the time, at least 15]",
)
@click.option(
    "--kills",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Times to kill and restart a server while they label.",
)
@click.option(
    "--trouble",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.0,
    show_default=True,
    help="Share of the requests that get lost, arrive twice or are overtaken.",
)
@click.option(
    "--servers",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="Servers of the project. Several need PostgreSQL.",
)
@click.option(
    "--database",
    metavar="URL",
    help="Address in PostgreSQL: postgresql://user@host/database.  [default: SQLite]",
)
@click.option(
    "--in-process",
    is_flag=True,
    help="Without server and pages: what an answer costs, and what memory and the log grow by.",
)
@click.option(
    "--persons",
    type=click.IntRange(1),
    default=1,
    show_default=True,
    help="With --in-process: people per item.",
)
@click.option("--verify/--no-verify", default=True, show_default=True, help="Replay the log afterwards.")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the project in this new folder."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Seeds what people do.")
@json_option
@if_stopped(NEEDS_NEW_FOLDER)
def bench_team(
    folder: Path,
    json_file: Path | None,
    in_process: bool,
    pace: float,
    noise: float,
    seed: int,
    persons: int,
    kills: int,
    trouble: float,
    servers: int,
    leave: int,
    lease: float | None,
    verify: bool,
    **words: Any,
) -> None:
    """Let many simulated people label one concept at once, each on a page of their own.

    The pages make the same HTTP requests to a real server as browsers do, each with its own queue of answers.
    As in real use, people reload and close their pages. With --trouble and --kills, connections and servers
    fail as well. In the end, the log is compared with the answers that each person gave.

    With --servers, several servers share the project, and a balancer spreads the connections over them. One
    server is killed at a time.

    With --in-process there is neither server nor page: people answer from threads of this process, and its
    memory and the size of the log are printed every minute. --kills, --trouble, --servers, --leave, --lease
    and --verify need a server.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.team.experiment import TeamExperiment
    from closecall.app.experiments.bench.team.inside import TeamInProcess
    from closecall.app.experiments.bench.team.measure import ServedTeam
    from closecall.app.experiments.bench.team.person import Manner

    words["manner"] = Manner(pace=pace, noise=noise, seed=seed)
    team: TeamExperiment = (
        TeamInProcess(**words, persons=persons)
        if in_process
        else ServedTeam(
            **words,
            kills=kills,
            trouble=trouble,
            servers=servers,
            leave=leave,
            lease=lease,
            verify=verify,
        )
    )
    run(team, [folder], json_file)
