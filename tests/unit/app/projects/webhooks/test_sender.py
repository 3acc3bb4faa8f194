"""All events arrive, in order and signed, whatever receivers do; no answer and no other webhook waits."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from closecall.app.projects.webhooks.deliveries import Pauses
from closecall.app.projects.webhooks.delivery import SIGNATURE, HttpPost, signature
from closecall.app.projects.webhooks.sender import WebhookSender
from closecall.app.runtime.background import Troubles
from closecall.storage import Database, Happenings, StorageError, Webhooks
from closecall.storage.backlog import waiting
from tests.folders import ROOT
from tests.scale import scaled
from tests.storage_kit import Annotator, make_concept, sit_down
from tests.waiting import until
from tests.web_kit import nobody_listening
from tests.webhook_kit import Receiver, Verdict, documented_check, receiving

FAST = Pauses(gather=0.0, look=0.02, first=0.001, longest=0.01)
SECRET = "a secret of the test"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with Database.open(tmp_path / "labels.db", create=True) as database:
        yield database


@pytest.fixture
def ada(database: Database) -> Annotator:
    return sit_down(database, make_concept(database))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@contextmanager
def sending(database: Database, **more: Any) -> Iterator[WebhookSender]:
    """A sender at work; its pauses are short."""
    given = {"pauses": FAST, "post": HttpPost(connect=2.0, read=0.25)}
    sender = WebhookSender(database, "herbarium", Troubles(), **(given | more))
    sender.start()
    try:
        yield sender
    finally:
        sender.close()


def hook(database: Database, receiver: Receiver, *kinds: str, **more: Any) -> int:
    """Add a webhook; its id."""
    given = {"kinds": kinds} if kinds else {}
    return Webhooks(database).add(receiver.url, created_by="ada", secret=SECRET, **given, **more).id


def is_done(database: Database, *ids: int) -> bool:
    """Whether all events are delivered, and the database knows."""
    return not any(waiting(database, Webhooks(database).get(one)) for one in ids)


def at_random(seed: int, *failures: Verdict) -> Callable[[], Verdict]:
    """Accept half of the requests."""
    draw = random.Random(seed)
    return lambda: draw.choice(failures) if draw.random() < 0.5 else draw.choice((200, 201, 204))


def label_in_bursts(people: list[Annotator], n: int, seed: int) -> list[str]:
    """Answers of all kinds, and happenings; their ids in the order in which they were stored."""
    draw, ids = random.Random(seed), []
    happenings = Happenings(people[0].log.database)
    for number in range(n):
        person = draw.choice(people)
        what = draw.choice(("label", "label", "label", "decision", "undo", "pool", "advice"))
        if what == "pool":
            assert happenings.record("pool-complete", f"{seed} {number}", {"items": number})
            ids.append(happenings.all()[-1].id)
        elif what == "advice":
            its = person.session.concept_id
            key = f"{seed} {number}"
            assert happenings.record("advice-to-stop", key, {"labels": number}, concept_id=its)
            ids.append(happenings.all()[-1].id)
        else:
            purpose = "decision" if what == "decision" else "train"
            answer = person.says(draw.choice(("yes", "no")), number, purpose=purpose)
            ids.append(answer.id)
            if what == "undo":
                ids.append(person.undoes(answer).id)
        if draw.random() < 0.1:
            time.sleep(0.01)
    return ids


FAILURES: dict[str, tuple[Verdict, ...]] = {
    "answers 500": (500, 503, 404, 429),
    "redirects": (302,),
    "closes the connection": ("cut",),
    "accepts, but its answer is lost": ("lost",),
    "all of these, and hangs": (500, 302, "cut", "lost", "hang"),
}


@pytest.mark.parametrize("failures", FAILURES.values(), ids=FAILURES)
def test_a_receiver_that_fails_half_of_the_time_gets_everything_in_order(database, ada, receiver, failures):
    """What it gets twice it can tell by the id; each request is signed, as the documentation checks it."""
    is_genuine = documented_check()
    receiver.decide = at_random(1, *failures)
    bob = sit_down(database, make_concept(database, "three"), "Bob")
    webhook = hook(database, receiver)
    with sending(database, pauses=Pauses(0.0, 0.02, 0.001, 0.01)) as sender:
        stored: list[str] = []
        for seed in range(12):
            stored += label_in_bursts([ada, bob], 12, seed)
            sender.wake()
        until(lambda: is_done(database, webhook))
    assert receiver.arrived() == stored
    assert list(dict.fromkeys(receiver.accepted())) == stored
    assert len([verdict for verdict in receiver.verdicts if verdict in failures]) > 3
    for request in receiver.requests:
        assert 0 < len(request.events) <= 100
        assert request.headers["Content-Type"] == "application/json"
        assert json.loads(request.body)["webhook"] == webhook
        assert is_genuine(request.headers[SIGNATURE], request.body, SECRET)
        assert not is_genuine(request.headers[SIGNATURE], request.body + b" ", SECRET)
        assert not is_genuine(request.headers[SIGNATURE], request.body, SECRET + "?")
    its = Webhooks(database).get(webhook)
    assert (its.failures, its.last_problem) == (0, None)
    assert its.last_success is not None


def test_the_same_delivery_is_sent_again_with_a_new_signature(database, ada, receiver):
    """Until it is accepted, whatever is stored meanwhile."""
    verdicts: list[Verdict] = [500, 500, 200]
    receiver.decide = lambda: verdicts.pop(0) if verdicts else 200
    webhook = hook(database, receiver, "label")
    first = ada.says("yes", 1)
    with sending(database, pauses=Pauses(0.0, 0.02, 0.4, 0.4)) as sender:
        until(lambda: len(receiver.requests) == 1)
        second = ada.says("no", 2)
        sender.wake()
        until(lambda: is_done(database, webhook))
    bodies = [request.body for request in receiver.requests]
    assert bodies[0] == bodies[1] == bodies[2] != bodies[3]
    assert [event["id"] for event in receiver.requests[2].events] == [first.id]
    assert [event["id"] for event in receiver.requests[3].events] == [second.id]


def test_events_have_the_fields_that_are_documented(database, ada, receiver):
    """Of an answer, an adjudication and both happenings."""
    webhook = hook(database, receiver)
    shown = ada.is_shown(5)
    answer = ada.says("yes", 5, selection_id=shown.id)
    ada.says("no", 5, corrects=answer.id)
    decision = ada.says("no", 5, purpose="decision")
    undo = ada.says("undo", 5, undoes=decision.id, purpose="decision")
    happenings = Happenings(database)
    happenings.record("pool-complete", "x", {"items": 600})
    happenings.record("advice-to-stop", "x", {"labels": 90}, concept_id=ada.session.concept_id)
    with sending(database):
        until(lambda: is_done(database, webhook))
    events = [event for request in receiver.requests for event in request.events]
    kinds = ["label", "label", "decision", "decision", "pool-complete", "advice-to-stop"]
    assert [event["kind"] for event in events] == kinds
    assert events[0] == {
        "id": answer.id,
        "kind": "label",
        "project": "herbarium",
        "concept": "seven",
        "concept_id": ada.session.concept_id,
        "time": answer.server_time,
        "data": {
            "seq": answer.seq,
            "id": answer.id,
            "concept": ada.session.concept_id,
            "session": ada.session.id,
            "annotator": "Ada",
            "item": 5,
            "answer": "yes",
            "undoes": None,
            "corrects": None,
            "purpose": "train",
            "server_time": answer.server_time,
            "browser_time": answer.browser_time,
            "selection": shown.id,
            "time_taken_ms": answer.time_taken_ms,
        },
    }
    assert events[1]["data"]["corrects"] == answer.id
    assert (events[3]["id"], events[3]["data"]["undoes"]) == (undo.id, decision.id)
    assert (events[4]["concept"], events[4]["concept_id"], events[4]["data"]) == (None, None, {"items": 600})
    assert (events[5]["concept"], events[5]["data"]) == ("seven", {"labels": 90})
    page = (ROOT / "docs" / "webhooks.md").read_text("utf-8")
    example = json.loads(page.partition("```json\n")[2].partition("```")[0])["events"][0]
    assert example.keys() == events[0].keys()
    assert example["data"].keys() == events[0]["data"].keys()


def test_a_receiver_that_hangs_holds_up_neither_answers_nor_other_webhooks(database, ada, receiver):
    """Nor the end of the server; what it did not accept is sent again by the next."""
    receiver.decide = lambda: "hang"
    with receiving() as other:
        slow, quick = hook(database, receiver), hook(database, other)
        sender = WebhookSender(database, "herbarium", Troubles(), pauses=FAST)  # it waits for 10 s
        sender.start()
        stored = [ada.says("yes", 0).id]
        until(lambda: receiver.requests)
        for item in range(1, 250):
            stored.append(ada.says("no", item).id)
            sender.wake()
        until(lambda: is_done(database, quick))
        assert other.arrived() == stored
        sender.close()
        assert len(receiver.requests) == 1
        assert not receiver.released.is_set()
        before = Webhooks(database).get(slow)
        receiver.decide = lambda: 200
        receiver.released.set()
        with sending(database):
            until(lambda: is_done(database, slow))
        assert before.answers_through == 0
        assert receiver.arrived() == stored
        assert receiver.requests[1].events[0]["id"] == stored[0]


def test_the_position_moves_only_after_a_delivery_is_accepted(database, ada, receiver):
    """After a restart, deliveries continue from there."""
    receiver.decide = lambda: 200 if len(receiver.verdicts) < 1 else 500
    webhook = hook(database, receiver, "label")
    stored = [ada.says("yes", item).id for item in range(150)]
    with sending(database):
        until(lambda: len(receiver.requests) > 5)
    its = Webhooks(database).get(webhook)
    assert its.answers_through == 100
    assert its.failures >= 4
    assert its.last_problem == "The receiver answered with status 500 Internal Server Error"
    assert receiver.accepted() == stored[:100]
    receiver.decide = lambda: 200
    n_before = len(receiver.requests)
    with sending(database):
        until(lambda: is_done(database, webhook))
    again = [event["id"] for request in receiver.requests[n_before:] for event in request.events]
    assert again == stored[100:]
    assert Webhooks(database).get(webhook).failures == 0


def test_a_webhook_that_is_removed_during_retries_gets_nothing_more(database, ada, receiver):
    """Another process removes it; others are sent to as before."""
    receiver.decide = lambda: 500
    with receiving() as other, sending(database) as sender:
        removed, kept = hook(database, receiver), hook(database, other)
        ada.says("yes", 1)
        until(lambda: len(receiver.requests) > 3)
        (thread,) = [one for number, one in sender._deliveries.items() if number == removed]
        Webhooks(database).remove(removed)
        until(lambda: not thread.is_alive())
        n_before = len(receiver.requests)
        ada.says("yes", 2)
        sender.wake()
        until(lambda: len(other.arrived()) == 2 and is_done(database, kept))
        assert len(receiver.requests) == n_before
        assert [one.id for one in Webhooks(database).all()] == [kept]


def test_a_paused_webhook_gets_later_what_it_missed(database, ada, receiver):
    """Once it is resumed."""
    webhook, webhooks = hook(database, receiver), Webhooks(database)
    with receiving() as other, sending(database) as sender:
        kept = hook(database, other)
        first = ada.says("yes", 1)
        until(lambda: is_done(database, webhook))
        webhooks.pause(webhook, True)
        until(lambda: webhook not in sender._deliveries)
        second = ada.says("no", 2)
        until(lambda: is_done(database, kept))
        assert receiver.arrived() == [first.id]
        webhooks.pause(webhook, False)
        until(lambda: is_done(database, webhook))
    assert receiver.accepted() == [first.id, second.id]


def test_a_receiver_that_is_gone_for_long_gets_everything_when_it_is_back(database, ada):
    """Meanwhile its owner can read what is wrong."""
    with nobody_listening() as address:
        port = int(address.rpartition(":")[2])
        webhooks = Webhooks(database)
        webhook = webhooks.add(f"{address}/hook", ["label"], created_by="ada", secret=SECRET).id
        with sending(database) as sender:
            stored = []
            while webhooks.get(webhook).failures < 30:
                stored.append(ada.says("yes", len(stored)).id)
                sender.wake()
            problem = webhooks.get(webhook).last_problem
    assert problem == "The receiver can't be reached: no connection can be made"
    with receiving(port) as receiver, sending(database):
        until(lambda: is_done(database, webhook))
        assert receiver.accepted() == stored
    assert webhooks.get(webhook).last_problem is None


def test_new_events_are_sent_when_the_sender_is_woken(database, ada, receiver):
    """Without waiting until it looks by itself; events shortly after each other go together."""
    webhook = hook(database, receiver, "label")
    with sending(database, pauses=Pauses(gather=0.2, look=3600, first=0.001, longest=0.01)) as sender:
        until(lambda: sender._deliveries)
        stored = []
        for item in range(30):
            stored.append(ada.says("yes", item).id)
            sender.wake()
        until(lambda: is_done(database, webhook))
    assert receiver.accepted() == stored
    assert len(receiver.requests) < 15


def test_what_another_process_stores_is_sent_without_waking(database, ada, receiver, tmp_path):
    """Such as imported labels, or answers that another server stores."""
    webhook = hook(database, receiver, "label")
    with sending(database), Database.open(tmp_path / "labels.db") as elsewhere:
        until(lambda: is_done(database, webhook))
        bob = sit_down(elsewhere, make_concept(elsewhere, "three"), "Bob")
        stored = [bob.says("yes", item).id for item in range(5)]
        until(lambda: is_done(database, webhook))
    assert receiver.accepted() == stored


def test_only_the_leader_sends(database, ada, receiver):
    """A server that is not the leader sends nothing, and one that becomes it goes on where the other was."""
    webhook, leads = hook(database, receiver, "label"), threading.Event()
    with sending(database, leads=leads.is_set) as sender:
        first = ada.says("yes", 1)
        sender.refresh()
        looked = sender.webhooks.all
        count = threading.Semaphore(0)
        sender.webhooks.all = lambda: (count.release(), looked())[1]  # type: ignore[method-assign]
        for _ in range(3):
            assert count.acquire(timeout=60)
        assert receiver.verdicts == []
        leads.set()
        until(lambda: is_done(database, webhook))
        leads.clear()
        until(lambda: not sender._deliveries)
        second = ada.says("no", 2)
        for _ in range(3):
            assert count.acquire(timeout=60)
        assert receiver.accepted() == [first.id]
        leads.set()
        until(lambda: is_done(database, webhook))
    assert receiver.accepted() == [first.id, second.id]


def test_a_position_that_can_not_be_stored_is_stored_later(database, ada, receiver, monkeypatch):
    """The events are not sent again for that."""
    webhook, failures = hook(database, receiver, "label"), [1, 2, 3]
    delivered = Webhooks.delivered

    def locked(webhooks: Webhooks, *words: Any, **more: Any) -> None:
        if failures:
            failures.pop()
            raise StorageError("labels.db is locked by another program", "locked")
        delivered(webhooks, *words, **more)

    monkeypatch.setattr(Webhooks, "delivered", locked)
    stored = [ada.says("yes", item).id for item in range(5)]
    with sending(database):
        until(lambda: is_done(database, webhook))
    assert receiver.accepted() == stored
    assert not failures


def test_an_error_that_nobody_expected_ends_no_thread(database, ada, receiver, caplog):
    """It is a problem of the project until it is over."""
    post, troubles, broken = HttpPost(), Troubles(), threading.Event()
    broken.set()

    def sometimes(*words: Any) -> str | None:
        if broken.is_set():
            raise ZeroDivisionError("nobody expected it")
        return post(*words)

    webhook = hook(database, receiver, "label")
    stored = ada.says("yes", 1)
    sender = WebhookSender(database, "herbarium", troubles, pauses=FAST, post=sometimes)
    sender.start()
    until(lambda: troubles.first)
    assert troubles.first == f"Sending to webhook {webhook} failed: ZeroDivisionError: nobody expected it"
    broken.clear()
    until(lambda: is_done(database, webhook) and troubles.first is None)
    sender.close()
    assert receiver.accepted() == [stored.id]
    assert caplog.text.count("Traceback") == 1


def test_a_long_log_without_events_for_a_webhook_is_not_read_again(database, ada, receiver, monkeypatch):
    """Its position is stored now and then, although nothing was sent."""
    monkeypatch.setattr("closecall.app.projects.webhooks.deliveries.FAR", 20)
    webhook = hook(database, receiver, "decision")
    for item in range(25):
        ada.says("yes", item)
    with sending(database):
        until(lambda: Webhooks(database).get(webhook).answers_through == 25)
    its = Webhooks(database).get(webhook)
    assert (receiver.verdicts, its.last_success) == ([], None)


def test_pauses_grow_and_differ():
    """1, 2, 4 … 300 s, each shortened by up to half."""
    pauses = Pauses()
    assert [pauses.after(n, 0.0) for n in range(1, 12)] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert pauses.after(3, 1.0) == 2
    assert pauses.after(10**6, 0.5) == 225
    assert pauses.look <= 5


def test_the_signature_is_hmac_sha256():
    """Of the time, a dot and the body; the value is that of another implementation (OpenSSL)."""
    signed = signature(SECRET, b'{"a": 1}', 1_700_000_000)
    command = ["openssl", "dgst", "-sha256", "-hmac", SECRET]
    try:
        ran = subprocess.run(command, input=b'1700000000.{"a": 1}', capture_output=True, check=True)
    except FileNotFoundError:
        pytest.skip("needs openssl")
    assert signed == f"t=1700000000,v1={ran.stdout.decode().split()[-1]}"


SERVER = """
import sys
from closecall.app.projects.webhooks.deliveries import Pauses
from closecall.app.projects.webhooks.delivery import HttpPost
from closecall.app.projects.webhooks.sender import WebhookSender
from closecall.app.runtime.background import Troubles
from closecall.storage import Database, LabelLog
from tests.storage_kit import Annotator

