"""A trial with Label Studio: labels go out, are edited by two users, and come back.

What must be in the log afterwards is written down by hand.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from closecall.app.exchange.importing import take_in
from closecall.app.exchange.reading import Imported, Manner
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database, LabelLog, export
from closecall.storage.label_studio import Content, control_of, labeling_config
from closecall.storage.tabular import milliseconds_of
from tests.folders import fresh_folder
from tests.peers.imitation import OWNER, SECOND, Peer
from tests.storage_kit import Annotator, make_concept, sit_down

USERS = {"1": "olga", "2": "berta"}
UNLABELED = (4, 5)

TOOK = {
    ("seven", 4, "berta"): 2_000,
    ("eight", 4, "berta"): 2_000,
    ("seven", 5, "olga"): 500,
    ("eight", 5, "olga"): 500,
    ("seven", 10, "berta"): 2_000,
}
"""Milliseconds that the answers take which `Trial.is_edited` adds with lead times."""

Votes = dict[tuple[str, int], tuple[dict[str, str], str | None]]


def state_of(database: Database) -> Votes:
    """Who says what about which item, and the decisions."""
    log = LabelLog(database)
    states = {its.name: log.state(its.id) for its in Concepts(database).all()}
    return {
        (name, item): (dict(state.votes(item)), state.decision(item))
        for name, state in states.items()
        for item in state.answered_items().tolist()
    }


def result(concept: str, word: str) -> dict[str, Any]:
    """A choice as Label Studio stores it."""
    return {
        "from_name": control_of(concept),
        "to_name": "closecall:item",
        "type": "choices",
        "value": {"choices": [word]},
    }


def says(concept: str, word: str) -> Callable[[dict[str, Any]], None]:
    """Choose another answer; as the page there does, the rest of the result stays."""

    def change(annotation: dict[str, Any]) -> None:
        for each in annotation["result"]:
            if each["from_name"] == control_of(concept):
                each["value"] = {"choices": [word]}

    return change


def clears(concept: str) -> Callable[[dict[str, Any]], None]:
    """Take a choice back."""

    def change(annotation: dict[str, Any]) -> None:
        kept = [each for each in annotation["result"] if each["from_name"] != control_of(concept)]
        annotation["result"] = kept

    return change


def chooses_again(concept: str, word: str) -> Callable[[dict[str, Any]], None]:
    """Take a choice back and choose again: the page there makes a new result."""

    def change(annotation: dict[str, Any]) -> None:
        clears(concept)(annotation)
        annotation["result"].append(result(concept, word))

    return change


def stars(annotation: dict[str, Any]) -> None:
    """Mark as ground truth."""
    annotation["ground_truth"] = True


class Trial:
    """A database with answers, and Label Studio beside it."""

    def __init__(self, database: Database, pool: Pool, peer: Peer) -> None:
        self.database, self.pool, self.peer = database, pool, peer
        seven, eight = make_concept(database), make_concept(database, "eight")
        self.people: dict[tuple[str, str], Annotator] = {
            (name, concept.name): sit_down(database, concept, name)
            for name in ("ada", "berta", "olga")
            for concept in (seven, eight)
        }
        ada, berta, olga = (self.people[name, "seven"] for name in ("ada", "berta", "olga"))
        for item in (0, 1, 3, 7, 8, 10, 11, 12, 14):
            ada.says("yes", item, time_taken_ms=700)
        for item in (2, 9):
            ada.says("no", item)
        self.people["ada", "eight"].says("yes", 12)
        ada.says("skip", 6)
        ada.says("yes", 13, purpose="audit")
        berta.says("yes", 1)
        for item in (3, 7):
            berta.says("no", item)
        berta.says("yes", 15)
        ada.undoes(ada.says("no", 16))
        olga.says("yes", 7, purpose="decision")
        olga.says("no", 8, purpose="decision")
        self.ada = ada

    def goes_out(self) -> None:
        """Export to a new project."""
        tasks = self.exported()
        asked = [(its.name, its.question) for its in Concepts(self.database).all()]
        self.peer.begin(labeling_config(asked), tasks)

    def exported(self) -> list[dict[str, Any]]:
        """The tasks of an export."""
        file = fresh_folder() / "tasks.json"
        names = self.pool.source.names
        content = Content(
            lambda items: [
                {"image": f"/data/local-files/?d={item}.png", "name": names([item])[0]} for item in items
            ],
            unlabeled=UNLABELED,
            users={name: int(user) for user, name in USERS.items()},
        )
        with file.open("w", encoding="utf-8") as out:
            export(self.database, out, format="label-studio", content=content)
        tasks: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
        return tasks

    def comes_back(self, *, all_tasks: bool = True, **manner: Any) -> Imported:
        """Import the peer's export, twice: the second time changes nothing."""
        file = fresh_folder() / "project.json"
        file.write_bytes(self.peer.exported(all_tasks=all_tasks))
        return self.comes_back_from(file, **manner)

    def comes_back_from(self, file: Path, **manner: Any) -> Imported:
        """Import a file, as `comes_back` does."""
        given = Manner(**{"users": USERS, **manner})
        imported = take_in(self.database, self.pool, file, manner=given)
        before, position = state_of(self.database), LabelLog(self.database).position()
        again = take_in(self.database, self.pool, file, manner=given)
        assert (again.new, again.withdrawn) == (0, 0)
        assert (state_of(self.database), LabelLog(self.database).position()) == (before, position)
        return imported

    def is_edited(self) -> Votes:
        """Edit the project as two users would; what must be in the log then."""
        peer = self.peer
        peer.edit(SECOND, 0, 0, says("seven", "no"))
        peer.edit(OWNER, 1, 1, chooses_again("seven", "unsure"))
        peer.delete(2, 0)
        peer.delete(3, 1)
        answers = [result("seven", "yes"), result("eight", "yes")]
        peer.add(SECOND, 4, {"result": answers, "lead_time": 4.0})
        peer.add(OWNER, 5, {"result": [], "was_cancelled": True, "lead_time": 1.0})
        peer.delete(8, 1)
        peer.edit(SECOND, 9, 0, stars)
        peer.add(SECOND, 10, {"result": self._sent(10), "lead_time": 2.0})
        peer.edit(OWNER, 11, 0, says("seven", "no"))
        peer.edit(OWNER, 11, 0, says("seven", "unsure"))
        peer.edit(SECOND, 12, 0, clears("eight"))
        self.ada.says("no", 14)
        peer.delete(14, 0)
        peer.edit(SECOND, 15, 0, says("seven", "no"))
        seven: dict[int, tuple[dict[str, str], str | None]] = {
            0: ({"ada": "yes", "berta": "no"}, None),
            1: ({"ada": "yes", "berta": "yes", "olga": "unsure"}, None),
            3: ({"ada": "yes"}, None),
            4: ({"berta": "yes"}, None),
            5: ({"olga": "skip"}, None),
            6: ({"ada": "skip"}, None),
            7: ({"ada": "yes", "berta": "no"}, "yes"),
            8: ({"ada": "yes"}, None),
            9: ({"ada": "no"}, "no"),
            10: ({"ada": "yes", "berta": "yes"}, None),
            11: ({"ada": "yes", "olga": "unsure"}, None),
            12: ({"ada": "yes"}, None),
            13: ({"ada": "yes"}, None),
            14: ({"ada": "no"}, None),
            15: ({"berta": "no"}, None),
        }
        eight: dict[int, tuple[dict[str, str], str | None]] = {
            4: ({"berta": "yes"}, None),
            5: ({"olga": "skip"}, None),
        }
        return {("seven", item): votes for item, votes in seven.items()} | {
            ("eight", item): votes for item, votes in eight.items()
        }

    def is_edited_again(self, votes: Votes) -> Votes:
        """Edit what was made in Label Studio; `votes` is what `is_edited` has returned."""
        peer = self.peer
        peer.edit(OWNER, 4, 0, says("seven", "no"))
        peer.edit(OWNER, 11, 0, says("seven", "yes"))
        peer.delete(5, 0)
        peer.delete(0, 0)
        changed = dict(votes)
        changed["seven", 4] = ({"olga": "no"}, None)
        changed["seven", 11] = ({"ada": "yes"}, None)
        for place in (("seven", 5), ("eight", 5), ("seven", 0)):
            del changed[place]
        return changed

    def comes_back_with_times(self) -> None:
        """Go out and come back: answers are as old as their annotations, and take as long."""
        self.goes_out()
        began = self.peer.now()
        self.is_edited()
        ended = self.peer.now()
        self.comes_back()
        there = self._annotations()
        assert there[7, 0]["lead_time"] == 0.7
        assert there[12, 0]["lead_time"] == 1.4
        found = {}
        for concept in Concepts(self.database).all():
            for its in LabelLog(self.database).answers_after(concept.id):
                if its.purpose == "import" and its.answer != "undo":
                    found[concept.name, its.item, its.annotator] = its
        assert {place: its.time_taken_ms for place, its in found.items() if its.time_taken_ms} == TOOK
        assert {item for _, item, _ in found} >= {0, 1, 4, 5, 10, 11, 15}
        for (_, item, _), its in found.items():
            changed = (milliseconds_of(one["updated_at"]) for (of, _), one in there.items() if of == item)
            assert its.browser_time in changed
            assert began <= its.browser_time <= ended
        self.goes_out()
        assert self._annotations()[4, 0]["lead_time"] == 4.0

    def _annotations(self) -> dict[tuple[int, int], dict[str, Any]]:
        """The annotations in the peer's export, by item and place."""
        tasks = json.loads(self.peer.exported())
        return {
            (task["data"]["item"], place): annotation
            for task in tasks
            for place, annotation in enumerate(sorted(task["annotations"], key=lambda its: its["id"]))
        }

    def _sent(self, item: int) -> list[dict[str, Any]]:
        """The results of an item's first annotation, as a duplicate has them."""
        (task,) = (task for task in self.exported() if task["data"]["item"] == item)
        results: list[dict[str, Any]] = task["annotations"][0]["result"]
        return results


def write(tasks: list[dict[str, Any]], file: Path) -> Path:
    """Write tasks to a file."""
    file.write_text(json.dumps(tasks), "utf-8")
    return file
