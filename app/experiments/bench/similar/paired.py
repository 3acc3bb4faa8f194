"""Panels of a paper's figures: lines, their differences to a baseline in the same draw, tables and points.

The baseline of a figure is declared before anything is measured. All lines of a draw share queries and
labels, so that differences within a draw are paired. Their mean has Student's 95 % interval over the draws,
each interval by itself. A difference whose interval contains zero, or that has no interval, is called open.
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
"""Columns of the file of points."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line of a panel.

    Parameters
    ----------
    name : str
        Name in the legend.
    stroke : Stroke
        Look in the figure.
    values : array of shape (n_draws, n_x), float64
        Shares, 0 … 1.
    """

    name: str
    stroke: Stroke
    values: Floats

    @property
    def means(self) -> list[Interval]:
        """Mean and interval at each x."""
        return intervals(self.values)


@dataclass(frozen=True, eq=False)
class Panel:
    """A panel of a figure.

    Parameters
    ----------
    figure : str
        Number of the figure that the panel reproduces, in the paper that the measurement names.
    title : str
        The measured quantity, and the parameters held constant, as in "precision of the first 100, 48 bits".
    across : str
        Name of the parameter on the x-axis.
    x : list of float
        Its values, ascending.
    lines : list of Line
    baseline : str or None
        Name of the line that the others are compared with; None if differences mean nothing.
    """

    figure: str
    title: str
    across: str
    x: list[float]
    lines: list[Line]
    baseline: str | None

    @property
    def base(self) -> Line | None:
        """The line of the baseline; None if there is none."""
        return next((line for line in self.lines if line.name == self.baseline), None)

    @property
    def others(self) -> list[Line]:
        """The lines that are compared with the baseline."""
        return [] if self.base is None else [line for line in self.lines if line is not self.base]

    def gains(self, line: Line) -> list[Interval]:
        """Return the mean difference of a line to the baseline at each x, with its interval."""
        base = self.base
        assert base is not None
        return intervals(line.values - base.values)


def intervals(values: Floats) -> list[Interval]:
    """Return the mean of each column over the draws, and its 95 % interval."""
    return [interval(column, np.zeros(len(column))) for column in values.T]


def is_open(gain: Interval) -> bool:
    """Return whether a difference may be zero, as far as the draws show."""
    return gain.low is None or gain.high is None or gain.low <= 0 <= gain.high


def gain_in_words(gain: Interval) -> str:
    """Return a difference of shares in points, with its interval, and whether it is open."""
    points = gain.scaled(100)
    told = f"{points.mean:+.1f}"
    if points.low is not None:
        told += f" ({points.low:+.1f} to {points.high:+.1f})"
    return f"{told} open" if is_open(gain) else told


def show_panels(panels: Sequence[Panel]) -> None:
    """Print two tables for each panel: means and deviations in percent, and differences in points.

    Two figures may share a panel, which is printed once.
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
    """Write a row for each point of each line, as CSV with `COLUMNS`."""
    lines = []
    for panel in panels:
        for line in panel.lines:
            compared = line in panel.others
            gains = panel.gains(line) if compared else [Interval(np.nan, None, None)] * len(panel.x)
            about = panel.figure, panel.title, line.name, panel.baseline, len(line.values)
            for x, mean, gain in zip(panel.x, line.means, gains, strict=True):
                ends = mean.mean, mean.low, mean.high, gain.mean, gain.low, gain.high
                lines.append([*about, x, *ends, is_open(gain) if compared else None])
    write_csv(path, COLUMNS, lines)
