"""Read and check the browser's answers before they are stored in the log."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from closecall.app.runtime.event_log import emit
from closecall.app.sessions.group import answers_alike, undos_alike
from closecall.storage import AnswerRecord, AppendResult, Refusal, SelectionRecord
from closecall.storage.models import MAX_ID
from closecall.storage.records import ANSWERS

if TYPE_CHECKING:
    from closecall.app.sessions.session_state import SessionState
    from closecall.storage.records import RefusalKind

MOST_AT_ONCE = 1000
"""Maximum number of answers read from one message; the browser sends the rest of its queue again."""

MOST_ITEM = 2**63 - 1
"""Largest item id: SQLite and PostgreSQL store ids as signed integers of 64 bits."""

UNREADABLE = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError)
"""Errors that can be raised by reading a malformed answer."""


class Refused(Exception):  # noqa: N818 (no error: a verdict on one answer)
    """The refusal of an answer that can be read but must not be stored."""

    def __init__(self, kind: RefusalKind, reason: str) -> None:
        super().__init__(reason)
        self.kind: RefusalKind = kind


@dataclass(frozen=True)
class Outcome:
    """The result of storing a browser's answers.

    Parameters
    ----------
    acked : sequence of str
        Ids of the answers that are on disk.
    refused : sequence of Refusal
        Refusals of the answers that will never be stored, with the reasons.
    """

    acked: Sequence[str] = ()
    refused: Sequence[Refusal] = ()

    @classmethod
    def of(cls, session_id: str, acked: Sequence[str], refused: Sequence[Refusal]) -> Self:
        """Return the outcome for a session, and write the numbers of refusals by kind to the event log."""
        if refused:
            kinds = dict(Counter(refusal.kind for refusal in refused))
            emit("answers refused", logging.WARNING, session=session_id, kinds=kinds)
        return cls(tuple(acked), tuple(refused))

    def as_json(self) -> dict[str, list[Any]]:
        """Return the outcome in the form that the browser reads."""
        refused = [{"id": refusal.id, "reason": refusal.reason} for refusal in self.refused]
        return {"acked": list(self.acked), "refused": refused}


@dataclass(frozen=True)
class Press:
    """One press of a key or button: an answer, an undo or a correction for each concept of the view.

    If the view has only one concept, a press may give several items of a group the same answer, or undo all
    these answers (`app.sessions.group`).

    Parameters
    ----------
    id : str
        The browser's id of the press. The answer for the session's own concept and the item in view has the
        same id.
    records : tuple of AnswerRecord
        One answer per concept about the item in view.
    following : str or None
        Id of the selection that the browser showed next, if it was sent to the browser in advance.
    along : tuple of AnswerRecord
        Answers about other items of the group, or undos of such answers. They are stored only if the answer
        with the press's id is stored. The log may refuse some of them.
    """

    id: str
    records: tuple[AnswerRecord, ...]
    following: str | None
    along: tuple[AnswerRecord, ...] = ()

    @property
    def seconds(self) -> float | None:
        """Return how long the annotator looked at the item, in seconds; None if this is unknown."""
        taken = self.records[0].time_taken_ms
        return None if taken is None else taken / 1000

    @property
    def is_undo(self) -> bool:
        """Return whether the press undoes an earlier press."""
        return self.records[0].answer == "undo"

    @property
    def is_correction(self) -> bool:
        """Return whether the press corrects an earlier press."""
        return any(record.corrects is not None for record in self.records)

    def is_in(self, ids: Collection[str]) -> bool:
        """Return whether any of the press's answers has one of these ids."""
        return any(record.id in ids for record in self.records)

    def answers(self, selection: SelectionRecord) -> bool:
        """Return whether the press answers the selection."""
        return any(record.selection_id == selection.id for record in self.records)

    def answers_item_of(self, selection: SelectionRecord) -> bool:
        """Return whether the press answers the item of the selection, perhaps under another selection."""
        records = (*self.records, *self.along)
        asked = (selection.item, selection.concept_id)
        return any((record.item, record.concept_id) == asked for record in records)


def following(answer: Mapping[str, Any]) -> str | None:
    """Return the id of the selection that the browser showed after the answer, or None."""
    shown = answer.get("next")
    return shown if isinstance(shown, str) and shown else None


