"""The backlog of a webhook: the events that it has not received yet, in order.

Two logs are merged: the answers, and the happenings (`storage.happenings`). The answers are ordered by `seq`,
and a happening comes after the last answer that was stored before it. The order therefore never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, or_, select

from closecall.storage import rows
from closecall.storage.archive import replacements_of
from closecall.storage.database import Database
from closecall.storage.models import Answer, Concept, Happening
from closecall.storage.records import AnswerRecord, HappeningRecord, WebhookRecord

Entry = AnswerRecord | HappeningRecord


@dataclass(frozen=True, slots=True)
class Batch:
    """The next events of a webhook.

    Parameters
    ----------
    entries : sequence of AnswerRecord or HappeningRecord
        The events, in order.
    concepts : mapping
        Names of the concepts of these events, by id.
    answers_through, happenings_through : int
        Positions in both logs. A webhook that has received these events has all events up to these positions.
    is_last : bool
        Whether the backlog is empty after these events.
    """

    entries: Sequence[Entry]
    concepts: Mapping[int, str]
    answers_through: int
    happenings_through: int
    is_last: bool


def next_batch(database: Database, webhook: WebhookRecord, most: int) -> Batch:
    """Return the first `most` events after the webhook's positions, or fewer."""
    with database.read() as connection:
        answers_end = _end(connection, Answer.seq)
        happenings_end = _end(connection, Happening.seq)
        answers = _answers(connection, webhook, most)
        happenings = _happenings(connection, webhook, most)
        answers_end = answers[-1].seq if len(answers) == most else answers_end
        happenings_end = happenings[-1].seq if len(happenings) == most else happenings_end
        # If more answers wait, the happenings after them wait, too.
        both: list[Entry] = [*answers, *(one for one in happenings if one.after <= answers_end)]
        entries = sorted(both, key=_place)[:most]
        ids = {entry.concept_id for entry in entries if entry.concept_id is not None}
        names = select(Concept.id, Concept.name).where(Concept.id.in_(ids))
        concepts = {row.id: row.name for row in connection.execute(names)} if ids else {}
    sent = {id(entry) for entry in entries}
    return Batch(
        entries,
        concepts,
        _through(webhook.answers_through, answers_end, answers, sent),
        _through(webhook.happenings_through, happenings_end, happenings, sent),
        is_last=len(entries) == len(answers) + len(happenings) and max(len(answers), len(happenings)) < most,
    )


def waiting(database: Database, webhook: WebhookRecord) -> int:
    """Return the number of events that the webhook has not received yet."""
    with database.read() as connection:
        number = 0
        for query in (_of_answers(webhook), _of_happenings(webhook)):
            if query is not None:
                number += connection.scalar(select(func.count()).select_from(query.subquery())) or 0
        return number


def _place(entry: Entry) -> tuple[int, int, int]:
    """Return a key that sorts events into the merged order."""
    return (entry.after, 1, entry.seq) if isinstance(entry, HappeningRecord) else (entry.seq, 0, 0)


def _through(before: int, end: int, found: Sequence[Entry], sent: set[int]) -> int:
    """Return the webhook's position in a log after the events `sent` have been delivered.

    The position is just before the first event of `found` that is not in `sent`. If all of `found` are in
    `sent`, it is `end`. It is never less than `before`.
    """
    left = next((entry.seq for entry in found if id(entry) not in sent), None)
    return max(before, end if left is None else left - 1)


def _end(connection: Connection, seq: Any) -> int:
    return connection.scalar(select(func.coalesce(func.max(seq), 0))) or 0


def _of_answers(webhook: WebhookRecord) -> Select[Any] | None:
    """Return a query for the answers that the webhook has not received, or None if it gets no answers."""
    query = select(*rows.columns(Answer)).where(Answer.seq > webhook.answers_through)
    kinds = {"label", "decision"} & set(webhook.kinds)
    if not kinds:
        return None
    if kinds == {"label"}:
        query = query.where(Answer.purpose != "decision")
    if kinds == {"decision"}:
        query = query.where(Answer.purpose == "decision")
    if webhook.concept_id is not None:
        query = query.where(_is_about(Answer.concept_id, webhook.concept_id))
    return query


def _answers(connection: Connection, webhook: WebhookRecord, most: int) -> list[AnswerRecord]:
    query = _of_answers(webhook)
    if query is None:
        return []
    return [rows.answer(row) for row in connection.execute(query.order_by(Answer.seq).limit(most))]


def _of_happenings(webhook: WebhookRecord) -> Select[Any] | None:
    """Return a query for the happenings that the webhook has not received; None if it gets no happenings."""
    kinds = [kind for kind in webhook.kinds if kind not in ("label", "decision")]
    if not kinds:
        return None
    query = select(*rows.columns(Happening)).where(Happening.seq > webhook.happenings_through)
    if webhook.concept_id is not None:
        its = or_(_is_about(Happening.concept_id, webhook.concept_id), Happening.concept_id.is_(None))
        query = query.where(its)
    return query.where(Happening.kind.in_(kinds))


def _is_about(column: Any, concept_id: int) -> ColumnElement[bool]:
    """Return the condition that the column has this concept, or one that replaced it when it was reset."""
    return or_(column == concept_id, column.in_(replacements_of(concept_id)))


def _happenings(connection: Connection, webhook: WebhookRecord, most: int) -> list[HappeningRecord]:
    query = _of_happenings(webhook)
    if query is None:
        return []
    found = connection.execute(query.order_by(Happening.seq).limit(most))
    return [rows.happening(row) for row in found]
