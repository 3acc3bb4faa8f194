"""The strategies that the Compare page has, and those that it doesn't have yet."""

from __future__ import annotations

import pytest

from closecall.app.api.compare import lanes
from closecall.app.api.compare.lanes import Compared
from tests.projects import new_project, open_workspace, wait_for_index


@pytest.fixture
def compared(tmp_path, monkeypatch):
    monkeypatch.setattr(lanes, "COMPARED", ("random", "exhaustive"))
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session(project.log.start_session(1, "ada", "random", seed=5).id)
        made = Compared(session)
        made.ready()
        for word in made.words:
            wait_for_index(project, word)
        yield made


def test_a_race_says_which_strategies_it_lacks(compared, monkeypatch):
    """Those that the next one will have, and why the others are left out."""
    assert compared.absent(compared.words) == ""
    assert compared.absent(["random"]) == "The next race will include Exhaustive."
    monkeypatch.setattr(compared, "failures", lambda: {"exhaustive": "The pool has too few items."})
    assert compared.absent(["random"]) == "Exhaustive is left out: The pool has too few items."
