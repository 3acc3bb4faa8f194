"""Answer a whole group of near-duplicates, such as a burst, with one press.

The card shows the other items of the group to which the item in view belongs; of a large group, it shows some
of them, and the number of the others. The browser sends the answer about the item in view with the ids of all
other items that are to get the same answer. Each of these answers
is stored on its own, with an id derived from the id of the browser's answer. It can therefore be undone or
corrected alone. An undo of the browser's answer undoes all these answers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from closecall.app.engine.selection_parameters import AUDIT, OVERLAP, description_of
from closecall.app.sessions.session_state import BLIND, SessionState
from closecall.core.errors import InputError
from closecall.storage import AnswerRecord, LabelLog, SelectionRecord

GROUP = "group"
"""Key under which an answer lists the other items that get the same answer."""

SHOWN = 11
"""Maximum number of other items whose pictures a card shows."""

MOST = 999
"""Maximum number of other items that get the same answer."""


class Group:
    """The items grouped with the item in view. Their pictures are drawn in the background.

    Parameters
    ----------
    session : SessionState
    """

    def __init__(self, session: SessionState) -> None:
        self._session = session
        # The selection in view, the job that draws pictures, and the items without a picture.
        self._drawn: tuple[str, Future[dict[int, str]], frozenset[int]] | None = None

    def of(self, shown: SelectionRecord) -> dict[str, Any] | None:
        """Return what the card shows about the group of the item in view.

        Return None if no other item of the group can be answered together with the item in view. `members`
        are the items that are shown; `more` are the others, which get the same answer unseen. Items that were
        drawn for the audit or for another person's opinion are always answered alone.
        """
        if _is_answered_alone(shown):
            return None
        members = open_members(self._session, shown.item, at_most=MOST)
        if not members:
            return None
        if self._drawn is None or self._drawn[0] != shown.id:
            job = self._session.project.executor.submit(self._draw, members[:SHOWN])
            self._drawn = shown.id, job, frozenset(members[SHOWN:])
        _, job, others = self._drawn
        is_drawn = job.done() and job.exception() is None
        pictures = job.result() if is_drawn else {}
        seen = [{"id": item, "src": pictures[item]} for item in members if item in pictures]
        return {
            "selection": shown.id,
            "members": seen,
            "more": [item for item in members if item in others] if seen else [],
            "is_coming": not job.done(),
        }

    def _draw(self, members: Sequence[int]) -> dict[int, str]:
        """Return the items' pictures. Items that can't be shown are left out, and so aren't answered."""
        drawn: dict[int, str] = {}
        for item in members:
            with suppress(InputError):
                drawn[item] = self._session.project.pictures.thumbnail(item)
        return drawn


def open_members(
    session: SessionState, item: int, *, at_most: int | None = None, description: str | None = None
) -> list[int]:
    """Return the other items of the item's group that can be answered now, ascending, at most `at_most`.

    The group comes from the pool with the features named `description`, by default the features in use. An
    item can be answered if it has no answer, is not audited, and is not leased to another session. If the
    session shows skipped items again, a skip doesn't count as an answer. In a blind comparison, the result is
    empty, because an answer counts only for the strategies that selected its item.
    """
    project, concept = session.project, session.concept
    groups = project.groups_under(concept.description if description is None else description)
    group = groups.group(item) if groups is not None else None
    if group is None or BLIND in session.parameters:
        return []
    leased = set(project.leases.held(but_for=session.side_by_side))
    words = (None, "skip") if session.include_skipped else (None,)
    with concept.lock:
        state = concept.catch_up()

        def found() -> Iterator[int]:
            for member in map(int, group[1]):
                is_other = member != item and member not in leased
                if is_other and state.status(member) in words and not state.is_audited(member):
                    yield member

        return list(islice(found(), at_most))


def answers_alike(
    answer: Mapping[str, Any], record: AnswerRecord, session: SessionState, batch: Sequence[AnswerRecord]
) -> list[AnswerRecord]:
    """Return the answer in `record` once more for each of the other items that `answer` lists.

    `record` is the browser's `answer` about the item in view. `batch` has the answers that precede `record`
    in the browser's queue and are not in the log yet. Items that got an answer or were leased to another
    session in the meantime are left out. The result is empty for undos, corrections, audit answers and
    further opinions, and if `record` is in the log or in `batch` already. The group comes from the pool with
    the features by which the item was selected, even if other features are in use now.

    Raises
    ------
    ValueError
        If the list is malformed.
    """
    listed = answer.get(GROUP)
    if listed is None:
        return []
    if not (isinstance(listed, list) and len(listed) <= MOST and all(type(item) is int for item in listed)):
        raise ValueError(f"{GROUP} must be a list of at most {MOST} items, got {listed!r:.80}")
    is_plain = record.corrects is None and record.answer != "undo" and record.purpose == "train"
    log, name = session.project.log, record.selection_id
    is_known = any(earlier.id == record.id for earlier in batch) or log.answer(record.id) is not None
    if not is_plain or name is None or is_known:
        return []
    shown = log.selection(name) or log.foreseen(name)
    if shown is None or _is_answered_alone(shown):
        return []
    members = open_members(session, record.item, description=description_of(shown))
    free = set(members) - {earlier.item for earlier in batch}
    return [
        replace(record, id=alike_id(record.id, item), item=item, selection_id=None, time_taken_ms=None)
        for item in sorted(free.intersection(listed))
    ]


def undos_alike(undo: AnswerRecord, log: LabelLog, batch: Sequence[AnswerRecord]) -> list[AnswerRecord]:
    """Return undos of the other answers that were given together with the answer that `undo` undoes.

    These answers are found by their place in the log, directly before the undone answer, because the groups
    of near-duplicates may have changed since. If the log does not have these answers yet, they are in
    `batch`, the answers that precede `undo` in the browser's queue. Some of these answers may already have
    been undone alone; the log then refuses the second undo.
    """
    if undo.undoes is None:
        return []
    undone = log.answer(undo.undoes)
    if undone is not None:
        before = _answers_before(undone, SHOWN, log)
        if before and is_along(before[0], undo.undoes):  # there may be more
            before = _answers_before(undone, MOST, log)
    else:
        place = next((place for place, earlier in enumerate(batch) if earlier.id == undo.undoes), 0)
        before = list(batch[max(0, place - MOST) : place])
    return [
        replace(undo, id=alike_id(undo.id, earlier.item), item=earlier.item, undoes=earlier.id)
        for earlier in before
        if is_along(earlier, undo.undoes)
    ]


def _answers_before(answer: AnswerRecord, n: int, log: LabelLog) -> list[AnswerRecord]:
    through = answer.seq - 1
    return list(log.answers_after(answer.concept_id, through - n, through))


def is_along(answer: AnswerRecord, leader: str) -> bool:
    """Return whether the answer was given along with the answer `leader`, about an item of the same group."""
    return answer.selection_id is None and answer.id == alike_id(leader, answer.item)


def _is_answered_alone(shown: SelectionRecord) -> bool:
    return not {AUDIT, OVERLAP}.isdisjoint(shown.parameters)


def alike_id(answer_id: str, item: int) -> str:
    """Return the id of the answer about another item, given the id of the answer about the item in view."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{answer_id}, item {item}"))
