"""The blind comparison: strategies take turns unseen, and a person answers without knowing whose item it is.

Each strategy has a *side*: a copy of the question, put away, with an ordinary labeling session. So every
answer trains its own side alone, and all of it is in the log like any other work. Turns are drawn: in each
block every side has one. An item that several sides come to is shown once; the others get the same answer.

Where the truth of held-out items isn't known, a further side, the judge, draws at random among the turns:
what is answered there trains nobody, and is what the strategies are judged by; see
`app.api.verdict`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.labeling import BLIND, LabelingSession
from closecall.core.errors import InputError
from closecall.storage import AnswerRecord, Refusal, SelectionRecord
from closecall.storage.records import AnswerWord

LEAST_TURNS = 10
"""Answers that each side must have to what it chose, before anything is told."""

_RECENT = 200
"""So far back an answer may be corrected."""

SIDES, QUESTION, HAS_JUDGE, SEED, BEGUN_WITH, TOLD = (
    "sides",
    "question",
    "judge",
    "seed",
    "begun_with",
    "told",
)


_opening = threading.Lock()


class BlindComparison:
    """One that was begun. All methods may be called from any thread; they take turns.

    Parameters
    ----------
    leader : LabelingSession
        The session of its first side; the others are named in its parameters.
    """

    def __init__(self, leader: LabelingSession) -> None:
        about, project = leader.parameters[BLIND], leader.project
        self.id = leader.id
        self.project = project
        self.question = project.concept_store.get(about[QUESTION])
        self.sides: list[LabelingSession] = [leader.sessions.session(side) for side in about[SIDES]]
        self.has_judge = bool(about[HAS_JUDGE])
        self.is_told = bool(about[TOLD])
        self.begun_with = frozenset(about[BEGUN_WITH])
        self.lock = threading.RLock()
        self._seed = int(about[SEED])

    @classmethod
    def of(cls, leader: LabelingSession) -> BlindComparison:
        """Return the one that a session leads; it lives as long as the session's object."""
        with _opening:
            if cls not in leader.views:
                leader.views[cls] = cls(leader)
            comparison: BlindComparison = leader.views[cls]
            return comparison

    @property
    def rivals(self) -> list[LabelingSession]:
        """The two sides that are compared."""
        return self.sides[:2]

    @property
    def judge(self) -> LabelingSession | None:
        """The side that draws at random, where there is one."""
        return self.sides[2] if self.has_judge else None

    @property
    def turns(self) -> int:
        """How many items were answered, however many sides came to them."""
        return len(self.labels())

    @property
    def wanted(self) -> int:
        """How many answers, at least, are still to be given before something can be told.

        Rivals are judged by what they chose, not by what came at random before there was a yes and a no.
        """
        missing = [
            LEAST_TURNS - sum(r.why == "strategy" for r in _answered_rounds(side)) for side in self.rivals
        ]
        if self.judge is not None:
            missing.append(LEAST_TURNS - len(_answered_rounds(self.judge)))
        return sum(max(0, n) for n in missing)

    def tell(self) -> None:
        """From now on everybody may know which side is whose.

        Raises
        ------
        InputError
            If there are too few answers yet.
        """
        with self.lock:
            if wanted := self.wanted:
                raise InputError(f"{wanted} more answers are needed before anything can be told")
            leader = self.sides[0]
            about = {**leader.parameters[BLIND], TOLD: True}
            leader.set_parameters({BLIND: about})
            self.is_told = True

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers, each for the side whose turn it was; see `LabelingSession.store`."""
        given = {str(answer.get("id")) for answer in answers}
        acked: list[str] = []
        refused: list[Refusal] = []
        with self.lock:
            for answer in answers:
                for side, own in self._meant(answer):
                    outcome = side.store([own])
                    acked += [name for name in outcome.acked if name in given]
                    refused += [refusal for refusal in outcome.refused if refusal.id in given]
        return Outcome(acked, refused)

    def labels(self) -> dict[int, AnswerWord]:
        """What the annotator said of each item, all sides together, without the first labels."""
        said: dict[int, AnswerWord] = {}
        for side in self.sides:
            with side.concept.lock:
                state = side.concept.catch_up()
                for item in state.answered_items().tolist():
                    if item not in self.begun_with and (word := state.votes(item).get(side.annotator)):
                        said[item] = word
        return said

    def add_to_question(self, session: LabelingSession) -> int:
        """Give a session of the question what was answered here, where it has no answer; returns how many."""
        with session.concept.lock:
            known = set(session.concept.catch_up().answered_items().tolist())
        now = int(time.time() * 1000)
        records = [
            AnswerRecord(
                id=_copy_id(session, f"{self.id} {item}"),
                concept_id=session.concept.record.id,
                session_id=session.id,
                annotator=session.annotator,
                item=item,
                answer=word,
                browser_time=now,
            )
            for item, word in sorted(self.labels().items())
            if item not in known and word != "skip"
        ]
        session.take_over(records)
        return len(records)

    def _meant(self, answer: Mapping[str, Any]) -> list[tuple[LabelingSession, Mapping[str, Any]]]:
        """Which sides an answer is for, the one that asked last: what becomes of it decides.

        Undoing and correcting concern all sides that have an answer about the item.
        """
        log = self.project.log
        changed = answer.get("undoes") or answer.get("corrects")
        if changed is None:
            record = log.selection(str(answer.get("selection")))
            side = self._side(record.session_id if record else None)
            following = log.foreseen(str(answer.get("next")))
            is_its_own = following is not None and following.session_id == side.id
            return [(side, answer if is_its_own else {**answer, "next": None})]
        target = log.answer(str(changed))
        asked = self._side(target.session_id if target else None)
        kind = "undoes" if answer.get("undoes") else "corrects"
        others = []
        for side in self.sides:
            own = _answer_about(side, target.item) if target and side is not asked else None
            if own is not None:
                changes = {"id": _copy_id(side, str(answer.get("id"))), kind: own.id}
                others.append((side, {**answer, **changes}))
        return [*others, (asked, answer)]

    def _side(self, session_id: str | None) -> LabelingSession:
        return next((side for side in self.sides if side.id == session_id), self.sides[0])

    def settle(self) -> dict[int, AnswerWord]:
        """Give each side what was answered already of the item that it came to; returns all answers."""
        while True:
            known = self.labels()
            shown = ((side, side.in_view()) for side in self.sides)
            copies = [(side, one, known[one.item]) for side, one in shown if one and one.item in known]
            if not copies:
                return known
            for side, one, word in copies:
                side.store([_copied(side, one, word)])

    def turn(self, number: int) -> LabelingSession:
        """Whose turn it is: a drawn order of the sides in each block; who has nothing to ask is left out."""
        n = len(self.sides)
        block, place = divmod(number, n)
        order = np.random.default_rng([self._seed, block]).permutation(n)
        those = [self.sides[int(side)] for side in (*order[place:], *order[:place])]
        return next((side for side in those if side.shown is not None), those[0])

    def recent_answers(self, n: int) -> list[AnswerRecord]:
        """The last n answers; of an item that several sides have an answer about, the first is meant."""
        recent: dict[int, AnswerRecord] = {}
        for side in self.sides:
            for answer in _recent(side, 2 * n):
                before = recent.get(answer.item)
                if answer.item not in self.begun_with and (before is None or answer.seq < before.seq):
                    recent[answer.item] = answer
        return sorted(recent.values(), key=lambda answer: answer.seq)[-n:]


def _answered_rounds(side: LabelingSession) -> list[SelectionRecord]:
    """The side's last rounds without the one that waits for an answer."""
    return [record for record in side.history if side.shown is None or record.id != side.shown.id]


def _recent(side: LabelingSession, n: int) -> list[AnswerRecord]:
    return side.project.log.recent_answers(side.concept.record.id, n, session_id=side.id)


def _answer_about(side: LabelingSession, item: int) -> AnswerRecord | None:
    """The answer in force about an item on a side."""
    return next((answer for answer in _recent(side, _RECENT) if answer.item == item), None)


def _copied(side: LabelingSession, shown: SelectionRecord, word: AnswerWord) -> dict[str, Any]:
    """What was said on another side, as an answer to what this one asks."""
    return {
        "id": _copy_id(side, shown.id),
        "item": shown.item,
        "selection": shown.id,
        "answer": word,
        "undoes": None,
        "corrects": None,
        "browser_time": int(time.time() * 1000),
        "time_taken_ms": None,
    }


def _copy_id(side: LabelingSession, name: str) -> str:
    """An id that is the same when the same is tried again."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{side.id} {name}"))
