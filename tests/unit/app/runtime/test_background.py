"""What runs beside the pages: an unexpected error is reported, and ends nothing that others rely on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import wait

import pytest

from closecall.app.api.cards import card_of
from closecall.app.api.progress import progress
from closecall.app.runtime.background import ClosedError, Troubles, Workers
from closecall.app.server.health import Health
from closecall.app.sessions.similar.query import Like
from closecall.core.evaluation.stopping import LEAST_GROWTH
from closecall.storage import StorageError
from tests.projects import label, new_project
from tests.waiting import until


@pytest.fixture
def session(workspace):
    project = new_project(workspace)
    return project.session(project.log.start_session(1, "ada", "exhaustive", seed=5).id)


def fails(*_: object, **__: object) -> None:
    raise ZeroDivisionError("nobody expected it")


def test_a_job_that_fails_is_told_until_it_succeeds(caplog):
    """Its traceback is logged once; what another job does changes nothing."""
    troubles = Troubles()
    with Workers(1, "test", "Measuring", troubles) as workers:
        for _ in range(3):
            wait([workers.submit(fails)])
        wait([workers.submit(time.sleep, 0)])
        until(lambda: troubles.first)
        assert troubles.first == "Measuring failed: ZeroDivisionError: nobody expected it"
    assert caplog.text.count("Traceback") == 1
    with pytest.MonkeyPatch.context() as mended, Workers(1, "test", "Measuring", troubles) as workers:
        mended.setattr(fails, "__code__", (lambda *_, **__: None).__code__)
        wait([workers.submit(fails)])
        until(lambda: troubles.first is None)


def test_a_job_that_goes_on_when_all_is_closed_is_no_trouble(caplog):
    """One that asks for its next step then is refused, which is nobody's fault."""
    troubles, closing = Troubles(), threading.Event()
    workers = Workers(1, "test", "Measuring", troubles)

    def step() -> None:
        assert closing.wait(120)
        workers.submit(step)

    workers.submit(step)
    workers.shutdown(wait=False)
    closing.set()
    workers.shutdown()
    assert troubles.first is None
    assert caplog.text == ""


def test_what_passes_by_itself_or_is_given_up_is_no_problem(caplog):
    """A locked database raises when it is read; a job that nobody waits for has not failed."""
    troubles = Troubles()
    with troubles.noted("Reading"):
        raise StorageError("labels.db is locked", "locked")
    assert "Reading failed: labels.db is locked" in caplog.text
    with pytest.raises(ClosedError), troubles.noted("Building"):
        raise ClosedError
    assert troubles.first is None


def test_milestones_that_fail_are_told_and_reached_later(workspace, session, monkeypatch):
    """On the page and by the health check; the next answers are looked at as before."""
    with monkeypatch.context() as broken:
        broken.setattr("closecall.app.engine.learning_curve.train_concept", fails)
        label(session, LEAST_GROWTH)
        until(lambda: progress(session) and session.project.problem())
    assert session.project.problem().endswith("failed: ZeroDivisionError: nobody expected it")
    assert Health(workspace).look()["pools"] == {"trouble": 1}
    label(session, 4)
    until(lambda: not progress(session)["is_coming"] and session.project.problem() is None)
    assert progress(session)["milestones"]


def test_other_work_is_done_between_two_milestones(session):
    """Many may be due at once, and each may wait for a gap."""
    background, released, seen = session.project.background, threading.Event(), []
    background.submit(released.wait, 120)
    label(session, 8 * LEAST_GROWTH)
    assert progress(session)["is_coming"]
    background.submit(lambda: seen.append(len(session.concept.milestones.reached)))
    released.set()
    until(lambda: not progress(session)["is_coming"])
    assert seen == [1]
    assert len(session.concept.milestones.reached) > 1


def test_a_frame_of_the_audit_that_fails_is_told_and_made_later(session, monkeypatch):
    """The frame before serves meanwhile."""
    label(session, 12)
    audit, pool = session.concept.audit, session.project.pool
    first = audit.frame(pool)
    label(session, 20)
    with monkeypatch.context() as broken:
        broken.setattr("closecall.app.engine.audit.Frame", fails)
        assert audit.frame(pool) is first
        until(session.project.problem)
    audit.frame(pool)
    until(lambda: audit.frame(pool) is not first)
    until(lambda: session.project.problem() is None)


def test_an_index_of_find_similar_that_fails_is_told(session, monkeypatch):
    """The exact scan stands in, and the page does not wait for ever."""
    monkeypatch.setattr("closecall.app.indexes.saved.coded", fails)
    similar = session.project.similar_to(session)
    similar.set_method("tables")
    similar.look_for(Like(item=int(session.project.pool.ids[0])))
    until(lambda: (card_of(similar)["similar"]["search"]["awaited"] or {}).get("problem"))
    said = card_of(similar)["similar"]["search"]
    assert said["awaited"]["problem"] == "Hashing, bucket tables can't be prepared: nobody expected it"
    assert said["method"] == "Exact scan"


def test_a_metric_that_can_not_be_learned_is_told(session, monkeypatch):
    """Learning goes on with the next labels."""
    label(session, 60)
    learning = session.project.similar_to(session).learning
    with monkeypatch.context() as broken:
        broken.setattr("closecall.app.indexes.metric.learn_from_answers", fails)
        learning.want(session.project.pool, session.concept.standing().labels)
        assert learning.wait(120)
    assert learning.state()["problem"] == "The metric can't be learned: nobody expected it"
    label(session, 1)
    learning.want(session.project.pool, session.concept.standing().labels)
    assert learning.wait(600)
    assert learning.state()["problem"] is None
