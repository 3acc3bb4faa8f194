"""How families, their forms and what they are measured by are named."""

from __future__ import annotations

from app.compare.similar.results import Lane

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

STRUCTURES = {
    "scan": "Hamming scan",
    "table": "one table",
    "tables": "bucket tables",
    "orders": "permuted orders",
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
