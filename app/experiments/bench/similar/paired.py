"""Panels of figures whose lines are compared with a baseline, and their output as tables and CSV.

The baseline of a figure is fixed before anything is measured. Within a draw, all lines have the same queries
and labels, so differences to the baseline are paired by draw. The mean difference has Student's 95 % interval
over the draws. Intervals are not corrected for multiple comparisons. A difference is called open if its
interval contains zero or if it has no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from closecall.app.experiments.bench.report import show_table, spread, write_csv
from closecall.app.experiments.compare.drawing import Stroke
from closecall.app.experiments.compare.statistics import Interval, interval

Floats = NDArray[np.float64]

COLUMNS = (
    *("figure", "panel", "line", "baseline", "draws", "x", "mean", "low", "high"),
    *("gain", "gain low", "gain high", "open"),
)
"""Columns of the CSV file with all points."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a panel.

    Parameters
    ----------
    name : str
        Name in the legend.
    stroke : Stroke
        Look of the line.
    values : array of shape (n_draws, n_x), float64
        Measured shares, 0 … 1.
    """

    name: str
    stroke: Stroke
    values: Floats

    @property
    def means(self) -> list[Interval]:
        """Mean over random draws, with its interval, at each x."""
        return intervals(self.values)


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of a figure.

    Parameters
    ----------
    figure : str
        Number of the figure that the panel belongs to, as in the reproduced paper.
    title : str
        The measured quantity and the constant parameters, such as "precision of the first 100, 48 bits".
    across : str
        Name of the parameter on the x-axis.
    x : list of float
        Values of this parameter, ascending.
    lines : list of Line
    baseline : str or None
        Name of the line that the other lines are compared with; None for no comparison.
    """

    figure: str
    title: str
    across: str
    x: list[float]
    lines: list[Line]
    baseline: str | None

    @property
    def base(self) -> Line | None:
        """The line of the baseline; None if the panel has none."""
        return next((line for line in self.lines if line.name == self.baseline), None)

    @property
    def others(self) -> list[Line]:
        """All lines except the baseline; empty if the panel has no baseline."""
        return [] if self.base is None else [line for line in self.lines if line is not self.base]

    def gains(self, line: Line) -> list[Interval]:
        """Return the mean difference between a line and the baseline at each x, with its interval."""
        base = self.base
        assert base is not None
        return intervals(line.values - base.values)


def intervals(values: Floats) -> list[Interval]:
    """Return the mean of each column, with its 95 % interval.

    `values` has shape (n_draws, n_x).
    """
    return [interval(column, np.zeros(len(column))) for column in values.T]


def gain_in_words(gain: Interval) -> str:
    """Return a difference of shares as text: in points, with its interval, and "open" if it is open."""
    points = gain.scaled(100)
    told = f"{points.mean:+.1f}"
    if points.low is not None:
        told += f" ({points.low:+.1f} to {points.high:+.1f})"
    return f"{told} open" if gain.is_open else told


def show_panels(panels: Sequence[Panel]) -> None:
    """Print two tables for each panel.

    The first has means and standard deviations in percent, the second differences to the baseline in points.
    A panel that belongs to two figures is printed only once.
    """
    shown: dict[str, str] = {}
    for panel in panels:
        head = [f"{x:,g}" for x in panel.x]
        what = f"{panel.title}, by {panel.across}"
        if what in shown:
            click.echo(f"\nFigure {panel.figure}: {what}: as in figure {shown[what]}.")
            continue
        shown[what] = panel.figure
        click.echo(f"\nFigure {panel.figure}: {what}.\n")
        cells = ([line.name, *map(spread, line.values.T)] for line in panel.lines)
        show_table(["%", *head], cells)
        if panel.others:
            click.echo(f"\nDifference to {panel.baseline}, in the same draw, with its 95 % interval:\n")
            gains = ([line.name, *map(gain_in_words, panel.gains(line))] for line in panel.others)
            show_table(["points", *head], gains)


def write_points(panels: Sequence[Panel], path: Path) -> None:
    """Write a CSV file with the columns `COLUMNS` and a row for each point of each line."""
    lines = []
    for panel in panels:
        for line in panel.lines:
            compared = line in panel.others
            gains = panel.gains(line) if compared else [Interval(np.nan, None, None)] * len(panel.x)
            about = panel.figure, panel.title, line.name, panel.baseline, len(line.values)
            for x, mean, gain in zip(panel.x, line.means, gains, strict=True):
                ends = mean.mean, mean.low, mean.high, gain.mean, gain.low, gain.high
                lines.append([*about, x, *ends, gain.is_open if compared else None])
    write_csv(path, COLUMNS, lines)
