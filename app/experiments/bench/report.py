"""Functions that print results as tables, and write them as JSON or CSV."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.compare.statistics import mean_and_halfwidth
from closecall.core.files.durable import disk_trouble

QUIET = 0.9
"""Ratio of processor time to wall-clock time below which selections count as disturbed by other programs."""


def write_json(path: Path | None, result: dict[str, Any] | Sequence[dict[str, Any]]) -> None:
    """Write a result to `path` as JSON, or a list of results with one result per line.

    If `path` is None, do nothing.
    """
    if path is None:
        return
    if isinstance(result, dict):
        text = json.dumps(result, indent=2)
    else:
        text = "[\n" + ",\n".join(f"  {json.dumps(row)}" for row in result) + "\n]"
    with disk_trouble(path):
        path.write_text(text + "\n", encoding="utf-8")


def write_csv(path: Path, columns: Sequence[str], lines: Iterable[Sequence[Any]]) -> None:
    """Write a table to `path` as CSV; None and NaN become empty cells."""
    with disk_trouble(path), path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for line in lines:
            writer.writerow("" if cell is None or cell != cell else cell for cell in line)


def heading(row: dict[str, Any], text: str) -> str:
    """Return the heading of a table: the pool, then `text`. `row` is any row of the table."""
    return f"\n{row['data']}, {row['items']:,} × {row['dim']}: {text}"


def show_table(head: Sequence[str], lines: Iterable[Sequence[str]], *, n_left: int = 1) -> None:
    """Print a table; the first `n_left` columns are aligned left, the others right."""
    table = [head, *lines]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        cells = [
            cell.ljust(width) if place < n_left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        click.echo("  ".join(cells))


def spread(shares: Sequence[float] | NDArray[np.float64]) -> str:
    """Return the mean ± standard deviation of shares as text, in percent.

    For a single share, return the share alone; without shares, return "–".
    """
    values = 100 * np.asarray(shares)
    if not len(values):
        return "–"
    deviation = f" ± {values.std(ddof=1):.1f}" if len(values) > 1 else ""
    return f"{values.mean():.1f}{deviation}"


def with_interval(values: NDArray[np.float64]) -> str:
    """Return the mean ± half the width of its 95 % interval as text.

    For a single value, return the value alone; without values, return "–".
    """
    if not len(values):
        return "–"
    mean, half = mean_and_halfwidth(values, np.zeros(len(values)))
    return f"{mean:,.1f}" if np.isnan(half) else f"{mean:,.1f} ± {half:,.1f}"


def each(values: Iterable[float | None]) -> str:
    """Return all values as text, separated by spaces, with "–" for None."""
    return " ".join("–" if value is None else f"{value:g}" for value in values)


def show_disturbance(shares: Mapping[str, float]) -> None:
    """Print a warning if other programs seem to have disturbed the selections that were timed.

    The sign of this is that a share is below `QUIET`.

    Parameters
    ----------
    shares : mapping of str to float
        Processor time of selections divided by their wall-clock time, by strategy.
    """
    waited = [f"{name} for {100 * share:.0f} %" for name, share in shares.items() if share < QUIET]
    if waited:
        click.echo(
            "Other programs ran, too, so wall-clock times and their ratios are unreliable. Strategies had a "
            f"processor for only a part of their time: {', '.join(waited)}."
        )


def share_in_words(ratio: float) -> str:
    """Return a ratio to the exhaustive scan as text; ratios below 0.5 are written as 1/n."""
    return f"1/{1 / ratio:,.0f}" if ratio < 0.5 else f"{ratio:.2f}"
