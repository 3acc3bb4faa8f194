"""Lines that reproduce figures of the survey [1]_, with 95 % intervals over draws, and their output as CSV.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from closecall.app.experiments.bench.report import write_csv
from closecall.app.experiments.bench.similar.curves import Floats, mean_and_ends
from closecall.app.experiments.bench.similar.drawn import POINTS
from closecall.app.experiments.compare.drawing import Stroke, draw_line, log_axis, plain, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLUMNS = ("figure", "panel", "line", "draws", "x", "mean", "low", "high")
"""Columns of the CSV file with all points."""

_BESIDE = 2.0
"""Distance between the interval bars of neighbouring lines, in typographic points."""


@dataclass(frozen=True, eq=False)
class Line:
    """A line in a panel of a figure.

    Parameters
    ----------
    figure : str
        Number of the figure in the survey.
    panel, name : str
        Title of the panel, and name of the line.
    x : list of float
        Places on the x-axis, ascending.
    values : array of shape (n_draws, n_x), float64
        Measured values of each draw.
    """

    figure: str
    panel: str
    name: str
    x: list[float]
    values: Floats

    @cached_property
    def interval(self) -> tuple[Floats, Floats, Floats]:
        """Mean over random draws, and the ends of its 95 % interval; see `mean_and_ends`."""
        return mean_and_ends(self.values)


def write_lines(lines: Sequence[Line], folder: Path) -> None:
    """Write the CSV file `POINTS` in `folder`, with the columns `COLUMNS` and one row per point."""
    rows = [
        (line.figure, line.panel, line.name, len(line.values), *point)
        for line in lines
        for point in zip(line.x, *line.interval, strict=True)
    ]
    write_csv(folder / POINTS, COLUMNS, rows)


def draw_panel(
    axes: Axes, lines: Sequence[Line], strokes: Sequence[Stroke], log: Sequence[Literal["x", "y"]] = ()
) -> None:
    """Draw the lines of one panel with their intervals. At each x, the interval bars are next to each other.

    The limits of the y-axis depend on the means alone. Long bars are cut at these limits.

    Parameters
    ----------
    axes : Axes
        The panel.
    lines : sequence of Line
        The lines, which all belong to this panel.
    strokes : sequence of Stroke
        The look of each line.
    log : sequence of "x" or "y"
        Axes to make logarithmic.
    """
    from matplotlib.transforms import offset_copy

    for number, (line, stroke) in enumerate(zip(lines, strokes, strict=True)):
        draw_line(axes, line.x, line.interval[0], stroke, label=line.name, number=number)
    for which in log:
        log_axis(axes, which)
    bottom, top = axes.get_ylim()
    for number, (line, stroke) in enumerate(zip(lines, strokes, strict=True)):
        beside = _BESIDE * (number - (len(lines) - 1) / 2)
        _, low, high = line.interval
        axes.vlines(
            line.x,
            np.clip(low, bottom, top),
            np.clip(high, bottom, top),
            color=stroke.colour,
            linewidth=1,
            alpha=0.7,
            transform=offset_copy(axes.transData, axes.get_figure(root=True), x=beside, units="points"),
        )
    axes.set_ylim(bottom, top)
    plain(axes, "both")
    title(axes, lines[0].panel)
