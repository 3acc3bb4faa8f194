"""Webhooks as JSON, for owners."""

from __future__ import annotations

import pytest

from closecall.app.api.webhooks import added, listed, removed
from closecall.app.projects.roles import Person
from closecall.core.errors import InputError
from closecall.storage import StorageError
from closecall.storage.records import EVENTS

ADA, BOB = Person("ada", is_owner=True), Person("bob")
URL = "https://receiver.example/hook"


def test_an_owner_adds_sees_and_removes_webhooks(project):
    """The secret is in the first reply only."""
    first = added(project, {"url": URL}, ADA)
    assert len(first["secret"]) >= 32
    assert first["events"] == list(EVENTS)
    body = {"url": URL, "events": ["label"], "concept": 1, "secret": "s" * 20, "from_start": True}
    second = added(project, body, ADA)
    assert second["secret"] == "s" * 20
    shown = listed(project, ADA)["webhooks"]
    assert shown == [
        {name: value for name, value in one.items() if name != "secret"} for one in (first, second)
    ]
    assert shown[1] == {
        "id": second["id"],
        "url": URL,
        "events": ["label"],
        "concept": 1,
        "concept_name": "Is this a 7",
        "created": second["created"],
        "created_by": "ada",
        "is_paused": False,
        "waiting": 0,
        "failures": 0,
        "last_problem": None,
        "last_success": None,
    }
    removed(project, first["id"], ADA)
    assert [one["id"] for one in listed(project, ADA)["webhooks"]] == [second["id"]]
    with pytest.raises(StorageError, match="no webhook"):
        removed(project, first["id"], ADA)


def test_an_annotator_neither_sees_nor_changes_webhooks(project):
    """An address may contain a secret, and a person who adds one gets everybody's answers."""
    one = added(project, {"url": URL}, ADA)
    for act in (
        lambda: listed(project, BOB),
        lambda: added(project, {"url": URL}, BOB),
        lambda: removed(project, one["id"], BOB),
    ):
        with pytest.raises(InputError, match="Only an owner"):
            act()
    assert len(listed(project, ADA)["webhooks"]) == 1


WRONG = (
    {},
    {"url": None},
    {"url": 7},
    {"url": URL, "events": "label"},
    {"url": URL, "events": [7]},
    {"url": URL, "events": [["label"]]},
    {"url": URL, "events": []},
    {"url": URL, "events": ["labels"]},
    {"url": URL, "concept": "seven"},
    {"url": URL, "concept": True},
    {"url": URL, "concept": 99},
    {"url": URL, "from_start": 1},
    {"url": URL, "secret": "short"},
    {"url": URL, "kinds": ["label"]},
    {"url": "receiver"},
)


@pytest.mark.parametrize("body", WRONG, ids=str)
def test_what_is_malformed_is_refused(project, body):
    """In one sentence, and nothing is stored."""
    with pytest.raises((InputError, StorageError)) as refused:
        added(project, body, ADA)
    assert "\n" not in str(refused.value)
    assert listed(project, ADA)["webhooks"] == []
