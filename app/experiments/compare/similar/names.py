"""Names of families, their forms and their yardsticks."""

from __future__ import annotations

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.experiments.compare.similar.results import Lane

YARDSTICKS = {
    "angle": "the angle",
    "learned metric": "the learned metric",
    "chi2": "the χ² kernel",
    "overlap": "the overlap",
    "weighted overlap": "the weighted overlap",
}

STRUCTURES = {
    "scan": "Hamming scan",
    "table": "one table",
    "tables": "bucket tables",
    "orders": "permuted orders",
}


def lane_label(lane: Lane) -> str:
    """Return the display name of a family in one of its forms."""
    name = FAMILY_LABELS.get(lane.family, lane.family)
    return f"{name}, {lane.form}" if lane.form else name


def yardstick_label(word: str) -> str:
    """Return the display name of a yardstick."""
    if word in YARDSTICKS:
        return YARDSTICKS[word]
    return f"{FAMILY_LABELS[word]} itself" if word in FAMILY_LABELS else f"the {word} kernel"
