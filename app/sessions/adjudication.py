"""Decisions: an owner settles, one by one, what annotators disagree on.

A decision is an answer of its own kind in the log: it outranks the votes, whatever their number, trains (but
for what belongs to the audit), can be undone, and is replayed by ``verify`` like any answer. What one owner
has in view, and what follows it, is asked of no other.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from app.projects.roles import Person
from app.sessions.answers import MOST_AT_ONCE, UNREADABLE, Refused, item_in, malformed, require_answered
from app.sessions.card import STRIP, common, painted, thumbnail
from app.sessions.review import ReviewedConcept
from storage import AnswerRecord, Refusal, SelectionRecord
from storage.review import CODES, Answers

if TYPE_CHECKING:
    from app.engine.leases import Leases, Others
    from app.sessions.labeling import LabelingSession
    from storage.records import AnswerWord

WORDS: tuple[AnswerWord, ...] = ("no", "yes", "unsure")
"""What may be decided; what is skipped waits at the end of the line."""

NOTHING = "There is nothing to decide: nobody says yes where another one says no."
ELSEWHERE = "What is left to decide is in view of other owners."

MARK = "decide "
"""Begins what stands in the place of a selection's id: nobody selected these items."""


def is_decision(answer: Mapping[str, Any]) -> bool:
    """Whether the browser's answer was given where things are decided."""
    return str(answer.get("selection")).startswith(MARK)


