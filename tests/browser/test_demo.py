"""For an audience: the autopilot, the check against a full scan, and the fresh start."""

from __future__ import annotations

import re
import sqlite3
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.browser.kills import LONGEST_RETURN_MS
from tests.browser.labeling import Labeling
from tests.browser.served import Server
from tests.browser.sitting import truth_of
from tests.scale import thorough

FASTEST = "6"
"""The slider's last step: twenty answers a second."""


def sessions(server: Server) -> dict[str, tuple[str, str]]:
    """Annotator and concept of each session."""
    query = "SELECT s.id, s.annotator, c.name FROM sessions s JOIN concepts c ON c.id = s.concept_id"
    with sqlite3.connect(f"file:{server.database}?mode=ro", uri=True) as connection:
        return {name: (annotator, concept) for name, annotator, concept in connection.execute(query)}


def session_of(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["session"][0]


def choose(page: Page, button: str, **exactly: Any) -> None:
    """Press a button of the menu for demos, which is opened if need be; another session follows."""
    before = session_of(page)
    if not page.get_by_test_id("stPopoverBody").is_visible():
        page.get_by_role("button", name="Demo").click()
    # By keyboard: a menu that is still being filled may move between pressing the mouse and letting go.
    page.get_by_role("button", name=button, **exactly).press("Enter")
    page.wait_for_function("before => !location.search.includes(before)", arg=before)
    # Until this session's data is here, the card of the session before may be in view.
    page.locator(f'.card[data-session="{session_of(page)}"]').wait_for()
    expect(page.locator(".card")).to_have_count(1, timeout=30_000)


@pytest.fixture
def flying(labeling: Labeling) -> Labeling:
    """The autopilot's session, paused; it has answered until there is a hyperplane."""
    choose(labeling.page, "Watch the autopilot")
    expect(labeling.card).to_have_attribute("data-autopilot", "paused")
    labeling.wait()
    return labeling


def run(flying: Labeling, answers: int) -> None:
    """Let it answer at least so many items at its fastest, and pause."""
    before = left(flying)
    flying.page.locator(".autopilot input").fill(FASTEST)
    flying.page.get_by_role("button", name="Run").click()
    flying.page.wait_for_function(
        """([before, n]) => {
            const card = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
            return before - Number(card.querySelector('.counts .left b').textContent.replace(/,/g, '')) >= n;
        }""",
        arg=[before, answers],
        timeout=120_000,
    )
    flying.page.get_by_role("button", name="Pause").click()
    flying.wait()


def run_to_a_hyperplane(flying: Labeling) -> None:
    """Let it answer until there is a yes and a no, however many random items that takes."""
    check = flying.page.get_by_role("button", name="Check against a full scan")
    while not check.is_visible():
        run(flying, 4)


def left(labeling: Labeling) -> int:
    return int(labeling.page.locator(".counts .left b").inner_text().replace(",", ""))


def test_the_autopilot_answers_by_the_truth_and_under_its_own_name(server: Server, flying: Labeling) -> None:
    """Each answer is stored on the item that was painted, and none among people's labels."""
    run(flying, 12)
    stored, truth = server.answers(flying.session), truth_of(server, "7")
    assert len(stored) >= 12
    assert [row["answer"] for row in stored] == [truth(row["item"]) for row in stored]
    assert all(row["item"] == row["shown"] for row in stored)
    assert len({row["item"] for row in stored}) == len(stored)
    annotator, concept = sessions(server)[flying.session]
    assert annotator == "autopilot"
    assert {who for who, name in sessions(server).values() if name == concept} == {"autopilot"}


@pytest.mark.thorough
def test_a_step_is_one_answer_and_a_pause_is_none(server: Server, flying: Labeling) -> None:
    """By mouse and by keyboard."""
    before = len(server.answers(flying.session))
    flying.page.get_by_role("button", name="Step").click()
    flying.wait()
    flying.page.keyboard.press(".")
    flying.wait()
    assert len(server.answers(flying.session)) == before + 2
    flying.page.keyboard.press("p")
    expect(flying.card).to_have_attribute("data-autopilot", "running")
    flying.page.keyboard.press("p")
    expect(flying.card).to_have_attribute("data-autopilot", "paused")
    flying.wait()
    paused = len(server.answers(flying.session))
    flying.page.wait_for_timeout(1200)
    assert len(server.answers(flying.session)) == paused


@pytest.mark.thorough
def test_people_answer_nothing_in_its_place(server: Server, flying: Labeling) -> None:
    """Neither with keys nor with buttons: what is stored as the autopilot's is the truth."""
    before, selection = len(server.answers(flying.session)), flying.selection
    for key in ["y", "n", "s", "m", "u", "ArrowLeft", "Backspace"]:
        flying.page.keyboard.press(key)
    flying.page.locator("[data-answer=yes]").click(force=True, no_wait_after=True)
    flying.page.wait_for_timeout(300)
    flying.wait()
    assert flying.selection == selection
    assert len(server.answers(flying.session)) == before


def test_the_autopilots_answers_look_as_unusable_as_they_are(labeling: Labeling) -> None:
    """And a person's own look usable again."""
    page = labeling.page
    buttons = page.locator(".card :is([data-answer], [data-undo])")
    labeling.press("y")
    states = "buttons => buttons.map((b) => [b.ariaDisabled, b.inert, getComputedStyle(b).opacity])"
    usable = buttons.evaluate_all(states)
    assert usable == [["false", False, "1"]] * 5
    choose(page, "Watch the autopilot")
    labeling.wait()
    page.get_by_role("button", name="Step").click()
    labeling.wait()
    expect(page.locator(".card .pressed")).to_have_count(0)
    assert buttons.evaluate_all(states) == [["true", True, "0.5"]] * 5
    for place, button in [(".answers", buttons.first), (".tools", page.locator("[data-undo]"))]:
        box = button.bounding_box()
        assert box
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        # The button takes no mouse, so that what is below it says why.
        expect(page.locator(f"{place}:hover")).to_have_attribute(
            "title",
            "The autopilot answers here. To answer yourself, choose “Label by hand again” in the menu Demo.",
        )
    choose(page, "Label by hand again")
    labeling.wait()
    assert buttons.evaluate_all(states) == [["false", False, "1"]] * 5
    expect(page.locator(".answers")).to_have_attribute("title", "")


@pytest.mark.thorough
def test_it_stops_when_the_page_is_closed(server: Server, flying: Labeling) -> None:
    """Nothing answers where nobody looks; opened again it is paused, where it was."""
    run(flying, 3)
    url, session = flying.page.url, flying.session
    flying.page.keyboard.press("p")
    flying.page.wait_for_timeout(300)
    context = flying.page.context
    flying.page.close()
    page = context.new_page()
    stored = [len(server.answers(session))]
    while len(stored) < 2 or stored[-1] > stored[-2]:  # what was on its way may still come
        assert len(stored) < 10, stored
        page.wait_for_timeout(1000)
        stored.append(len(server.answers(session)))
    again = Labeling(page, url)
    expect(again.card).to_have_attribute("data-autopilot", "paused")
    assert again.session == session


@pytest.mark.thorough
def test_it_waits_for_a_dead_server_and_goes_on(server: Server, flying: Labeling) -> None:
    """Kill −9 in the middle of a run: what was given is stored once, and still the truth."""
    run(flying, 4)
    session = flying.session
    flying.page.keyboard.press("p")
    flying.page.wait_for_timeout(700)
    server.kill()
    # It waits for the next image or, if it has that already, for what to say about it.
    expect(flying.page.locator(".status", has_text="No connection to the server")).to_be_visible()
    queued = flying.page.evaluate("Object.keys(localStorage).map((key) => key.split('/').at(-1))")
    given = {row["id"] for row in server.answers(session)} | {key for key in queued if len(key) == 36}
    server.start()
    expect(flying.card).not_to_have_attribute("data-waiting", "", timeout=LONGEST_RETURN_MS)
    flying.wait_until_saved()
    if flying.card.get_attribute("data-autopilot") == "running":
        flying.page.keyboard.press("p")
    flying.wait()
    stored, truth = server.answers(session), truth_of(server, "7")
    assert len(given) >= 4
    assert given <= {row["id"] for row in stored}
    assert len({row["selection_id"] for row in stored}) == len(stored)
    assert [row["answer"] for row in stored] == [truth(row["item"]) for row in stored]


@pytest.mark.thorough
def test_it_goes_on_with_peoples_labels_if_they_ask(server: Server, labeling: Labeling) -> None:
    """Then its answers join theirs, in a session of its own; and by hand one goes on where one was.

    Unless the autopilot has the item in view by then, or may show it next.
    """
    labeling.press("y")
    mine, item = labeling.session, labeling.item
    labeling.page.get_by_role("button", name="Demo").click()
    labeling.page.get_by_text("Add its answers to the labels here").click()
    expect(labeling.page.get_by_label("Add its answers to the labels here")).to_be_checked()
    choose(labeling.page, "Watch the autopilot")
    expect(labeling.card).to_have_attribute("data-autopilot", "paused")
    labeling.wait()
    assert sessions(server)[labeling.session] == ("autopilot", sessions(server)[mine][1])
    labeling.page.get_by_role("button", name="Step").click()
    labeling.wait()
    assert [row["item"] for row in server.answers(labeling.session)] != [item]
    choose(labeling.page, "Label by hand again")
    labeling.wait()
    assert labeling.session == mine
    assert labeling.item == item or item in server.leased_to_others(mine)
    labeling.press("n")
    assert [row["answer"] for row in server.answers(mine)] == ["yes", "no"]


@pytest.mark.thorough
def test_what_is_in_view_is_checked_against_a_full_scan(flying: Labeling) -> None:
    """The note is about the number in view, and about no other item."""
    run_to_a_hyperplane(flying)
    margin = flying.page.locator(".rows .value").nth(1).inner_text()
    flying.page.get_by_role("button", name="Check against a full scan").click()
    note = flying.page.locator(".full-scan .note")
    expect(note).to_contain_text(re.compile(r"Rank [\d,]+: (none|[\d,]+) of [\d,]+ items (is|are) nearer\."))
    expect(note).to_contain_text(re.compile(rf"is {margin}, (the best there is|the best is 0\.\d+)\."))
    expect(note).to_contain_text(
        re.compile(r"[\d.]+ ms, a full scan [\d.]+ ms: [\d.,]+ times as (fast|slow)\.")
    )
    if beside := flying.page.locator(".rows .aside").first.inner_text():  # until it is timed, there is none
        assert f"a {beside}" in note.inner_text()
    flying.page.get_by_role("button", name="Step").click()
    flying.wait()
    expect(note).to_be_empty()
    expect(flying.page.get_by_role("button", name="Check against a full scan")).to_be_visible()


@pytest.mark.thorough
def test_a_running_autopilot_holds_still_to_be_checked(flying: Labeling) -> None:
    """What is checked is what stays in view."""
    run_to_a_hyperplane(flying)
    flying.page.get_by_role("button", name="Run").click()
    flying.page.wait_for_timeout(500)
    flying.page.get_by_role("button", name="Check against a full scan").click()
    expect(flying.card).to_have_attribute("data-autopilot", "paused")
    expect(flying.page.locator(".full-scan .note")).to_contain_text("Rank")


@pytest.mark.thorough
def test_starting_afresh_asks_first_and_keeps_everything(server: Server, labeling: Labeling) -> None:
    """No labels are in view, all are in the log, and another window learns of it, and may go on or follow."""
    for key in "ynn":
        labeling.press(key)
    old, url, page = labeling.session, labeling.page.url, labeling.page
    other = Labeling(page.context.new_page(), url)
    assert other.session == old
    said = other.page.locator(".advice")
    expect(said).to_be_empty()
    page.bring_to_front()
    page.get_by_role("button", name="Demo").click()
    page.get_by_role("button", name="Reset for the next audience…").press("Enter")
    page.get_by_role("button", name="Cancel").press("Enter")
    assert labeling.session == old
    page.get_by_role("button", name="Reset for the next audience…").press("Enter")
    choose(page, "Reset", exact=True)
    labeling.wait()
    assert labeling.session != old
    expect(page.locator(".question")).to_have_text(["Is this a 7?"])
    expect(page.locator(".counts .yes b")).to_have_text("0")
    labeling.press("y")
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes"]
    fresh = labeling.session
    other.page.bring_to_front()
    expect(said).to_contain_text("This question was reset.")
    other.press("y")
    assert [row["answer"] for row in server.answers(old)] == ["yes", "no", "no", "yes"]
    link = said.get_by_role("link", name="Go to the new question")
    colours = "link => [link, link.parentElement].map((one) => getComputedStyle(one).color)"
    assert len(set(link.evaluate(colours))) == 1
    link.click()
    expect(other.page.locator(".counts .yes b")).to_have_text("1")
    expect(said).to_be_empty()
    assert sessions(server)[session_of(other.page)][1] == sessions(server)[fresh][1]


@pytest.mark.parametrize("path", ["progress", *map(thorough, ("review", "people", "compare", "similar"))])
def test_other_pages_say_that_their_question_was_reset(server: Server, labeling: Labeling, path: str) -> None:
    """At once, with a button that leads to the new one."""
    labeling.press("y")
    page, old = labeling.page, labeling.session
    other = page.context.new_page()
    other.goto(f"{server.url}/{path}?project=digits&session={old}")
    expect(other.locator(".card")).to_be_visible(timeout=60_000)
    said = other.get_by_text("This question was reset.")
    expect(said).to_have_count(0)
    page.bring_to_front()
    page.get_by_role("button", name="Demo").click()
    page.get_by_role("button", name="Reset for the next audience…").press("Enter")
    choose(page, "Reset", exact=True)
    labeling.wait()
    other.bring_to_front()
    expect(said).to_be_visible(timeout=30_000)
    other.get_by_role("button", name="Go to the new question").click()
    expect(said).to_have_count(0)
    assert sessions(server)[session_of(other)][1] == sessions(server)[labeling.session][1]
