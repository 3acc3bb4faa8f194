"""What a team's sitting came to, in sentences."""

from __future__ import annotations

from typing import Any

import click


def show_team(row: dict[str, Any]) -> None:
    """Print the row of `app.bench.team.measure.measure_team`."""
    before = f", {row['labels_before']:,} labels before" if row["labels_before"] else ""
    click.echo(
        f"\n{row['annotators']} annotators for {row['seconds']:.0f} s, {row['pace_seconds']:g} s an image; "
        f"{row['items']:,} items{before}; {row['database']}:"
    )
    cpu = row["cpu_ms_per_answer"]
    cost = "" if cpu is None else f"; each took {cpu:.0f} ms of a processor at the server"
    click.echo(f"  {row['answers']:,} answers, {row['labels_per_second']:.1f} a second{cost}.")
    if row["p95_ms"] is not None:
        click.echo(
            f"  From an answer to the next image {row['p50_ms']:.0f} ms in the median, {row['p95_ms']:.0f} "
            f"ms in 95 of 100; {100 * row['waited_share']:.0f} % had to wait for it. "
            f"Stored and acknowledged after {row['saved_p50_ms']:.0f} and {row['saved_p95_ms']:.0f} ms."
        )
    click.echo(
        f"  {row['lost']} lost, {row['duplicated']} stored twice, {row['misplaced']} stored otherwise than "
        f"given, {row['refused']} refused; {row['given_twice']} items given to two people."
    )
    if row["left"]:
        click.echo(
            f"  {row['left']} left without a word; {row['leases_returned']} of {row['leases_abandoned']} "
            "items that they had came back."
        )
    if row["kills"]:
        click.echo(f"  The server was killed {row['kills']} times; {row['reloads']} pages were loaded anew.")
    if "verify" in row:
        problems = row["verify"]["problems"]
        held = (
            "The log holds." if not problems else f"{len(problems):,} disagreements in the log: {problems[0]}"
        )
        click.echo(f"  {held}")
