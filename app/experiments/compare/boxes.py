"""Box plots of selection times and of |wᵀx + b|, with one row per strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from closecall.app.display.strategy_labels import name_of
from closecall.app.display.theme import STRATEGY_COLOURS
from closecall.app.experiments.compare.drawing import INK, SECOND, number_log_axis, plain, title
from closecall.app.experiments.compare.statistics import Box
from closecall.app.experiments.compare.wording import EXHAUSTIVE, figure, lane_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

ROW = 0.42
"""Height of a strategy's row, in inches."""

AROUND = 1.1
"""Height of the titles and axes above and below the rows, in inches."""


class Cost(NamedTuple):
    """Box plots of one strategy: selection times in ms, and |wᵀx + b| of the selected items."""

    ms: Box
    margin: Box


def draw_costs(
    picture: FigureBase, costs: Mapping[str, Cost], *, of_times: str = "Selection time, ms"
) -> None:
    """Draw box plots of selection times and of |wᵀx + b|, one row per strategy, the first on top.

    `of_times` is the title of the times.
    """
    times, margins = picture.subplots(1, 2, sharey=True)
    strategy_rows(times, list(costs))
    margins.tick_params(length=0)
    for place, (name, cost) in enumerate(costs.items()):
        _box(times, place, cost.ms, name, unit=" ms")
        _box(margins, place, cost.margin, name)
    scan = next((cost for name, cost in costs.items() if name_of(name) == EXHAUSTIVE), None)
    if scan:
        times.axvline(scan.ms.median, color=INK, linewidth=1, linestyle=":", zorder=1)
    title(times, of_times)
    title(margins, "|wᵀx| of what was selected")
    for axes in (times, margins):
        plain(axes, "x")
        number_log_axis(axes)


def strategy_rows(axes: Axes, names: Sequence[str]) -> None:
    """Prepare axes with one row per strategy, the first on top: set ticks, labels, limits and grid."""
    axes.set_yticks(range(len(names)), [lane_label(name) for name in names])
    for tick, name in zip(axes.get_yticklabels(), names, strict=True):
        tick.set_color(colour_of(name))
        tick.set_fontweight("normal" if ":" in name else "bold")
    axes.set_ylim(len(names) - 0.4, -0.6)
    plain(axes, "x")


def colour_of(word: str) -> str:
    """Return a strategy's colour in light mode."""
    return STRATEGY_COLOURS.get(name_of(word), (SECOND,))[0]


def _box(axes: Axes, place: int, shown: Box, name: str, unit: str = "") -> None:
    """Draw one box plot in the row `place`, and write its median above.

    The box spans the quartiles, and the whiskers the 5th to the 95th percentile.
    """
    colour = colour_of(name)
    axes.plot([shown.low, shown.high], [place, place], color=colour, linewidth=1.2, solid_capstyle="butt")
    axes.barh(
        place,
        shown.third - shown.first,
        left=shown.first,
        height=0.42,
        color=f"{colour}30",
        edgecolor=colour,
        linewidth=1.2,
        zorder=3,
    )
    axes.plot([shown.median] * 2, [place - 0.21, place + 0.21], color=colour, linewidth=2.6, zorder=4)
    axes.annotate(
        f"{figure(shown.median)}{unit}",
        (shown.median, place - 0.24),
        ha="center",
        va="bottom",
        fontsize=8,
        color=INK,
        xytext=(0, 1),
        textcoords="offset points",
    )
