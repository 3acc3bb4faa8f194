"""The browser's answers, checked before they go into the log."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from storage import AnswerRecord, Refusal
from storage.models import MAX_ID
from storage.records import ANSWERS

if TYPE_CHECKING:
    from app.service import LabelingSession

MOST_AT_ONCE = 1000
"""Answers taken from one message; a longer queue is sent again by the browser."""


UNREADABLE = (KeyError, TypeError, ValueError, ArithmeticError, AttributeError)
"""What reading raises of an answer that no page of ours would send."""


@dataclass(frozen=True)
class Parsed:
    """Answers fit for the log, and those that are not; `following` is what the browser showed after which."""

    records: list[AnswerRecord]
    following: dict[str, str]
    refused: list[Refusal]


def parse_answers(answers: Sequence[Mapping[str, Any]], *, session: LabelingSession) -> Parsed:
    """Turn the browser's queue into records; what is malformed is refused, the rest goes on."""
    records: list[AnswerRecord] = []
    following: dict[str, str] = {}
    refused: list[Refusal] = []
    for answer in list(answers)[:MOST_AT_ONCE]:
        try:
            record = in_its_audit(read_answer(answer, session), session, records)
            if is_second(record, session, records):
                refused.append(Refusal(record.id, "conflict", answered_already(record.item)))
            else:
                records.append(record)
                if isinstance(shown := answer.get("next"), str):
                    following[record.id] = shown
        except UNREADABLE as error:
            refused.append(malformed(answer, error))
    return Parsed(records, following, refused)


def malformed(answer: object, error: Exception) -> Refusal:
    """What the browser hears of an answer that can't be read."""
    name = str(answer.get("id", "?")) if isinstance(answer, Mapping) else "?"
    return Refusal(name, "malformed", f"The answer {name[:64]} can't be read: {error}")


def in_its_audit(
    record: AnswerRecord, session: LabelingSession, batch: Sequence[AnswerRecord]
) -> AnswerRecord:
    """What was drawn for the audit doesn't train, and what else is said of such an item doesn't either."""
    if record.answer == "undo":
        return record
    audited = record.selection_id is not None and session.is_audits(record.selection_id)
    audited |= session.concept.is_audited(record.item)
    audited |= any(earlier.item == record.item and earlier.purpose == "audit" for earlier in batch)
    return replace(record, purpose="audit") if audited else record


def answered_already(item: int) -> str:
    """Why a second answer to what was shown once is refused."""
    return f"Item {item} was answered already, perhaps in another window"


def is_second(record: AnswerRecord, session: LabelingSession, batch: Sequence[AnswerRecord]) -> bool:
    """Whether what was shown once has another answer already; corrections say so, and may."""
    if record.selection_id is None or record.answer == "undo" or record.corrects is not None:
        return False
    if any(earlier.selection_id == record.selection_id for earlier in batch if earlier.corrects is None):
        return True
    log = session.project.log
    return log.is_answered(record.selection_id) and log.answer(record.id) is None


def read_answer(answer: Mapping[str, Any], session: LabelingSession) -> AnswerRecord:
    """The browser's answer as a record of the session's.

    Raises
    ------
    One of `UNREADABLE`
        If it can't be read.
    """
    word = answer["answer"]
    if not isinstance(word, str) or word not in ANSWERS:
        raise ValueError(f"answer must be one of {', '.join(ANSWERS)}, got {word!r:.80}")
    taken = answer.get("time_taken_ms")
    return AnswerRecord(
        id=str(uuid.UUID(answer["id"])),
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


def item_in(answer: Mapping[str, Any]) -> int:
    """What could be read as a number is none: what checks an answer before must have seen the same."""
    item = answer["item"]
    if not isinstance(item, int) or isinstance(item, bool):
        raise ValueError(f"item must be a whole number, got {item!r:.80}")
    return item


def _id_in(answer: Mapping[str, Any], name: str) -> str | None:
    value = answer.get(name)
    if value is not None and not (isinstance(value, str) and value.isascii() and len(value) <= MAX_ID):
        raise ValueError(f"{name} must be an id, got {value!r:.80}")
    return value
