from __future__ import annotations

import json
from typing import Any

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.experiments.bench.team import card as rules
from closecall.app.experiments.bench.team.card import Card, Queue
from tests.folders import ROOT


def said(given) -> tuple[str, int, str]:
    return given.id, given.item, given.answer


def test_a_card_goes_on_at_once_to_what_was_sent_ahead(line):
    """And the server, once it has heard, shows the same."""
    seen = line.card.item
    following = line.coming()["next"]["yes"]["item"]["id"]
    given, is_followed = line.card.answer("yes", taken_ms=700)
    assert (given.item, is_followed) == (seen.id, True)
    assert line.card.item.id == following
    line.deliver()
    assert (line.card.item.id, line.card.pending, line.store) == (following, [], {})
    assert line.session.shown.item == following
    assert line.stored() == [said(given)]


def test_a_card_takes_one_answer_to_what_is_in_view(line):
    """Where nothing was sent ahead it waits for the server."""
    line.card = Card(line.store, line.sent.append)
    line.card.update({**card_of(line.session), "next": {}, "pictures": {}})
    given, is_followed = line.card.answer("no", taken_ms=700)
    assert not is_followed
    assert not line.card.can_answer
    assert line.card.in_hand == set()
    line.deliver()
    assert line.card.can_answer
    assert line.stored() == [said(given)]


def test_what_the_server_says_changes_no_view_while_answers_are_under_way(line):
    """It doesn't know of them yet."""
    line.card.answer("no", taken_ms=700)
    in_view = line.card.item
    line.card.update(card_of(line.session))
    assert line.card.item == in_view


def test_answers_outlive_lost_messages_and_a_reload(line):
    """They are sent again, in their order, until the server has them; and stored once."""
    given = [line.card.answer("yes", taken_ms=700)[0]]
    line.reload()
    assert line.sent[-1] == line.card.pending != []
    line.deliver()
    line.card.update(line.coming())
    given.append(line.card.answer("no", taken_ms=700)[0])
    submit(line.session, line.sent[-1])  # the answer to this is lost
    line.reload()
    line.deliver()
    line.deliver()
    assert line.store == {}
    assert line.stored() == [said(one) for one in given]


def test_a_refused_answer_is_told_and_forgotten(line):
    """It is none of the log's."""
    given, _ = line.card.answer("yes", taken_ms=700)
    line.sent[-1][0]["item"] += 1
    line.deliver()
    assert list(line.card.refused) == [given.id]
    assert line.store == {}
    assert line.stored() == []


def test_a_store_keeps_the_answers_of_several_sessions_and_projects_apart():
    """What another session of the project left over is sent, too."""
    store: dict[str, str] = {"else": "no entry of ours"}
    one, other, elsewhere = Queue(store, "p", "1"), Queue(store, "p", "2"), Queue(store, "q/", "1")
    for place, queue in enumerate((one, other, elsewhere)):
        queue.add({"id": str(place)})
    assert [answer["id"] for answer in one.pending] == ["0", "1"]
    assert [answer["id"] for answer in other.own] == ["1"]
    assert elsewhere.settle(["0", "2"]) == [{"id": "2", "session": "1"}]
    assert [answer["id"] for answer in other.settle(["0"])] == ["0"]
    assert set(store) == {"else", "closecall/p/2/1"}


RULES = json.loads((ROOT / "tests" / "fixtures" / "card.json").read_text("utf-8"))


class Table:
    """A card, and a server that says what a case of `RULES` says; ``tests/js/card.test.js`` is its like."""

    def __init__(self) -> None:
        self.store: dict[str, str] = {}
        self.given: list[str] = []
        self.load()

    def load(self) -> None:
        """Another page over the same store."""
        self.sent: list[list[dict[str, Any]]] = []
        self.card = Card(self.store, self.sent.append)

    def hear(self, said: dict[str, Any]) -> None:
        """A payload; what a case leaves out is as usual."""
        usual = {"project": "p", "session": "s", "message": None, "waiting": None, "next_is_coming": False}
        item = said["item"]
        named = {"selection": said.get("selection", f"s{item}"), "src": f"picture {item}"}
        self.data = {
            **usual,
            **said,
            "item": None if item is None else {**item_of(item), **named},
            **views_of(said),
            "acked": [self.given[i] for i in said.get("acked", [])],
            "refused": [{"id": self.given[i], "reason": "No."} for i in said.get("refused", [])],
        }
        self.card.update(self.data)

    def hear_ahead(self, said: dict[str, Any]) -> None:
        """The items that may follow come later, as part of a payload."""
        part = {"next_is_coming": False, **said, **views_of(said)}
        self.data = {**self.data, **part, "acked": [], "refused": []}
        self.card.update(self.data)

    def answer(self, word: str) -> bool:
        """Whether the next item was there at once."""
        given, is_followed = self.card.answer(word, taken_ms=700)
        self.given.append(given.id)
        return is_followed

    def look(self) -> dict[str, Any]:
        """What a case may expect."""
        seconds = self.card.poll_seconds
        return {
            "in_view": self.card.item.id if self.card.item else None,
            "open": self.card.can_answer,
            "waiting": [
                [answer["item"], answer["answer"], int(answer["next"][1:]) if answer["next"] else None]
                for answer in self.card.pending
            ],
            "sends": len(self.sent),
            "asks_after": None if seconds is None else 1000 * seconds,
            "awaits_ahead": self.card.awaits_ahead,
            "store": list(self.store),
        }


def item_of(number: int) -> dict[str, Any]:
    return {"id": number, "selection": f"s{number}", "alt": f"item {number}"}


def views_of(said: dict[str, Any]) -> dict[str, Any]:
    """The items that may follow, as the server sends them."""
    following, dark = said.get("next", {}), said.get("no_picture", [])
    return {
        "next": {word: {"item": item_of(number)} for word, number in following.items()},
        "pictures": {
            str(number): "" if number in dark else f"picture {number}" for number in following.values()
        },
    }


@pytest.mark.parametrize("case", RULES["cases"], ids=lambda case: case["promise"])
def test_a_simulated_browser_follows_the_pages_rules(case):
    """The same cases hold for `label/flow.js`."""
    table = Table()
    for i, step in enumerate(case["steps"]):
        if "reload" in step:
            table.load()
            continue
        if "server" in step:
            table.hear(step["server"])
        elif "ahead" in step:
            table.hear_ahead(step["ahead"])
        else:
            assert table.answer(step["answer"]) == step.get("followed", False), i
        expected = {name: step[name] for name in step.keys() - {"server", "ahead", "answer", "followed"}}
        if "store" in expected:
            expected["store"] = [key.format(*table.given) for key in expected["store"]]
        seen = table.look()
        assert {name: seen[name] for name in expected} == expected, i


def test_the_pauses_are_the_pages_own():
    """In milliseconds."""
    assert [1000 * seconds for seconds in rules.RETRY_SECONDS] == RULES["retry_ms"]
    assert RULES["poll_ms"] == 1000 * rules.POLL_SECONDS
    assert RULES["poll_ahead_ms"] == 1000 * rules.POLL_AHEAD_SECONDS
