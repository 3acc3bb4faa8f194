"""Display names of hash families, of their forms, and of yardsticks.

A yardstick is the measure of similarity that defines the true neighbours (`core.experiment.similarity`).
"""

from __future__ import annotations

from collections.abc import Mapping

from closecall.app.display.strategy_labels import FAMILY_LABELS
from closecall.app.experiments.compare.similar.results import Lane
from closecall.core.experiment.families import Lesson
from closecall.core.hashing import BoostedPSH, DeepCodes, LearnedKernelHash

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
    "ball": "Hamming ball",
}


def lane_label(lane: Lane) -> str:
    """Return the display name of a family in one of its forms."""
    name = FAMILY_LABELS.get(lane.family, lane.family)
    return f"{name}, {lane.form}" if lane.form else name


def yardstick_label(word: str) -> str:
    """Return the display name of a yardstick, a measure of similarity."""
    if word in YARDSTICKS:
        return YARDSTICKS[word]
    return f"{FAMILY_LABELS[word]} itself" if word in FAMILY_LABELS else f"the {word} kernel"


def lessons(learned: Mapping[str, Lesson | None]) -> str:
    """Return a sentence about the labels that each supervised family learns from; "" if none is supervised.

    Parameters
    ----------
    learned : dict
        For each name of a family, the numbers of labels and pairs that it learns from; None if it uses no
        labels. See `core.experiment.families.lesson_of`.
    """
    parts = [_lesson(name, lesson) for name, lesson in learned.items() if lesson is not None]
    return f"Labels used: {'; '.join(parts)}." if parts else ""


def _lesson(name: str, lesson: Lesson) -> str:
    """Return the display name of a family and the labels that it learns from, as text."""
    form = ", by class" if name in (BoostedPSH.name, DeepCodes.name) else ""
    who = f"{FAMILY_LABELS.get(name, name)}{form}"
    if lesson.pairs is None:
        return f"{who}: all {lesson.labels:,}"
    of = f"all {lesson.labels:,}" if lesson.paired == lesson.labels else f"{lesson.paired:,}"
    pairs = f"at most {lesson.pairs:,} pairs of {of}"
    if name == LearnedKernelHash.name:
        return f"{who}: all {lesson.labels:,}, and for its kernel {pairs}"
    return f"{who}: {pairs}"
