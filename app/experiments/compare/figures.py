"""The figures of a comparison of strategies, modelled on those of the H-Hash paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.display.strategy_labels import name_of
from closecall.app.display.theme import LIGHT
from closecall.app.experiments.bench.figure import DASHES, MARKERS, OTHERS
from closecall.app.experiments.compare.boxes import AROUND, ROW, Cost, colour_of, draw_costs, strategy_rows
from closecall.app.experiments.compare.drawing import End, name_ends, plain, title, write_figures
from closecall.app.experiments.compare.measures import Measures
from closecall.app.experiments.compare.statistics import Interval, box, mean_and_halfwidth
from closecall.app.experiments.compare.wording import RANDOM, lane_label, signed
from closecall.core.errors import InputError
from closecall.core.selection.hashed import PAPERS
from closecall.core.sources.texts import Texts

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from PIL import Image

FIRST_CHOSEN = 7
"""Number of images to show for each strategy. They are its first selections, as in the H-Hash paper."""

_WIDTH = 10.0


def draw_figures(measures: Measures, pictures: dict[str, list[Image.Image]], out: Path) -> dict[str, Path]:
    """Draw all figures into the folder `out`, as SVG and PNG.

    Parameters
    ----------
    measures : Measures
        Measures to plot.
    pictures : dict
        First images that each strategy selected, by the strategy's name; empty if there are no images.
    out : Path
        An existing folder.

    Returns
    -------
    dict
        SVG file of each figure, by name: "learning", "above-random", "times", "spent" and "first". Figures
        without data are left out.
    """
    drawn: dict[str, Callable[[], Figure]] = {
        "learning": lambda: _learning(measures),
        "times": lambda: _times(measures),
        "spent": lambda: _spent(measures),
    }
    if _random(measures) and len(measures.whole) > 1:
        drawn["above-random"] = lambda: _above_random(measures)
    if pictures:
        drawn["first"] = lambda: _first(pictures)
    return write_figures(drawn, out)


def first_pictures(measures: Measures) -> dict[str, list[Image.Image]]:
    """Return the first images that each strategy selected in the first race, by the strategy's name.

    The dict is empty if the pool holds texts, or if its source can't be opened.
    """
    results = measures.results
    try:
        source = results.pool.source
        if isinstance(source, Texts):
            return {}
        return {
            name: [
                source.image(int(item), 96)
                for item in results.of(results.item, name)[0, :FIRST_CHOSEN]
                if item >= 0
            ]
            for name in results.names
        }
    except InputError:
        return {}


def _learning(measures: Measures) -> Figure:
    """Draw the gain in AUROC against the number of labels."""
    labels = np.arange(measures.results.plan.iterations + 1)
    picture, axes = _panel()
    _curves(axes, measures, lambda name: (labels, _mean_gain(measures, name)))
    axes.set_xlabel("labels chosen")
    return picture


def _spent(measures: Measures) -> Figure:
    """Draw the gain in AUROC against the processor time of selection plus the time of labeling."""
    picture, axes = _panel()
    _curves(axes, measures, lambda name: (measures.spent(name).mean(axis=0) / 60, _mean_gain(measures, name)))
    axes.set_xlabel(f"minutes of selection and labeling, {measures.label_seconds:g} s per label")
    return picture


def _panel() -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    picture = Figure(figsize=(_WIDTH, 4.6), layout="constrained")
    axes = picture.subplots()
    title(axes, "Improvement in AUROC, points")
    return picture, axes


def _above_random(measures: Measures) -> Figure:
    """Draw the difference in mean gain between each strategy and random selection, with intervals."""
    from matplotlib.figure import Figure

    base = _random(measures)
    assert base
    rows = [name for name in measures.whole if name != base]
    picture = Figure(figsize=(_WIDTH, 0.7 + 0.8 * ROW * len(rows)), layout="constrained")
    axes = picture.subplots()
    axes.axvline(0, color=colour_of(base), linestyle=":", linewidth=1.4)
    strategy_rows(axes, rows)
    for place, name in enumerate(rows):
        _whisker(axes, place, measures.difference(measures.gain, name, base), name)
    title(axes, "Mean improvement in AUROC above random, points")
    return picture


def _random(measures: Measures) -> str | None:
    return next((name for name in measures.whole if name_of(name) == RANDOM), None)


def _times(measures: Measures) -> Figure:
    """Draw box plots of processor times of selections and of |wᵀx + b|, one row per strategy."""
    from matplotlib.figure import Figure

    results = measures.results
    costs = {}
    for name in results.names:
        margins = results.of(results.margin, name)
        if np.isfinite(margins).any():
            costs[name] = Cost(box(1000 * results.of(results.select_cpu_seconds, name)), box(margins))
    picture = Figure(figsize=(_WIDTH, AROUND + ROW * len(costs)), layout="constrained")
    draw_costs(picture, costs, of_times="Processor time of a selection, ms")
    return picture


def _first(pictures: dict[str, list[Image.Image]]) -> Figure:
    """Draw the first images that each strategy selected."""
    from matplotlib.figure import Figure

    picture = Figure(figsize=(8.4, 0.95 * len(pictures)))
    grid = picture.subplots(len(pictures), FIRST_CHOSEN, squeeze=False)
    picture.subplots_adjust(left=0.27, right=0.99, top=0.99, bottom=0.01, hspace=0.08, wspace=0.08)
    for line, (name, images) in zip(grid, pictures.items(), strict=True):
        for axes in line:
            axes.set_axis_off()
        for axes, image in zip(line, images, strict=False):
            axes.imshow(np.asarray(image), cmap="gray", interpolation="nearest")
        line[0].text(
            -0.15,
            0.5,
            lane_label(name),
            transform=line[0].transAxes,
            ha="right",
            va="center",
            color=colour_of(name),
            fontweight="bold",
        )
    return picture


def _mean_gain(measures: Measures, name: str) -> Any:
    results = measures.results
    return mean_and_halfwidth(results.of(results.gain, name), results.classes)[0]


def _curves(axes: Axes, measures: Measures, course: Callable[[str], tuple[Any, Any]]) -> None:
    """Draw one line per strategy, labeled at its end."""
    plain(axes, "y")
    ends = []
    for name in measures.results.names:
        x, y = course(name)
        known = np.flatnonzero(np.isfinite(x) & np.isfinite(y))
        if not len(known):
            continue
        given = ":" in name
        axes.plot(
            x,
            y,
            color=colour_of(name),
            linestyle=DASHES.get(name_of(name), "-"),
            linewidth=1.0 if given else 1.8,
            alpha=0.7 if given else 1,
            zorder=2 if given else 3,
        )
        _glyph(axes, x[known[-1]], y[known[-1]], name)
        at, height = float(x[known[-1]]), float(y[known[-1]])
        label = f"{lane_label(name)}  {signed(height)}"
        ends.append(End(height, at, label, colour_of(name), not given))
    name_ends(axes, ends)


def _whisker(axes: Axes, place: int, more: Interval, name: str) -> None:
    colour = colour_of(name)
    if more.low is not None and more.high is not None:
        axes.plot([more.low, more.high], [place, place], color=colour, linewidth=2, solid_capstyle="round")
    _glyph(axes, more.mean, place, name)


def _glyph(axes: Axes, x: float, y: float, name: str) -> None:
    """Draw a strategy's mark at (x, y). Marks differ in shape as well as in colour."""
    colour = colour_of(name)
    hollow = name_of(name) == RANDOM or name_of(name) in PAPERS
    axes.plot(
        [x],
        [y],
        marker=MARKERS.get(name_of(name), OTHERS),
        markersize=10 if name_of(name) == "margin-index" else 4.5 if ":" in name else 7,
        color=colour,
        markerfacecolor=LIGHT["secondaryBackgroundColor"] if hollow else colour,
        markeredgewidth=1.5 if hollow else 1,
        linestyle="none",
        zorder=5,
        clip_on=False,
    )
