"""A database that another program holds for ten seconds: the page says so, and goes on by itself."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server

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
            re.compile("locked by another program.*kept in this browser"), timeout=30_000
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
