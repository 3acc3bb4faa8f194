"""Evaluation of labeling in a browser: whether all answers are in the log, and how soon images appeared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from closecall.app.experiments.bench.annotator import Press
from closecall.storage import AnswerRecord, SelectionRecord


def fate(
    presses: Sequence[Press],
    answers: Sequence[AnswerRecord],
    selections: Mapping[str, SelectionRecord],
    picture: Callable[[int], str],
) -> dict[str, int]:
    """Compare the log with the answers given on the page; count lost, duplicated and misplaced answers.

    Parameters
    ----------
    presses : sequence of Press
        Key presses that the page accepted.
    answers : sequence of AnswerRecord
        Answers in the log.
    selections : mapping
        Selections in the log, by id.
    picture : callable
        Takes an item, and returns its picture as the page shows it.

    Returns
    -------
    dict
        ``answers``: number of answers given. ``lost``: answers that are not in the log. ``duplicated``:
        answers to a selection that was already answered. ``misplaced``: answers in the log that were never
        given, that differ from the given answer, or whose item is not the painted one.
    """
    given = [answer for press in presses for answer in press["answers"]]
    painted = {answer["selection"]: answer for answer in given}
    stored = Counter(answer.selection_id for answer in answers)
    misplaced = 0
    for answer in answers:
        seen = painted.get(answer.selection_id or "")
        is_right = (
            seen is not None
            and seen["item"] == answer.item == selections[seen["selection"]].item
            and seen["picture"] == picture(answer.item)
            and seen["answer"] == answer.answer
        )
        misplaced += not is_right
    return {
        "answers": len(given),
        "lost": sum(stored[selection] == 0 for selection in painted),
        "duplicated": sum(count - 1 for count in stored.values()) + len(given) - len(painted),
        "misplaced": misplaced,
    }


def waits(presses: Sequence[Press]) -> dict[str, Any]:
    """Return statistics of the time from a key press to the next image or grid on the screen, in ms."""
    return {**spread([press["ms"] for press in presses]), "presses": len(presses)}


def spread(times: Sequence[float]) -> dict[str, float]:
    """Return the median, the 95th percentile and the maximum of times in ms."""
    return {
        "median_ms": float(np.median(times)),
        "p95_ms": float(np.quantile(times, 0.95)),
        "max_ms": float(max(times)),
    }


def looking_ahead(presses: Sequence[Press], patient: Sequence[Press]) -> dict[str, Any]:
    """Return statistics of the time until all possible next images were ready.

    While an image is shown, the server prepares the next image for each possible answer.

    Parameters
    ----------
    presses : sequence of Press
        Key presses at the fixed pace.
    patient : sequence of Press
        Key presses that waited until all possible next images were ready.

    Returns
    -------
    dict
        ``ahead_median_ms`` and ``ahead_p95_ms``: median and 95th percentile of the time from painting an
        image until all possible next images are ready, at the fixed pace. If the key was pressed before
        these images were ready, the time counts as infinite; an infinite statistic is None.
        ``waited``: number of presses that had to wait for the next image.
        ``waited_visibly``: number of presses after which the page showed that it was waiting.
        ``held_pace_seconds``: 95th percentile of the time until all possible next images are ready, in
        seconds, among the patient presses.
    """
    soonest = [press["ahead_ms"] for press in patient if press["ahead_ms"] is not None]
    ahead = [press["ahead_ms"] for press in presses[1:]]  # the time of painting the first image is unknown
    return {
        "ahead_median_ms": _quantile(ahead, 0.5),
        "ahead_p95_ms": _quantile(ahead, 0.95),
        "waited": sum(press["waited"] for press in presses),
        "waited_visibly": sum(press["visibly"] for press in presses),
        "held_pace_seconds": float(np.quantile(soonest, 0.95)) / 1000,
    }


def _quantile(times: Sequence[float | None], share: float) -> float | None:
    """Return a quantile of the times, where None counts as infinite.

    Return None if the quantile is infinite, or if there are no times.
    """
    known = [np.inf if time is None else time for time in times]
    found = float(np.quantile(known, share, method="higher")) if known else np.inf
    return found if np.isfinite(found) else None
