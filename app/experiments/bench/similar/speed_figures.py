"""Drawings of the figures about the time of a query, which reproduce figures 2 and 4 of the survey [1]_.

Figure 2 shows the time against the number of items. Figure 4 shows the time against the number of bits, for
several radii of the Hamming ball.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.peers import PEERS
from closecall.app.experiments.bench.similar import balls
from closecall.app.experiments.bench.similar.efforts import ENOUGH, by_effort, by_structure, cheapest
from closecall.app.experiments.bench.similar.lines import Line, draw_panel, write_lines
from closecall.app.experiments.compare.drawing import (
    INK,
    SECOND,
    Stroke,
    list_lines,
    write_figures,
)
from closecall.app.experiments.compare.similar.looks import look_at, ramp
from closecall.app.experiments.compare.similar.names import STRUCTURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE = "2"

LOOKUP = "hashing and finding candidates, ms"
WHOLE = f"nearest ten with recall@10 of at least {ENOUGH:g}, ms"
"""Titles of the panels of figure 2."""

TIME, RETURNED, EMPTY = "search alone, ms", "items in the ball", "queries with an empty ball, %"
"""Titles of the panels of figure 4."""

EXACT, SCAN = "exact scan", "scan of the codes"

_WIDTH, _HEIGHT = 10.0, 3.6
"""Width and height of a figure in inches."""

_YARDSTICK = Stroke(INK, "", dash=(4.0, 2.0))
"""The look of the line for the scan, which the other lines are compared with."""


def lines_by_items(rows: Sequence[Row]) -> list[Line]:
    """Return the lines of figure 2 from the rows of `Speed.measure` about structures.

    The panel `LOOKUP` shows each structure at its least search effort. Peers (faiss) are left out, because
    they have no candidates. The panel `WHOLE` shows each structure and peer at its cheapest sufficient
    effort; see `cheapest`. If no effort suffices at a pool size, the line has no point there.
    """
    lookups: dict[str, dict[int, list[float]]] = {}
    wholes: dict[str, dict[int, list[float]]] = {}
    for size in sorted({row["items"] for row in rows}):
        of_size = [row for row in rows if row["items"] == size]
        exact = {row["draw"]: row["exact_ms"] for row in of_size}
        for panel in (lookups, wholes):
            panel.setdefault(EXACT, {})[size] = list(exact.values())
        for (structure, bits), own in by_structure(of_size).items():
            name = _name(structure, bits)
            efforts = by_effort(own)
            if structure not in PEERS:
                lookups.setdefault(name, {})[size] = [row["lookup_ms"] for row in efforts[0]]
            if (best := cheapest(efforts)) is not None:
                wholes.setdefault(name, {})[size] = [row["ms"] for row in best]
    return [
        Line(FIGURE, title, name, list(points), np.array(list(points.values())).T)
        for title, panel in ((LOOKUP, lookups), (WHOLE, wholes))
        for name, points in panel.items()
    ]


def lines_by_radius(rows: Sequence[Row]) -> list[Line]:
    """Return the lines of figure 4, with bits on the x-axis, from the rows of `balls.measure_balls`."""
    bits = sorted({row["bits"] for row in rows})
    radii = sorted({row["radius"] for row in rows})

    def line(panel: str, name: str, column: str, radius: int, factor: float = 1) -> Line:
        values = [
            [factor * row[column] for row in rows if (row["bits"], row["radius"]) == (length, radius)]
            for length in bits
        ]
        return Line(balls.FIGURE, panel, name, list(bits), np.array(values).T)

    columns = ((TIME, "ms", 1), (RETURNED, "returned", 1), (EMPTY, "empty", 100))
    lines = [
        line(panel, f"radius {radius}", column, radius, factor)
        for panel, column, factor in columns
        for radius in radii
    ]
    return [line(TIME, SCAN, "scan_ms", radii[0]), *lines]


def draw_speed(lines: Sequence[Line], out: Path) -> dict[str, Path]:
    """Draw figures 2 and 4 into the existing folder `out`, as SVG and PNG, and write their points.

    Returns
    -------
    dict
        SVG file of each figure, by name: "figure-2" and "figure-4".
    """
    write_lines(lines, out)
    drawn = {
        f"figure-{number}": partial(draw, [line for line in lines if line.figure == number])
        for number, draw in ((FIGURE, _draw_items), (balls.FIGURE, _draw_radii))
    }
    return write_figures(drawn, out)


def _draw_items(lines: Sequence[Line]) -> Figure:
    names = list(dict.fromkeys(line.name for line in lines if line.name != EXACT))
    strokes = {name: look_at(place).stroke for place, name in enumerate(names)} | {EXACT: _YARDSTICK}
    picture, panels = _figure("2: time of a query, by the number of items", "items", 2, sharey=True)
    for axes, panel in zip(panels, (LOOKUP, WHOLE), strict=True):
        own = [line for line in lines if line.panel == panel]
        draw_panel(axes, own, [strokes[line.name] for line in own], ("x", "y"))
        axes.set_xticks(lines[0].x, [f"{n:,}" for n in lines[0].x])
        _fine_ticks(axes)
    list_lines(picture)
    return picture


def _draw_radii(lines: Sequence[Line]) -> Figure:
    names = list(dict.fromkeys(line.name for line in lines if line.name != SCAN))
    strokes = {name: ramp(place, len(names)) for place, name in enumerate(names)} | {SCAN: _YARDSTICK}
    picture, panels = _figure("4: semantic hashing by the radius of the Hamming ball", "bits", 3)
    for axes, panel in zip(panels, (TIME, RETURNED, EMPTY), strict=True):
        own = [line for line in lines if line.panel == panel]
        draw_panel(axes, own, [strokes[line.name] for line in own], () if panel == EMPTY else ("y",))
        axes.set_xticks(lines[0].x)
    _fine_ticks(panels[0])
    list_lines(picture)
    return picture


def _figure(text: str, across: str, n_panels: int, **how: Any) -> tuple[Figure, Sequence[Axes]]:
    """Return a figure with a title and an x-label, and its empty panels, which are side by side."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(_WIDTH, _HEIGHT), layout="constrained")
    picture.suptitle(f"Figure {text}", x=0.01, ha="left", fontsize=11, color=INK)
    picture.supxlabel(across, fontsize=10, color=SECOND)
    return picture, picture.subplots(1, n_panels, **how)


def _fine_ticks(axes: Axes) -> None:
    """Set the ticks of the y-axis at 1, 2, 5, 10 and so on.

    Times may lie within one power of ten, so ticks at powers of ten alone would be too few.
    """
    from matplotlib.ticker import LogLocator

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))


def _name(structure: str, bits: int | None) -> str:
    name = STRUCTURES.get(structure, structure)
    return name if bits is None else f"{name}, {bits} bits"
