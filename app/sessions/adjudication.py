"""Adjudication: an owner decides about contested items, which are items on which annotators disagree.

A decision is stored as an answer with the purpose "decision", and replaces the votes of all annotators. The
SVM is trained on the decision, unless the item belongs to the audit. A decision can be undone, and
``closecall verify`` replays it like any answer. The item that an owner sees and the next item are leased to
this owner, so that no other owner gets them.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.projects.roles import Person
from closecall.app.sessions.answers import (
    Outcome,
    Refused,
    item_in,
    not_stored,
    read_answer,
    read_each,
    require_answered,
)
from closecall.app.sessions.review import ReviewedConcept
from closecall.storage import AnswerRecord, SelectionRecord
from closecall.storage.review import Answers

if TYPE_CHECKING:
    from closecall.app.engine.leases import Leases, Others
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.storage.records import AnswerWord

WORDS: tuple[AnswerWord, ...] = ("no", "yes", "unsure")
"""Possible decisions. Skip is not a decision: it moves the item to the end of the queue."""

NO_SKIP = "A decision is yes, no or unsure: it can't become a skip"
"""Message for a correction that would change a decision into "skip", which is refused."""

MARK = "decide "
"""Prefix of the ids of placeholder selections; see `Decisions.stand_in`."""


def is_decision(answer: Mapping[str, Any]) -> bool:
    """Return whether the browser's answer was given on the adjudication card."""
    return str(answer.get("selection")).startswith(MARK)


@dataclass(frozen=True)
class Line:
    """The queue of contested items for one owner.

    Parameters
    ----------
    answers : Answers
        The concept's answers.
    items : list of int
        Contested items that are not leased to other owners, in the order in which they are shown.
    is_any_contested : bool
        Whether the concept has contested items. If this is true and `items` is empty, all contested items are
        leased to other owners.
    """

    answers: Answers
    items: list[int]
    is_any_contested: bool


class Decisions:
    """The view in which an owner adjudicates the contested items of a concept, on the labeling card.

    Parameters
    ----------
    session : LabelingSession
        The owner's session, under which decisions are stored.
    leases : Leases
        Leases of all owners who adjudicate this concept.
    """

    def __init__(self, session: LabelingSession, leases: Leases) -> None:
        self.session = session
        self.leases = leases
        self.id = session.id
        self.project = session.project
        self._later: list[int] = []
        self._taken: Counter[int] = Counter()  # number of answers by item, part of the placeholders' ids
        self._begun = uuid.uuid4().hex[:8]  # makes the placeholders' ids differ from those of other processes

    def store(self, answers: Sequence[Mapping[str, Any]], by: Person) -> Outcome:
        """Store decisions, and corrections and undos of decisions; move skipped items to the queue's end.

        A correction that would change a decision into "skip" is refused, because skip is not a decision.

        Raises
        ------
        InputError
            If the person is not an owner.
        InputError, StorageError
            If `Intake.store` raises them.
        """
        by.require_owner("decide")
        records: list[AnswerRecord] = []
        acked: list[str] = []

        def read(answer: Mapping[str, Any]) -> None:
            if answer["answer"] == "skip":
                if not is_decision(answer) or answer.get("corrects") is not None:
                    raise Refused("malformed", NO_SKIP)
                self._put_off(item_in(answer))
                self._taken[item_in(answer)] += 1
                acked.append(str(answer["id"]))
            else:
                records.append(self._read(answer))

        refused = read_each(answers, read)
        result = self.project.intake.store(records)
        self._taken.update(record.item for record in result.accepted)
        return Outcome.of(self.id, [*acked, *result.acknowledged], [*refused, *result.refused])

    def reopen(self) -> None:
        """Do nothing: the queue is computed from the log each time."""

    def line(self) -> Line:
        """Return the queue, and lease its first two items to this owner."""
        others = self.leases.others(self.id, own=self.session.own_sessions)
        answers = ReviewedConcept.of(self.session).answers()
        contested = self._in_line(answers)
        return Line(answers, self._claimed(contested, others), bool(contested))

    def _in_line(self, answers: Answers) -> list[int]:
        """Return the contested items, by the time of their last answer, with skipped items at the end."""
        items = answers.items
        order = np.argsort(items.last, kind="stable")
        contested = items.item[order][items.is_contested[order]].tolist()
        first = [item for item in contested if item not in self._later]
        return first + [item for item in self._later if item in contested]

    def _claimed(self, in_line: Sequence[int], others: Others) -> list[int]:
        """Return the items not leased to other owners, and lease the first two to this owner.

        Only if no other items are left, return items that are leased to the owner's own other sessions.
        """
        if others.items and set(others.items).issuperset(in_line):
            others = others.sharing_own()
        while True:
            free = [item for item in in_line if item not in others.items]
            lost = others.take(free[:2])
            if not lost:
                self.leases.keep(self.id, free[:2])
                return free
            others = others.again(lost)

    def _put_off(self, item: int) -> None:
        self._later = [other for other in self._later if other != item] + [item]

    def stand_in(self, item: int, *, again: bool = False) -> SelectionRecord:
        """Return a placeholder for the selection of a contested item, which no strategy has selected.

        The placeholder is never logged. Its id contains the number of answers given to the item. If an item
        returns after Skip, its placeholder therefore has another id, and the card shows the item as a new
        item. If `again`, return the placeholder that the item would have after one more answer.
        """
        return SelectionRecord(
            id=f"{MARK}{item} {self._begun} {self._taken[item] + again}",
            session_id=self.id,
            concept_id=self.session.concept.record.id,
            round=0,
            item=item,
            why="search",
            strategy="search",
            seed=0,
            pool_version=0,
            items_total=0,
        )

    def _is_decided_elsewhere(self, record: AnswerRecord) -> bool:
        """Return whether a decision is new, and the owner has decided about the item in another session."""
        if self.project.log.answer(record.id) is not None:
            return False
        return any(answer.purpose == "decision" for answer in self.session.answers_elsewhere(record.item))

    def _read(self, answer: Mapping[str, Any]) -> AnswerRecord:
        record = read_answer(answer, self.session)
        if record.answer != "undo":
            require_answered(record.item, self.session)
        if is_decision(answer) and record.corrects is None and self._is_decided_elsewhere(record):
            raise Refused("conflict", not_stored("decision", "decided"))
        return replace(record, selection_id=None, purpose="decision")  # the selection is a placeholder
