"""The result of a blind comparison: which side has the better classifier, and how certain this is.

Each side of the comparison has one query strategy, the labels of the items that this strategy selected, and
the classifier trained on them. Both classifiers are tested on the same items, and measured by AUROC. The test
items are held-out items of known truth. If there are too few of these, the test items are items that were
drawn at random during the comparison and answered by the annotator. Because the test items are the same, the
difference of the two AUROCs is more certain than either value (DeLong, DeLong and Clarke-Pearson, "Comparing
the areas under two or more correlated receiver operating characteristic curves", Biometrics 44, 1988).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.api.cards.parts import thumbnail
from closecall.app.display.strategy_labels import label_of, name_of
from closecall.app.sessions.blind.comparison import LEAST_OF_EACH
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.evaluation.auroc import auroc, compare_auroc
from closecall.core.learning.round import Labels, is_positive, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows

if TYPE_CHECKING:
    from closecall.app.sessions.blind.comparison import BlindComparison
    from closecall.app.sessions.labeling import LabelingSession

PICTURES = 8
"""Maximum number of pictures per side. They show the items labeled directly after the first classifier."""

POINTS = 100.0


@dataclass(frozen=True, eq=False)
class Judged:
    """The test items.

    Parameters
    ----------
    X : array or csr_array of shape (n, n_features)
    y : array of shape (n,), bool
    by_truth : bool
        Whether the test items are the held-out items. Otherwise they were drawn and answered during the
        comparison, and neither side was trained on them.
    """

    X: Rows
    y: NDArray[np.bool_]
    by_truth: bool


@dataclass(frozen=True, eq=False)
class Course:
    """The labels and the learning curve of one side.

    Parameters
    ----------
    items, yes : arrays of shape (n,), int64 and bool
        The labels in the order of the items' first answers, including labels that both sides started with.
    n_first : int
        Number of labels that both sides started with.
    curve : list of (int, float)
        Number of labels and AUROC of each classifier of the side, from the first classifier on.
    hyperplane : Hyperplane or None
        The classifier trained on all labels; None without a yes or without a no.
    """

    items: NDArray[np.int64]
    yes: NDArray[np.bool_]
    n_first: int
    curve: list[tuple[int, float]]
    hyperplane: Hyperplane | None


def verdict(blind: BlindComparison) -> dict[str, Any]:
    """Return the page that reveals the strategies of both sides, as JSON."""
    judged = _judged(blind)
    courses = [_course(blind, side, judged) for side in blind.rivals]
    found = _difference(judged, courses)
    sides = [_side(side, course) for side, course in zip(blind.rivals, courses, strict=True)]
    labels = [side["label"] for side in sides]
    return {
        "headline": _headline(found, labels),
        "about": _about(blind, judged, found),
        "sides": sides,
        "difference": found,
        "most": max((len(course.items) for course in courses), default=0),
    }


def _judged(blind: BlindComparison) -> Judged:
    pool, judge = blind.project.pool, blind.judge
    assert pool is not None
    if judge is None:
        positive = pool.classes.index(str(blind.question.positive_class))
        held_out = unrepeated_held_out(pool)
        known = held_out.take(np.flatnonzero(held_out.truth >= 0))
        return Judged(known.X, is_positive(known.truth, positive), True)
    labels = judge.concept.standing().labels
    trained = [side.concept.standing().labels.items for side in blind.rivals]
    fair = ~np.isin(labels.items, np.concatenate(trained))
    return Judged(pool.rows_of(labels.items[fair]), labels.yes[fair], False)


def _course(blind: BlindComparison, side: LabelingSession, judged: Judged) -> Course:
    """Train after each label of the side, in the order of the items' first answers, and test on `judged`."""
    pool, record = blind.project.pool, side.concept.record
    assert pool is not None
    standing = side.concept.standing().labels
    label_of = dict(zip(standing.items.tolist(), standing.yes.tolist(), strict=True))
    answers = side.project.log.answers_after(record.id)
    items = np.array(list(dict.fromkeys(a.item for a in answers if a.item in label_of)), dtype=np.int64)
    yes = np.array([label_of[item] for item in items.tolist()], dtype=np.bool_)
    known = Labels.of(pool, items, yes)
    curve: list[tuple[int, float]] = []
    hyperplane = None
    for n in range(max(2, len(blind.begun_with)), len(items) + 1):
        part = Labels(known.ids[:n], known.X[:n], known.y[:n])
        hyperplane = learn(part, C=record.c, class_weight=record.class_weight).hyperplane
        value = None if hyperplane is None else auroc(_scores(judged, hyperplane), judged.y)
        if value is not None:
            curve.append((n, round(value, 5)))
    return Course(items, yes, len(blind.begun_with), curve, hyperplane)


