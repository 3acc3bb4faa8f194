"""Evaluation of answers and leases, by comparing the annotators' diaries with the log."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from closecall.app.experiments.bench.team.person import Diary, Held, Press
from closecall.storage import AnswerRecord, SelectionRecord

SLACK_SECONDS = 5.0
"""Tolerance for the time when a lease expires, in seconds.

It is needed because the server may process the last message of a page with a delay, and because a restart may
shorten a lease by `app.engine.leases.RENEW_SECONDS`.
"""


def fate(
    diaries: Sequence[Diary], answers: Sequence[AnswerRecord], selections: Mapping[str, SelectionRecord]
) -> dict[str, int]:
    """Compare the log with the annotators' diaries; count lost, duplicated and misplaced answers.

    Parameters
    ----------
    diaries : sequence of Diary
        Diaries of all annotators.
    answers : sequence of AnswerRecord
        Answers in the log that came from the annotators' pages.
    selections : mapping
        Selections by id.

    Returns
    -------
    dict
        ``answers``: number of answers in the log. ``lost``: answers that were given but are not in the log.
        ``duplicated``: answers in the log beyond the first one for a selection. ``misplaced``: answers in the
        log that nobody gave, or whose item, selection, value (yes or no) or annotator differs from the given
        answer.
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
    """Return the items that a second annotator got while the lease of the first was still valid.

    An item counts if the pages of two annotators held it at the same time (see `Held`), or if both had it in
    view, one after the other. An item does not count if the first annotator's lease had expired. A lease
    expires when the annotator's page has asked for no whole payload (see `Page`) for the lease's duration.
    What the first page asked after it held the item and the second page had asked for it is ignored, because
    the server may have selected the item for the second page before.
    """
    hands: dict[int, list[_Hand]] = defaultdict(list)
    for diary in diaries:
        last: dict[int, _Hand] = {}
        for held in sorted(diary.held, key=lambda each: each.since):
            before, since = last.get(held.item), held.since
            if before is not None and since - before.held.until < _AT_ONCE_SECONDS:
                since = before.since
            last[held.item] = _Hand(diary, held, since)
            hands[held.item].append(last[held.item])
        if diary.left is not None:
            for item in diary.left_with:
                hands[item].append(_Hand(diary, Held(item, diary.left, math.inf, in_view=False), diary.left))
    return sorted(item for item, having in hands.items() if _is_given_twice(having, lease_seconds))


_AT_ONCE_SECONDS = 0.05
"""If a page holds an item again after at most this pause, such as in view, it counts as held all the time."""


@dataclass(frozen=True)
class _Hand:
    """A period in which an annotator's page held an item.

    The page has held the item since the time `since`, which is earlier than `held.since` if an earlier period
    ended just before.
    """

    diary: Diary
    held: Held
    since: float


def _is_given_twice(having: Sequence[_Hand], lease_seconds: float) -> bool:
    """Return whether an item was given twice; see `given_twice`."""
    for first, second in combinations(sorted(having, key=lambda each: (each.since, each.held.since)), 2):
        at_once = max(first.held.since, second.held.since) < min(first.held.until, second.held.until)
        both_saw = first.held.in_view and second.held.in_view
        if first.diary is not second.diary and (at_once or both_saw):
            asked = max((at for at in second.diary.heard_at if at <= second.since), default=second.since)
            begun = max(asked, first.since)
            heard = max((at for at in first.diary.heard_at if at <= begun), default=-math.inf)
            if second.since < heard + lease_seconds - SLACK_SECONDS:
                return True
    return False


def leases_returned(
    diaries: Sequence[Diary], selections: Sequence[SelectionRecord], lease_seconds: float
) -> dict[str, int]:
    """Count the leases of annotators who left, and how many of these leases expired.

    A lease counts as expired if another annotator got the item after the lease's end, or if the item was no
    longer leased at the last selection by another session.

    Returns
    -------
    dict
        ``leases_abandoned``: number of items leased to annotators when they left. An annotator is ignored if
        no other session had a round after the end of the annotator's leases. ``leases_returned``: how many
        of the abandoned leases expired.
    """
    # Only the first selection of a round records the leased items. Reversed order lets it overwrite others.
    leased = {(record.session_id, record.round): record.leased for record in reversed(selections)}
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
        heard = max((at for at in diary.heard_at if at <= diary.left), default=diary.left)
        theirs = {
            held.item
            for other in diaries
            for held in other.held
            if other is not diary and held.since >= heard + lease_seconds - SLACK_SECONDS
        }
        unavailable = leased[later[-1].session_id, later[-1].round]
        abandoned += len(diary.left_with)
        returned += sum(item in theirs or item not in unavailable for item in diary.left_with)
    return {"leases_abandoned": abandoned, "leases_returned": returned}


def waits(presses: Sequence[Press]) -> dict[str, Any]:
    """Return statistics of two times after an answer: until the next item, and until the acknowledgement.

    Times are in ms. ``waited_share`` is the share of answers after which the next item was not ready at once.
    """
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
