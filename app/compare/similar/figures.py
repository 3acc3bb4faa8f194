"""The figures of a comparison of similarity families, as the papers have them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from app.compare.drawing import SECOND, End, name_ends, plain, title, write_figures
from app.compare.similar.names import (
    STRUCTURES,
    colour_of,
    dash_of,
    lane_label,
    mark_of,
)
from app.compare.similar.results import Lane, Results
from core.experiment.similarity import SEARCHED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Callable[[Lane], tuple[Any, Any]]

_WIDTH = 10.0

SHOWN = 0.03
"""Figures end at this share of the pool: who retrieves more may as well scan. The table goes on to all."""


def draw_figures(results: Results, out: Path) -> dict[str, Path]:
    """Draw all figures into the folder `out`, as SVG and PNG.

    Returns
    -------
    dict
        The SVG of each by its name: "bits", "retrieved", "angle", "precision", "structures", "times"; those
        for which there is nothing to draw are left out.
    """
    drawn: dict[str, Callable[[], Figure]] = {
        "bits": lambda: _by_bits(results),
        "retrieved": lambda: _by_retrieved(results, "neighbours"),
        "angle": lambda: _by_retrieved(results, "neighbours by angle"),
        "structures": lambda: _structures(results, "searched"),
        "times": lambda: _structures(results, "scan ratio"),
    }
    if set(results.yardsticks.values()) == {"angle"}:
        del drawn["angle"]
    if results.has_classes:
        drawn["precision"] = lambda: _by_retrieved(results, "precision")
    return write_figures(drawn, out)


def _by_bits(results: Results) -> Figure:
    """Recall@R against bits, and the share of all neighbours, as in figure 11 (b) of the survey."""
    from matplotlib.figure import Figure

    R, k = results.first, results.told
    picture = Figure(figsize=(_WIDTH, 4.4), layout="constrained")
    nearest, all_of_them = picture.subplots(1, 2)
    _curves(nearest, results, lambda lane: _percent(results.by_bits(lane, "nearest", R)), named=False)
    _curves(all_of_them, results, lambda lane: _percent(results.by_bits(lane, "neighbours", k)))
    for axes in (nearest, all_of_them):
        axes.set_xscale("log", base=2)
        axes.set_xticks(results.plan.bits, [str(n) for n in results.plan.bits])
        axes.set_xlabel("bits a code")
    title(nearest, f"Nearest item among the first {R:,}, %")
    title(all_of_them, f"{results.plan.neighbours} neighbours, found among {k:,}, %")
    return picture


def _by_retrieved(results: Results, measure: str) -> Figure:
    """What is found among the first rows, against how many these are; as in figure 11 (a) of the survey."""
    picture, axes = _panel()
    n = len(results.pool)

    def curve(lane: Lane) -> tuple[Any, Any]:
        k, value = results.by_retrieved(lane, measure, bits=results.longest(lane))
        shown = k <= max(SHOWN * n, 10 * results.first)
        return 100 * k[shown] / n, 100 * value[shown]

    _curves(axes, results, curve)
    axes.set_xscale("log")
    _percent_ticks(axes)
    axes.set_xlabel("retrieved, % of the pool")
    bits = max(results.plan.bits)
    said = {
        "neighbours": f"The {results.plan.neighbours} true neighbours found, %, {bits} bits",
        "neighbours by angle": f"The {results.plan.neighbours} neighbours by angle found, %, {bits} bits",
        "precision": f"Retrieved items of the query’s class, %, {bits} bits",
    }
    title(axes, said[measure])
    return picture


def _structures(results: Results, against: str) -> Figure:
    """Recall@10 of each structure against the share of the pool that it searched, or against its time."""
    from matplotlib.figure import Figure

    names = [name for name in STRUCTURES if name in results.table["structure"].to_pylist()]
    picture = Figure(figsize=(_WIDTH, 4.2), layout="constrained")
    panels = picture.subplots(1, len(names), sharey=True, squeeze=False)[0]
    last = panels[-1]
    for axes, structure in zip(panels, names, strict=True):

        def curve(lane: Lane, structure: str = structure) -> tuple[Any, Any]:
            bits = results.longest(lane)
            _, x = results.by_retrieved(lane, against, bits=bits, structure=structure)
            _, y = results.by_retrieved(lane, "recall", bits=bits, structure=structure)
            return 100 * x, 100 * y

        _curves(axes, results, curve, named=axes is last)
        axes.set_xscale("log")
        if against == "searched":
            axes.set_xticks([100 * share for share in SEARCHED])
        _percent_ticks(axes)
        title(axes, STRUCTURES[structure])
    panels[0].set_ylabel("recall@10 of the exact neighbours, %")
    said = {"searched": "items searched, % of the pool", "scan ratio": "time a query, % of the exact scan’s"}
    picture.supxlabel(said[against], fontsize=10, color=SECOND)
    return picture


def _panel() -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    picture = Figure(figsize=(_WIDTH, 4.8), layout="constrained")
    return picture, picture.subplots()


def _curves(axes: Axes, results: Results, curve: Curve, *, named: bool = True) -> None:
    """A line a lane, named where it ends."""
    plain(axes, "both")
    ends = []
    for lane in results.lanes:
        x, y = curve(lane)
        if not len(x):
            continue
        axes.plot(
            x,
            y,
            color=colour_of(lane),
            linestyle=dash_of(lane),
            linewidth=1.6,
            marker=mark_of(lane),
            markersize=4,
            markevery=max(1, len(x) // 8),
        )
        ends.append(End(float(y[-1]), float(x[-1]), lane_label(lane), colour_of(lane), bold=not lane.form))
    if named:
        name_ends(axes, ends)


def _percent(columns: tuple[Any, Any]) -> tuple[Any, Any]:
    return columns[0], 100 * np.asarray(columns[1])


def _percent_ticks(axes: Axes) -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
