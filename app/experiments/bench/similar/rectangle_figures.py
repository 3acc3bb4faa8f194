"""Drawings of figures 12 to 14 of the survey [1]_.

Figure 12 shows eigenfunctions, figure 13 precision, and figure 14 Hamming balls in a rectangle.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.similar.curves import Floats
from closecall.app.experiments.bench.similar.lines import Line, draw_panel, write_lines
from closecall.app.experiments.compare.drawing import INK, LINE, SECOND, list_lines, title, write_figures
from closecall.app.experiments.compare.similar.looks import look_of
from closecall.app.experiments.compare.similar.names import lane_label
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.experiment.rectangles import (
    METHODS,
    N_POINTS,
    Box,
    Eigenfunction,
    Method,
    distances,
    eigenfunctions,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FIGURE = "13"

MEASURES = {"within": "Hamming distance below 2", "first": "first {k} points"}
"""The columns of `Rectangles.measure` in figure 13, each with a text that names the points in question."""

N_FUNCTIONS = 12
"""Number of eigenfunctions in figure 12."""

BITS = (3, 7, 15)
"""Code lengths in figure 14, in bits."""

BALLS = {0: "#c8202f", 1: "#7bc043", 2: "#24487a"}
"""Colour of each Hamming distance in figure 14. The colours differ in lightness, too."""

QUERY = (0.42, 0.6)
"""Position of the query in figure 14, as shares of the rectangle's edges."""

_PRODUCT = "#d1242f"
_CELLS = 45_000
"""Approximate number of grid cells in a picture of the rectangle.

There are fewer cells than pixels, so that no border between cells is lost.
"""

_WIDTH = 10.0
"""Width of a figure in inches."""


def label_of(method: Method) -> str:
    """Return the display name of a method."""
    return lane_label(Lane(*method))


def shares_of(rows: Sequence[Row], box: str, method: Method, bits: int, column: str) -> Floats:
    """Return the values of a column in all draws, of shape (n_draws,), with NaN for None."""
    key = (box, *method, bits)
    own = [row for row in rows if (row["data"], row["family"], row["form"], row["bits"]) == key]
    return np.array([row[column] for row in own], dtype=np.float64)


def lines_of(rows: Sequence[Row]) -> list[Line]:
    """Return the lines of figure 13, in percent.

    A value of the column "within" is NaN if all points have a Hamming distance of 2 or more from all queries.
    """
    bits = sorted({row["bits"] for row in rows})
    return [
        Line(
            FIGURE,
            f"{box}, {among.format(k=rows[0]['neighbours'])}",
            label_of(method),
            list(bits),
            100 * np.array([shares_of(rows, box, method, n, column) for n in bits]).T,
        )
        for column, among in MEASURES.items()
        for box in dict.fromkeys(row["data"] for row in rows)
        for method in METHODS
    ]


def draw_rectangles(lines: Sequence[Line], rectangles: Sequence[Box], k: int, out: Path) -> dict[str, Path]:
    """Draw figures 12 to 14 into the folder `out`, as SVG and PNG, and write the points of figure 13.

    Figures 12 and 14 show the first rectangle that is not a square. If all are squares, they show the first
    square.

    Parameters
    ----------
    lines : sequence of Line
        The lines of figure 13.
    rectangles : sequence of Box
        The rectangles of figure 13.
    k : int
        Number of true neighbours per point, for methods that learn from neighbours.
    out : Path
        An existing folder.

    Returns
    -------
    dict
        SVG file of each figure, by name: "figure-12", "figure-13" and "figure-14".
    """
    write_lines(lines, out)
    shown = next((box for box in rectangles if box.lengths[0] > box.lengths[1]), rectangles[0])
    drawn = {
        "figure-12": partial(_draw_eigenfunctions, shown),
        "figure-13": partial(_draw_precision, lines),
        "figure-14": partial(_draw_balls, shown, k),
    }
    return write_figures(drawn, out)


