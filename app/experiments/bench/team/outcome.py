"""What became of everybody's answers, and who had what in hand: diaries compared with the log."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from closecall.app.experiments.bench.team.person import Diary, Held, Press
from closecall.storage import AnswerRecord, SelectionRecord

SLACK_SECONDS = 5.0
"""So long the last that a page said may wait for its turn at the server."""


def fate(
    diaries: Sequence[Diary], answers: Sequence[AnswerRecord], selections: Mapping[str, SelectionRecord]
) -> dict[str, int]:
    """How many of the answers given are not in the log, more than once, or other than they were given.

    Parameters
    ----------
    diaries : sequence of Diary
        Everybody's.
    answers : sequence of AnswerRecord
        All that were given at the pages, as the log has them.
    selections : mapping
        What was shown, by its id.

    Returns
    -------
    dict
        ``answers`` in the log; ``lost``: given, and not there; ``duplicated``: further answers to what was
        shown once; ``misplaced``: with another item, word or name than given, or given by nobody.
    """
    given = {press.given.id: (press.given, diary.name) for diary in diaries for press in diary.presses}
    stored = {answer.id for answer in answers}
    shown = Counter(answer.selection_id for answer in answers)
    misplaced = 0
    for answer in answers:
        known, name = given.get(answer.id, (None, ""))
        is_right = (
            known is not None
            and (known.item, known.selection, known.answer, name)
            == (answer.item, answer.selection_id, answer.answer, answer.annotator)
            and selections[known.selection].item == answer.item
        )
        misplaced += not is_right
    return {
        "answers": len(answers),
        "lost": len(given.keys() - stored),
        "duplicated": sum(count - 1 for count in shown.values()),
        "misplaced": misplaced,
    }


def given_twice(diaries: Sequence[Diary], lease_seconds: float) -> list[int]:
    """The items that two people had in hand at the same time, or had in view one after the other.

    What somebody has in hand may be another's once they were not heard of for as long as a lease lasts.
    """
    hands: dict[int, list[tuple[Diary, Held]]] = defaultdict(list)
    for diary in diaries:
        for held in diary.held:
            hands[held.item].append((diary, held))
        if diary.left is not None:
            for item in diary.left_with:
                hands[item].append((diary, Held(item, diary.left, math.inf, in_view=False)))
    return sorted(item for item, having in hands.items() if _is_given_twice(having, lease_seconds))


def _is_given_twice(having: Sequence[tuple[Diary, Held]], lease_seconds: float) -> bool:
    """Whether two people had the item, as far as they may not."""
    for (one, first), (other, second) in combinations(sorted(having, key=lambda each: each[1].since), 2):
        at_once = second.since < first.until
        both_saw = first.in_view and second.in_view
        if one is not other and (at_once or both_saw):
            heard = max((at for at in one.heard_at if at <= second.since), default=-math.inf)
            if second.since < heard + lease_seconds - SLACK_SECONDS:
                return True
    return False


def leases_returned(
    diaries: Sequence[Diary], selections: Sequence[SelectionRecord], lease_seconds: float
) -> dict[str, int]:
    """Of the items that people left with, how many came back once their leases were over.

    An item has come back when another person had it in hand since, or when the last selection that was made
    for somebody else could have chosen it.

    Returns
    -------
    dict
        ``leases_abandoned`` by those who had left long enough ago, and ``leases_returned`` of them.
    """
    abandoned = returned = 0
    for diary in diaries:
        if diary.left is None:
            continue
        over = diary.left + lease_seconds + SLACK_SECONDS
        later = [
            record
            for record in selections
            if record.created > 1000 * over and record.session_id != diary.session
        ]
        if not later:
            continue
        theirs = {held.item for other in diaries if other is not diary for held in other.held}
        abandoned += len(diary.left_with)
        returned += sum(item in theirs or item not in later[-1].leased for item in diary.left_with)
    return {"leases_abandoned": abandoned, "leases_returned": returned}


def waits(presses: Sequence[Press]) -> dict[str, Any]:
    """Milliseconds from an answer to the next item in the page, and until the server has stored it."""
    following = [1000 * (press.next_at - press.at) for press in presses if press.next_at is not None]
    saving = [1000 * (press.saved_at - press.at) for press in presses if press.saved_at is not None]
    return {
        "p50_ms": _quantile(following, 0.5),
        "p95_ms": _quantile(following, 0.95),
        "waited_share": float(np.mean([wait > 0 for wait in following])) if following else None,
        "saved_p50_ms": _quantile(saving, 0.5),
        "saved_p95_ms": _quantile(saving, 0.95),
    }


def _quantile(times: Sequence[float], share: float) -> float | None:
    return float(np.quantile(times, share)) if times else None
