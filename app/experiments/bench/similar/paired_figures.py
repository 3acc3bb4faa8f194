"""Draw the figures whose panels are described in `app.experiments.bench.similar.paired`.

Each panel is a column with two plots: the means, and below them the differences to the baseline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from closecall.app.experiments.bench.similar.paired import Panel
from closecall.app.experiments.compare.drawing import (
    INK,
    SECOND,
    draw_line,
    list_lines,
    log_axis,
    plain,
    title,
    write_figures,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _BESIDES, _HEIGHT = 3.6, 3.4, 3.0
"""Sizes in inches: width of a panel, width of the legend, and height of a row of plots."""

_BESIDE = 1.03
"""Ratio of the x-coordinates at which the intervals of neighbouring lines are drawn."""


def draw_panels(panels: Sequence[Panel], captions: Mapping[str, str], out: Path) -> dict[str, Path]:
    """Draw all figures into the folder `out`, as SVG and PNG.

    Parameters
    ----------
    panels : sequence of Panel
        The panels of all figures.
    captions : dict of str
        Caption of each figure, by its number.
    out : Path
        An existing folder.

    Returns
    -------
    dict
        SVG file of each figure, by name: "figure-1" and so on.
    """
    drawn = {
        f"figure-{figure}": partial(_draw, [panel for panel in panels if panel.figure == figure], caption)
        for figure, caption in captions.items()
    }
    return write_figures(drawn, out)


def _draw(panels: Sequence[Panel], caption: str) -> Figure:
    """Draw one figure, which consists of `panels`."""
    from matplotlib.figure import Figure

    size = _WIDTH * len(panels) + _BESIDES, 2 * _HEIGHT + 0.9
    picture = Figure(figsize=size, layout="constrained")
    rows = picture.subplots(2, len(panels), squeeze=False)
    for panel, above, below in zip(panels, *rows, strict=True):
        for place, line in enumerate(panel.lines):
            means = [100 * mean.mean for mean in line.means]
            draw_line(above, panel.x, means, line.stroke, label=line.name, number=place)
        title(above, f"{panel.title}, %")
        _finish(above, panel)
        if panel.others:
            _draw_gains(below, panel)
        else:
            below.set_axis_off()
    picture.suptitle(f"Figure {panels[0].figure}: {caption}", x=0.01, ha="left", fontsize=11, color=INK)
    list_lines(picture)
    return picture


def _draw_gains(axes: Axes, panel: Panel) -> None:
    """Draw the differences to the baseline with their intervals; at each x, lines are next to each other."""
    axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
    for place, line in enumerate(panel.others):
        gains = [gain.scaled(100) for gain in panel.gains(line)]
        x = [at * _BESIDE ** (place - (len(panel.others) - 1) / 2) for at in panel.x]
        for at, gain in zip(x, gains, strict=True):
            if gain.low is not None and gain.high is not None:
                axes.plot([at, at], [gain.low, gain.high], color=line.stroke.colour, linewidth=1.2)
        points = line.stroke._replace(width=0)
        draw_line(axes, x, [gain.mean for gain in gains], points, label=f"_{line.name}", number=0)
    title(axes, f"difference to {panel.baseline}, points")
    _finish(axes, panel)


def _finish(axes: Axes, panel: Panel) -> None:
    """Set the scale, ticks, label and grid of the axes of a panel."""
    log_axis(axes)
    axes.set_xticks(panel.x, [f"{x:,g}" for x in panel.x], fontsize=8)
    axes.set_xticks([], minor=True)
    axes.set_xlabel(panel.across, color=SECOND)
    plain(axes, "both")
