"""Label log: the log of sessions and selections, with all answers in the order of their arrival."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, Select, and_, bindparam, func, select, text
from sqlalchemy.orm import aliased

from closecall.storage import rows
from closecall.storage.append import append
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.fold import IsItem, LabelState
from closecall.storage.models import Answer, Concept, Selection, Session
from closecall.storage.records import AnswerRecord, AppendResult, Counts, Labels, LogRow, Purpose
from closecall.storage.selections import SelectionLog, paged
from closecall.storage.session_claims import Claims

_events = logging.getLogger("closecall.answers")


class LabelLog(SelectionLog):
    """Append-only log of labels in a database.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the server's time in milliseconds since 1970 UTC. The time never determines the order of
        answers.
    claims : Claims or None
        This server's claims of sessions, if several servers share the database.
    """

    def __init__(
        self, database: Database, clock: Callable[[], int] = rows.now_ms, claims: Claims | None = None
    ) -> None:
        super().__init__(database, clock, claims)
        self._newest: object | None = object()
        self._reached = 0  # position that the log is known to have reached, by what other servers said
        self._hearing = threading.Lock()

    @property
    def newest(self) -> object:
        """Token that changes whenever answers are appended, by this server or by another.

        During an append, every access returns a new token. The same is true after a failed append, because
        the answers may nevertheless have reached the database. It is also true while this server gets no
        notices from other servers (`Database.is_told`).
        """
        return object() if self._newest is None or not self.database.is_told else self._newest

    def hear(self, position: int | None = None) -> None:
        """Record that the log has reached a `position`, or that another server has appended answers.

        The token `newest` changes, unless this object already knows that the log has reached `position`.
        """
        with self._hearing:
            if position is None or position > self._reached:
                self._reached = max(self._reached, position or 0)
                if self._newest is not None:
                    self._newest = object()

    def append_answers(
        self,
        answers: Sequence[AnswerRecord],
        *,
        shown: Sequence[str] = (),
        along: Mapping[str, str] | None = None,
    ) -> AppendResult:
        """Store answers in one transaction; acknowledged answers are on disk when the method returns.

        Sending an answer again is harmless: the same id with the same content is acknowledged as known. An
        invalid answer is refused with a reason, and all valid answers are stored. Reasons include an id that
        is already used for other content, a selection of another item, and an undo of an answer that is
        unknown, already undone, or from another session.

        `shown` lists the ids of foreseen selections that the browser has shown. These, and the foreseen
        selections to which an answer refers, are moved to the log of selections in the same transaction.

        `along` maps the id of a dependent answer to the id of the answer on which it depends; both are in
        `answers`. If an answer is refused, the answers that depend on it are refused as well.

        Raises
        ------
        StorageError
            If `Database.write` raises it; the whole batch may then be sent again. Also if the session of an
            answer to a selection has been claimed by another server that shares the database (kind `moved`).
        """
        if not answers and not shown:
            return AppendResult((), (), ())
        began = time.perf_counter()
        with self._hearing:
            self._newest = None
        try:
            with self.database.write() as connection:
                sessions = {answer.session_id for answer in answers if answer.selection_id is not None}
                self._require_claims(connection, sessions)
                result = append(connection, answers, self._clock(), shown, along)
                announce_answers(self.database, connection, result)
        except StorageError as error:
            if error.kind == "moved":  # nothing was stored
                self._newest = object()
            raise
        with self._hearing:
            self._newest = object()
            self._reached = max([self._reached, *(answer.seq for answer in result.accepted)])
        if _events.isEnabledFor(logging.INFO):
            _tell_of(answers, result, round(1000 * (time.perf_counter() - began), 1))
        return result

    def position(self) -> int:
        """Return the `seq` of the last answer of any concept, or 0 if there are no answers."""
        return int(self._all(select(func.coalesce(func.max(Answer.seq), 0)))[0][0])

    def answers_after(
        self, concept_id: int, seq: int = 0, through: int | None = None
    ) -> Iterator[AnswerRecord]:
        """Yield a concept's answers after position `seq` up to `through`, in order, read page by page."""
        for row in self._pages(_answers_of(), seq, through, concept=concept_id):
            yield rows.answer(row)

    def answer(self, answer_id: str) -> AnswerRecord | None:
        """Return the answer with this id, or None."""
        found = self._all(_answer(), answer=answer_id)
        return rows.answer(found[0]) if found else None

    def state(
        self, concept_id: int, through: int | None = None, *, is_item: IsItem | None = None
    ) -> LabelState:
        """Return the `LabelState` of a concept at the log position `through`; None means the log's end."""
        return LabelState(concept_id, is_item).fold(self.answers_after(concept_id, 0, through))

    def labels(self, concept_id: int, through: int | None = None, *, is_item: IsItem | None = None) -> Labels:
        """Return the training labels at a log position."""
        return self.state(concept_id, through, is_item=is_item).labels()

    def answered_items(self, concept_id: int, through: int | None = None) -> NDArray[np.int64]:
        """Return, in ascending order, the items that have an answer, even a skip, at a log position."""
        return self.state(concept_id, through).answered_items()

    def counts(self, concept_id: int) -> Counts:
        """Return the number of items by status."""
        return self.state(concept_id).counts

    def tally(self, concept_id: int) -> Counts:
        """Return the number of items by status, as `counts` does. The database counts, which is faster."""
        query = text(
            "SELECT status, count(*), count(label) FROM current_labels WHERE concept_id = :id GROUP BY status"
        )
        with self.database.read() as connection:
            found = connection.execute(query, {"id": concept_id}).all()
        number = {status: count for status, count, _ in found}
        return Counts(**number, labels=sum(labels for *_, labels in found))

    def recent_answers(
        self,
        concept_id: int,
        n: int,
        *,
        session_id: str | None = None,
        annotator: str | None = None,
        purpose: Purpose | None = None,
    ) -> list[AnswerRecord]:
        """Return up to n current answers, newest first.

        The current answer of an annotator about an item is the last answer that was not undone. A correction
        takes the place of the answer that it corrects. Only the end of the log is read.
        """
        query = _in_force() if session_id is None else _in_force_of_session()
        values: dict[str, object] = {"concept": concept_id, "n": n}
        if session_id is not None:
            values["session"] = session_id
        if annotator is not None:
            query = query.where(Answer.annotator == annotator)
        if purpose is not None:
            query = query.where(Answer.purpose == purpose)
        current: dict[tuple[int, str], AnswerRecord] = {}
        shown: dict[tuple[int, str], AnswerRecord] = {}
        before: int | None = None
        while len(shown) < n:
            page = self._all(query if before is None else query.where(Answer.seq < before), **values)
            for *row, correction_of_undone in page:
                answer = rows.answer(row)
                place = (answer.item, answer.annotator)
                current.setdefault(place, answer)
                if answer.corrects is None or correction_of_undone is not None:
                    shown.setdefault(place, current[place])
            if not page:
                break
            before = page[-1][0]
        return list(shown.values())[:n]

    def log_rows(self, concept_id: int | None = None, through: int | None = None) -> Iterator[LogRow]:
        """Yield the log up to the position `through` as rows, in order, read page by page.

        If `through` is None, the position is the end of the log.
        """
        through = self.position() if through is None else through
        undo = aliased(Answer)
        query = (
            select(*rows.columns(Answer), *rows.columns(Selection), Concept.name, undo.id)
            .join(Concept, Concept.id == Answer.concept_id)
            .outerjoin(Selection, Selection.id == Answer.selection_id)
            .outerjoin(undo, and_(undo.undoes == Answer.id, undo.seq <= through))
        )
        if concept_id is not None:
            query = query.where(Answer.concept_id == concept_id)
        width = len(rows.columns(Answer))
        for row in self._pages(paged(query, Answer.seq), 0, through):
            chosen = row[width:-2]
            yield LogRow(
                concept=row[-2],
                answer=rows.answer(row[:width]),
                selection=None if chosen[0] is None else rows.selection(chosen),
                undone_by=row[-1],
            )

    def annotators(self) -> set[str]:
        """Return the annotators of all sessions with answers, including sessions of imports."""
        has_answers = select(Answer.seq).where(Answer.session_id == Session.id).exists()
        return {name for (name,) in self._all(select(Session.annotator).where(has_answers).distinct())}

    def last_answers(self, sessions: Iterable[str]) -> dict[str, int]:
        """Return the `seq` of each session's last answer. Sessions without an answer are left out."""
        last = select(func.max(Answer.seq)).where(Answer.session_id == Session.id).scalar_subquery()
        found = self._all(select(Session.id, last).where(Session.id.in_(list(sessions))))
        return {session: int(seq) for session, seq in found if seq is not None}

    def was_answered(self, concept_id: int, item: int) -> bool:
        """Return whether the item was ever answered for the concept, even if the answer was undone."""
        about = select(Answer.seq).where(Answer.concept_id == concept_id, Answer.item == item)
        return bool(self._all(about.limit(1)))


