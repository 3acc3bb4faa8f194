"""The look of lines in figures: a colour and a mark per hash family, and a dash pattern per form of a family.

There are more families than colours that everybody can distinguish, and a printed page may have no colours.
Mark and dash pattern therefore identify a line without its colour: two families never have the same mark, and
two forms of a family never have the same dash pattern. Families beyond the number of `MARKS` have hollow
marks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from closecall.app.display.theme import LIGHT, STRATEGY_COLOURS
from closecall.app.experiments.compare.drawing import Stroke
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.hashing import FAMILIES

Dash = tuple[float, ...]
"""Lengths of dashes and gaps, alternating, as multiples of the line width; empty for a solid line."""

_COLOURS = {name: light for name, (light, _) in STRATEGY_COLOURS.items()} | {
    "yes": LIGHT["blueColor"],
    "no": LIGHT["orangeColor"],
}

_HUES = (
    "exhaustive",
    "margin-index",
    "bh-hash-weighted",
    "h-hash-weighted",
    "subsample",
    "eh-hash-weighted",
    "lbh-hash-weighted",
    "likely-positive",
    "mixture",
    "auto",
    "random",
    "no",
    "yes",
)
"""Names of colours on the app's pages, assigned to families in the order of `FAMILIES`."""

MARKS = ("o", "v", "D", "^", "s", "P", "X", "<", ">", "*")
"""Matplotlib's names of the marks, assigned to families in the order of `FAMILIES`."""

_SIZES = {"D": 4.6, "s": 4.9, "P": 7.0, "X": 7.0, "*": 8.5}
"""Sizes of marks in points. Marks that are not listed have `_SIZE`."""

_SIZE = 5.8

_RAMP = "viridis", 0.0, 0.88
"""Colour map for lines that differ in a parameter: its name, and the part of it that is used.

The part ends before 1 because the end of the map is too light.
"""

_DOTTED, _DASHED, _BOTH, _SOLID = (1.0, 1.65), (3.7, 1.6), (6.4, 1.6, 1.0, 1.6), ()

_DASHES: dict[str, Dash] = {
    "original": _DOTTED,
    "full rank": _DOTTED,
    "trimmed": _SOLID,
    "low rank": _DASHED,
    "low rank, transformed": _SOLID,
    "low rank, from the mean": _BOTH,
    "sets": _DOTTED,
    "weighted": _SOLID,
    "by distance": _SOLID,
    "by class": _DASHED,
    "on spectral bits": _DOTTED,
}


class Look(NamedTuple):
    """The look of a lane, which is a hash family in one of its forms.

    Parameters
    ----------
    hue : str
        Name of the lane's colour on the app's pages.
    mark : str
        See `matplotlib.markers`.
    hollow : bool
        Whether the mark is hollow.
    dash : tuple of float
    """

    hue: str
    mark: str
    hollow: bool
    dash: Dash

    @property
    def colour(self) -> str:
        """The lane's colour in light mode."""
        return _COLOURS[self.hue]

    @property
    def stroke(self) -> Stroke:
        """The look of the lane's line in a figure."""
        return Stroke(self.colour, self.mark, size_of(self.mark), self.hollow, self.dash)


def look_of(lane: Lane) -> Look:
    """Return the look of a family in one of its forms."""
    return look_at(list(FAMILIES).index(lane.family), _DASHES.get(lane.form, _SOLID))


def look_at(place: int, dash: Dash = _SOLID) -> Look:
    """Return the look of line number `place`; successive lines differ in colour and mark."""
    turn, mark = divmod(place, len(MARKS))
    return Look(_HUES[place % len(_HUES)], MARKS[mark], turn % 2 == 1, dash)


def ramp(place: int, n: int) -> Stroke:
    """Return the look of a line for one value of a parameter.

    `place` is the place of the value among `n` ascending values, from 0.
    """
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    name, first, last = _RAMP
    mark = MARKS[place % len(MARKS)]
    share = place / max(n - 1, 1)
    return Stroke(to_hex(colormaps[name](first + share * (last - first))), mark, size_of(mark))


def size_of(mark: str) -> float:
    """Return the size of a mark in points. Sizes differ so that all marks look equally large."""
    return _SIZES.get(mark, _SIZE)


def outline(mark: str) -> str:
    """Convert a mark to an SVG path, centred at (0, 0), with coordinates from −6 to 6."""
    from matplotlib.markers import MarkerStyle
    from matplotlib.transforms import Affine2D

    style = MarkerStyle(mark)
    shape = style.get_path().transformed(style.get_transform() + Affine2D().scale(12))
    scale = 6 / np.abs(np.asarray(shape.vertices)).max()
    return "".join(
        f"M{'L'.join(f'{scale * x:.1f} {-scale * y:.1f}' for x, y in np.asarray(polygon).tolist())}Z"
        for polygon in shape.to_polygons()
    )
