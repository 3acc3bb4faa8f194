from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from tests.browser.labeling import Labeling
from tests.browser.served import free_port
from tests.browser.sitting import ServedProject, Sitting, is_sound, run, truth_of
from tests.scale import scaled


@pytest.mark.thorough  # of each alone: test_labeling, test_connection, test_resuming
def test_a_sitting_with_everything_that_can_happen(tmp_path: Path, browser: Browser) -> None:
    """Bursts, undo, corrections, strategies, reload, kill -9: each answer is stored once, rightly."""
    data = tmp_path / "projects"
    with Workspace(data) as workspace:
        workspace.create(NewProject("digits:1500", "Is this a 7?"), key=ServedProject.key)
    server = ServedProject(data, items=0, port=free_port())
    server.start()
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    labeling = Labeling(page, f"{server.url}/?project={server.key}")
    found = run(Sitting(server, labeling, truth_of(server, "7")), answers=scaled(quick=40, all=40, long=400))
    server.stop()
    assert is_sound(found), str(found)