def parse_answers(
    answers: Sequence[Mapping[str, Any]], *, session: SessionState
) -> tuple[list[Press], list[Refusal]]:
    """Parse the answers in the browser's queue; return the presses, and the refusals of invalid answers."""
    presses: list[Press] = []
    records: list[AnswerRecord] = []

    def read(answer: Mapping[str, Any]) -> None:
        record = in_its_audit(read_answer(answer, session), session, records)
        require_first(record, session, records)
        if not refers_to_something(answer):
            require_answered(record.item, session)
        log = session.project.log
        along = (*answers_alike(answer, record, session, records), *undos_alike(record, log, records))
        records.extend((*along, record))
        presses.append(Press(record.id, (record,), following(answer), along))

    refused = read_each(answers, read)
    return presses, refused


def store_presses(
    presses: Sequence[Press], malformed: Sequence[Refusal], session: SessionState
) -> tuple[AppendResult, Outcome]:
    """Store the answers of presses; return the log's result, and the outcome for the browser.

    A press is refused if the log refuses one of its answers. An undo is acknowledged if the log stores at
    least one of its answers, because the answers for other concepts may already have been undone.

    Raises
    ------
    InputError, StorageError
        If `Intake.store` raises them. After a StorageError, the answers may be in the log.
    """
    session.hold_undone(record for press in presses for record in press.records)
    result = session.project.intake.store(
        [record for press in presses for record in (*press.along, *press.records)],
        shown=[press.following for press in presses if press.following],
        along={record.id: press.id for press in presses for record in press.along},
    )
    stored, reasons = set(result.acknowledged), {refusal.id: refusal for refusal in result.refused}
    acked, refused = [], list(malformed)
    for press in presses:
        reason = next((reasons[record.id] for record in press.records if record.id in reasons), None)
        if reason is None or (press.is_undo and press.is_in(stored)):
            acked.append(press.id)
        else:
            refused.append(Refusal(press.id, reason.kind, reason.reason))
    return result, Outcome.of(session.id, acked, refused)


def read_each(
    answers: Sequence[Mapping[str, Any]], read: Callable[[Mapping[str, Any]], None]
) -> list[Refusal]:
    """Call `read` with each of the first `MOST_AT_ONCE` answers of a browser's queue; return the refusals.

    `read` refuses an answer by raising `Refused` or one of `UNREADABLE`.
    """
    refused: list[Refusal] = []
    for answer in list(answers)[:MOST_AT_ONCE]:
        try:
            read(answer)
        except Refused as verdict:
            refused.append(Refusal(str(answer["id"]), verdict.kind, str(verdict)))
        except UNREADABLE as error:
            refused.append(_malformed(answer, error))
    return refused


def refers_to_something(answer: Mapping[str, Any]) -> bool:
    """Return whether the answer names a selection, or an answer that it corrects or undoes.

    If it does, the log checks that this selection or answer exists.
    """
    return any(answer.get(name) is not None for name in ("selection", "corrects", "undoes"))


def has_answered(session: SessionState, item: object) -> bool:
    """Return whether the session's annotator has answered the item and not undone the answer."""
    with session.concept.lock:
        state = session.concept.catch_up()
        return isinstance(item, int) and session.annotator in state.votes(item)


def not_stored(what: str, how: str) -> str:
    """Return the message that refuses a second answer or decision; most people don't know items by number."""
    return f"Your {what} was not stored: its item was {how} already, perhaps in another window"


def others_only(item: object) -> str:
    """Return the message that refuses an answer about an item that only other people have answered."""
    return f"Item {item!r:.80} has no answer of yours: an owner decides about others'"


def require_answered(item: int, session: SessionState) -> None:
    """Refuse an answer about an item that nobody has ever answered.

    The check is for answers that refer to no selection in the log. Such answers come from Review and from
    adjudication, which only show items with answers.

    Raises
    ------
    Refused
        If the item never had an answer, not even one that was undone (kind `not-asked`).
    """
    concept, log = session.concept.record, session.project.log
    with session.concept.lock:
        is_answered = session.concept.catch_up().status(item) is not None
    if not (is_answered or log.was_answered(concept.id, item)):
        raise Refused(
            "not-asked", f"Item {item} was not shown to anybody: reload the page to see the item to answer"
        )


def _malformed(answer: object, error: Exception) -> Refusal:
    """Return the refusal of an answer that can't be read."""
    name = str(answer.get("id", "?")) if isinstance(answer, Mapping) else "?"
    return Refusal(name, "malformed", f"The answer {name[:64]} can't be read: {error}")


