"""Results as a table for people and as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from app.bench.select import Setting


def write_json(path: Path | None, result: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
    """Write one result, or a list with one row a line, to `path`; nothing where it is None."""
    if path is None:
        return
    if isinstance(result, dict):
        text = json.dumps(result, indent=2)
    else:
        text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in result) + "\n]"
    path.write_text(text + "\n", encoding="utf-8")


def show_selection(rows: Sequence[dict[str, Any]], setting: Setting) -> None:
    """Print the rows of `measure_selection`."""
    first = rows[0]
    weights = "balanced" if setting.class_weight else "unweighted"
    click.echo(
        f"{first['queries']} SVMs, {setting.labels_per_class} labels a class, C = {setting.C:g}, {weights}; "
        f"{first['items']:,} items, {first['threads']} BLAS thread{'s' if first['threads'] > 1 else ''}."
    )
    head = ("strategy", "median ms", "p95 ms", "of a scan", "scored", "rank", "random's", "|wᵀx|")
    table = [head] + [
        (
            row["strategy"].partition(":")[0] + (f" ({row['structure']})" if row["structure"] else ""),
            f"{row['median_ms']:.2f}",
            f"{row['p95_ms']:.2f}",
            _share(row["ratio_to_exhaustive"]),
            f"{row['scored_median']:,.0f}",
            f"{row['rank_median']:,.0f}",
            f"{row['rank_of_random_same_scored']:,.0f}",
            f"{row['margin_median']:.2g}",
        )
        for row in sorted(rows, key=lambda row: -row["median_ms"])
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    for line in table:
        cells = [text.rjust(width) for text, width in zip(line[1:], widths[1:], strict=True)]
        click.echo("  ".join([line[0].ljust(widths[0]), *cells]))
    click.echo(
        "rank: items nearer than the selected one, 0 is exact. random's: the median rank of the best of as "
        "many random items as were scored."
    )


def _share(ratio: float) -> str:
    return f"1/{1 / ratio:.0f}" if ratio < 0.5 else f"{ratio:.2f}"
