"""The commands ``closecall webhook``, also while the project is served."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from closecall.app.projects.config import lock_project
from closecall.app.projects.webhooks import sender
from closecall.app.projects.webhooks.deliveries import Pauses
from closecall.app.projects.webhooks.delivery import SIGNATURE
from closecall.app.sessions.workspace import Workspace
from closecall.storage import Database
from closecall.storage.address import with_schema
from tests.projects import labeled, new_project, open_workspace
from tests.storage_kit import make_concept, sit_down
from tests.unit.app.cli.test_main import refused, run
from tests.unit.storage.test_database import schema_was
from tests.waiting import until
from tests.webhook_kit import Receiver, documented_check, receiving

URL = "https://receiver.example/hook?key=1"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def folder(tmp_path):
    """A project that is not served."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        labeled(project, 3)
        return project.folder


def done(*words: object) -> list[str]:
    result = run("webhook", *words)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_a_webhook_is_added_listed_and_removed(folder, tmp_path):
    """Its secret is printed once, and never if it was given."""
    assert done("list", folder) == ["There are no webhooks: closecall webhook add PROJECT URL adds one."]
    said, secret = done("add", folder, URL)
    everything = "label, decision, pool-complete, advice-to-stop of all concepts"
    assert said == f"Webhook 1 sends {everything} to {URL}"
    assert re.fullmatch(r"Its secret, which is shown only now: [\w-]{43}", secret)
    (tmp_path / "secret").write_text("a secret of my own\n")
    words = ("--event", "decision", "--event", "label", "--concept", "Is this a 7", "--from-start")
    (said,) = done("add", folder, URL, *words, "--secret-file", tmp_path / "secret")
    assert said == f"Webhook 2 sends label, decision of 'Is this a 7' to {URL}"
    first, second = done("list", folder)
    assert first == f"1: {everything} to {URL}, nothing sent yet, 0 events not delivered yet"
    assert re.search(r"nothing sent yet, [1-9]\d* events not delivered yet$", second)
    assert done("pause", folder, 2) == ["Webhook 2 is paused."]
    assert ", paused, " in done("list", folder)[1]
    assert done("resume", folder, 2) == ["Webhook 2 is resumed."]
    assert done("remove", folder, 1) == ["Webhook 1 is removed."]
    assert len(done("list", folder)) == 1
    for command in ("remove", "pause", "resume"):
        assert refused("webhook", command, folder, 1) == "there is no webhook 1"


def test_what_is_wrong_is_said_in_one_sentence(folder, tmp_path):
    """And nothing is stored."""
    (tmp_path / "short").write_text("short")
    assert "http" in refused("webhook", "add", folder, "receiver.example")
    assert "16 to 200" in refused("webhook", "add", folder, URL, "--secret-file", tmp_path / "short")
    assert "'nine'" in refused("webhook", "add", folder, URL, "--concept", "nine")
    assert "labels" in refused("webhook", "add", folder, URL, "--event", "labels")
    for command in ("add", "list", "remove"):
        more = {"add": [URL], "list": [], "remove": [1]}[command]
        assert "no project" in refused("webhook", command, tmp_path / "nowhere", *more)
    assert done("list", folder) == ["There are no webhooks: closecall webhook add PROJECT URL adds one."]


def test_a_served_project_sends_to_a_webhook_that_is_added(workspace, receiver, tmp_path, monkeypatch):
    """Soon, with the printed secret; and nothing more to one that is removed or paused."""
    monkeypatch.setattr(sender, "Pauses", lambda: Pauses(gather=0.0, look=0.05, first=0.001, longest=0.01))
    project = new_project(workspace)
    session = labeled(project, 2)
    secret = done("add", project.folder, receiver.url, "--event", "label", "--from-start")[1].split()[-1]
    until(lambda: len(receiver.accepted()) == project.log.position())
    check = documented_check()
    assert all(check(one.headers[SIGNATURE], one.body, secret) for one in receiver.requests)
    until(lambda: "last delivery 20" in done("list", project.folder)[0])
    receiver.decide = lambda: 500
    labeled(project, 1)
    until(lambda: "failed attempts in a row (The receiver answered" in done("list", project.folder)[0])
    done("remove", project.folder, 1)
    until(lambda: not project.store.sender._deliveries)
    assert session.project.problem() is None


def test_labels_in_postgresql(server, receiver, tmp_path, monkeypatch):
    """The command, another process, writes beside the server, which stores answers meanwhile."""
    monkeypatch.setattr(sender, "Pauses", lambda: Pauses(gather=0.0, look=0.05, first=0.001, longest=0.01))
    with Workspace(tmp_path, database=with_schema(server.address, tmp_path.name)) as workspace:
        project = new_project(workspace)
        words = ["webhook", "add", project.folder, receiver.url, "--event", "label", "--from-start"]
        command = subprocess.Popen(
            [sys.executable, "-m", "closecall.app.cli", *map(str, words)], stdout=subprocess.PIPE, text=True
        )
        while command.poll() is None:
            labeled(project, 1)
        assert command.communicate()[0].startswith("Webhook 1 sends label")
        labeled(project, 1)
        until(lambda: len(receiver.accepted()) == project.log.position())
        assert receiver.accepted() == [row.answer.id for row in project.log.log_rows()]
        assert project.problem() is None


def test_an_older_database_is_upgraded_unless_it_is_served(folder, tmp_path):
    """A server of the older version must not find another schema under its feet."""
    path = folder / "labels.db"
    with schema_was("0013", tmp_path), Database.open(path.with_name("old.db"), create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    shutil.move(path.with_name("old.db"), path)
    lock = lock_project(folder)
    try:
        assert "already being served" in refused("webhook", "add", folder, URL)
    finally:
        lock.release()
    assert "older version" in refused("webhook", "list", folder)
    assert done("add", folder, URL)[0].startswith("Webhook 1 sends")
    assert len(list(folder.glob("labels.0013-before-*.backup"))) == 1
