"""Helpers for the figures of comparisons: common style, labels at the ends of lines, and saving to files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from closecall.app.display.theme import LIGHT
from closecall.core.files.durable import disk_trouble

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SECOND, LINE, SHEET = (
    LIGHT["textColor"],
    LIGHT["grayColor"],
    LIGHT["borderColor"],
    LIGHT["secondaryBackgroundColor"],
)

FORMATS = ("svg", "png")

WIDTH = 1.5
"""Default width of lines, in points."""

_MOST_POWERS = 8
"""Maximum number of powers of ten at the ticks of an axis."""

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_STYLE: dict[Any, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SECOND,
    "xtick.color": SECOND,
    "ytick.color": SECOND,
    "svg.fonttype": "none",
}


class End(NamedTuple):
    """The right end of a line, at x = `at` and y = `height`, and its label."""

    height: float
    at: float
    label: str
    colour: str
    bold: bool = True


class Stroke(NamedTuple):
    """The look of a line with marks.

    Parameters
    ----------
    colour, mark : str
        See `matplotlib.colors` and `matplotlib.markers`.
    size : float
        Size of the marks, in points.
    hollow : bool
        Whether the marks are hollow.
    dash : tuple of float
        Lengths of dashes and gaps, alternating, as multiples of the line width; empty for a solid line.
    width : float
        Width of the line, in points.
    """

    colour: str
    mark: str
    size: float = 5.8
    hollow: bool = False
    dash: tuple[float, ...] = ()
    width: float = WIDTH


def write_figures(drawn: Mapping[str, Callable[[], Figure]], out: Path) -> dict[str, Path]:
    """Draw figures, save them in the folder `out` as SVG and PNG, and return the SVG files by name.

    Parameters
    ----------
    drawn : mapping
        For each figure's name, a function that draws it.
    out : Path
        An existing folder.
    """
    found = {}
    for name, draw in drawn.items():
        with styled(name):
            picture = draw()
            for form in FORMATS:
                path = out / f"{name}.{form}"
                with disk_trouble(path):
                    picture.savefig(path, dpi=160, metadata={"Date": None} if form == "svg" else None)
            found[name] = out / f"{name}.svg"
    return found


@contextmanager
def styled(name: str) -> Iterator[None]:
    """Apply the common style within the context; `name` makes the ids in the SVG unique and reproducible."""
    import matplotlib as mpl

    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        yield


def title(axes: Axes, text: str) -> None:
    """Write a title above the panel, at the left."""
    axes.set_title(text, loc="left", color=SECOND, fontsize=10)


def log_ticks(low: float, high: float) -> list[float]:
    """Return at least two ticks from `low` to `high` for a logarithmic axis.

    They are powers of ten or, if fewer than two are in this range, simple multiples of them. In a range that
    has fewer than two of these, too, they are equally spaced.
    """
    from matplotlib.ticker import MaxNLocator

    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    every = max(1, -(-len(exponents) // _MOST_POWERS))
    for digits, some in (((1,), exponents[::every]), ((1, 2, 5), exponents), (range(1, 10), exponents)):
        ticks = [float(f"{digit}e{exponent}") for exponent in some for digit in digits]
        shown = [tick for tick in ticks if low <= tick <= high]
        if len(shown) >= 2:
            return shown
    return [float(tick) for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]


def number_log_axis(axes: Axes) -> None:
    """Make the x-axis logarithmic, with a number at each tick. Call this after drawing."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.margins(x=0.08)
    ticks = log_ticks(*axes.get_xlim())
    axes.set_xticks(ticks, [_tick_label(tick) for tick in ticks])
    axes.xaxis.set_minor_locator(NullLocator())


def _tick_label(tick: float) -> str:
    """Return a number as text: "0.002", "10", "5 · 10⁻⁵"."""
    if 1e-3 <= tick < 1e5:
        return f"{tick:g}"
    digits, _, exponent = f"{tick:e}".partition("e")
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return power if float(digits) == 1 else f"{float(digits):g} · {power}"


def plain(axes: Axes, grid: Any) -> None:
    """Remove the frame except its bottom line, and add grid lines for the axis `grid`: "x", "y" or "both"."""
    axes.grid(True, axis=grid, color=LINE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(which="both", length=0)


def draw_line(axes: Axes, x: Any, y: Any, stroke: Stroke, *, label: str, number: int = 0) -> None:
    """Draw a line with a few marks.

    `number` is the number of the line in its panel. It shifts the marks along the line, so that the marks of
    overlapping lines remain visible.
    """
    every = max(1, len(x) // 5)
    axes.plot(
        x,
        y,
        label=label,
        color=stroke.colour,
        linestyle=(0, stroke.dash) if stroke.dash else "-",
        linewidth=stroke.width,
        marker=stroke.mark,
        markersize=stroke.size,
        markerfacecolor=SHEET if stroke.hollow else stroke.colour,
        markeredgecolor=stroke.colour if stroke.hollow else SHEET,
        markeredgewidth=1.2 if stroke.hollow else 0.4,
        markevery=(number % every, every),
    )


def list_lines(picture: Figure) -> None:
    """Add a legend beside the panels.

    The legend has each label once, in the order of drawing, and shows all lines with the same width.
    """
    lines = {str(line.get_label()): line for axes in picture.axes for line in axes.get_lines()}
    named = {label: line for label, line in lines.items() if not label.startswith("_")}
    legend = picture.legend(
        list(named.values()),
        list(named),
        loc="outside right upper",
        frameon=False,
        fontsize=9,
        labelcolor=INK,
        handlelength=3.6,
        labelspacing=0.35,
        borderaxespad=0,
    )
    for line in legend.get_lines():
        line.set_linewidth(WIDTH)


def log_axis(axes: Axes, which: Literal["x", "y"] = "x") -> None:
    """Make an axis logarithmic, with ticks in plain numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axis = axes.xaxis if which == "x" else axes.yaxis
    axes.set(**{f"{which}scale": "log"})
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Write the labels of `ends` at the right edge, each with a thin leader to the end of its line.

    Isotonic regression places the labels as near as possible to the heights of their line ends without
    overlap. Before the regression, each height is reduced by the space that all lower labels need.
    """
    from sklearn.isotonic import IsotonicRegression

    if not ends:
        return
    ends = sorted(ends)
    axes.margins(x=0.02, y=0.06)
    low, high = axes.get_ylim()
    room = 0.062 * (high - low) * np.arange(len(ends))
    wanted = np.array([end.height for end in ends])
    heights = IsotonicRegression(y_max=high - room[-1]).fit_transform(room, wanted - room) + room
    across = axes.get_yaxis_transform()
    for end, height in zip(ends, heights.tolist(), strict=True):
        axes.annotate(
            "",
            xy=(1.035, height),
            xycoords=across,
            xytext=(end.at, end.height),
            textcoords="data",
            arrowprops={
                "arrowstyle": "-",
                "color": end.colour,
                "linewidth": 0.6,
                "alpha": 0.7,
                "shrinkA": 5,
            },
            annotation_clip=False,
        )
        axes.text(
            1.045,
            height,
            end.label,
            transform=across,
            va="center",
            color=end.colour,
            fontweight="bold" if end.bold else "normal",
            fontsize=9,
        )