with Database.open(sys.argv[1]) as database:
    sender = WebhookSender(database, "herbarium", Troubles(), pauses=Pauses(0.0, 0.02, 0.001, 0.01))
    sender.start()
    log = LabelLog(database)
    ada = Annotator(log, log.sessions()[0])
    while True:
        print(ada.says("yes", log.position()).id, flush=True)
        sender.wake()
"""


@pytest.mark.slow
def test_a_server_that_is_killed_again_and_again_sends_everything(database, ada, receiver, tmp_path):
    """At any moment; the receiver fails half of the time."""
    draw = random.Random(5)
    receiver.decide = at_random(2, 500, "cut", "lost")
    webhook = hook(database, receiver, "label")
    for _ in range(scaled(quick=3, all=10, long=50)):
        n_before = len(receiver.verdicts)
        process = subprocess.Popen(
            [sys.executable, "-c", SERVER, str(tmp_path / "labels.db")],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
        )
        until(lambda before=n_before: len(receiver.verdicts) > before + draw.randrange(10, 60))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    with sending(database):
        until(lambda: is_done(database, webhook))
    stored = [row.id for row in ada.log.answers_after(ada.session.concept_id)]
    assert len(stored) > 20
    assert receiver.arrived() == stored
    assert list(dict.fromkeys(receiver.accepted())) == stored
