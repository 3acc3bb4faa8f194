from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.kills import LONGEST_RETURN_MS
from tests.browser.labeling import Labeling
from tests.browser.served import Server


@pytest.mark.thorough
def test_a_reload_goes_on_where_the_log_ends(server: Server, labeling: Labeling) -> None:
    """The session is in the address: the same item is in view, the last answers are in the strip."""
    labeling.press("y")
    labeling.press("n")
    session, item = labeling.session, labeling.item
    labeling.page.reload()
    labeling.wait()
    assert (labeling.session, labeling.item) == (session, item)
    labeling.press("s")
    assert [row["answer"] for row in server.answers(session)] == ["yes", "no", "skip"]


def test_an_answer_given_to_a_dead_server_is_stored_once_it_is_back(
    server: Server, labeling: Labeling
) -> None:
    """Kill −9, answers, a restart: the page sends them by itself, and each is stored once.

    The image after the first was here already; for the one after that the card waits.
    """
    labeling.press("y")
    labeling.wait_for_what_follows()
    session, item = labeling.session, labeling.item
    server.kill()
    labeling.page.keyboard.press("n")
    expect(labeling.card).to_have_attribute("data-answerable", "true")
    second = labeling.item
    assert second != item
    expect(labeling.card).to_have_attribute("data-saving", "1")
    expect(labeling.page.locator(".thumb").last).to_have_attribute("data-saving", "true")
    labeling.page.keyboard.press("y")
    expect(labeling.card).to_have_attribute("data-waiting", "")
    for key in "yns":
        labeling.page.keyboard.press(key)
    expect(labeling.card).to_have_attribute("data-saving", "2")
    server.start()
    expect(labeling.card).to_have_attribute("data-saving", "0", timeout=LONGEST_RETURN_MS)
    labeling.wait()
    stored = server.answers(session)
    assert [(row["item"], row["answer"]) for row in stored[1:]] == [(item, "no"), (second, "yes")]
    labeling.press("y")
    assert [row["answer"] for row in server.answers(session)] == ["yes", "no", "yes", "yes"]


@pytest.mark.thorough
def test_a_reload_keeps_what_is_not_saved(server: Server, labeling: Labeling) -> None:
    """An answer and its undo, given while the server is dead, survive the page's reload."""
    labeling.press("n")
    session, item = labeling.session, labeling.item
    server.kill()
    labeling.page.keyboard.press("y")
    labeling.page.keyboard.press("u")
    expect(labeling.card).to_have_attribute("data-saving", "2")
    server.start()
    labeling.page.reload()
    labeling.wait()
    stored = server.answers(session)
    assert [row["answer"] for row in stored] == ["no", "yes", "undo"]
    assert stored[1]["item"] == stored[2]["item"] == item == labeling.item


@pytest.mark.thorough
def test_an_answer_left_over_from_another_session_is_stored(server: Server, labeling: Labeling) -> None:
    """Who comes back by the start page, into a new session, brings along what the old one could not save."""
    labeling.press("n")
    session, item = labeling.session, labeling.item
    server.kill()
    labeling.page.keyboard.press("y")
    expect(labeling.card).to_have_attribute("data-saving", "1")
    server.start()
    labeling.page.goto(f"{server.url}/?project=digits&session=new")
    labeling.wait()
    assert labeling.session != session
    labeling.page.wait_for_function(
        "() => Object.keys(localStorage).every((key) => !key.startsWith('closecall/'))"
    )
    assert [(row["item"], row["answer"]) for row in server.answers(session)][1:] == [(item, "yes")]
