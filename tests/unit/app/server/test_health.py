"""What whoever watches over the server is told."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import ExitStack, closing
from types import SimpleNamespace

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.runtime.helpers import Helpers
from closecall.app.server.health import LOADS, Health
from closecall.app.sessions.registry import OpenProject
from closecall.core.accelerator.device import Device
from closecall.storage import StorageError
from closecall.storage.place import LabelFile
from tests.projects import answer, new_project, open_workspace
from tests.storage_kit import no_room
from tests.waiting import until


@pytest.fixture
def health(workspace, monkeypatch) -> Health:
    """One that looks anew each time."""
    monkeypatch.setattr("closecall.app.server.health.FRESH_SECONDS", 0.0)
    return Health(workspace)


def test_all_is_well(workspace, health):
    """Counts and kinds, and nothing that names a project, a person, a place or a question."""
    project = new_project(workspace, "Is this a 7, my secret question?")
    project.session(annotator="ada")
    said = health.look()
    assert said["status"] == "ok"
    assert (said["projects"], said["databases"], said["pools"]) == (1, {"ok": 1}, {"complete": 1})
    assert set(said) == {
        *("status", "version", "projects", "databases", "pools", "device", "load", "uptime_seconds"),
    }
    assert said["device"] is None
    assert set(said["load"]) == {*LOADS, "computing_seconds"}
    for word in ("secret", "ada", project.key, str(project.folder), "labels.db"):
        assert word not in str(said)


def test_the_device_is_said_that_scans_the_pools(tmp_path, monkeypatch):
    """With the number of pools that it has; the notes beside an item say it, too."""
    monkeypatch.setattr("closecall.app.server.health.FRESH_SECONDS", 0.0)
    with open_workspace(tmp_path, helpers=Helpers(device=Device("cpu", "a fine card"))) as workspace:
        project, health = new_project(workspace), Health(workspace)
        assert health.look()["device"]["name"] == "a fine card"
        until(lambda: health.look()["device"]["pools"] == {"ready": 1})
        session = project.session()
        assert card_of(session)["notes"]["full_scan_device"] == "cpu"
        project.pool.kept._fail(RuntimeError("no kernel image"))
        assert health.look()["device"]["pools"] == {"trouble": 1}
        assert health.look()["status"] == "ok"
        assert card_of(session)["notes"]["full_scan_device"] is None


def test_a_database_that_is_locked_is_said_until_it_is_not(workspace, health, monkeypatch):
    """By the first answer that could not be stored; and all is well as soon as one could be."""
    project = new_project(workspace)
    monkeypatch.setattr(project.database, "_busy_timeout", 0.1)
    session = project.session()
    given = answer(card_of(session), "yes")
    assert session.item_view.ahead.wait(60)  # what looks ahead writes, too
    with closing(sqlite3.connect(project.folder / "labels.db", isolation_level=None)) as other:
        _impatient(project)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError):
            submit(session, [given])
        said = health.look()
        assert (said["status"], said["databases"]) == ("trouble", {"locked": 1})
        other.execute("ROLLBACK")
    assert health.look()["status"] == "ok"
    assert submit(session, [given])["acked"] == [given["id"]]


def test_a_full_disk_is_said_until_there_is_room(workspace, health, monkeypatch):
    """By itself: a server that is taken out of service until it is well gets no answers that could tell."""
    database = new_project(workspace).database
    database._trouble = StorageError("the disk is full", "full")
    with monkeypatch.context() as full:
        full.setattr("closecall.storage.sqlite.TemporaryFile", no_room)
        assert health.look()["databases"] == {"full": 1}
    assert health.look()["databases"] == {"ok": 1}


def test_a_database_whose_connections_are_all_taken_is_trouble(workspace, health, monkeypatch):
    """Of the kind that passes, and no error of the page."""
    project = new_project(workspace)
    _impatient(project)
    with ExitStack() as held:
        for _ in range(32):
            held.enter_context(project.database.read())
        assert health.look()["databases"] == {"locked": 1}
    assert health.look()["status"] == "ok"


def test_an_error_that_nobody_expected_is_trouble(workspace, health, monkeypatch, caplog):
    """Its trace is in the server's log; a request for it gets an answer."""

    def fails():
        raise RuntimeError("no such thing")

    monkeypatch.setattr(new_project(workspace).database, "check", fails)
    assert health.look()["databases"] == {"other": 1}
    assert "no such thing" in caplog.text


def test_a_database_that_does_not_answer_is_unreachable(workspace, health, monkeypatch):
    """Nobody waits for long: here, until the other one has answered."""
    hangs, asked = threading.Event(), []
    submit, patience = health._executor.submit, 60.0
    monkeypatch.setattr(health._executor, "submit", lambda *job: asked.append(submit(*job)) or asked[-1])
    clock = SimpleNamespace(monotonic=lambda: patience if asked and asked[0].done() else 0.0)
    monkeypatch.setattr("closecall.app.server.health.time", clock)
    monkeypatch.setattr("closecall.app.server.health.PATIENCE_SECONDS", patience)
    new_project(workspace)
    hanging = new_project(workspace)
    monkeypatch.setattr(hanging.database, "check", hangs.wait)
    assert health.look()["databases"] == {"ok": 1, "unreachable": 1}
    hangs.set()


def test_it_is_asked_but_once_a_moment(workspace, monkeypatch):
    """However often somebody wants to know."""
    asked = []
    project = new_project(workspace)
    monkeypatch.setattr(project.database, "check", lambda: asked.append(1))
    monkeypatch.setattr("closecall.app.server.health.FRESH_SECONDS", 60.0)
    health = Health(workspace)
    for _ in range(5):
        health.look()
    assert len(asked) == 1


def test_a_pool_that_can_t_be_built_is_trouble_of_the_pool_s(workspace, health, monkeypatch):
    """Labels can be stored all the same."""
    monkeypatch.setattr(OpenProject, "problem", lambda _: "The pool could not be built")
    new_project(workspace)
    said = health.look()
    assert (said["status"], said["pools"]) == ("ok", {"trouble": 1})


def test_a_pool_that_can_not_be_looked_at_is_trouble(workspace, health, monkeypatch, caplog):
    """Whatever goes wrong; a request for it gets an answer."""

    def fails(_):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(OpenProject, "problem", fails)
    new_project(workspace)
    assert health.look()["pools"] == {"trouble": 1}
    assert "no such thing" in caplog.text


def _impatient(project: OpenProject) -> None:
    """Connections made from now on wait a tenth of a second for a lock."""
    database = project.database
    database._engine.dispose()
    assert isinstance(database.place, LabelFile)
    database._engine = database.place.engine(read_only=False, busy_timeout=0.1)
