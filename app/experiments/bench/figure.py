"""Plots of time against rank: a panel per setting, with a line per strategy and a line for subsamples."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import label_of
from closecall.app.display.theme import LIGHT, STRATEGY_COLOURS
from closecall.app.experiments.bench.contenders import PLAIN_SCANS, REFERENCE
from closecall.app.runtime.extras import load
from closecall.core.errors import InputError
from closecall.core.files.durable import disk_trouble
from closecall.core.selection.hashed import PAPERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMATS = (".svg", ".png")
COLUMNS = 3
REFERENCE_LINE = "random rows, as many as can be scored in that time"

# Marks and dashes differ, too, so that strategies can be told apart without colours.
MARKERS = {
    "margin-index": (4, 1, 0),
    "random": "o",
    "subsample": "s",
    "exhaustive": "o",
    "h-hash": "^",
    "eh-hash": "v",
    "bh-hash": "D",
    "lbh-hash": "p",
    "h-hash-weighted": "^",
    "eh-hash-weighted": "v",
    "bh-hash-weighted": "D",
    "lbh-hash-weighted": "p",
    "likely-positive": "P",
}
DASHES = {"random": ":", "subsample": "--"} | dict.fromkeys(PAPERS, "--")
OTHERS = "h"
_INK, _SECOND, _LINE = LIGHT["textColor"], LIGHT["grayColor"], LIGHT["borderColor"]
_OFFSETS = [(dx, dy) for dy in (0, 10, -10, 20, -20, 30, -30) for dx in (8, -8, 0)]
"""Possible offsets of a label from its data point, in typographic points, in order of preference."""

Mark = tuple[str, str, list[tuple[float, float]]]
"""A label, its colour, and the data points of the line that it names."""


def check_figure(path: Path | None, option: str = "--figure") -> None:
    """Check that the figure `path` can be drawn, so that errors occur before the measurement.

    `option` is the name of the command's option, for the error message.

    Raises
    ------
    InputError
        If the name does not end in one of `FORMATS`, or matplotlib is not installed.
    """
    if path is not None and path.suffix.lower() not in FORMATS:
        raise InputError(f"{option} must end in {' or '.join(FORMATS)}, got {path}")
    if path is not None:
        load("matplotlib", "reports")


def draw(rows: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw the time of each strategy against the rank of the items that it selects.

    Parameters
    ----------
    rows : sequence of dict
        Rows of `app.experiments.bench.select.Selection.measure`. Each combination of data set, setting and
        number of items gets a panel.
    path : Path
        File to write. Its suffix, one of `FORMATS`, determines the format.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    panels = [list(group) for _, group in groupby(rows, key=panel)]
    across = min(COLUMNS, len(panels))
    down = -(-len(panels) // across)
    style: dict[Any, Any] = {
        "font.size": 9,
        "text.color": _INK,
        "axes.edgecolor": _LINE,
        "axes.labelcolor": _SECOND,
        "xtick.color": _SECOND,
        "ytick.color": _SECOND,
    }
    with mpl.rc_context(style):
        figure = Figure(figsize=(4.4 * across, 3.5 * down), layout="constrained")
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes in grid.flat[: len(panels)]:
            _prepare(axes)
        marks = [_draw_panel(axes, panel) for axes, panel in zip(grid.flat, panels, strict=False)]
        grid.flat[0].set_ylim(bottom=0.3)
        figure.legend(
            handles=[line for line in grid.flat[0].get_lines() if line.get_label() == REFERENCE_LINE],
            loc="outside lower left",
            frameon=False,
        )
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # placing labels needs axes that don't change their size
        for axes, of_panel in zip(grid.flat, marks, strict=False):
            _label(axes, of_panel, figure.dpi / 72)
        with disk_trouble(path):
            figure.savefig(path, dpi=200, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)


def panel(row: dict[str, Any]) -> tuple[str, str, int]:
    """Return the key of the panel that a row belongs to: data set, setting and number of items."""
    return row["data"], row["setting"], row["items"]


def panel_title(row: dict[str, Any]) -> str:
    """Return a panel's title: data set, numbers of items and hyperplanes. `row` is any row of the panel."""
    planes = counted(row["queries"], "hyperplane")
    return f"{row['data']}, {counted(row['items'], 'item')}, {planes} of {row['planes_of']}"


