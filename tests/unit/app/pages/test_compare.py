"""The race that the Compare page shows."""

from __future__ import annotations

from closecall.app.api.compare import lanes
from closecall.app.pages import compare
from tests.projects import new_project, open_workspace, wait_for_index


def test_a_race_lacks_no_strategy_whose_index_becomes_ready_between_two_looks(tmp_path, monkeypatch):
    """Either the race waits for it, or it takes part."""
    names = ["random", "exhaustive"]
    monkeypatch.setattr(lanes, "COMPARED", tuple(names))
    monkeypatch.setattr(compare, "state", {"kept race-first": 2})
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session(project.log.start_session(1, "ada", "random", seed=5).id)
        for name in names:
            project.indexes.want(name)
            wait_for_index(project, name)
        indexed, looks = project.indexes.indexed, []

        def late(word):
            looks.append(word)
            return None if word == "exhaustive" and looks.count(word) == 1 else indexed(word)

        monkeypatch.setattr(project.indexes, "indexed", late)
        assert compare.race_of(session, again=False) is None
        race = compare.race_of(session, again=False)
        assert race is not None
        assert race.words == names