class Decisions:
    """What there is to decide about a session's concept, as the labeling card shows it.

    Parameters
    ----------
    session : LabelingSession
        Under whose id, and in whose name, the decisions are stored.
    leases : Leases
        Which items are in view of those who decide about the same concept.
    """

    def __init__(self, session: LabelingSession, leases: Leases) -> None:
        self.session = session
        self.leases = leases
        self.id = session.id
        self.project = session.project
        self._later: list[int] = []
        self._taken: Counter[int] = Counter()  # by item: answers to it; what comes back is asked about anew
        self._begun = uuid.uuid4().hex[:8]  # another process counts from 0 again

    def submit(self, answers: Sequence[Mapping[str, Any]], by: Person) -> dict[str, Any]:
        """Store decisions, and what takes them back; returns the card with what became of them.

        Raises
        ------
        InputError
            If whoever decides is no owner.
        """
        by.require_owner("decide")
        records: list[AnswerRecord] = []
        refused: list[Refusal] = []
        acked: list[str] = []
        for answer in list(answers)[:MOST_AT_ONCE]:
            try:
                if answer["answer"] == "skip":
                    self._put_off(item_in(answer))
                    self._taken[item_in(answer)] += 1
                    acked.append(str(answer["id"]))
                else:
                    records.append(self._read(answer))
            except Refused as verdict:
                refused.append(Refusal(str(answer["id"]), verdict.kind, str(verdict)))
            except UNREADABLE as error:
                refused.append(malformed(answer, error))
        result = self.project.intake.store(records)
        self._taken.update(record.item for record in result.accepted)
        return self.card([*acked, *result.acknowledged], [*refused, *result.refused])

    def card(self, acked: Sequence[str] = (), refused: Sequence[Refusal] = ()) -> dict[str, Any]:
        """The first item to decide, and who said what of it; with it, what follows each answer."""
        others = self.leases.others(self.id)
        answers = self._answers()
        in_line = self._in_line(answers)
        waiting = self._claimed(in_line, others)
        shown = self._shown(waiting[0]) if waiting else None
        card = common(self.session, shown, acked=acked, refused=refused)
        card["concept"] |= {"examples": [], "guideline": voices(answers, shown.item) if shown else ""}
        card["notes"] |= {"strategy": "decision", "why": "decision", "waiting": len(waiting)}
        nothing = ELSEWHERE if in_line else NOTHING
        return {
            **card,
            "item": painted(self.session, shown) if shown else None,
            **self._coming(answers, waiting, card["notes"]),
            "strip": self._strip(answers),
            "waiting": None if shown else {"done": 0, "total": 0, "exhausted": True, "said": nothing},
            "blind": True,
        }

    def _coming(self, answers: Answers, waiting: Sequence[int], notes: Mapping[str, Any]) -> dict[str, Any]:
        """What follows each answer to the first in line, so that the next frame shows it."""
        views: dict[str, Any] = {}
        pictures: dict[str, str] = {}
        for word in (*WORDS, "skip") if waiting else ():
            left = [*waiting[1:], *(waiting[:1] if word == "skip" else ())]
            if left:
                item = painted(self.session, self._shown(left[0], again=left[0] == waiting[0]))
                pictures[str(item["id"])] = item.pop("src")
                views[word] = {
                    "round": 0,
                    "item": item,
                    "notes": {**notes, "waiting": len(left)},
                    "concept": {"guideline": voices(answers, left[0])},
                }
        return {"next": views, "pictures": pictures, "next_is_coming": False}

    def _answers(self) -> Answers:
        return ReviewedConcept.of(self.session).answers()

    def _in_line(self, answers: Answers) -> list[int]:
        """What is to be decided, the oldest disagreement first; what was put off comes last."""
        items = answers.items
        order = np.argsort(items.last, kind="stable")
        contested = items.item[order][items.is_contested[order]].tolist()
        first = [item for item in contested if item not in self._later]
        return first + [item for item in self._later if item in contested]

    def _claimed(self, in_line: Sequence[int], others: Others) -> list[int]:
        """Those of the line that no other owner has in view; the first two are this one's from now on."""
        while True:
            free = [item for item in in_line if item not in others.items]
            lost = others.take(free[:2])
            if not lost:
                self.leases.keep(self.id, free[:2])
                return free
            others = others.again(lost)

    def _put_off(self, item: int) -> None:
        self._later = [other for other in self._later if other != item] + [item]

    def _shown(self, item: int, *, again: bool = False) -> SelectionRecord:
        """What the card needs to show an item, `again` after one more answer; it never comes into the log."""
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

    def _read(self, answer: Mapping[str, Any]) -> AnswerRecord:
        undoes = answer.get("undoes")
        word: AnswerWord = answer["answer"]
        if (undoes is None) != (word != "undo") or (undoes is None and word not in WORDS):
            raise ValueError(f"answer must be one of {', '.join(WORDS)}, or undo what is named, got {word!r}")
        if undoes is None:
            require_answered(item_in(answer), self.session)
        return AnswerRecord(
            id=str(uuid.UUID(answer["id"])),
            concept_id=self.session.concept.record.id,
            session_id=self.id,
            annotator=self.session.annotator,
            item=item_in(answer),
            answer=word,
            browser_time=int(answer["browser_time"]),
            time_taken_ms=answer.get("time_taken_ms"),
            undoes=undoes,
            corrects=answer.get("corrects"),
            purpose="decision",
        )

    def _strip(self, answers: Answers) -> list[dict[str, Any]]:
        """The last decisions of this session that hold."""
        last = np.flatnonzero(answers.is_decision & answers.in_force)[-STRIP:]
        stored = [self.project.log.answer(answers.ids[row]) for row in last]
        return [
            {"answer_id": a.id, "item": a.item, "answer": a.answer, "src": thumbnail(self.session, a.item)}
            for a in stored
            if a is not None and a.session_id == self.id
        ]


def voices(answers: Answers, item: int) -> str:
    """Who says what of an item now, in a line."""
    return " · ".join(f"{word}: {', '.join(names)}" for word, names in said_by(answers, item).items())


def said_by(answers: Answers, item: int) -> dict[str, list[str]]:
    """Who says what of an item now, by answer: no first, then yes, then what is neither."""
    said: dict[str, list[str]] = {}
    for word in ("no", "yes", "unsure", "skip"):
        rows = [
            row
            for row in answers.of(item)
            if answers.in_force[row] and not answers.is_decision[row] and answers.word[row] == CODES[word]
        ]
        if rows:
            said[word] = sorted(answers.annotators[answers.annotator[row]] for row in rows)
    return said
