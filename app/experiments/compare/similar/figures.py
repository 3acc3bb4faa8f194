"""The figures of a comparison of hash families, modelled on figure 11 of the survey [1]_.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.experiments.compare.drawing import (
    LINE,
    SECOND,
    draw_line,
    list_lines,
    log_axis,
    plain,
    title,
    write_figures,
)
from closecall.app.experiments.compare.similar.looks import look_of
from closecall.app.experiments.compare.similar.names import STRUCTURES, lane_label
from closecall.app.experiments.compare.similar.results import Lane, SimilarityResults
from closecall.core.experiment.searching import SEARCHED

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Curve = Callable[[Lane], tuple[Any, Any]]

_WIDTH, _HEIGHT, _ENTRY = 10.0, 4.4, 0.205
"""Sizes in inches: width and minimum height of a figure, and height of an entry of the legend."""

SHOWN = 0.03
"""Largest retrieved share of the pool in figures. Retrieving more is no better than a scan.

The table in the file `RESULTS` has larger shares, too.
"""


def draw_figures(results: SimilarityResults, out: Path) -> dict[str, Path]:
    """Draw all figures into the folder `out`, as SVG and PNG.

    Returns
    -------
    dict
        SVG file of each figure, by name: "bits", "retrieved", "angle", "precision", "structures" and "times".
        Figures without data are left out.
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


def _by_bits(results: SimilarityResults) -> Figure:
    """Draw recall@R and the share of the true neighbours found, both against the code length.

    This is figure 11 (b) of the survey [1]_.
    """
    R, k = results.first, results.told
    picture = _figure(results)
    nearest, all_of_them = picture.subplots(1, 2)
    _curves(nearest, results, lambda lane: _percent(results.by_bits(lane, "nearest", R)))
    _curves(all_of_them, results, lambda lane: _percent(results.by_bits(lane, "neighbours", k)))
    for axes in (nearest, all_of_them):
        axes.set_xscale("log", base=2)
        axes.set_xticks(results.plan.bits, [str(n) for n in results.plan.bits])
        axes.set_xlabel("bits per code")
    title(nearest, f"Nearest item among the first {R:,}, %")
    title(all_of_them, f"{results.plan.neighbours} neighbours, found among {k:,}, %")
    list_lines(picture)
    return picture


def _by_retrieved(results: SimilarityResults, measure: str) -> Figure:
    """Draw a measure of the retrieved rows against their number, as in figure 11 (a) of the survey [1]_."""
    picture = _figure(results)
    axes = picture.subplots()
    n = len(results.pool)

    def curve(lane: Lane) -> tuple[Any, Any]:
        k, value = results.by_retrieved(lane, measure, bits=results.longest(lane))
        shown = k <= max(SHOWN * n, 10 * results.first)
        return 100 * k[shown] / n, 100 * value[shown]

    _curves(axes, results, curve)
    log_axis(axes)
    axes.set_xlabel("retrieved, % of the pool")
    bits = max(results.plan.bits)
    titles = {
        "neighbours": f"The {results.plan.neighbours} true neighbours found, %, {bits} bits",
        "neighbours by angle": f"The {results.plan.neighbours} neighbours by angle found, %, {bits} bits",
        "precision": f"Retrieved items of the query’s class, %, {bits} bits",
    }
    title(axes, titles[measure])
    list_lines(picture)
    return picture


def _structures(results: SimilarityResults, against: str) -> Figure:
    """Draw recall@10 of each structure against the cost of a query.

    If `against` is "searched", the cost is the share of the pool that was searched. If `against` is "scan
    ratio", the cost is the time of a query divided by the time of the exact scan.
    """
    names = [name for name in STRUCTURES if name in results.table["structure"].to_pylist()]
    picture = _figure(results)
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    if isinstance(layout := picture.get_layout_engine(), ConstrainedLayoutEngine):
        layout.set(wspace=0.06)
    panels = picture.subplots(1, len(names), sharey=True, squeeze=False)[0]
    for axes, structure in zip(panels, names, strict=True):

        def curve(lane: Lane, structure: str = structure) -> tuple[Any, Any]:
            bits = results.longest(lane)
            _, x = results.by_retrieved(lane, against, bits=bits, structure=structure)
            _, y = results.by_retrieved(lane, "recall", bits=bits, structure=structure)
            return 100 * x, 100 * y

        _curves(axes, results, curve)
        log_axis(axes)
        if against == "searched":
            least = min(float(line.get_xdata()[0]) for line in axes.get_lines())
            ticks = [100 * share for share in SEARCHED if 100 * share >= 0.9 * least]
            every = 1 if len(ticks) < 4 else 2
            axes.set_xticks(ticks[::-every])
            axes.set_xticks(ticks, minor=True)
            axes.grid(True, which="minor", axis="x", color=LINE, linewidth=0.5)
        title(axes, STRUCTURES[structure])
    panels[0].set_ylabel("recall@10 of the exact neighbours, %")
    titles = {
        "searched": "items searched, % of the pool",
        "scan ratio": "time per query, % of the exact scan’s",
    }
    picture.supxlabel(titles[against], fontsize=10, color=SECOND)
    list_lines(picture)
    return picture


def _figure(results: SimilarityResults) -> Figure:
    """Return an empty figure, high enough for the legend."""
    from matplotlib.figure import Figure

    height = max(_HEIGHT, 0.3 + _ENTRY * len(results.lanes))
    return Figure(figsize=(_WIDTH, height), layout="constrained")


def _curves(axes: Axes, results: SimilarityResults, curve: Curve) -> None:
    """Draw one line per family and form; see `draw_line` for the marks."""
    plain(axes, "both")
    axes.margins(x=0.04, y=0.06)
    for number, lane in enumerate(results.lanes):
        x, y = curve(lane)
        if not len(x):
            continue
        draw_line(axes, x, y, look_of(lane).stroke, label=lane_label(lane), number=number)


def _percent(columns: tuple[Any, Any]) -> tuple[Any, Any]:
    return columns[0], 100 * np.asarray(columns[1])
