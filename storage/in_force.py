"""Look up stored answers by their ids, by their items and by their origins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sqlalchemy import Select, select, text
from sqlalchemy.orm import aliased

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.imports import origin_of
from closecall.storage.label_studio_reading import ORIGIN
from closecall.storage.models import Answer
from closecall.storage.records import AnswerRecord
from closecall.storage.tabular import batched

_CHUNK = 500  # values in one IN (...), well below each engine's limit


class Origin(NamedTuple):
    """The origin of an answer: an annotation in another program, and the concept of the answer.

    Parameters
    ----------
    annotation : str
        The annotation.
    concept_id : int
        Id of the concept.
    is_decision : bool
        Whether the answer is an adjudication; otherwise, it is a vote.
    """

    annotation: str
    concept_id: int
    is_decision: bool


class Stored(NamedTuple):
    """An answer with an origin, and whether it is in force (not undone)."""

    answer: AnswerRecord
    is_in_force: bool


def answers_with(database: Database, ids: Iterable[str]) -> Iterator[AnswerRecord]:
    """Yield the stored answers that have one of these ids."""
    for chunk in batched(ids, _CHUNK):
        with database.read() as connection:
            found = connection.execute(select(*rows.columns(Answer)).where(Answer.id.in_(chunk))).all()
        yield from map(rows.answer, found)


def in_force(database: Database, concept_id: int, items: Iterable[int]) -> dict[int, list[AnswerRecord]]:
    """Return, by item, the answers about these items that were not undone, in the order of the log."""
    found: dict[int, list[AnswerRecord]] = {}
    for chunk in batched(items, _CHUNK):
        query = _with_undo().where(Answer.concept_id == concept_id, Answer.item.in_(chunk))
        with database.read() as connection:
            for row in connection.execute(query.order_by(Answer.seq)).all():
                if row[-1] is None:
                    said = rows.answer(row[:-1])
                    found.setdefault(said.item, []).append(said)
    return found


def current_through(database: Database, concept_id: int, through: int) -> Iterator[AnswerRecord]:
    """Yield the current answers and adjudications up to the log position `through`."""
    query = text(
        "SELECT id, concept_id, session_id, annotator, item, answer, browser_time, purpose, seq "
        "FROM current_answers WHERE concept_id = :concept_id AND seq <= :through ORDER BY seq"
    )
    values = {"concept_id": concept_id, "through": through}
    with database.read() as connection:
        for row in connection.execution_options(yield_per=2_000).execute(query, values):
            yield AnswerRecord(**row._mapping)


def by_origin(database: Database) -> dict[Origin, list[Stored]]:
    """Return, by origin, all answers that were made in Label Studio, in the order of the log."""
    found: dict[Origin, list[Stored]] = {}
    query = _with_undo().where(Answer.id.like(f"{ORIGIN}:%")).order_by(Answer.seq)
    with database.read() as connection:
        for row in connection.execution_options(yield_per=2_000).execute(query):
            said = rows.answer(row[:-1])
            if origin := origin_of(said.id):
                key = Origin(origin, said.concept_id, said.purpose == "decision")
                found.setdefault(key, []).append(Stored(said, row[-1] is None))
    return found


def _with_undo() -> Select[tuple[object, ...]]:
    undo = aliased(Answer)
    query = select(*rows.columns(Answer), undo.seq).outerjoin(undo, undo.undoes == Answer.id)
    return query.where(Answer.answer != "undo")
