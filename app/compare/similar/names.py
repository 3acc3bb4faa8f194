"""How families and their forms are named and drawn."""

from __future__ import annotations

from app.compare.similar.results import Lane
from app.theme import STRATEGY_COLOURS
from core.hashing import FAMILIES

LABELS = {
    "lsh": "LSH",
    "metric-lsh": "Metric LSH",
    "klsh": "KLSH",
    "kpca-lsh": "KPCA+LSH",
    "nystrom-lsh": "Nyström",
    "spectral": "Spectral",
    "shift-invariant": "Shift-invariant",
    "ksh": "KSH",
    "ksh-learned": "KSH, learned kernel",
    "min-hash": "Min-Hash",
    "boosted": "Boosting",
    "rbm": "RBM",
}
"""Where a family is not called by its own word."""

YARDSTICKS = {
    "angle": "the angle",
    "learned metric": "the learned metric",
    "chi2": "the χ² kernel",
    "overlap": "the overlap",
    "weighted overlap": "the weighted overlap",
}

STRUCTURES = {"scan": "Hamming scan", "tables": "bucket tables", "orders": "permuted orders"}

_HUES = (
    "exhaustive",
    "margin-index",
    "bh-hash",
    "h-hash",
    "subsample",
    "eh-hash",
    "lbh-hash",
    "likely-positive",
    "mixture",
    "random",
)
"""Families have the strategies' colours, in this order, as they follow each other in `FAMILIES`."""

_FAMILY_MARKS = ("o", "v", "P", "X", "p", "*", "h", "<", ">")
"""Of families in their only form, in the same order."""

_MARKS = {
    "original": "o",
    "full rank": "o",
    "trimmed": "D",
    "low rank": "^",
    "low rank, transformed": "D",
    "low rank, from the mean": "s",
    "sets": "o",
    "weighted": "D",
    "by distance": "o",
    "by class": "^",
}

_GLYPHS = {"o": "s-exhaustive", "v": "s-eh-hash", "^": "s-h-hash", "D": "s-bh-hash", "s": "s-subsample"}
"""The marks that pages have too, by those of figures."""

_DASHES = {
    "original": ":",
    "full rank": ":",
    "trimmed": "-",
    "low rank": "--",
    "low rank, transformed": "-",
    "low rank, from the mean": "-.",
    "sets": ":",
    "weighted": "-",
    "by class": "--",
}


def lane_label(lane: Lane) -> str:
    """A family in one of its forms, as people call it."""
    name = LABELS.get(lane.family, lane.family)
    return f"{name}, {lane.form}" if lane.form else name


def yardstick_label(word: str) -> str:
    """What neighbours are nearest by, in words."""
    if word in YARDSTICKS:
        return YARDSTICKS[word]
    return f"{LABELS[word]} itself" if word in LABELS else f"the {word} kernel"


def hue(lane: Lane) -> str:
    """The name of the lane's colour, which is its family's."""
    return _HUES[_place(lane) % len(_HUES)]


def colour_of(lane: Lane) -> str:
    """Its colour in the light."""
    return STRATEGY_COLOURS[hue(lane)][0]


def mark_of(lane: Lane) -> str:
    """Its marker; with the dash what tells a family's forms apart."""
    return _MARKS.get(lane.form) or _FAMILY_MARKS[_place(lane) % len(_FAMILY_MARKS)]


def glyph_of(lane: Lane) -> str:
    """The name of the same mark on a page, as far as it has it."""
    return _GLYPHS.get(mark_of(lane), "s-other")


def dash_of(lane: Lane) -> str:
    """How its line is dashed."""
    return _DASHES.get(lane.form, "-")


def _place(lane: Lane) -> int:
    return list(FAMILIES).index(lane.family)
