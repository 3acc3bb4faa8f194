"""The blind comparison: two strategies take turns, and the annotator does not know whose turn it is.

Each strategy has a *side*: an archived copy of the question with an ordinary labeling session. Every answer
trains only the SVM of its own side, and is logged like any other answer. Turns come in blocks: in each block,
every side has one turn, in random order. If several sides choose the same item, it is shown once, and the
answer counts for all of them.

If there are too few held-out items with a known true class, there is a third side, the judge. It draws items
at random between the turns of the two strategies. Answers about these items train neither strategy. They are
used to compare the strategies; see `app.api.verdict`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.session_state import BLIND
from closecall.core.errors import InputError
from closecall.storage import AnswerRecord, Refusal, SelectionRecord
from closecall.storage.records import AnswerWord

LEAST_TURNS = 10
"""Number of answers that each side needs, about items that it chose itself, before the result is shown."""

LEAST_OF_EACH = 5
"""Minimum number of positive items, and of negative items, on which the strategies can be compared."""

_RECENT = 200
"""Number of a side's last answers that are searched for the answer to undo or correct."""

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
    """A blind comparison of two strategies. Thread-safe: calls take turns.

    Parameters
    ----------
    leader : LabelingSession
        The session of the first strategy. Its parameters name the sessions of both strategies and the judge.
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
        """Return the comparison whose first side is `leader`; each session object has only one comparison."""
        with _opening:
            if cls not in leader.views:
                leader.views[cls] = cls(leader)
            comparison: BlindComparison = leader.views[cls]
            return comparison

    def reopen(self) -> None:
        """Read from the leader's parameters again whether the strategies are revealed."""
        self.is_told = bool(self.sides[0].parameters[BLIND][TOLD])

    @property
    def rivals(self) -> list[LabelingSession]:
        """The two sides whose strategies are compared."""
        return self.sides[:2]

    @property
    def judge(self) -> LabelingSession | None:
        """The third side, which draws test items at random, or None if the comparison needs no test items."""
        return self.sides[2] if self.has_judge else None

    @property
    def turns(self) -> int:
        """Number of answered items; an item that several sides chose counts once."""
        return len(self.labels())

    @property
    def wanted(self) -> int:
        """Number of answers that the side with the fewest answers still needs before the result is shown.

        Answers about a strategy's items count only if the strategy had a hyperplane when it selected the
        items. There is no hyperplane before the first yes and no. If several sides choose the same item, its
        answer counts for each of these sides, so the total number of answers can't be known in advance.
        """
        missing = [
            LEAST_TURNS
            - sum(r.why == "strategy" and r.hyperplane_digest is not None for r in _answered_rounds(side))
            for side in self.rivals
        ]
        if self.judge is not None:
            missing.append(LEAST_TURNS - len(_answered_rounds(self.judge)))
        return max(0, *missing)

    @property
    def needs(self) -> str:
        """Sentences that say how many more answers are needed before the result is shown."""
        who = "Each strategy" if self.judge is None else "Each strategy, and the random sample,"
        sentence = f"{who} needs up to {counted(self.wanted, 'more answer')} before we can tell."
        labels = [side.concept.standing().labels.yes for side in self.rivals]
        if all(yes.any() and not yes.all() for yes in labels):
            return sentence
        return f"{sentence} Answers count for a strategy once it has a yes and a no."

    def tell(self) -> None:
        """Reveal the strategies, whose names were hidden.

        Raises
        ------
        InputError
            If there are too few answers.
        """
        with self.lock:
            if self.wanted:
                raise InputError(self.needs)
            leader = self.sides[0]
            about = {**leader.parameters[BLIND], TOLD: True}
            leader.set_parameters({BLIND: about})
            self.is_told = True

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers, each for the strategy that chose the item; see `ItemView.store`."""
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
        """Return the annotator's answers for all sides, by item, without the labels copied at the start."""
        answers: dict[int, AnswerWord] = {}
        for side in self.sides:
            with side.concept.lock:
                state = side.concept.catch_up()
                for item in state.answered_items().tolist():
                    if item not in self.begun_with and (word := state.votes(item).get(side.annotator)):
                        answers[item] = word
        return answers

    def add_to_question(self, session: LabelingSession) -> int:
        """Copy the comparison's answers to the question; return the number of copied answers.

        Skips are not copied. Items that already have an answer to the question keep that answer. The copies
        are stored as answers of `session`, which must be a session of the question.
        """
        with session.concept.lock:
            state = session.concept.catch_up()
            known, position = set(state.answered_items().tolist()), state.seq
        now = int(time.time() * 1000)
        records = [
            AnswerRecord(
                id=_copy_id(session, f"{self.id} {item} {position}"),
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
        """Return each side (strategy or judge) that gets an answer, with the answer in this side's form.

        The last side is the one that chose the item. An undo or a correction is stored for all sides that
        have an answer about the item. Any other answer is stored only for the side that chose the item.
        """
        log = self.project.log
        changed = answer.get("undoes") or answer.get("corrects")
        if changed is None:
            # Selections that were sent to the browser in advance are in another table until they are shown.
            record, following = (
                log.selection(name) or log.foreseen(name)
                for name in (str(answer.get("selection")), str(answer.get("next")))
            )
            side = self._side(record.session_id if record else None)
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
        """Copy answers until no side (strategy or judge) shows an item that was answered for another side.

        Return all answers, as `labels` does.
        """
        while True:
            known = self.labels()
            shown = ((side, side.in_view()) for side in self.sides)
            copies = [(side, one, known[one.item]) for side, one in shown if one and one.item in known]
            if not copies:
                return known
            for side, one, word in copies:
                side.store([_copied(side, one, word)])

    def turn(self, number: int) -> LabelingSession:
        """Return the side (a strategy or the judge) that has turn `number`; skip sides without an item.

        The order of the sides is drawn at random for each block of turns.
        """
        n = len(self.sides)
        block, place = divmod(number, n)
        order = np.random.default_rng([self._seed, block]).permutation(n)
        those = [self.sides[int(side)] for side in (*order[place:], *order[:place])]
        return next((side for side in those if side.shown is not None), those[0])

    def recent_answers(self, n: int) -> list[AnswerRecord]:
        """Return the last `n` answers; if several sides chose an item, only its first answer is included."""
        recent: dict[int, AnswerRecord] = {}
        for side in self.sides:
            for answer in _recent(side, 2 * n):
                before = recent.get(answer.item)
                if answer.item not in self.begun_with and (before is None or answer.seq < before.seq):
                    recent[answer.item] = answer
        return sorted(recent.values(), key=lambda answer: answer.seq)[-n:]


def _answered_rounds(side: LabelingSession) -> list[SelectionRecord]:
    """Return the last rounds of one side (strategy or judge), except the round whose item is in view."""
    return [record for record in side.history if side.shown is None or record.id != side.shown.id]


def _recent(side: LabelingSession, n: int) -> list[AnswerRecord]:
    return side.project.log.recent_answers(side.concept.record.id, n, session_id=side.id)


def _answer_about(side: LabelingSession, item: int) -> AnswerRecord | None:
    """Return the current answer about an item on one side, or None."""
    return next((answer for answer in _recent(side, _RECENT) if answer.item == item), None)


def _copied(side: LabelingSession, shown: SelectionRecord, word: AnswerWord) -> dict[str, Any]:
    """Return the side's answer `word` to the selection `shown`, in the form in which browsers send it."""
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
    """Return the id of a copy of an answer, made for one side. Equal arguments always give equal ids."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{side.id} {name}"))
