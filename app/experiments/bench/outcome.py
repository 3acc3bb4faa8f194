"""The fate of the answers given on the page, and the waits for images."""

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
    """Count the given answers that are lost, duplicated or misplaced in the log.

    Parameters
    ----------
    presses : sequence of Press
        Presses that the page took as answers.
    answers, selections
        Answers in the log, and its selections by id.
    picture : callable
        Returns an item's picture as the page shows it.

    Returns
    -------
    dict
        ``answers``: answers given; ``lost``: not in the log; ``duplicated``: more than one for a selection;
        ``misplaced``: in the log with another item than the one whose picture was painted, or another word.
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
    """Return statistics of the time from a press to the next image or grid on the screen, in ms."""
    times = [press["ms"] for press in presses]
    return {
        "median_ms": float(np.median(times)),
        "p95_ms": float(np.quantile(times, 0.95)),
        "max_ms": float(max(times)),
        "presses": len(times),
    }


def looking_ahead(presses: Sequence[Press], patient: Sequence[Press]) -> dict[str, Any]:
    """Return how soon all possible next images were ready, and the pace that leaves time for them.

    Parameters
    ----------
    presses : sequence of Press
        Presses at the pace.
    patient : sequence of Press
        Presses as soon as all possible next images were ready.

    Returns
    -------
    dict
        ``ahead_median_ms`` and ``ahead_p95_ms``: time from painting until all are ready, None if the press
        comes earlier. ``waited``: number of presses that had to wait for the next image; ``waited_visibly``:
        those that waited so long that the card showed it. ``held_pace_seconds``: seconds from painting until
        all are ready in 95 of 100 rounds.
    """
    soonest = [press["ahead_ms"] for press in patient if press["ahead_ms"] is not None]
    ahead = [press["ahead_ms"] for press in presses[1:]]  # it is unknown when the first image was painted
    return {
        "ahead_median_ms": _quantile(ahead, 0.5),
        "ahead_p95_ms": _quantile(ahead, 0.95),
        "waited": sum(press["waited"] for press in presses),
        "waited_visibly": sum(press["visibly"] for press in presses),
        "held_pace_seconds": float(np.quantile(soonest, 0.95)) / 1000,
    }


def _quantile(times: Sequence[float | None], share: float) -> float | None:
    """Return a quantile of the times; None counts as longer than all others."""
    known = [np.inf if time is None else time for time in times]
    found = float(np.quantile(known, share, method="higher")) if known else np.inf
    return found if np.isfinite(found) else None