def _prepare(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.grid(True, color=_LINE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.margins(0.1)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(which="both", length=0, labelbottom=True, labelleft=True)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}" if x >= 1 else f"1/{1 / x:,.0f}"))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:,.0f}"))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("time, share of the exhaustive scan")
    axes.set_ylabel("median rank + 1 (1 is exact)")


def _draw_panel(axes: Axes, rows: list[dict[str, Any]]) -> list[Mark]:
    """Draw the panel of one setting, without labels; return the labels to place."""
    first = rows[0]
    axes.set_title(first["setting"], loc="left", fontsize=10, fontweight="bold", pad=18)
    axes.text(0, 1.03, panel_title(first), transform=axes.transAxes, fontsize=8, color=_SECOND)
    full = next(row["median_ms"] for row in rows if row["strategy"] == REFERENCE)
    axes.axvline(1, color=_INK, linewidth=0.8, linestyle=":")
    across = axes.get_xaxis_transform()
    axes.text(0.9, 0.98, label_of(REFERENCE), transform=across, ha="right", va="top")

    by_time = sorted(rows, key=lambda row: row["median_ms"])
    x = [row["median_ms"] / full for row in by_time]
    y = [row["rank_of_equal_time_subsample"] + 1 for row in by_time]
    axes.plot(x, y, label=REFERENCE_LINE, color=_LINE, linewidth=5, solid_capstyle="round", zorder=1)

    marks: list[Mark] = []
    families: dict[str, list[dict[str, Any]]] = {}
    for row in by_time:
        if row["strategy"] not in PLAIN_SCANS:
            families.setdefault(row["strategy"].partition(":")[0], []).append(row)
    for name, points in families.items():
        colour = STRATEGY_COLOURS.get(name, (_SECOND,))[0]
        x = [row["median_ms"] / full for row in points]
        y = [row["rank_median"] + 1 for row in points]
        axes.plot(
            x,
            y,
            color=colour,
            linestyle=DASHES.get(name, "-"),
            linewidth=1.4,
            marker=MARKERS.get(name, OTHERS),
            markersize=9 if name == "margin-index" else 6,
            markerfacecolor="none" if name == "random" or name in PAPERS else colour,
            zorder=3,
        )
        if name != REFERENCE:
            marks.append((label_of(name), colour, list(zip(x, y, strict=True))))
    return marks


def _label(axes: Axes, marks: list[Mark], unit: float) -> None:
    """Write each label beside one of its data points, at the first offset where it overlaps nothing.

    If it overlaps something at every offset, take the offset with the least overlap. `unit` is the size of
    a typographic point in pixels.
    """
    _, *lines = axes.get_lines()  # the first line belongs to the exhaustive scan
    drawn = [axes.transData.transform(line.get_xydata()) for line in lines]
    along = [a + t * (b - a) for line in drawn for a, b in pairwise(line) for t in np.linspace(0, 1, 25)]
    points = np.concatenate([along, *drawn])
    taken, weights = np.hstack([points - 4 * unit, points + 4 * unit]), np.ones(len(points))
    for text, colour, at in sorted(marks, key=lambda mark: mark[2][0]):
        note = axes.annotate(text, at[0], color=colour, va="bottom", annotation_clip=False)
        size = note.get_window_extent().size
        places = [(dx, dy, point) for dx, dy in _OFFSETS for point in axes.transData.transform(at)]
        # A label right of its point starts at the offset. A label left of it ends there. Others are centred.
        starts = np.array(
            [
                (x + unit * dx - size[0] * (dx < 0) - size[0] / 2 * (dx == 0), y + unit * dy - size[1] / 2)
                for dx, dy, (x, y) in places
            ]
        )
        ends = starts + size
        clashes = (starts[:, None] < taken[:, 2:]).all(axis=2) & (taken[:, :2] < ends[:, None]).all(axis=2)
        outside = (starts < axes.bbox.min).any(axis=1) | (ends > axes.bbox.max).any(axis=1)
        best = int(np.argmin(clashes @ weights + weights.sum() * outside))
        x, y = axes.transData.inverted().transform(starts[best])
        note.set_position((x, y))
        taken = np.vstack([taken, [*starts[best], *ends[best]]])
        weights = np.append(weights, len(points))
