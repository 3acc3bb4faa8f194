"""What a browser does in each view: it keeps an answer until the server has acknowledged or refused it."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC
from typing import Any

import numpy as np

from closecall.app.api.plain import PlainCard
from closecall.app.api.submit import take
from closecall.app.projects.roles import Person
from closecall.app.sessions.blind.begin import current
from closecall.app.sessions.review import Asked, Review
from closecall.core.duplicates import Groups, ItemGroups
from tests.faults.world import ADA, CLASSES, TRIES, World, truth
from tests.projects import correct

Said = tuple[int, int, str, str]
"""Concept, item, answer, annotator."""


@dataclass
class Page:
    """A window with one view of a session; the session is found again by its id, as from the address.

    Parameters
    ----------
    world : World
    person : Person
        Who is at it.
    """

    world: World
    person: Person = ADA
    concept_id: int = 1
    session_id: str | None = None
    card: dict[str, Any] | None = None
    outbox: list[dict[str, Any]] = field(default_factory=list)
    given: list[dict[str, Any]] = field(default_factory=list)
    expected: Counter[Said] = field(default_factory=Counter)
    requests: int = 0
    before: frozenset[str] = frozenset()
    n_before: int = 0
    _opened: tuple[int, Any] | None = None

    def session(self) -> Any:
        """The person's session, opened by this process if need be."""
        session = self.world.project.session_of(self.person, self.session_id, self.concept_id)
        self.session_id = session.id
        return session

    def view(self) -> Any:
        """What takes the answers and gives the card; one object a process."""
        if self._opened is None or self._opened[0] != self.world.restarts:
            self._opened = self.world.restarts, self.open()
        return self._opened[1]

    def open(self) -> Any:
        """Open the view again."""
        return self.session()

    def request(self) -> dict[str, Any]:
        """One run of the page."""
        return take(self.world.project, self.view(), list(self.outbox), self.person)

    def ask(self) -> bool:
        """Hand the outbox over; whether the server replied. What it settled is forgotten here."""
        self.requests += 1
        replied = self.world.once(self.request)
        if replied is None:
            return False
        self.card = replied[0]
        assert not self.card["refused"], f"refused: {self.card['refused']}"
        self.outbox = [answer for answer in self.outbox if answer["id"] not in self.card["acked"]]
        return True

    def settle(self) -> None:
        """Ask until nothing waits and something is in view."""
        for _ in range(TRIES):
            if self.ask() and not self.outbox and self.in_view():
                return
        raise AssertionError(
            f"stuck after {TRIES} tries: {len(self.outbox)} in the outbox, {self.in_view()} in view; "
            f"{self.world.told}"
        )

    def in_view(self) -> set[int]:
        """The items that can be answered now."""
        item = (self.card or {}).get("item")
        return {item["id"]} if item else set()

    def put(self, item: int, word: str, **more: Any) -> dict[str, Any]:
        """Something was pressed: it goes into the outbox."""
        assert self.session_id is not None
        blank = {"selection": None, "undoes": None, "corrects": None, "next": None, "time_taken_ms": 7}
        answer = {
            "id": str(uuid.uuid4()),
            "session": self.session_id,
            "item": item,
            "answer": word,
            "browser_time": 1_700_000_000_000 + len(self.given),
            **blank,
            **more,
        }
        self.outbox.append(answer)
        self.given.append(answer)
        self.expected.update(self.said_by(answer))
        return answer

    def said_by(self, answer: Mapping[str, Any]) -> list[Said]:
        """The rows of the log that an answer is, each once."""
        return [(self.concept_id, answer["item"], answer["answer"], self.person.name)]

    def answer(self, word: str | None = None) -> dict[str, Any]:
        """Answer what is in view; truly, if nothing is said."""
        assert self.card is not None
        item = self.card["item"]
        word = word or truth(self.world.project, item["id"])
        return self.put(item["id"], word, selection=item["selection"])

    def answer_ahead(self, word: str | None = None) -> dict[str, Any]:
        """Answer, and go on at once to what was sent ahead for this answer."""
        given = self.answer(word)
        assert self.card is not None
        view = self.card["next"][self.meaning(given)]
        given["next"] = view["item"]["selection"]
        self.card = {**self.card, "item": view["item"], "next": {}}
        return given

    def meaning(self, given: Mapping[str, Any]) -> str:
        """Which of the views sent ahead follows."""
        return str(given["answer"])

    def undo(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Take an answer back."""
        return self.put(given["item"], "undo", undoes=given["id"], **self.about(given))

    def correct(self, given: Mapping[str, Any], word: str) -> dict[str, Any]:
        """Say something else instead of an answer."""
        return self.put(given["item"], word, corrects=given["id"], **self.about(given))

    def about(self, _given: Mapping[str, Any]) -> dict[str, Any]:
        """What an undo or a correction says beside its kind."""
        return {}

    def answer_more(self) -> None:
        """Answer once more, as a person who simply goes on."""
        self.answer()

    def start(self) -> None:
        """From here on all that is given is counted."""
        self.before = frozenset(row.id for row in self.world.answers())
        self.n_before = len(self.given)
        self.expected.clear()

    @property
    def new(self) -> list[dict[str, Any]]:
        """What was given since, and belongs into the log."""
        return [given for given in self.given[self.n_before :] if self.said_by(given)]

    def check_rows(self) -> None:
        """All that was given is in the log, once, about the right item, and nothing else is."""
        rows = [row for row in self.world.answers() if row.id not in self.before]
        by_id = {row.id: row for row in rows}
        assert len(by_id) == len(rows)
        for given in self.new:
            assert given["id"] in by_id, f"lost: {given}"
            row = by_id[given["id"]]
            told = (row.item, row.answer, row.annotator, row.undoes, row.corrects)
            said = (given["item"], self.own_word(given), self.person.name, given["undoes"], given["corrects"])
            assert told == said
        self.check_others(rows)

    def own_word(self, given: Mapping[str, Any]) -> str:
        """What the row with the answer's own id says."""
        return str(given["answer"])

    def check_others(self, rows: Iterable[Any]) -> None:
        """Nothing else is in the log."""
        own = [row for row in rows if row.annotator == self.person.name and row.concept_id <= len(CLASSES)]
        said = Counter((row.concept_id, row.item, row.answer, row.annotator) for row in own)
        assert said == self.expected, f"too few {self.expected - said}, too many {said - self.expected}"

    def check_votes(self) -> None:
        """What the log means for those items is what was said last and not taken back."""
        undone = {given["undoes"] for given in self.given if given["undoes"]}
        votes: dict[tuple[int, int], str | None] = {}
        for given in self.given:
            for concept, item, word, _ in self.said_by(given):
                if word == "undo":
                    votes.setdefault((concept, item), None)
                elif given["id"] in undone:
                    votes[concept, item] = None
                else:
                    votes[concept, item] = word
        log = self.world.project.log
        for concept in {concept for concept, _ in votes}:
            state = log.state(concept)
            live = self.world.project.live_concept(concept).catch_up()
            for (its, item), word in votes.items():
                if its == concept:
                    assert state.votes(item).get(self.person.name) == word
                    assert live.votes(item) == state.votes(item)


class Alike(Page):
    """One answer for an item and its near-duplicate: each two rows of the pool are a group."""

    def open(self) -> Any:
        self.world.project.duplicates._current = pairs(self.world)
        return super().open()

    def answer(self, word: str | None = None) -> dict[str, Any]:
        assert self.card is not None
        item = self.card["item"]
        others = [other for other in pairs(self.world).members(item["id"]).tolist() if other != item["id"]]
        word = word or truth(self.world.project, item["id"])
        return self.put(item["id"], word, selection=item["selection"], group=others)

    def said_by(self, answer: Mapping[str, Any]) -> list[Said]:
        """An undo is about all that its answer was about."""
        of = next((given for given in self.given if given["id"] == answer["undoes"]), answer)
        items = [answer["item"], *of.get("group", ())]
        return [(self.concept_id, item, answer["answer"], self.person.name) for item in items]


def pairs(world: World) -> ItemGroups:
    """Groups of two neighbouring rows each."""
    pool = world.project.pool
    assert pool is not None
    rows = np.arange(len(pool))
    return ItemGroups.of(pool, {"near": Groups(rows // 2 * 2, np.zeros(len(rows), dtype=np.float32))})


class Plain(Page):
    """Streamlit's own buttons: what is drawn lives in the server, and is gone with its process."""

    drawn: Any = None

    is_lost = False
    """Whether a press died with the server's process."""

    def open(self) -> Any:
        self.is_lost |= bool(self.outbox)
        self.outbox = []  # a press that a process took with it is made again by nobody
        return PlainCard(self.world.project, self.session(), self.person)

    def request(self) -> dict[str, Any]:
        plain = self.view()
        acked = []
        for answer in self.outbox:
            if answer["id"] not in (self.drawn.answer_id, self.drawn.undo_id):
                acked.append(answer["id"])  # it is stored, and something else was drawn: nobody presses again
                continue
            plain.message = ""
            plain.press(self.drawn, answer["answer"])
            assert "already" not in plain.message, plain.message
            acked += [answer["id"]] if self.drawn.is_done else []
        self.drawn = plain.draw()
        return {**self.drawn.card, "acked": acked, "refused": []}

    def put(self, item: int, word: str, **more: Any) -> dict[str, Any]:
        name = self.drawn.undo_id if word == "undo" else self.drawn.answer_id
        return super().put(item, word, **{**more, "id": name})


class Batch(Page):
    """Many items at once."""

    def open(self) -> Any:
        return self.world.project.grid(self.session())

    def in_view(self) -> set[int]:
        return {cell["id"] for cell in (self.card or {}).get("cells", ()) if cell["selection"]}

    def answer(self, word: str | None = None) -> dict[str, Any]:
        """Mark the first few cells, and send them."""
        assert self.card is not None
        free = [cell for cell in self.card["cells"] if cell["selection"]]
        assert len({cell["id"] for cell in free}) == len(free), "an item is in view twice"
        given = {}
        for cell in free[:3]:
            said = word or truth(self.world.project, cell["id"])
            given = self.put(cell["id"], said, selection=cell["selection"])
        return given

    def correct_last(self) -> None:
        """Go back to the last grid, and say the opposite of one cell."""
        assert self.card is not None
        cell = next(cell for cell in self.card["last"] if cell["answer"])
        word = "no" if cell["answer"] == "yes" else "yes"
        self.put(cell["id"], word, selection=cell["selection"], corrects=cell["answer_id"])


class Found(Batch):
    """Found by name."""

    def open(self) -> Any:
        found = self.world.project.found(self.session())
        found.go_to("owl")
        return found


class Similar(Batch):
    """Found to be like all that was answered yes."""

    def open(self) -> Any:
        similar = self.world.project.similar_to(self.session())
        similar.go_to("yes")
        return similar


class Classes(Page):
    """A class for each item."""

    def open(self) -> Any:
        return self.world.project.classes(self.session())

    def answer(self, word: str | None = None) -> dict[str, Any]:
        assert self.card is not None
        item = self.card["item"]
        return self.put(
            item["id"], word or "yes", selection=item["selection"], **self.chosen(item["id"], word)
        )

    def chosen(self, item: int, word: str | None = None) -> dict[str, Any]:
        """The class of an item, as the buttons say it."""
        assert self.card is not None
        concepts = [choice["concept"] for choice in self.card["classes"]]
        its = next(n for n, name in enumerate(CLASSES, 1) if truth(self.world.project, item, name) == "yes")
        return {"classes": concepts, "concept": None if word else its}

    def about(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"classes": given["classes"], "concept": None}

    def correct(self, given: Mapping[str, Any], _word: str) -> dict[str, Any]:
        other = next(concept for concept in given["classes"] if concept != given["concept"])
        changes = {"classes": given["classes"], "concept": other}
        return self.put(given["item"], "yes", corrects=given["id"], **changes)

    def said_by(self, answer: Mapping[str, Any]) -> list[Said]:
        words = {concept: self._word(answer, concept) for concept in answer["classes"]}
        return [(concept, answer["item"], word, self.person.name) for concept, word in words.items()]

    def _word(self, answer: Mapping[str, Any], concept: int) -> str:
        if answer["answer"] != "yes":
            return str(answer["answer"])
        return "yes" if concept == answer["concept"] else "no"

    def own_word(self, given: Mapping[str, Any]) -> str:
        return self._word(given, self.concept_id)

    def meaning(self, given: Mapping[str, Any]) -> str:
        assert self.card is not None
        return self._word(given, self.card["turn"]["concept"])


class Blind(Page):
    """Two strategies that take turns; an answer may serve both."""

    def open(self) -> Any:
        found = current(self.session())
        assert found is not None, "no comparison is under way"
        return found

    def request(self) -> dict[str, Any]:
        shown = super().request()
        self.leader_id = shown["session"]
        return shown

    def put(self, item: int, word: str, **more: Any) -> dict[str, Any]:
        return super().put(item, word, session=self.leader_id, **more)

    def check_others(self, rows: Iterable[Any]) -> None:
        """What is stored beside the answers gives the other side what was said, once each."""
        rows = list(rows)
        given = {(answer["item"], answer["answer"]) for answer in self.given}
        begun_with = self.view().begun_with
        gone = {name for row in rows for name in (row.undoes, row.corrects)}
        stored = [row for row in rows if row.item not in begun_with and row.annotator == self.person.name]
        assert all((row.item, row.answer) in given for row in stored)
        copies = Counter(
            (row.concept_id, row.item) for row in stored if row.answer != "undo" and row.id not in gone
        )
        assert max(copies.values(), default=0) <= 1, f"stored twice: {copies}"

    def check_votes(self) -> None:
        undone = {given["undoes"] for given in self.given}
        words = {
            g["item"]: None if g["answer"] == "undo" or g["id"] in undone else g["answer"] for g in self.given
        }
        labels = self.view().labels()
        assert {item: labels.get(item) for item in words} == words
        for side in self.view().sides:
            state = side.concept.catch_up()
            assert all(
                state.votes(item).get(self.person.name) in (None, word) for item, word in words.items()
            )


class Decide(Page):
    """What an owner decides, one item after another."""

    def open(self) -> Any:
        return self.world.project.decisions(self.session())

    def said_by(self, answer: Mapping[str, Any]) -> list[Said]:
        return super().said_by(answer) if answer["answer"] != "skip" else []

    def check_votes(self) -> None:
        """What was decided holds, and was decided as such."""
        undone = {given["undoes"] for given in self.given}
        state = self.world.project.log.state(self.concept_id)
        decisions = [given for given in self.given if self.said_by(given)]
        for given in decisions:
            decided = None if given["answer"] == "undo" or given["id"] in undone else given["answer"]
            if given is [one for one in decisions if one["item"] == given["item"]][-1]:
                assert state.decision(given["item"]) == decided
        purposes = {row.id: row.purpose for row in self.world.answers()}
        assert all(purposes[given["id"]] == "decision" for given in decisions)


class Reviewing(Page):
    """The list of answers; it shows rows, and any of them can be answered."""

    def open(self) -> Any:
        return Review(self.session(), self.person)

    def request(self) -> dict[str, Any]:
        review = self.view()
        settled = correct(review, list(self.outbox))
        return {**review.page(Asked("all"), UTC), **settled}

    def in_view(self) -> set[int]:
        return {row["item"] for row in (self.card or {}).get("rows", ())}

    def answer(self, word: str | None = None) -> dict[str, Any]:
        """Change one's own answer about the first row that was not changed yet."""
        assert self.card is not None
        changed = {given["item"] for given in self.given}
        own = {
            row["item"]: [e for e in row["events"] if e["annotator"] == self.person.name]
            for row in self.card["rows"]
        }
        item, mine = next((item, its[-1]) for item, its in own.items() if its and item not in changed)
        other = word or ("no" if mine["answer"] == "yes" else "yes")
        return self.put(item, other, corrects=mine["id"])

    def undo(self, given: Mapping[str, Any]) -> dict[str, Any]:
        return self.put(given["item"], "undo", undoes=given["id"])

    def check_votes(self) -> None:
        """A correction stands for what it corrects; taken back, what was said before stands again."""
        undone = {given["undoes"] for given in self.given}
        for given in self.given:
            if given["answer"] != "undo":
                votes = self.world.project.log.state(self.concept_id).votes(given["item"])
                before = truth(self.world.project, given["item"])
                assert votes[self.person.name] == (before if given["id"] in undone else given["answer"])
