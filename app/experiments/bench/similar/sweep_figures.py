"""Drawings of the figures about kernelized LSH.

A figure has a panel for each kernel and each point that angles are measured from: the origin or the mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from closecall.app.experiments.bench.similar.curves import Curve, seen_from
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
from closecall.app.experiments.compare.similar.looks import look_of, ramp

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLES = {
    "1": ("gain in recall@R over KLSH with all components", "R", "points"),
    "2a": ("gain in recall@R over Nyström with all components", "R", "points"),
    "2b": ("recall@R", "R", "%"),
    "2c": ("eigenvalues of the landmarks’ kernel matrix, share of the largest", "component", "%"),
    "3": ("gain in recall@R over the low-rank form of κ itself", "R", "points"),
    "t": ("gain in recall@R over Gaussian vectors", "R", "points"),
}
"""Title, name of the x-axis, and unit of the y-axis, by the number of the figure."""

_WIDTH, _HEIGHT = 10.0, 3.2
"""Sizes in inches: width of a figure, and height of a row of panels."""

_BESIDE = 1.06
"""Ratio of the x-coordinates at which the intervals of neighbouring lines are drawn."""


def draw_sweeps(curves: Sequence[Curve], R: float, out: Path) -> dict[str, Path]:
    """Draw all figures into the folder `out`, as SVG and PNG.

    Parameters
    ----------
    curves : sequence of Curve
        The lines of all figures.
    R : float
        Number of retrieved items; parameters are chosen by recall@R. A dotted line marks R, and the 95 %
        intervals are drawn beside this line.
    out : Path
        An existing folder.

    Returns
    -------
    dict
        SVG file of each figure, by name: "figure-1", "figure-2a" and so on.
    """
    drawn = {
        f"figure-{figure}": partial(_draw, [curve for curve in curves if curve.figure == figure], R)
        for figure in TITLES
    }
    return write_figures(drawn, out)


def _draw(curves: Sequence[Curve], R: float) -> Figure:
    """Draw one figure: a row for each kernel, and columns for angles from the origin and from the mean."""
    from matplotlib.figure import Figure

    what, across, unit = TITLES[curves[0].figure]
    kernels = list(dict.fromkeys(curve.kernel for curve in curves))
    origins = list(dict.fromkeys(map(seen_from, curves)))
    lines = list(dict.fromkeys(curve.line for curve in curves))
    picture = Figure(figsize=(_WIDTH, 0.4 + _HEIGHT * len(kernels)), layout="constrained")
    panels = picture.subplots(len(kernels), len(origins), sharex=True, sharey="row", squeeze=False)
    for kernel, row in zip(kernels, panels, strict=True):
        for origin, axes in zip(origins, row, strict=True):
            own = [curve for curve in curves if (curve.kernel, seen_from(curve)) == (kernel, origin)]
            for curve in own:
                _draw_curve(axes, curve, R, lines.index(curve.line), len(lines))
            log_axis(axes)
            plain(axes, "both")
            title(axes, kernel if origin == "–" else f"{kernel}, seen from the {origin}")
            if across == "R":
                axes.axvline(R, color=SECOND, linewidth=1, linestyle=":", zorder=1)
            else:
                log_axis(axes, "y")
            if unit == "points":
                axes.axhline(0, color=INK, linewidth=0.8, zorder=1)
    picture.suptitle(f"Figure {curves[0].figure}: {what}, {unit}", x=0.01, ha="left", fontsize=11, color=INK)
    picture.supxlabel(across, fontsize=10, color=SECOND)
    list_lines(picture)
    return picture


def _draw_curve(axes: Axes, curve: Curve, R: float, place: int, n_lines: int) -> None:
    """Draw the mean over random draws as a line, and the mean's 95 % interval beside x = R.

    The more draws chose the line's parameter, the wider the line.
    """
    mean, low, high = (100 * values for values in curve.interval)
    stroke = look_of(curve.lane).stroke if curve.figure == "2b" else ramp(place, n_lines)
    stroke = stroke._replace(width=stroke.width * (1 + curve.n_chosen / len(curve.values)))
    draw_line(axes, curve.x, mean, stroke, label=curve.line, number=place)
    if curve.figure != "2c" and len(curve.values) > 1:
        beside, at = R * _BESIDE ** (place - (n_lines - 1) / 2), curve.x.index(R)
        axes.plot([beside, beside], [low[at], high[at]], color=stroke.colour, linewidth=1.2, zorder=3)