def _scores(judged: Judged, hyperplane: Hyperplane) -> NDArray[np.float64]:
    return np.asarray(judged.X @ hyperplane.normal, dtype=np.float64)


def _difference(judged: Judged, courses: list[Course]) -> dict[str, float] | None:
    """Return the difference in AUROC, first side minus second side, with its 95 % interval; None if unknown.

    The values are in points: hundredths of AUROC.
    """
    planes = [course.hyperplane for course in courses]
    n_yes = int(judged.y.sum())
    if min(n_yes, len(judged.y) - n_yes) < LEAST_OF_EACH or any(plane is None for plane in planes):
        return None
    scores = np.stack([_scores(judged, plane) for plane in planes if plane is not None])
    values, covariance = compare_auroc(scores, judged.y)
    mean = POINTS * float(values[0] - values[1])
    half = (
        POINTS * 1.96 * float(np.sqrt(max(0.0, covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])))
    )
    return {"mean": mean, "low": mean - half, "high": mean + half}


def _side(side: LabelingSession, course: Course) -> dict[str, Any]:
    """Return a side as a row of the page."""
    own = course.yes[course.n_first :]
    taught = course.curve[0][0] if course.curve else course.n_first
    firsts = slice(taught, taught + PICTURES)
    return {
        "strategy": name_of(side.strategy),
        "label": label_of(side.strategy),
        "labels": len(course.items) - course.n_first,
        "yes": int(own.sum()),
        "auroc": course.curve[-1][1] if course.curve and course.hyperplane is not None else None,
        "curve": course.curve,
        "firsts": [
            {"src": thumbnail(side, item), "yes": yes}
            for item, yes in zip(course.items[firsts].tolist(), course.yes[firsts].tolist(), strict=True)
        ],
    }


def _headline(found: dict[str, float] | None, labels: list[str]) -> str:
    if found is None:
        return f"Too early to say whether {labels[0]} or {labels[1]} chose better"
    if found["low"] <= 0 <= found["high"]:
        return f"Undecided: {labels[0]} or {labels[1]}"
    better, other = labels if found["mean"] > 0 else labels[::-1]
    return f"{better} chose better than {other}"


def _about(blind: BlindComparison, judged: Judged, found: dict[str, float] | None) -> str:
    n_yes = int(judged.y.sum())
    whose = (
        f"{len(judged.y):,} held-out items of known truth"
        if judged.by_truth
        else f"{len(judged.y):,} items drawn at random and answered by you"
    )
    if found is None:
        return (
            f"Both were tested on {whose}, {n_yes} of them yes: at least {LEAST_OF_EACH} of each are needed, "
            f"and both sides need a yes and a no."
        )
    sign = 1 if found["mean"] >= 0 else -1
    low, high = sorted((sign * found["low"], sign * found["high"]))
    return (
        f"The difference is {abs(found['mean']):.2f} points of AUROC, 95 % interval {_signed(low)} to "
        f"{_signed(high)}, on {whose}. It is about these two classifiers, after {blind.turns} answers: "
        f"another comparison may turn out differently."
    )


def _signed(points: float) -> str:
    return f"{points:.2f}".replace("-", "−")
