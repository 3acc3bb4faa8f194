"""The command ``closecall bench team``."""

from __future__ import annotations

from pathlib import Path

import click

from closecall.app.experiments.bench.commands.options import json_option, pool_option


@click.command("team")
@pool_option
@click.option("--positive", help="The class that is asked for.  [default: the pool's first]")
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
@click.option("--labels", "n_labels", type=click.IntRange(0), default=0, help="Labels that are there before.")
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
    help="Times to kill and restart the server while they label.",
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
def bench_team(
    folder: Path,
    positive: str | None,
    annotators: int,
    minutes: float,
    pace: float,
    noise: float,
    n_labels: int,
    leave: int,
    lease: float | None,
    kills: int,
    database: str | None,
    in_process: bool,
    persons: int,
    verify: bool,
    out: Path | None,
    seed: int,
    json_file: Path | None,
) -> None:
    """Let many simulated people label one concept at once, each on a page of their own.

    The pages talk to a real server as browsers do, each with its own queue. As in real use, people close
    their pages, and connections to the server break. In the end, the log is compared with what each of them
    did.

    With --in-process there is neither server nor page: people answer from threads of this process, and its
    memory and the size of the log are printed every minute. --kills, --leave, --lease and --verify need a
    server.
    """
    from closecall.app.experiments.bench.report import write_json
    from closecall.app.experiments.bench.team import inside
    from closecall.app.experiments.bench.team.measure import Plan, measure_team
    from closecall.app.experiments.bench.team.person import Manner
    from closecall.app.experiments.bench.team.report import show_inside, show_look, show_team
    from closecall.core.pool.pool import Pool

    manner = Manner(pace=pace, noise=noise, seed=seed)
    if in_process:
        sitting = inside.Plan(annotators, minutes, persons, manner, positive, n_labels, database)
        row = inside.measure_inside(Pool.open(folder), sitting, out, show_look)
        show_inside(row)
        write_json(json_file, row)
        return
    plan = Plan(
        annotators=annotators,
        minutes=minutes,
        kills=kills,
        leave=leave,
        lease=lease,
        manner=manner,
        positive=positive,
        n_labels=n_labels,
        database=database,
        verify=verify,
    )
    row = measure_team(Pool.open(folder), plan, out)
    show_team(row)
    write_json(json_file, row)
