"""How families and their forms are drawn: a colour and a mark a family, a dash a form.

There are more families than colours that everybody tells apart, and print may have none. So no two families
have the same mark, and no two forms of a family the same dash: either of a lane's line is told from all
others without its colour. Where there are more families than marks, those of the others are hollow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from closecall.app.display.theme import LIGHT, STRATEGY_COLOURS
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.hashing import FAMILIES

Dash = tuple[float, ...]
"""Lengths of strokes and gaps by turns, in widths of the line; none where it is solid."""

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
"""Families have the pages' colours, in this order, as they follow each other in `FAMILIES`."""

_MARKS = ("o", "v", "D", "^", "s", "P", "X", "<", ">", "*")
"""In matplotlib's words, in the same order."""

_SIZES = {"D": 4.6, "s": 4.9, "P": 7.0, "X": 7.0, "*": 8.5}
"""In points, so that all look alike in size; others are of `_SIZE`."""

_SIZE = 5.8

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
}


class Look(NamedTuple):
    """How a lane is drawn.

    Parameters
    ----------
    hue : str
        The name that pages have for its colour.
    mark : str
        See `matplotlib.markers`.
    hollow : bool
        Whether the mark is.
    dash : tuple of float
    """

    hue: str
    mark: str
    hollow: bool
    dash: Dash

    @property
    def colour(self) -> str:
        """Its colour in the light."""
        return _COLOURS[self.hue]

    @property
    def size(self) -> float:
        """Of the mark, in points."""
        return _SIZES.get(self.mark, _SIZE)


def look_of(lane: Lane) -> Look:
    """How a family in one of its forms is drawn."""
    place = list(FAMILIES).index(lane.family)
    turn, mark = divmod(place, len(_MARKS))
    return Look(_HUES[place % len(_HUES)], _MARKS[mark], turn % 2 == 1, _DASHES.get(lane.form, _SOLID))


def outline(mark: str) -> str:
    """A mark as the path of an SVG, about (0, 0) and at most 6 from there."""
    from matplotlib.markers import MarkerStyle
    from matplotlib.transforms import Affine2D

    style = MarkerStyle(mark)
    shape = style.get_path().transformed(style.get_transform() + Affine2D().scale(12))
    scale = 6 / np.abs(np.asarray(shape.vertices)).max()
    return "".join(
        f"M{'L'.join(f'{scale * x:.1f} {-scale * y:.1f}' for x, y in np.asarray(polygon).tolist())}Z"
        for polygon in shape.to_polygons()
    )
