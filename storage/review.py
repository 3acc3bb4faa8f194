"""A concept's answers in columns, so that they can be sorted, searched and counted without the database.

The log remains the source of truth. An `AnswerTable` follows the log and reads each row once, as `LabelState`
does.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Select, bindparam, select

from closecall.storage.database import Database
from closecall.storage.models import Answer, Selection
from closecall.storage.records import ANSWERS, STATUSES, AnswerRecord, Status

CODES: dict[str, int] = {word: code for code, word in enumerate(ANSWERS)}
"""Codes of the answers in the column `Answers.word`."""

STATUS_CODES: dict[Status, int] = {status: code for code, status in enumerate(STATUSES)}
"""Codes of the statuses in the column `Items.status`."""

UNKNOWN = -1
"""Value in the column `Answers.taken` if the duration is unknown."""

DECIDED = -2
"""Number used as the annotator of all adjudications, because only an item's last adjudication counts."""

Column = NDArray[np.int64]

_READ: tuple[Any, ...] = (
    Answer.seq,
    Answer.id,
    Answer.item,
    Answer.answer,
    Answer.undoes,
    Answer.corrects,
    Answer.annotator,
    Answer.browser_time,
    Answer.time_taken_ms,
    Answer.purpose,
)
_PAGE = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """Status of each item, as in `LabelState`, with one row per item.

    Parameters
    ----------
    item : array of shape (n_items,), int64
        Items with an answer in force (see `Answers`), ascending.
    status : array of shape (n_items,), int64
        Status of each item, as a code of `STATUS_CODES`.
    is_contested : array of shape (n_items,), bool
        Whether annotators have answered both yes and no, without an adjudication.
    last : array of shape (n_items,), int64
        The `seq` of the newest answer in force.
    """

    item: Column
    status: Column
    is_contested: NDArray[np.bool_]
    last: Column


@dataclass(frozen=True, eq=False)
class Answers:
    """Log of a concept up to the position `seq[-1]`, with one row per answer or undo, in order.

    The arrays are read-only.

    Parameters
    ----------
    seq, item, time, taken : arrays of shape (n_answers,), int64
        Position in the log, item, the browser's time in milliseconds since 1970 UTC, and the time taken in
        milliseconds, or `UNKNOWN`.
    annotator : array of shape (n_answers,), int64
        Index into `annotators`.
    word : array of shape (n_answers,), int64
        The answer, as a code of `CODES`.
    is_correction, is_decision, in_force : arrays of shape (n_answers,), bool
        Whether the answer corrects another answer; whether it is an adjudication or the undo of an
        adjudication; and whether it is in force. Undone answers are not in force. Among all other answers,
        the last answer of each annotator about each item and the last adjudication of each item are in force.
    ids : sequence of str
        The answers' ids.
    annotators : sequence of str
        All annotators, in the order of their first answers.
    """

    seq: Column
    item: Column
    time: Column
    taken: Column
    annotator: Column
    word: Column
    is_correction: NDArray[np.bool_]
    is_decision: NDArray[np.bool_]
    in_force: NDArray[np.bool_]
    ids: list[str]
    annotators: list[str]

    def __len__(self) -> int:
        return len(self.seq)

    def of(self, item: int) -> Column:
        """Return the rows about an item, oldest first."""
        return np.flatnonzero(self.item == item)

    def by(self, annotator: str) -> Answers:
        """Return the annotator's own answers, as if there were neither other answers nor adjudications."""
        number = self.annotators.index(annotator) if annotator in self.annotators else -1
        return self._of_rows((self.annotator == number) & ~self.is_decision)

    def about(self, is_item: NDArray[np.bool_]) -> Answers:
        """Return the answers where `is_item`, of shape (n_answers,), is true, as if only these existed."""
        return self if is_item.all() else self._of_rows(is_item)

    def _of_rows(self, chosen: NDArray[np.bool_]) -> Answers:
        rows = np.flatnonzero(chosen)
        own: dict[str, Any] = {"ids": [self.ids[row] for row in rows]}
        for name, column in vars(self).items():
            if isinstance(column, np.ndarray):
                own[name] = column[rows]
        return replace(self, **own)

    @cached_property
    def items(self) -> Items:
        """Return the status of each item with an answer in force."""
        rows = np.flatnonzero(self.in_force)
        item, place = np.unique(self.item[rows], return_inverse=True)
        word, decides = self.word[rows], self.is_decision[rows]
        is_decided = np.bincount(place[decides], minlength=len(item)) > 0
        counts = ~is_decided[place] | decides
        yes, no, unsure = (
            np.bincount(place[counts & (word == CODES[name])], minlength=len(item))
            for name in ("yes", "no", "unsure")
        )
        status = np.select(
            [yes > no, no > yes, yes > 0, unsure > 0],
            [STATUS_CODES[name] for name in ("yes", "no", "tied", "unsure")],
            default=STATUS_CODES["skip"],
        )
        last = np.zeros(len(item), dtype=np.int64)
        np.maximum.at(last, place, self.seq[rows])
        return Items(item, status, (yes > 0) & (no > 0), last)


