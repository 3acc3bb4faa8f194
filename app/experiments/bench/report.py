"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.contenders import REFERENCE
from closecall.core.files.durable import disk_trouble

HEAD = (
    "strategy",
    "ms",
    "p90",
    "of scan",
    "CPU ms",
    "scored",
    "rank",
    "found",
    "|wᵀx|",
    "same time",
    "ratio",
)
QUIET = 0.9
"""A scan that has a processor for a smaller share of its time is disturbed."""

DISTURBED = (
    "Other programs ran, too: the exhaustive scan had a processor for {:.0f} % of its time, which flatters "
    "whatever is short."
)

LEGEND = (
    "ms: median time of one selection. of scan: of the exhaustive one's, in the same run. CPU ms: with what "
    "a session remembers. rank: how many items are nearer than the selected one; the median. found: how "
    "often it is the nearest. same time: the median rank of the nearest of as many random rows as can be "
    "scored in that time. ratio: of (rank + 1) to theirs, geometric mean and 95 % interval."
)


def write_json(path: Path | None, result: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
    """Write one result, or a list with one row a line, to `path`; nothing where it is None."""
    if path is None:
        return
    if isinstance(result, dict):
        text = json.dumps(result, indent=2)
    else:
        text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in result) + "\n]"
    with disk_trouble(path):
        path.write_text(text + "\n", encoding="utf-8")


def show_selection(rows: Sequence[dict[str, Any]]) -> None:
    """Print the rows of one setting of `select.measure_selection`, the slowest first."""
    first = rows[0]
    click.echo(
        f"\n{first['data']}, {first['items']:,} × {first['dim']}; {first['setting']}: "
        f"{first['queries']} hyperplanes{', cold' if first['cold'] else ''}, "
        f"{first['threads']} BLAS thread{'s' if first['threads'] > 1 else ''}."
    )
    table = [HEAD, *(_cells(row) for row in sorted(rows, key=lambda row: -row["median_ms"]))]
    widths = [max(len(line[column]) for line in table) for column in range(len(HEAD))]
    for line in table:
        cells = [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]
        click.echo("  ".join([line[0].ljust(widths[0]), *cells]))
    scan = next(row for row in rows if row["strategy"] == REFERENCE)
    share = scan["cpu_ms_per_round"] / scan["median_ms"]
    if share < QUIET:
        click.echo(DISTURBED.format(100 * share))


def show_sessions(row: dict[str, Any]) -> None:
    """Print the row of one mode of `app.experiments.bench.sessions.measure_sessions`."""
    sessions = f"{row['sessions']} session{'s' if row['sessions'] > 1 else ''}"
    click.echo(
        f"\n{row['strategy']}, {row['data']}, {row['items']:,} × {row['dim']}; {sessions}, a round every "
        f"{row['pace_seconds']:g} s; memory {row['memory']}:"
    )
    median, p90 = _share(row["ratio_to_exhaustive"]), _share(row["p90_ratio_to_exhaustive"])
    click.echo(
        f"  Selecting takes {row['median_ms']:.1f} ms in the median ({median} of an exhaustive scan), "
        f"at most {row['p90_ms']:.1f} ms in 9 of 10 rounds ({p90}), {row['p99_ms']:.1f} ms in 99 of 100."
    )
    click.echo(
        f"  It computes for {row['cpu_median_ms']:.1f} ms ({_share(row['cpu_ratio_to_exhaustive'])}); "
        f"with what remembering takes, a round costs {row['cpu_ms_per_round']:.1f} ms of a processor."
    )
    if row["with_memory"]:
        click.echo(
            f"  Something was remembered in {100 * row['with_memory']:.0f} % of the rounds, "
            f"{row['memory_age_median']:.0f} rounds old in the median, "
            f"at most {row['memory_age_p90']:.0f} in 9 of 10."
        )
    kept = "is kept" if row["sustained"] else "is too fast"
    click.echo(f"  The pace {kept}: rounds began at most {row['late_max_ms']:.0f} ms late.")
    found, low = 100 * row["recall_at_1"], 100 * row["recall_at_1_low"]
    click.echo(
        f"  The nearest item was found in {found:.1f} % of {row['sessions'] * row['rounds']:,} rounds "
        f"(at least {low:.1f} %, with 95 % confidence)."
    )
    if row["scan_cpu_share"] < QUIET:
        click.echo(DISTURBED.format(100 * row["scan_cpu_share"]))


def show_ui(row: dict[str, Any]) -> None:
    """Print the row of one mode of `app.experiments.bench.ui.measure_ui`."""
    click.echo(f"\n{row['mode']}, {row['items']:,} items, {row['labels_before']:,} labels before:")
    way = "Enter to the next grid" if row["mode"] == "grid" else "the key press to the next image"
    click.echo(
        f"  From {way} on the screen {row['median_ms']:.1f} ms in the median, "
        f"{row['p95_ms']:.1f} ms in 95 of 100, at most {row['max_ms']:.1f} ms."
    )
    click.echo(
        f"  {row['answers']:,} answers: {row['lost']} lost, {row['duplicated']} stored twice, "
        f"{row['misplaced']} stored otherwise than given. {row['retrains']:,} trainings gave "
        f"{row['hyperplanes']:,} hyperplanes; {row['queries']:,} selections."
    )
    if "waited" in row:
        _show_looking_ahead(row)


def _show_looking_ahead(row: dict[str, Any]) -> None:
    median, p95 = (
        "after the next press" if row[name] is None else f"after {row[name]:.0f} ms"
        for name in ("ahead_median_ms", "ahead_p95_ms")
    )
    click.echo(f"  All that may follow an image was there {median} in the median, {p95} in 95 of 100.")
    click.echo(
        f"  {row['waited']} of {row['presses']:,} presses, {row['pace_seconds']:g} s after the image, had to "
        f"wait for the next one, {row['waited_visibly']} of them so long that the card said so."
    )
    click.echo(
        f"  The pace that can be held: {row['held_pace_seconds']:.2f} s an image. Within that time all that "
        "may follow is there in 95 of 100 rounds."
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    low, high = row["ratio_to_subsample_low"], row["ratio_to_subsample_high"]
    interval = "" if low is None else f" ({_short(low)}–{_short(high)})"
    return (
        row["strategy"],
        f"{row['median_ms']:.2f}",
        f"{row['p90_ms']:.2f}",
        _share(row["ratio_to_exhaustive"]),
        f"{row['cpu_ms_per_round']:.2f}",
        f"{row['scored_median']:,.0f}",
        f"{row['rank_median']:,.0f}",
        f"{100 * row['recall_at_1']:.0f} %",
        f"{row['margin_median']:.2g}",
        f"{row['rank_of_equal_time_subsample']:,.0f}",
        f"{_short(row['ratio_to_subsample'])}{interval}",
    )


def _short(number: float) -> str:
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def _share(ratio: float) -> str:
    return f"1/{1 / ratio:,.0f}" if ratio < 0.5 else f"{ratio:.2f}"