def _draw_eigenfunctions(box: Box) -> Figure:
    """Draw figure 12: eigenfunctions by ascending eigenvalue, and their thresholded values."""
    from matplotlib.figure import Figure

    found, grid = eigenfunctions(box, N_FUNCTIONS), box.grid(_CELLS)
    n_columns = 3 if box.lengths[0] > box.lengths[1] else 4
    n_rows = -(-len(found) // n_columns)
    each = (_WIDTH - 0.4) / 2 / n_columns * box.lengths[1] / box.lengths[0]
    picture = Figure(figsize=(_WIDTH, 1.0 + n_rows * (each + 0.3)), layout="constrained")
    _head(picture, f"Figure 12: eigenfunctions of a {box.name}, by ascending eigenvalue")
    left, right = np.asarray(picture.subfigures(1, 2, wspace=0.03))
    for part, text in ((left, "as they are"), (right, "thresholded at zero")):
        part.suptitle(text, x=0.01, ha="left", fontsize=10, color=SECOND)
        panels = part.subplots(n_rows, n_columns).ravel()
        for axes, one in zip(panels, found, strict=False):
            values = one.values(grid, box)
            shown = values if text == "as they are" else np.where(values >= 0, 1, -1)
            _bare(axes)
            axes.imshow(shown, cmap="gray", vmin=-1, vmax=1, origin="lower", interpolation="nearest")
            axes.set_title(_label(one), fontsize=8, color=_PRODUCT if one.is_product else SECOND, pad=3)
            colour, width = (_PRODUCT, 2) if one.is_product else (LINE, 0.8)
            axes.spines[:].set(visible=True, color=colour, linewidth=width)
        for axes in panels[len(found) :]:
            axes.set_axis_off()
    picture.supxlabel(
        "Above each: half waves along the long and the short edge. Red: products of two functions, which "
        "spectral hashing leaves out.",
        fontsize=9,
        color=SECOND,
        x=0.01,
        ha="left",
    )
    return picture


def _draw_precision(lines: Sequence[Line]) -> Figure:
    """Draw figure 13, with a row of panels for each measure, and a column for each box."""
    from matplotlib.figure import Figure

    titles = list(dict.fromkeys(line.panel for line in lines))
    n_columns = len(titles) // len(MEASURES)
    strokes = {label_of(method): look_of(Lane(*method)).stroke for method in METHODS}
    picture = Figure(figsize=(3.6 + 2.4 * n_columns, 5.6), layout="constrained")
    panels = picture.subplots(len(MEASURES), n_columns, sharex=True, sharey="row", squeeze=False)
    for axes, panel in zip(panels.ravel(), titles, strict=True):
        own = [line for line in lines if line.panel == panel]
        draw_panel(axes, own, [strokes[line.name] for line in own])
        axes.set_xticks(own[0].x)
        title(axes, "")
    for axes, panel in zip(panels[0], titles, strict=False):
        title(axes, panel.partition(", ")[0])
    for axes, panel in zip(panels[:, 0], titles[::n_columns], strict=True):
        axes.set_ylabel(f"{panel.partition(', ')[2]}, %", fontsize=10, color=SECOND)
    _head(picture, "Figure 13: share of true neighbours among the points found")
    picture.supxlabel("bits", fontsize=10, color=SECOND)
    list_lines(picture)
    return picture


def _draw_balls(box: Box, k: int) -> Figure:
    """Draw figure 14, the Hamming distances from a query.

    There is a row of panels for each method, and a column for each code length.
    """
    from matplotlib.colors import ListedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    points = box.uniform(N_POINTS, np.random.default_rng([0, len(box.lengths)]))
    query = (np.array(QUERY) * box.lengths).astype(np.float32)
    grid = box.grid(_CELLS)
    each = (_WIDTH - 1.6) / len(BITS) * box.lengths[1] / box.lengths[0]
    methods = [method for method in METHODS if not method.form]
    picture = Figure(figsize=(_WIDTH, 0.8 + len(methods) * (each + 0.1)), layout="constrained")
    panels = picture.subplots(len(methods), len(BITS), squeeze=False)
    colours = ListedColormap([*BALLS.values(), "#f4f4f2"])
    extent = (0, box.lengths[0], 0, box.lengths[1])
    for row, method in zip(panels, methods, strict=True):
        for axes, n_bits in zip(row, BITS, strict=True):
            coder = METHODS[method](points, n_bits, k, 0)
            far = distances(coder, query, grid.reshape(-1, 2)).reshape(grid.shape[:2])
            _bare(axes)
            beyond = len(BALLS)
            axes.imshow(
                np.minimum(far, beyond), cmap=colours, vmin=0, vmax=beyond, origin="lower", extent=extent
            )
            axes.imshow(
                _borders(coder(grid.reshape(-1, 2)).unpacked().reshape(*grid.shape[:2], -1)),
                cmap=ListedColormap(["none", INK]),
                alpha=0.25,
                origin="lower",
                extent=extent,
                interpolation="nearest",
            )
            axes.plot(*query, marker="o", markersize=7, color="#ffd21f", markeredgecolor=INK)
        row[0].set_ylabel(label_of(method), fontsize=10, color=INK)
    for axes, n_bits in zip(panels[0], BITS, strict=True):
        title(axes, f"{n_bits} bits")
    _head(picture, f"Figure 14: Hamming distance from the yellow point, in a {box.name}")
    patches = [Patch(color=colour, label=f"distance {n}") for n, colour in BALLS.items()]
    patches.append(Patch(facecolor="#f4f4f2", edgecolor=LINE, label="greater"))
    picture.legend(handles=patches, loc="outside right upper", frameon=False, fontsize=9, labelcolor=INK)
    return picture


def _borders(bits: np.ndarray[Any, np.dtype[np.uint8]]) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return whether the code of each cell differs from the code of the next cell to the right or above.

    Parameters
    ----------
    bits : array of shape (n_rows, n_columns, n_bits)
        The bits of each cell's code.
    """
    borders = np.zeros(bits.shape[:2], dtype=np.bool_)
    borders[:, :-1] |= (bits[:, 1:] != bits[:, :-1]).any(axis=2)
    borders[:-1] |= (bits[1:] != bits[:-1]).any(axis=2)
    return borders


def _bare(axes: Axes) -> None:
    """Remove the ticks and the frame of the axes."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def _head(picture: Figure, text: str) -> None:
    picture.suptitle(text, x=0.01, ha="left", fontsize=11, color=INK)


def _label(one: Eigenfunction) -> str:
    return "{}, {}".format(*one.modes)
