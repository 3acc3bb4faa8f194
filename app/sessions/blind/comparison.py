"""The blind comparison: strategies take turns unseen, and a person answers without knowing whose item it is.

Each strategy has a *side*: a copy of the question, put away, with an ordinary labeling session. So every
answer trains its own side alone, and all of it is in the log like any other work. Turns are drawn: in each
block every side has one. An item that several sides come to is shown once; the others get the same answer.

Where the truth of held-out items isn't known, a further side, the judge, draws at random among the turns:
what is answered there trains nobody, and is what the strategies are judged by; see
`app.sessions.blind.verdict`.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.sessions.card import STRIP, common, painted, thumbnail
from app.sessions.labeling import BLIND, LabelingSession
from core.errors import InputError
from storage import AnswerRecord, Refusal, SelectionRecord
from storage.records import AnswerWord

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

    def submit(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Store the browser's answers, each for the side whose turn it was; see `LabelingSession.submit`."""
        given = {str(answer.get("id")) for answer in answers}
        acked: list[str] = []
        refused: list[Refusal] = []
        with self.lock:
            for answer in answers:
                for side, own in self._meant(answer):
                    stored, unfit = side.store([own])
                    acked += [name for name in stored if name in given]
                    refused += [refusal for refusal in unfit if refusal.id in given]
            return self._card(acked, refused)

    def card(self) -> dict[str, Any]:
        """What the page shows now, as JSON for the labeling card: nothing of it tells whose turn it is."""
        with self.lock:
            return self._card()

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

    def _settle(self) -> dict[int, AnswerWord]:
        """Give each side what was answered already of the item that it came to; returns all answers."""
        while True:
            known = self.labels()
            shown = ((side, side.in_view()) for side in self.sides)
            copies = [(side, one, known[one.item]) for side, one in shown if one and one.item in known]
            if not copies:
                return known
            for side, one, word in copies:
                side.store([_copied(side, one, word)])

    def _turn(self, number: int) -> LabelingSession:
        """Whose turn it is: a drawn order of the sides in each block; who has nothing to ask is left out."""
        n = len(self.sides)
        block, place = divmod(number, n)
        order = np.random.default_rng([self._seed, block]).permutation(n)
        those = [self.sides[int(side)] for side in (*order[place:], *order[:place])]
        return next((side for side in those if side.shown is not None), those[0])

    def _card(self, acked: Sequence[str] = (), refused: Sequence[Refusal] = ()) -> dict[str, Any]:
        known = self._settle()
        side, follower = self._turn(len(known)), self._turn(len(known) + 1)
        shown, notes = side.in_view(), self._notes(known)
        return {
            **common(side, shown, acked=acked, refused=refused),
            "session": self.id,
            "concept": {
                "id": self.question.id,
                "question": self.question.question,
                "guideline": self.question.guideline,
                "examples": [],
            },
            "round": len(known) + 1,
            "notes": notes,
            "history": dict.fromkeys(("selection_ms", "margin", "scored", "retrain_ms", "accuracy"), ()),
            "item": painted(side, shown) if shown else None,
            **self._coming(side, shown, follower, known),
            "strip": self._strip(),
            "blind": True,
        }

    def _coming(
        self,
        side: LabelingSession,
        shown: SelectionRecord | None,
        follower: LabelingSession,
        known: Mapping[int, AnswerWord],
    ) -> dict[str, Any]:
        """What follows each answer: the other side's item, whatever it is, or the side's own next one."""
        items: dict[str, dict[str, Any]] = {}
        is_coming = False
        following = follower.in_view()
        if shown is not None and follower is side:
            card = side.card()
            is_coming = card["next_is_coming"]
            for word, view in card["next"].items():
                item = view["item"]
                if item["id"] not in known:
                    items[word] = {**item, "src": card["pictures"].get(str(item["id"]), "")}
        elif shown is not None and following is not None and following.item != shown.item:
            items = dict.fromkeys(("no", "yes", "skip", "unsure"), painted(follower, following))
        notes = self._notes(known)
        return {
            "next": {
                word: {"round": len(known) + 2, "notes": notes, "item": _without_picture(item)}
                for word, item in items.items()
            },
            "pictures": {str(item["id"]): item["src"] for item in items.values()},
            "next_is_coming": is_coming,
        }

    def _notes(self, known: Mapping[int, AnswerWord]) -> dict[str, Any]:
        """The numbers beside the card: counts, and nothing by which a strategy could be known."""
        words, pool = list(known.values()), self.project.pool
        counts = {word: words.count(word) for word in ("yes", "no", "unsure", "skip")}
        return {
            **dict.fromkeys(
                ("selection_ms", "full_scan_ms", "margin", "retrain_ms", "accuracy", "always_no")
            ),
            **dict.fromkeys(("part", "searched", "awaited", "advice", "strategy_label")),
            **dict.fromkeys(("scored", "total", "n_labels", "held_out"), 0),
            "counts": counts | {"left": (len(pool) if pool else 0) - len(words)},
            "strategy": BLIND,
            "why": BLIND,
        }

    def _strip(self) -> list[dict[str, Any]]:
        """The last answers; of an item that several sides have an answer about, the first is meant."""
        recent: dict[int, AnswerRecord] = {}
        for side in self.sides:
            for answer in _recent(side, 2 * STRIP):
                before = recent.get(answer.item)
                if answer.item not in self.begun_with and (before is None or answer.seq < before.seq):
                    recent[answer.item] = answer
        last = sorted(recent.values(), key=lambda answer: answer.seq)[-STRIP:]
        return [
            {"answer_id": a.id, "item": a.item, "answer": a.answer, "src": thumbnail(self.sides[0], a.item)}
            for a in last
        ]


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


def _without_picture(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "src"}


def _copy_id(side: LabelingSession, name: str) -> str:
    """An id that is the same when the same is tried again."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{side.id} {name}"))
