from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pytest
from playwright.sync_api import expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server


@pytest.mark.thorough
def test_the_shares_of_a_mixture_are_adjusted_on_the_page(server: Server, labeling: Labeling) -> None:
    """Two handles cut a line in three; the session keeps them, and a reload shows them again."""
    page = labeling.page
    labeling.pick_strategy("Mixture")
    page.get_by_role("button", name="Settings").click()
    said = page.get_by_text("50 % nearest to the hyperplane, 30 % likely positive, 20 % random")
    expect(said).to_be_visible()
    page.get_by_role("slider").first.press("ArrowLeft")
    page.get_by_role("slider").last.press("ArrowRight")
    said = page.get_by_text("45 % nearest to the hyperplane, 40 % likely positive, 15 % random")
    expect(said).to_be_visible()
    with closing(sqlite3.connect(f"file:{server.database}?mode=ro", uri=True)) as log:
        stored = log.execute("SELECT strategy FROM sessions WHERE id = ?", [labeling.session]).fetchone()
    assert stored == ("mixture:margin=0.45,likely=0.4,random=0.15",)
    page.reload()
    labeling.wait()
    page.get_by_role("button", name="Settings").click()
    expect(said).to_be_visible()


@pytest.mark.thorough
def test_the_card_says_which_part_of_a_mixture_chose(server: Server, labeling: Labeling) -> None:
    """In the margin, as the log has it."""
    page = labeling.page
    for key in "yn":
        labeling.press(key)
    # Until the index is there, a full scan chooses in its place.
    expect(page.locator(".st-key-growth")).to_have_count(0, timeout=60_000)
    labeling.pick_strategy("Mixture")
    told = {}
    chosen = page.locator(".chosen")
    for _ in range(30):
        expect(chosen).to_contain_text(re.compile(r"Mixture chose this item \(|audit"), timeout=30_000)
        labeling.wait()
        if "audit" not in chosen.inner_text():  # which another session may have begun
            told[labeling.selection] = chosen.inner_text()
        if len(told) == 8:
            break
        labeling.press("n")
    with closing(sqlite3.connect(f"file:{server.database}?mode=ro", uri=True)) as log:
        query = "SELECT id, json_extract(parameters, '$.part') FROM selections WHERE session_id = ?"
        parts = dict(log.execute(query, [labeling.session]))
    words = {"margin": "(at the margin)", "likely": "(likely positive)", "random": "(random)"}
    assert all(words[parts[selection]] in said for selection, said in told.items())
    assert len(told) == 8


@pytest.mark.thorough
def test_other_strategies_have_no_shares(labeling: Labeling) -> None:
    """There is nothing to adjust where everything is chosen in one way."""
    labeling.page.get_by_role("button", name="Settings").click()
    expect(labeling.page.get_by_text("Show skipped items again")).to_be_visible()
    expect(labeling.page.get_by_text("Shares of the mixture")).to_have_count(0)
