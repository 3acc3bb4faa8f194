from __future__ import annotations

from types import SimpleNamespace

import pytest

from closecall.app.pages import chosen
from closecall.app.projects.roles import Roles
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from tests.projects import new_project, open_workspace


@pytest.fixture
def project(tmp_path):
    with open_workspace(tmp_path / "projects") as workspace:
        yield new_project(workspace)


@pytest.fixture
def tab(monkeypatch):
    """A browser tab: what its address says, and what the server remembers of it."""
    made = SimpleNamespace(query_params={}, session_state={})
    monkeypatch.setattr(chosen, "st", made)
    monkeypatch.setattr(chosen, "state", made.session_state)
    return made


def test_a_new_session_is_asked_for_once(project, tab):
    """The browser says again that it wants one as long as it does not know the new address."""
    tab.query_params["session"] = "new"
    first = chosen.chosen_session(project)
    assert tab.query_params["session"] == first.id
    tab.query_params["session"] = "new"
    assert chosen.chosen_session(project) is first
    assert tab.query_params["session"] == first.id
    assert len(project.log.sessions(first.concept.record.id)) == 1


def test_once_the_browser_knows_its_session_another_can_be_asked_for(project, tab):
    """And one of before."""
    tab.query_params["session"] = "new"
    first = chosen.chosen_session(project)
    assert chosen.chosen_session(project) is first
    tab.query_params["session"] = "new"
    second = chosen.chosen_session(project)
    assert second is not first
    assert chosen.chosen_session(project) is second
    tab.query_params["session"] = first.id
    assert chosen.chosen_session(project) is first


def test_the_address_decides_which_question_is_asked(project, tab):
    """Even if another question was chosen in this tab: the browser may have gone back."""
    first = chosen.chosen_session(project)
    tab.session_state["concept", project.key] = project.add_concept("Is this a 3?").id
    assert chosen.chosen_session(project) is first
    del tab.query_params["session"]
    assert chosen.chosen_session(project).concept.record.question == "Is this a 3?"


def test_a_project_of_others_is_refused(tmp_path, tab, monkeypatch):
    """Its pages, and so the keys of its maps and races, are for those who may enter."""
    with Workspace(tmp_path, roles=Roles.of(["ada"], ["bob"])) as workspace:
        project = new_project(workspace)
        tab.query_params["project"] = project.key
        for name in ("ada", "bob"):
            monkeypatch.setattr(chosen, "name_at_page", lambda name=name: name)
            assert chosen.chosen_project() is project
        monkeypatch.setattr(chosen, "name_at_page", lambda: "eve")
        with pytest.raises(InputError, match="'eve' has no access to this project"):
            chosen.chosen_project()


def test_who_may_not_enter_opens_nothing(tmp_path, tab, monkeypatch):
    """A project takes its lock, and may start to build its pool, once it is opened."""
    with Workspace(tmp_path) as workspace:
        key = new_project(workspace).key
    with Workspace(tmp_path, roles=Roles.of(["ada"], ["bob"])) as workspace:
        tab.query_params["project"] = key
        monkeypatch.setattr(chosen, "name_at_page", lambda: "eve")
        with pytest.raises(InputError, match="'eve' has no access to this project"):
            chosen.chosen_project()
        assert workspace.opened() == []
        monkeypatch.setattr(chosen, "name_at_page", lambda: "bob")
        assert [chosen.chosen_project()] == workspace.opened()
