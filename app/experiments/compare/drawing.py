"""Common style of the figures of comparisons, names at the ends of lines, and writing of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from closecall.app.display.theme import LIGHT
from closecall.core.files.durable import disk_trouble

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, SECOND, LINE = LIGHT["textColor"], LIGHT["grayColor"], LIGHT["borderColor"]

FORMATS = ("svg", "png")

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
    """End of a line, and its label."""

    height: float
    at: float
    label: str
    colour: str
    bold: bool = True


def write_figures(drawn: Mapping[str, Callable[[], Figure]], out: Path) -> dict[str, Path]:
    """Draw figures into the folder `out` as SVG and PNG, and return the SVG files by name."""
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
    """Apply the style of all figures; `name` makes the ids in the SVG unique and reproducible."""
    import matplotlib as mpl

    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        yield


def title(axes: Axes, text: str) -> None:
    """Write a title above the panel."""
    axes.set_title(text, loc="left", color=SECOND, fontsize=10)


def plain(axes: Axes, grid: Any) -> None:
    """Remove the frame, and draw grid lines along `grid`: "x", "y" or "both"."""
    axes.grid(True, axis=grid, color=LINE, linewidth=0.5)
    axes.set_axisbelow(True)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(which="both", length=0)


def name_ends(axes: Axes, ends: Sequence[End]) -> None:
    """Write the names at the right edge, the lowest first, each with a thin leader.

    They are as near to the ends of their lines as possible without overlapping: isotonic regression of the
    heights minus the room needed below.
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
