"""A served project sends its events to its webhooks, and records each happening once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from closecall.app.engine import learning_curve
from closecall.app.projects.pool_builder import Builder
from closecall.app.projects.webhooks import happening_watch, sender
from closecall.app.projects.webhooks.deliveries import Pauses
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.evaluation.stopping import LEAST_GROWTH, Advice
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import Happenings, Webhooks
from closecall.storage.backlog import waiting
from tests.projects import answer, give_answers, labeled, new_project, open_workspace
from tests.waiting import until
from tests.webhook_kit import Receiver, receiving


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "Pauses", lambda: Pauses(gather=0.0, look=0.05, first=0.001, longest=0.01))
    look = happening_watch.HappeningWatch.__init__.__defaults__
    assert look == (happening_watch.LOOK_SECONDS,)
    monkeypatch.setattr(happening_watch.HappeningWatch.__init__, "__defaults__", (0.05,))


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def hook(project: OpenProject, receiver: Receiver, *kinds: str, **more: Any) -> int:
    return Webhooks(project.database).add(receiver.url, kinds, created_by="ada", **more).id


def wait_for_all(project: OpenProject, webhook: int) -> None:
    webhooks = Webhooks(project.database)
    until(lambda: not waiting(project.database, webhooks.get(webhook)))


def kinds_in(project: OpenProject) -> list[str]:
    return [one.kind for one in Happenings(project.database).all()]


def test_answers_and_adjudications_are_sent_as_they_are_stored(project, receiver):
    """From every view, because all of them store answers at one place."""
    webhook = hook(project, receiver, "label", "decision")
    session = labeled(project, 6)
    decisions = project.decisions(session)
    shown = session.in_view()
    session.store([answer({"item": {"id": shown.item, "selection": shown.id}}, "yes")])
    card = {"item": {"id": shown.item, "selection": shown.id}}
    decided = answer(card, "no", session=session.id, decides=True, selection=None)
    decisions.store([decided], project.roles.person("ada"))
    wait_for_all(project, webhook)
    rows = list(project.log.log_rows())
    assert receiver.arrived() == [row.answer.id for row in rows]
    kinds = [event["kind"] for request in receiver.requests for event in request.events]
    assert kinds == ["label"] * (len(rows) - 1) + ["decision"]
    assert rows[-1].answer.purpose == "decision"
    assert {event["project"] for request in receiver.requests for event in request.events} == {project.key}


def test_answers_are_stored_while_a_receiver_hangs(project, receiver):
    """And are acknowledged before it answers."""
    receiver.decide = lambda: "hang"
    hook(project, receiver, "label")
    session = labeled(project, 0)
    until(lambda: receiver.requests)
    before = project.log.position()
    with ThreadPoolExecutor(1) as other:
        other.submit(give_answers, session, 20).result(60)
    assert project.log.position() == before + 20
    assert not receiver.released.is_set()
    assert len(receiver.requests) == 1


def test_storing_only_wakes_the_sender(project, monkeypatch):
    """Nothing of the sending is done by the thread that stores answers."""
    threads = set()
    for name in ("_work", "_look"):
        work = getattr(sender.WebhookSender, name)

        def noted(its: Any, work: Any = work) -> Any:
            threads.add(threading.current_thread())
            return work(its)

        monkeypatch.setattr(sender.WebhookSender, name, noted)
    with receiving() as receiver:
        webhook = hook(project, receiver, "label")
        labeled(project, 3)
        wait_for_all(project, webhook)
    assert threading.current_thread() not in threads


def test_a_complete_pool_is_recorded_once(tmp_path, receiver):
    """When the project is opened first; a webhook that is added later gets it only from the start."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        key = project.key
        (recorded,) = Happenings(project.database).all()
        assert recorded.kind == "pool-complete"
        pool = project.pool
        assert recorded.data == {"items": len(pool), "version": pool.version, "description": ""}
        late = hook(project, receiver, "pool-complete")
        wait_for_all(project, late)
        assert receiver.verdicts == []
        early = hook(project, receiver, "pool-complete", from_start=True)
        wait_for_all(project, early)
    with open_workspace(tmp_path) as workspace:
        assert Happenings(workspace.project(key).database).all() == [recorded]
    assert receiver.accepted() == [recorded.id]