def announce_answers(database: Database, connection: Connection, result: AppendResult) -> None:
    """Add notices of the new answers to the open transaction, one per concept; see `storage.notices`."""
    items: dict[int, list[int]] = {}
    for answer in result.accepted:
        items.setdefault(answer.concept_id, []).append(answer.item)
    for concept, its in items.items():
        database.announce(connection, "answers", concept=concept, items=its)


def _tell_of(answers: Sequence[AnswerRecord], result: AppendResult, milliseconds: float) -> None:
    """Log an event with the number of stored answers, without their content."""
    fields = {"sessions": sorted({str(answer.session_id)[:64] for answer in answers}), "ms": milliseconds}
    stored = {"stored": len(result.accepted), "known": len(result.known)}
    _events.info("answers", extra={"fields": fields | stored})


# Statements that each answer needs are cached: SQLAlchemy takes longer to build one than to execute it.


@cache
def _answers_of() -> Select[Any]:
    query = select(*rows.columns(Answer)).where(Answer.concept_id == bindparam("concept"))
    return paged(query, Answer.seq)


@cache
def _answer() -> Select[Any]:
    return select(*rows.columns(Answer)).where(Answer.id == bindparam("answer"))


@cache
def _in_force() -> Select[Any]:
    """Return a query for `n` answers about a `concept` that were not undone, newest first.

    A correction is an undo of the old answer, followed by a new answer. In the row of the new answer, the
    last column has the `seq` of this undo.
    """
    return _newest_in_force().where(Answer.concept_id == bindparam("concept"))


@cache
def _in_force_of_session() -> Select[Any]:
    """Return the query of `_in_force` for the answers of a `session`."""
    # `+ 0` prevents a search by the index of concepts, which would read other sessions, too.
    is_about = Answer.concept_id + 0 == bindparam("concept")
    return _newest_in_force().where(Answer.session_id == bindparam("session"), is_about)


def _newest_in_force() -> Select[Any]:
    undo, replaced = aliased(Answer), aliased(Answer)
    return (
        select(*rows.columns(Answer), replaced.seq)
        .outerjoin(undo, undo.undoes == Answer.id)
        .outerjoin(replaced, replaced.undoes == Answer.corrects)
        .where(Answer.answer != "undo", undo.seq.is_(None))
        .order_by(Answer.seq.desc())
        .limit(bindparam("n"))
    )
