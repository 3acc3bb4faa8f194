from __future__ import annotations

import sys
from pathlib import Path

import pytest

from closecall.app.api.cards import card_of
from closecall.app.projects.roles import Person
from closecall.app.runtime import child
from closecall.app.sessions.new_project import NewProject
from closecall.core.errors import InputError
from tests.projects import open_workspace


def test_a_build_that_has_stopped_is_continued_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By an owner, without a new start of the server; a second press starts no second process."""
    ways = ["raise SystemExit('Error: the disk is full')", "import time; time.sleep(600)"]
    monkeypatch.setattr(child, "command", lambda *_, **__: [sys.executable, "-c", ways.pop(0)])
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(workspace.create(NewProject("digits:100", "Is this a 7?")))
        assert project.builder is not None
        assert project.builder._process is not None
        project.builder._process.wait(60)
        assert project.is_build_stopped()
        assert project.problem() == "The pool could not be built: the disk is full"
        assert card_of(project.session())["waiting"]["stopped"]
        assert [summary.subtitle for summary in workspace.projects()] == ["No items are prepared yet"]
        with pytest.raises(InputError, match="owner"):
            project.continue_build(by=Person("bob"))
        assert project.is_build_stopped()
        for _ in range(2):
            project.continue_build(by=Person("ada", is_owner=True))
        assert ways == []
        assert not project.is_build_stopped()
        assert project.problem() is None
        assert not card_of(project.session())["waiting"]["stopped"]
        assert [summary.subtitle for summary in workspace.projects()] == ["The pool is being built"]