def test_a_pool_that_becomes_complete_is_told(workspace, receiver, monkeypatch):
    """Once it is, and once more when it has grown."""
    sources = []
    monkeypatch.setattr(Builder, "start", lambda builder: sources.append(builder))
    key = workspace.create(new_digits(200), key="digits")
    project = workspace.project(key)
    webhook = hook(project, receiver, "pool-complete")
    assert kinds_in(project) == []
    build(source_from("digits:200"), project.pool_path)
    until(lambda: len(kinds_in(project)) == 1)
    wait_for_all(project, webhook)
    build(source_from("digits:300"), project.pool_path)
    until(lambda: len(kinds_in(project)) == 2)
    wait_for_all(project, webhook)
    events = [event for request in receiver.requests for event in request.events]
    items = [event["data"]["items"] for event in events]
    assert items[0] < items[1] == len(project.pool)
    assert {(event["kind"], event["concept"]) for event in events} == {("pool-complete", None)}


def new_digits(n: int) -> Any:
    from closecall.app.sessions.new_project import NewProject

    return NewProject(f"digits:{n}", "Is this a 7?")


@pytest.fixture
def advised_from_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The advice is to stop from the second milestone on."""

    def advise(checkpoints: Any) -> Advice:
        stop = len(checkpoints) >= 2
        return Advice(stop, "Enough." if stop else "Go on.", ())

    monkeypatch.setattr(learning_curve, "advise", advise)


def test_the_advice_to_stop_is_sent_once_for_each_concept(tmp_path, receiver, advised_from_two):
    """Although no page shows it, and after a restart; with the number of labels that were enough."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        key, other = project.key, project.add_concept("Is this a 3?")
        webhook = hook(project, receiver, "advice-to-stop")
        session = labeled(project, 0)
        while session.concept.counts().labels < 2 * LEAST_GROWTH + 20:
            give_answers(session, 5)
        until(lambda: "advice-to-stop" in kinds_in(project))
        wait_for_all(project, webhook)
        assert kinds_in(project).count("advice-to-stop") == 1
    (event,) = [event for request in receiver.requests for event in request.events]
    assert (event["kind"], event["concept_id"]) == ("advice-to-stop", 1)
    assert 2 * LEAST_GROWTH <= event["data"]["labels"] <= 2 * LEAST_GROWTH + 20
    assert event["data"]["reason"] == "Enough."
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        concept = project.live_concept(1)
        until(lambda: concept.milestones.stable_since and not concept.milestones.is_computing)
        give_answers(project.session(concept_id=other.id), 3)
        project._happening_watch._look()
        assert kinds_in(project).count("advice-to-stop") == 1
        wait_for_all(project, webhook)
    assert receiver.accepted() == [event["id"]]


def test_advice_that_was_withdrawn_is_not_recorded(workspace, monkeypatch):
    """What counts is the last milestone: earlier ones are computed again after each restart."""

    def advise(checkpoints: Any) -> Advice:
        return Advice(len(checkpoints) in (1, 3), "Perhaps.", ())

    monkeypatch.setattr(learning_curve, "advise", advise)
    project = new_project(workspace)
    session = labeled(project, 0)
    milestones, since = session.concept.milestones, []
    for n in range(1, 5):
        while len(milestones.reached) < n:
            give_answers(session, 5)
            session.concept.watch(project.pool)
            until(lambda: not milestones.is_computing)
        since.append(milestones.stable_since)
    assert (since[0], since[1], since[3]) == (milestones.reached[0], None, None)
    assert since[2] is milestones.reached[2]


def test_a_project_is_closed_while_its_webhooks_are_busy(tmp_path, receiver, advised_from_two, caplog):
    """Without errors; nothing uses the database afterwards, and the next server goes on."""
    receiver.decide = lambda: "hang"
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        key, webhook = project.key, hook(project, receiver, "label", "advice-to-stop")
        session = labeled(project, 60)
        until(lambda: receiver.requests)
        stored = [row.answer.id for row in project.log.log_rows()]
    assert session.project is project
    receiver.decide = lambda: 200
    receiver.released.set()
    assert caplog.text == ""
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        wait_for_all(project, webhook)
        labels = [
            event["id"]
            for request in receiver.requests[1:]
            for event in request.events
            if event["kind"] == "label"
        ]
    assert labels == stored


def test_another_description_keeps_the_sender(workspace, receiver, monkeypatch):
    """The webhooks belong to the labels, which stay."""
    assert isinstance(workspace, Workspace)
    project = new_project(workspace)
    webhook, before = hook(project, receiver, "label"), project.store.sender
    after = type(project)(project.folder, former=project)
    try:
        project.leave()
        assert after.store.sender is before
        session = labeled(after, 2)
        wait_for_all(after, webhook)
        assert receiver.arrived() == [row.answer.id for row in session.project.log.log_rows()]
    finally:
        after.leave()
