"""The look of families and their forms: a colour and a mark per family, a dash per form.

There are more families than colours that everybody can distinguish, and print may have none. Therefore no two
families have the same mark, and no two forms of a family the same dash: mark and dash identify a lane without
its colour. If there are more families than marks, the marks of further families are hollow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from closecall.app.display.theme import LIGHT, STRATEGY_COLOURS
from closecall.app.experiments.compare.drawing import Stroke
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.hashing import FAMILIES

Dash = tuple[float, ...]
"""Lengths of strokes and gaps in turn, in line widths; empty for solid lines."""

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
    "random",
    "no",
    "yes",
)
"""Names of the pages' colours, assigned to families in the order of `FAMILIES`."""

MARKS = ("o", "v", "D", "^", "s", "P", "X", "<", ">", "*")
"""Matplotlib's marks, assigned in the same order."""

_SIZES = {"D": 4.6, "s": 4.9, "P": 7.0, "X": 7.0, "*": 8.5}
"""Sizes of marks in points; others have `_SIZE`."""

_SIZE = 5.8

_RAMP = "viridis", 0.0, 0.88
"""Colours of a parameter's values, from the least to the greatest; the end of the scale is too light."""

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
    """The look of a lane.

    Parameters
    ----------
    hue : str
        Name of its colour on the pages.
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
        """The lane's line in a figure."""
        return Stroke(self.colour, self.mark, size_of(self.mark), self.hollow, self.dash)


def look_of(lane: Lane) -> Look:
    """Return the look of a family in one of its forms."""
    return look_at(list(FAMILIES).index(lane.family), _DASHES.get(lane.form, _SOLID))


def look_at(place: int, dash: Dash = _SOLID) -> Look:
    """Return the look of the line at this place among lines of different kinds."""
    turn, mark = divmod(place, len(MARKS))
    return Look(_HUES[place % len(_HUES)], MARKS[mark], turn % 2 == 1, dash)


def ramp(place: int, n: int) -> Stroke:
    """Return the line of a parameter's value, at this place among `n` ascending ones."""
    from matplotlib import colormaps
    from matplotlib.colors import to_hex

    name, first, last = _RAMP
    mark = MARKS[place % len(MARKS)]
    share = place / max(n - 1, 1)
    return Stroke(to_hex(colormaps[name](first + share * (last - first))), mark, size_of(mark))


def size_of(mark: str) -> float:
    """Return the size of a mark in points, so that all marks look equally large."""
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
