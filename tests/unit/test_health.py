"""What whoever watches over the server is told."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from app.health import Health
from app.project import Project
from storage import StorageError
from storage.place import LabelFile
from tests.projects import answer, new_project, open_workspace


@pytest.fixture
def workspace(tmp_path):
    with open_workspace(tmp_path) as workspace:
        yield workspace


@pytest.fixture
def health(workspace, monkeypatch) -> Health:
    """One that looks anew each time."""
    monkeypatch.setattr("app.health.FRESH_SECONDS", 0.0)
    return Health(workspace)


def test_all_is_well(workspace, health):
    """Counts and kinds, and nothing that names a project, a person, a place or a question."""
    project = new_project(workspace, "Is this a 7, my secret question?")
    project.session(annotator="ada")
    said = health.look()
    assert said["status"] == "ok"
    assert (said["projects"], said["databases"], said["pools"]) == (1, {"ok": 1}, {"complete": 1})
    assert set(said) == {"status", "version", "projects", "databases", "pools", "uptime_seconds"}
    for word in ("secret", "ada", project.key, str(project.folder), "labels.db"):
        assert word not in str(said)


def test_a_database_that_is_locked_is_said_until_it_is_not(workspace, health, monkeypatch):
    """By the first answer that could not be stored; and all is well as soon as one could be."""
    project = new_project(workspace)
    monkeypatch.setattr(project.database, "_busy_timeout", 0.1)
    session = project.session()
    given = answer(session.card(), "yes")
    with closing(sqlite3.connect(project.folder / "labels.db", isolation_level=None)) as other:
        _impatient(project)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError):
            session.submit([given])
        said = health.look()
        assert (said["status"], said["databases"]) == ("trouble", {"locked": 1})
        other.execute("ROLLBACK")
    assert health.look()["status"] == "ok"
    assert session.submit([given])["acked"] == [given["id"]]


def test_a_full_disk_is_said_until_an_answer_finds_room(workspace, health):
    """Asking writes nothing, so it can't tell."""
    database = new_project(workspace).database
    database._trouble = StorageError("the disk is full", "full")
    assert health.look()["databases"] == {"full": 1}
    with database.write():
        pass
    assert health.look()["databases"] == {"ok": 1}


def test_a_database_that_does_not_answer_is_unreachable(workspace, health, monkeypatch):
    """Nobody waits for long."""
    import threading

    hangs = threading.Event()
    monkeypatch.setattr("app.health.PATIENCE_SECONDS", 0.05)
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
    monkeypatch.setattr("app.health.FRESH_SECONDS", 60.0)
    health = Health(workspace)
    for _ in range(5):
        health.look()
    assert len(asked) == 1


def test_a_pool_that_can_t_be_built_is_trouble_of_the_pool_s(workspace, health, monkeypatch):
    """Labels can be stored all the same."""
    monkeypatch.setattr(Project, "problem", lambda _: "The pool could not be built")
    new_project(workspace)
    said = health.look()
    assert (said["status"], said["pools"]) == ("ok", {"trouble": 1})


def _impatient(project: Project) -> None:
    """Connections made from now on wait a tenth of a second for a lock."""
    database = project.database
    database._engine.dispose()
    assert isinstance(database.place, LabelFile)
    database._engine = database.place.engine(read_only=False, busy_timeout=0.1)
