"""A database that another program holds for ten seconds: the page says so, and goes on by itself."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, expect

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.browser.labeling import Labeling
from tests.browser.served import Server, move_beside

LOCKED_SECONDS = 10


@pytest.mark.thorough
def test_a_database_that_is_locked_for_ten_seconds(server: Server, labeling: Labeling) -> None:
    """What is answered meanwhile waits in the browser, with the reason in sight, and is stored once each."""
    labeling.wait_for_what_follows()
    said = []
    with closing(sqlite3.connect(server.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for key in "yn":  # what follows the first one came ahead
            expect(labeling.card).to_have_attribute("data-answerable", "true")
            said.append(labeling.item)
            labeling.page.keyboard.press(key)
        status = labeling.page.locator(".card .status")
        expect(status).to_have_text(
            re.compile("locked by another program.*waits? in this browser"), timeout=30_000
        )
        assert server.answers(labeling.session) == []
        labeling.page.wait_for_timeout(1000 * LOCKED_SECONDS)
        other.execute("ROLLBACK")
    labeling.wait_until_saved()
    labeling.wait()
    stored = server.answers(labeling.session)
    assert [(row["item"], row["answer"]) for row in stored] == [(said[0], "yes"), (said[1], "no")]
    expect(status).not_to_contain_text("locked")
    labeling.press("n")
    assert len(server.answers(labeling.session)) == 3


@pytest.mark.thorough
def test_a_file_that_changed_is_what_the_pages_speak_of(
    server: Server, context: BrowserContext, tmp_path: Path
) -> None:
    """The whole sentence can be read, and no other reason is given."""
    file, rng = tmp_path / "v.npy", np.random.default_rng(0)
    np.save(file, rng.standard_normal((60, 4)))
    build(source_from(f"vectors:{file}"), tmp_path / "pool")
    with Workspace(tmp_path / "projects") as workspace:
        workspace.create(NewProject(str(tmp_path / "pool"), "Is it a corner?"), key="vectors")
    np.save(file, rng.standard_normal((60, 4)))
    url = move_beside(tmp_path / "projects" / "vectors", "vectors", server).url
    page = context.new_page()
    for view in ("review", ""):
        page.goto(f"{url}/{view}?project=vectors")
        problem = page.get_by_text("v.npy has changed since the pool was made: put")
        expect(problem).to_be_visible(timeout=30_000)
        said, picker = problem.bounding_box(), page.locator("[class*=st-key-question-]").bounding_box()
        assert said
        assert picker
        assert picker["y"] + picker["height"] <= said["y"]
    expect(page.locator(".st-key-offer-plain")).to_be_hidden()
    assert page.locator(".st-key-offer-plain").evaluate("e => getComputedStyle(e).display") == "none"
