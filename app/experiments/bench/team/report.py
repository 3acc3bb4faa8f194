"""Reports of a team's figures in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from closecall.app.display.phrases import counted

if TYPE_CHECKING:
    from closecall.app.experiments.bench.team.inside import Look


def show_look(look: Look) -> None:
    """Print one measurement of `app.experiments.bench.team.inside.measure_inside`."""
    memory = ""
    if look.memory_mb is not None:
        memory = (
            f"; {look.memory_mb:,.1f} MB of memory, {look.remembered_mb:,.1f} of them memories of sessions"
        )
    log = "" if look.log_mb is None else f"; {look.log_mb:,.2f} MB of log"
    click.echo(f"  {look.minutes:6.1f} min: {look.answers:,} answers{memory}{log}")


def show_inside(row: dict[str, Any]) -> None:
    """Print the row of `app.experiments.bench.team.inside.measure_inside`."""
    click.echo(
        f"\n{row['annotators']} annotators without a page for {row['seconds']:.0f} s, "
        f"{row['pace_seconds']:g} s per image; {row['items']:,} items, "
        f"{row['labels_before']:,} labels before, people per item: {row['persons']}."
    )
    click.echo(
        f"  {row['answers']:,} answers, {row['refused']} refused. Each took "
        f"{row['cpu_ms_per_answer']:.1f} ms of CPU time: "
        f"{row['training_ms_per_answer']:.1f} for training, "
        f"{row['selecting_ms_per_answer']:.1f} for selecting, "
        f"{row['remembering_ms_per_answer']:.1f} for scores kept for later selections, "
        f"{row['rest_ms_per_answer']:.1f} for the rest."
    )
    if row["memory_mb_per_hour"] is not None:
        log = row["log_mb_per_hour"]
        beside = "" if log is None else f", the log {log:+.1f} MB"
        click.echo(
            f"  Memory without those memories grew {row['memory_mb_per_hour']:+.1f} MB per hour{beside}."
        )


def show_team(row: dict[str, Any]) -> None:
    """Print the row of `app.experiments.bench.team.measure.measure_team`."""
    before = f", {row['labels_before']:,} labels before" if row["labels_before"] else ""
    click.echo(
        f"\n{row['annotators']} annotators for {row['seconds']:.0f} s, {row['pace_seconds']:g} s per image; "
        f"{row['items']:,} items{before}; {row['database']}:"
    )
    cpu = row["cpu_ms_per_answer"]
    cost = "" if cpu is None else f"; each took {cpu:.0f} ms of CPU time on the server"
    click.echo(f"  {row['answers']:,} answers, {row['labels_per_second']:.1f} per second{cost}.")
    if row["p95_ms"] is not None:
        click.echo(
            f"  From an answer to the next image {row['p50_ms']:.0f} ms in the median, {row['p95_ms']:.0f} "
            f"ms in 95 of 100; {100 * row['waited_share']:.0f} % had to wait for it. "
            f"Stored and acknowledged after {row['saved_p50_ms']:.0f} and {row['saved_p95_ms']:.0f} ms."
        )
    click.echo(
        f"  {row['lost']} lost, {row['duplicated']} stored twice, {row['misplaced']} stored with another "
        f"answer, {row['refused']} refused; {row['given_twice']} items given to two people."
    )
    if row["left"]:
        click.echo(
            f"  {row['left']} left without notice; {row['leases_returned']} of their "
            f"{row['leases_abandoned']} leases expired."
        )
    if row["kills"]:
        click.echo(f"  The server was killed {row['kills']} times; {row['reloads']} pages were reloaded.")
    if "verify" in row:
        problems = row["verify"]["problems"]
        held = (
            "The log holds."
            if not problems
            else f"{counted(len(problems), 'disagreement')} in the log: {problems[0]}"
        )
        click.echo(f"  {held}")
