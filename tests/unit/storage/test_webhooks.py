"""Webhooks and their backlogs: each gets its own events, all of them, in one order, wherever it is cut."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from closecall.storage import (
    Concepts,
    Database,
    Happenings,
    StorageError,
    WebhookRecord,
    Webhooks,
    backup,
    restore,
)
from closecall.storage.backlog import Entry, next_batch, waiting
from closecall.storage.records import EVENTS
from closecall.storage.webhooks import MOST_WEBHOOKS
from tests.storage_kit import Annotator, make_concept, sit_down

URL = "https://receiver.example/hook?key=1"


@pytest.fixture
def database(where: Path | str) -> Iterator[Database]:
    with Database.open(where, create=True) as database:
        yield database


@pytest.fixture
def webhooks(database: Database) -> Webhooks:
    return Webhooks(database, clock=lambda: 1_700_000_000_000)


def label_much(database: Database, seed: int = 1, n: int = 60) -> tuple[list[Entry], list[Annotator]]:
    """Answers of two people about two concepts with happenings in between; the truth, in order."""
    draw = random.Random(seed)
    people = [sit_down(database, make_concept(database, name)) for name in ("seven", "three")]
    happenings = Happenings(database)
    truth: list[Entry] = []
    for number in range(n):
        ada = draw.choice(people)
        kind = draw.choice(["train", "train", "decision", "pool", "advice"])
        if kind == "pool":
            assert happenings.record("pool-complete", f"{number}", {"items": number})
            truth.append(happenings.all()[-1])
        elif kind == "advice":
            concept_id = ada.session.concept_id
            assert happenings.record("advice-to-stop", f"{number}", {"labels": 3}, concept_id=concept_id)
            truth.append(happenings.all()[-1])
        else:
            truth.append(ada.says(draw.choice(["yes", "no"]), number, purpose=kind))
    return truth, people


def kind_of(entry: Any) -> str:
    if hasattr(entry, "kind"):
        return str(entry.kind)
    return "decision" if entry.purpose == "decision" else "label"


def drained(database: Database, webhook: WebhookRecord, most: int) -> list[Entry]:
    """All that waits for a webhook, read batch by batch."""
    found: list[Entry] = []
    for _ in range(1_000):
        batch = next_batch(database, webhook, most)
        assert len(batch.entries) <= most
        assert {entry.concept_id for entry in batch.entries} - {None} == set(batch.concepts)
        assert (batch.answers_through, batch.happenings_through) >= (0, 0)
        found += batch.entries
        webhook = replace(
            webhook, answers_through=batch.answers_through, happenings_through=batch.happenings_through
        )
        if batch.is_last:
            assert next_batch(database, webhook, most).entries == []
            return found
    raise AssertionError("the backlog never ends")


@pytest.mark.parametrize("kinds", [EVENTS, ("label",), ("decision", "advice-to-stop"), ("pool-complete",)])
def test_each_webhook_gets_its_events_in_the_order_in_which_they_were_stored(database, webhooks, kinds):
    """Of all concepts or of one, in batches of any size; what is about all concepts goes to each webhook."""
    truth, people = label_much(database)
    for concept_id in (None, people[0].session.concept_id):
        webhook = webhooks.add(URL, kinds, created_by="ada", concept_id=concept_id, from_start=True)
        mine = [
            entry
            for entry in truth
            if kind_of(entry) in kinds and (concept_id is None or entry.concept_id in (None, concept_id))
        ]
        assert len(mine) > 3
        assert waiting(database, webhook) == len(mine)
        for most in (1, 2, 3, 7, 100):
            assert drained(database, webhook, most) == mine


def test_a_webhook_follows_its_concept_to_what_replaces_it(database, webhooks):
    """To each later one, but not back, nor to other concepts; answers to the old one still arrive."""
    concepts, happenings = Concepts(database), Happenings(database)
    seven, three = (make_concept(database, name) for name in ("seven", "three"))
    first, of_three = (
        webhooks.add(URL, created_by="ada", concept_id=one.id, from_start=True) for one in (seven, three)
    )
    truth: list[Entry] = [sit_down(database, seven).says("yes", 1)]
    replaced = [seven]
    for number in (2, 3):
        name = f"seven ({number})"
        replaced.append(concepts.create(name, "Is it a seven?", instead_of=replaced[-1].id))
        truth.append(sit_down(database, replaced[-1]).says("no", number))
    others = sit_down(database, three).says("yes", 4)
    assert happenings.record("advice-to-stop", "a", {"labels": 3}, concept_id=replaced[-1].id)
    truth.append(happenings.all()[-1])
    truth.append(sit_down(database, seven).says("no", 5))
    last = webhooks.add(URL, created_by="ada", concept_id=replaced[-1].id, from_start=True)
    assert drained(database, first, 2) == truth
    assert waiting(database, first) == len(truth)
    assert drained(database, of_three, 2) == [others]
    assert drained(database, last, 2) == truth[2:4]


def test_a_new_webhook_starts_at_the_end(database, webhooks):
    """Unless it is to start at the beginning."""
    truth, people = label_much(database)
    webhook = webhooks.add(URL, created_by="ada")
    assert (waiting(database, webhook), drained(database, webhook, 10)) == (0, [])
    new = people[1].says("yes", 900)
    assert drained(database, webhook, 10) == [new]
    from_start = webhooks.add(URL, created_by="ada", from_start=True)
    assert drained(database, from_start, 10) == [*truth, new]


def test_a_happening_is_recorded_once(database):
    """By its kind and key, also after a restart."""
    happenings = Happenings(database)
    assert happenings.record("pool-complete", "a", {"items": 3})
    assert not happenings.record("pool-complete", "a", {"items": 4})
    assert happenings.record("pool-complete", "b", {"items": 5})
    concept = make_concept(database)
    assert happenings.record("advice-to-stop", "a", {"labels": 9}, concept_id=concept.id)
    found = happenings.all()
    assert [(one.kind, one.data, one.concept_id) for one in found] == [
        ("pool-complete", {"items": 3}, None),
        ("pool-complete", {"items": 5}, None),
        ("advice-to-stop", {"labels": 9}, concept.id),
    ]
    assert len({one.id for one in found}) == 3
    with pytest.raises(StorageError):
        happenings.record("advice-to-stop", "b", {}, concept_id=99)


def test_webhooks_are_kept_with_their_positions(database, webhooks):
    """Positions never move back; what is removed stays away, and its id is not used again."""
    first = webhooks.add(URL, ["decision", "label", "label"], created_by="ada")
    assert first.kinds == ("label", "decision")
    assert len(first.secret) >= 32
    assert first.secret not in repr(first)
    second = webhooks.add(URL, created_by="bob", secret="s" * 16)
    assert (second.secret, second.kinds) == ("s" * 16, EVENTS)
    assert webhooks.all() == [first, second]
    webhooks.delivered(first.id, 7, 2)
    webhooks.failed(first.id, "It does not answer.")
    webhooks.failed(first.id, "It answers 500.")
    its = webhooks.get(first.id)
    assert (its.answers_through, its.happenings_through) == (7, 2)
    assert (its.failures, its.last_problem, its.last_success) == (2, "It answers 500.", 1_700_000_000_000)
    webhooks.delivered(first.id, 9, 2, is_success=False)
    its = webhooks.get(first.id)
    assert (its.answers_through, its.failures) == (9, 2)
    webhooks.delivered(first.id, 5, 3)
    its = webhooks.get(first.id)
    assert (its.answers_through, its.happenings_through, its.failures, its.last_problem) == (9, 3, 0, None)
    webhooks.pause(first.id, True)
    assert webhooks.get(first.id).is_paused
    webhooks.pause(first.id, False)
    assert not webhooks.get(first.id).is_paused
    webhooks.remove(second.id)
    assert [one.id for one in webhooks.all()] == [first.id]
    webhooks.delivered(second.id, 7, 7)
    webhooks.failed(second.id, "gone")
    for act in (webhooks.remove, webhooks.get, lambda its: webhooks.pause(its, True)):
        with pytest.raises(StorageError, match=f"there is no webhook {second.id}") as refused:
            act(second.id)
        assert refused.value.kind == "missing"
    assert webhooks.add(URL, created_by="ada").id > second.id


WRONG: list[dict[str, Any]] = [
    {"url": url}
    for url in (
        "",
        "receiver.example",
        "ftp://receiver.example/",
        "https:///hook",
        "https://receiver.example/a b",
        "https://receiver.example/a\nb",
        "https://receiver.example:port/",
        "https://receiver.example:99999/",
        "https://[::1/",
        "https://receiver.example\\@other.example/",
        "https://ada:secret@receiver.example/",
        "https://receiver.example/#here",
        "https://receiver.example/" + "a" * 2_000,
    )
] + [
    {"kinds": []},
    {"kinds": ["labels"]},
    {"secret": "short"},
    {"secret": "ä" * 20},
    {"secret": "a\n" * 20},
    {"secret": "a" * 201},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
def test_what_is_wrong_is_said_and_nothing_stored(database, webhooks, wrong):
    """In one sentence."""
    with pytest.raises(StorageError) as refused:
        webhooks.add(**{"url": URL, "created_by": "ada", **wrong})
    assert refused.value.kind == "invalid"
    assert "\n" not in str(refused.value)
    assert "secret@" not in str(refused.value)
    assert webhooks.all() == []


def test_there_must_be_the_concept_and_not_too_many_webhooks(database, webhooks):
    """Each has a thread of the server."""
    with pytest.raises(StorageError, match="no concept 7") as refused:
        webhooks.add(URL, created_by="ada", concept_id=7)
    assert refused.value.kind == "missing"
    for _ in range(MOST_WEBHOOKS):
        webhooks.add(URL, created_by="ada")
    with pytest.raises(StorageError, match="at most 20"):
        webhooks.add(URL, created_by="ada")


def test_a_backup_has_the_webhooks(database, webhooks, where, tmp_path):
    """With their positions, so that a restored project continues where the backup ends."""
    label_much(database, n=20)
    webhook = webhooks.add(URL, ["label"], created_by="ada", from_start=True)
    webhooks.delivered(webhook.id, 4, 1)
    kept, happened = webhooks.all(), Happenings(database).all()
    copy = backup(where, tmp_path / "copy.backup")
    database.close()
    restore(copy, where, overwrite=True)
    with Database.open(where) as again:
        assert Webhooks(again).all() == kept
        assert Happenings(again).all() == happened
        assert Webhooks(again).add(URL, created_by="ada").id > webhook.id