class AnswerTable:
    """Columns of one concept's answers, which grow with the log. Only one thread at a time may update them.

    Parameters
    ----------
    concept_id : int
    """

    def __init__(self, concept_id: int) -> None:
        self.concept_id = concept_id
        self.seq = 0
        self._numbers = {name: array("q") for name in ("seq", "item", "time", "taken", "annotator", "word")}
        self._is_correction = bytearray()
        self._is_decision = bytearray()
        self._in_force = bytearray()
        self._ids: list[str] = []
        self._annotators: dict[str, int] = {}
        self._row_of: dict[str, int] = {}
        self._standing: dict[tuple[int, int], list[int]] = {}  # by item and annotator: rows not undone
        self._answers: Answers | None = None

    def follow(self, database: Database) -> Self:
        """Add the answers stored since the last call, page by page."""
        while True:
            with database.read() as connection:
                page = connection.execute(_page(), {"concept": self.concept_id, "after": self.seq}).all()
            for row in page:
                self._append(*row)
            if len(page) < _PAGE:
                return self

    def fold(self, answers: Iterable[AnswerRecord]) -> Self:
        """Add answers in the log's order; answers at or before `seq` are ignored."""
        for a in answers:
            if a.seq > self.seq:
                taken = a.time_taken_ms
                self._append(
                    a.seq,
                    a.id,
                    a.item,
                    a.answer,
                    a.undoes,
                    a.corrects,
                    a.annotator,
                    a.browser_time,
                    taken,
                    a.purpose,
                )
        return self

    def answers(self) -> Answers:
        """Return the columns at `seq`; they never change afterwards."""
        if self._answers is None:
            self._answers = Answers(
                **{name: np.frombuffer(bytes(column), np.int64) for name, column in self._numbers.items()},
                is_correction=np.frombuffer(bytes(self._is_correction), np.bool_),
                is_decision=np.frombuffer(bytes(self._is_decision), np.bool_),
                in_force=np.frombuffer(bytes(self._in_force), np.bool_),
                ids=self._ids[:],
                annotators=list(self._annotators),
            )
        return self._answers

    def row_of(self, answer_id: str) -> int | None:
        """Return the row of an answer, or None if it is not in the log."""
        return self._row_of.get(answer_id)

    def standing(self, item: int, annotator: str) -> str | None:
        """Return the id of the annotator's current answer about the item, or None."""
        rows = self._standing.get((item, self._annotators.get(annotator, -1)))
        return self._ids[rows[-1]] if rows else None

    def _append(
        self,
        seq: int,
        answer_id: str,
        item: int,
        word: str,
        undoes: str | None,
        corrects: str | None,
        annotator: str,
        time: int,
        taken: int | None,
        purpose: str,
    ) -> None:
        row, who = len(self._ids), self._annotators.setdefault(annotator, len(self._annotators))
        values = (seq, item, time, UNKNOWN if taken is None else taken, who, CODES[word])
        for column, value in zip(self._numbers.values(), values, strict=True):
            column.append(value)
        self._is_correction.append(corrects is not None)
        undone = None if undoes is None else self._row_of[undoes]
        decides = purpose == "decision" if undone is None else bool(self._is_decision[undone])
        self._is_decision.append(decides)
        self._in_force.append(undoes is None)
        self._ids.append(answer_id)
        self._row_of[answer_id] = row
        self.seq, self._answers = seq, None
        place = self._standing.setdefault((item, DECIDED if decides else who), [])
        if place:
            self._in_force[place[-1]] = False
        if undone is None:
            place.append(row)
        else:
            place.remove(undone)
            if place:
                self._in_force[place[-1]] = True


@dataclass(frozen=True, slots=True)
class Detail:
    """Fields of an answer that are no columns of `Answers`: the undone answer, the round and the strategy."""

    undoes: str | None
    round: int | None
    strategy: str | None


@cache
def _page() -> Select[Any]:
    """Return a query for a page of a concept's answers `after` a `seq`. Cached, because building is slow."""
    of_concept = Answer.concept_id == bindparam("concept")
    return select(*_READ).where(of_concept, Answer.seq > bindparam("after")).order_by(Answer.seq).limit(_PAGE)


def details_of(database: Database, seqs: Iterable[int]) -> dict[int, Detail]:
    """Return the details of the answers at these log positions. A single query reads them all."""
    wanted = [int(seq) for seq in seqs]
    query = (
        select(Answer.seq, Answer.undoes, Selection.round, Selection.strategy)
        .outerjoin(Selection, Selection.id == Answer.selection_id)
        .where(Answer.seq.in_(wanted))
    )
    with database.read() as connection:
        return {row.seq: Detail(row.undoes, row.round, row.strategy) for row in connection.execute(query)}