def in_its_audit(record: AnswerRecord, session: SessionState, batch: Sequence[AnswerRecord]) -> AnswerRecord:
    """Return the answer, with the purpose "audit" if its item belongs to the audit.

    The SVM is not trained on audit answers. `batch` has the answers that precede `record` in the browser's
    queue and are not in the log yet.
    """
    if record.answer == "undo":
        return record
    audited = record.selection_id is not None and session.is_audits(record.selection_id)
    undone = {earlier.undoes for earlier in batch}
    audited |= session.concept.is_audited(record.item, without=undone)
    audited |= any(
        earlier.item == record.item and earlier.purpose == "audit" and earlier.id not in undone
        for earlier in batch
    )
    return replace(record, purpose="audit") if audited else record


def require_first(record: AnswerRecord, session: SessionState, batch: Sequence[AnswerRecord]) -> None:
    """Refuse a second answer to a selection, unless it is an undo or a correction.

    Raises
    ------
    Refused
        If the log has an answer to the selection that was not undone, if `batch`, the earlier answers in the
        browser's queue, has an answer to the selection, or if the person has answered the item in another
        session since it was selected (kind `conflict`).
    """
    if record.selection_id is None or record.answer == "undo" or record.corrects is not None:
        return
    log = session.project.log
    in_batch = any(
        earlier.selection_id == record.selection_id for earlier in batch if earlier.corrects is None
    )
    is_answered = log.is_answered(record.selection_id) or _is_answered_elsewhere(record, session)
    if in_batch or (is_answered and log.answer(record.id) is None):
        raise Refused("conflict", not_stored("answer", "answered"))


def _is_answered_elsewhere(record: AnswerRecord, session: SessionState) -> bool:
    if record.selection_id is None or not has_answered(session, record.item):
        return False
    log = session.project.log
    shown = log.selection(record.selection_id) or log.foreseen(record.selection_id)
    return shown is not None and session.is_answered_elsewhere(shown)


def read_answer(answer: Mapping[str, Any], session: SessionState) -> AnswerRecord:
    """Return the browser's answer as a record of the session.

    Raises
    ------
    One of `UNREADABLE`
        If the answer is malformed.
    """
    word = answer["answer"]
    if not isinstance(word, str) or word not in ANSWERS:
        raise ValueError(f"answer must be one of {', '.join(ANSWERS)}, got {word!r:.80}")
    taken = answer.get("time_taken_ms")
    return AnswerRecord(
        id=own_id(answer),
        concept_id=session.concept.record.id,
        session_id=session.id,
        annotator=session.annotator,
        item=item_in(answer),
        answer=word,
        browser_time=int(answer["browser_time"]),
        time_taken_ms=None if taken is None else max(0, int(taken)),
        selection_id=_id_in(answer, "selection"),
        undoes=_id_in(answer, "undoes"),
        corrects=_id_in(answer, "corrects"),
    )


def own_id(answer: Mapping[str, Any]) -> str:
    """Return the answer's id; raise ValueError unless it is a UUID in the form that `uuid.UUID` prints.

    Acknowledgements have ids in this form. A browser that sends another form would not recognize the
    acknowledgement of its answer.
    """
    name = str(uuid.UUID(answer["id"]))
    if name != answer["id"]:
        raise ValueError(f"id must be {name}, got {answer['id']!r:.80}")
    return name


def with_ids(answers: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[Refusal]]:
    """Return the answers that refer only to valid ids, and the refusals of all other answers.

    A database would raise an error for an id with half of a surrogate pair, and the browser would then send
    its whole queue again and again.
    """
    readable: list[dict[str, Any]] = []
    refused: list[Refusal] = []
    for answer in answers:
        try:
            for name in ("selection", "undoes", "corrects", "next"):
                _id_in(answer, name)
            readable.append(answer)
        except ValueError as error:
            refused.append(_malformed(answer, error))
    return readable, refused


def item_in(answer: Mapping[str, Any]) -> int:
    """Return the answer's item id. Raise KeyError if it is missing, and ValueError if it is invalid."""
    item = answer["item"]
    if not isinstance(item, int) or isinstance(item, bool):
        raise ValueError(f"item must be a whole number, got {item!r:.80}")
    if not 0 <= item <= MOST_ITEM:
        raise ValueError(f"item must be from 0 to 2⁶³ − 1, got {item!r:.80}")
    return item


def _id_in(answer: Mapping[str, Any], name: str) -> str | None:
    value = answer.get(name)
    if value is not None and not (
        isinstance(value, str) and value.isprintable() and value.isascii() and len(value) <= MAX_ID
    ):
        raise ValueError(f"{name} must be an id, got {value!r:.80}")
    return value
