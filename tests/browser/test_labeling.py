from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect

from closecall.core.pool.pool import Pool
from tests.browser.double_click import double_click
from tests.browser.labeling import FIRST_MS, Labeling, at_rest
from tests.browser.served import Server

WATCH_PLACES = """
    window.places = { all: new Set(), whileGrowing: new Set() };
    const note = () => {
        const host = document.querySelector('[data-testid=stBidiComponentIsolated]');
        const top = host?.shadowRoot.querySelector('.frame')?.getBoundingClientRect().top;
        if (top !== undefined) places.all.add(top);
        if (document.querySelector('.st-key-growth')) places.whileGrowing.add(top);
        requestAnimationFrame(note);
    };
    note();
"""
"""Notes in each frame where the top of the image is, and where it is while something is being built."""


def test_every_answer_is_stored_on_the_item_whose_pixels_were_painted(
    server: Server, labeling: Labeling
) -> None:
    """Thirty answers by keyboard and mouse; the screen shows the source's own rendering of the id stored."""
    source = Pool.open(server.pool).source
    keys = {"y": "yes", "n": "no", "s": "skip", "m": "unsure", "ArrowLeft": "no", "ArrowRight": "yes"}
    given = []
    for turn in range(30):
        item = labeling.item
        if turn % 3 == 0:
            assert likeness(labeling.painted(), source.image(item, 200)) > 0.95
        key, answer = list(keys.items())[turn % len(keys)]
        if turn % 5 == 0:
            labeling.click(answer)
        else:
            labeling.press(key)
        given.append((item, answer))
    stored = server.answers(labeling.session)
    assert [(row["item"], row["answer"]) for row in stored] == given
    assert all(row["item"] == row["shown"] for row in stored)


@pytest.mark.thorough
def test_a_payload_that_comes_while_the_modules_load_leaves_the_keys_working(
    server: Server, context: BrowserContext
) -> None:
    """On a slow connection, somebody picks another strategy before the card has loaded."""
    page, held = context.new_page(), []
    page.route("**/label/card.js", lambda route: held.append(route))
    with page.expect_request("**/label/card.js", timeout=FIRST_MS):
        page.goto(f"{server.url}/?project=digits&session=new")
    page.get_by_role("button", name="Strategy:").click()
    page.get_by_test_id("stPopoverBody").get_by_text("Random", exact=True).click()
    while len(chosen := selections(server, page)) < 2:  # the script doesn't run yet just after the pick
        page.wait_for_timeout(50)
    at_rest(page)
    page.evaluate("document.activeElement.blur()")  # a field would have the keys
    for route in held:
        route.continue_()
    expect(page.locator(".card")).to_have_attribute("data-painted-selection", chosen[-1], timeout=30_000)
    expect(page.locator(".card")).to_have_attribute("data-answerable", "true")
    page.keyboard.press("y")
    expect(page.locator(".strip img")).to_have_count(1)


def selections(server: Server, page: Page) -> list[str]:
    """What was chosen for the page's session, oldest first."""
    (session,) = parse_qs(urlsplit(page.url).query)["session"]
    query = "SELECT id FROM selections WHERE session_id = ? ORDER BY seq"
    with closing(sqlite3.connect(f"file:{server.database}?mode=ro", uri=True)) as log:
        return [name for (name,) in log.execute(query, (session,))]


def test_a_burst_answers_each_painted_item_once(server: Server, labeling: Labeling) -> None:
    """Twenty presses 20 ms apart: an answer for each press that met a painted image, none for the others."""
    for _ in range(20):
        labeling.page.keyboard.press("n")
        labeling.page.wait_for_timeout(20)
    labeling.wait()
    met = [int(item) for _, item, answerable in labeling.presses() if answerable == "true"]
    stored = server.answers(labeling.session)
    assert [row["item"] for row in stored] == met
    assert len({row["selection_id"] for row in stored}) == len(stored) >= 1
    assert all(row["item"] == row["shown"] for row in stored)


def test_a_held_key_answers_once(server: Server, labeling: Labeling) -> None:
    """What the keyboard repeats is no answer."""
    for _ in range(30):
        labeling.page.keyboard.down("y")
        labeling.page.wait_for_timeout(10)
    labeling.page.keyboard.up("y")
    labeling.wait()
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes"]


@pytest.mark.thorough
def test_a_held_enter_on_a_button_answers_once(server: Server, labeling: Labeling) -> None:
    """Nor is Enter, held on a button that has the focus."""
    labeling.page.locator("[data-answer=no]").focus()
    for _ in range(30):
        labeling.page.keyboard.down("Enter")
        labeling.page.wait_for_timeout(10)
    labeling.page.keyboard.up("Enter")
    labeling.wait()
    assert [row["answer"] for row in server.answers(labeling.session)] == ["no"]


def test_a_double_click_answers_once(server: Server, labeling: Labeling) -> None:
    """The second click of a double click does not fall on the next image."""
    double_click(labeling.page.locator("[data-answer=yes]"))
    labeling.wait()
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes"]


def test_undo_takes_back_the_last_answer_and_shows_its_item_again(server: Server, labeling: Labeling) -> None:
    """The undone item is painted again, and its next answer counts."""
    labeling.press("n")
    mistaken = labeling.item
    labeling.press("y")
    labeling.press("u")
    assert labeling.item == mistaken
    labeling.press("n")
    stored = server.answers(labeling.session)
    assert [row["answer"] for row in stored] == ["no", "yes", "undo", "no"]
    assert stored[2]["undoes"] == stored[1]["id"]
    assert stored[3]["item"] == mistaken


def test_an_answer_can_be_corrected_by_mouse_and_by_keyboard(server: Server, labeling: Labeling) -> None:
    """A click on a thumbnail offers the other answers; what is in view stays."""
    labeling.press("n")
    labeling.press("n")
    in_view = labeling.selection
    labeling.page.locator(".thumb").nth(-2).click()
    labeling.page.locator("[data-correct=yes]").click()
    labeling.wait()
    labeling.page.locator(".thumb").last.focus()
    labeling.page.keyboard.press("Enter")
    labeling.page.keyboard.press("s")
    labeling.wait()
    stored = server.answers(labeling.session)
    assert [row["answer"] for row in stored] == ["no", "no", "yes", "skip"]
    assert [row["corrects"] for row in stored] == [None, None, stored[0]["id"], stored[1]["id"]]
    assert [row["item"] for row in stored[2:]] == [row["item"] for row in stored[:2]]
    assert labeling.selection == in_view
    expect(labeling.page.locator(".thumb").last).to_have_attribute("data-given", "skip")


def test_undo_takes_back_what_was_done_last_a_correction_included(server: Server, labeling: Labeling) -> None:
    """First the correction of an earlier answer, then the last answer, then the earlier one."""
    labeling.press("n")
    labeling.press("s")
    thumbs = labeling.page.locator(".thumb")
    thumbs.first.click()
    labeling.page.locator("[data-correct=yes]").click()
    labeling.wait()
    in_view = labeling.selection
    labeling.press("u")
    expect(thumbs.first).to_have_attribute("data-given", "no")
    assert labeling.selection == in_view
    labeling.press("u")
    labeling.press("u")
    first, last, correction, *undone = server.answers(labeling.session)
    assert [first["answer"], last["answer"], correction["answer"]] == ["no", "skip", "yes"]
    assert [row["undoes"] for row in undone] == [correction["id"], last["id"], first["id"]]


def test_keys_that_are_typed_into_fields_answer_nothing(server: Server, labeling: Labeling) -> None:
    """A question with a y, an n and an s in it is only a question; why one is refused widens no panel, and an
    empty one is refused, too.

    What is typed right after the key that opens the search is a search, although its field is not there yet.
    """
    page = labeling.page
    page.get_by_role("button", name="Settings").click()
    field, panel = (
        page.get_by_label("Another question about these items"),
        page.get_by_test_id("stPopoverBody"),
    )
    page.get_by_role("button", name="Add and label").click()
    expect(panel).to_contain_text("Write the question first.")
    before = panel.bounding_box()
    field.fill("Is this a 7?")
    page.get_by_role("button", name="Add and label").click()
    expect(panel.get_by_role("alert")).to_contain_text("already")
    after = panel.bounding_box()
    assert before
    assert after
    assert after["width"] == before["width"]
    field.press_sequentially("Any sunny day?")
    page.keyboard.press("Escape")
    labeling.press("y")
    page.keyboard.type("/nosy 4")
    expect(page.get_by_role("searchbox")).to_have_value("nosy 4")
    page.get_by_role("button", name="End search").click()
    expect(page.locator(".card.grid")).to_have_count(0, timeout=30_000)
    labeling.wait()
    labeling.press("n")
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes", "no"]


@pytest.mark.thorough
def test_other_keys_answer_nothing(server: Server, labeling: Labeling) -> None:
    """Shortcuts of the browser and other letters are not ours."""
    for key in ("Control+y", "Alt+n", "Meta+s", "q"):
        labeling.page.keyboard.press(key)
        labeling.page.wait_for_timeout(100)
    labeling.press("y")
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes"]


@pytest.mark.thorough
def test_the_strategy_can_be_changed_and_the_keys_go_on(server: Server, labeling: Labeling) -> None:
    """The picker gives the keyboard back to the card; the notes name the new strategy."""
    labeling.press("y")
    labeling.press("n")
    labeling.pick_strategy("Exhaustive")
    expect(labeling.page.locator(".chosen")).to_contain_text(re.compile("Exhaustive|audit"))
    labeling.press("y")
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes", "no", "yes"]


@pytest.mark.thorough
def test_the_papers_methods_and_the_weighted_forms_can_be_picked(labeling: Labeling) -> None:
    """Each by its own name, with a line that says what it selects by."""
    labeling.page.get_by_role("button", name="Strategy: ").click()
    for method in ("H-Hash", "EH-Hash", "BH-Hash", "LBH-Hash"):
        for name in (method, f"{method}, weighted"):
            expect(labeling.page.get_by_role("radio", name=name, exact=True)).to_be_visible()


@pytest.mark.thorough
def test_a_strategy_may_be_picked_before_its_index_is_there(server: Server, labeling: Labeling) -> None:
    """Until then another stands in and says so; the page goes on without an error when the index is ready."""
    labeling.press("y")
    labeling.press("n")
    labeling.pick_strategy("BH-Hash, weighted")
    for turn in range(60):
        labeling.press("y" if turn % 2 else "n")
        if "BH-Hash, weighted" in labeling.page.locator(".chosen").inner_text():
            break
    expect(labeling.page.locator(".st-key-growth")).to_have_count(0, timeout=FIRST_MS)
    expect(labeling.page.get_by_role("button", name="Strategy: BH-Hash, weighted")).to_be_visible()
    expect(labeling.page.get_by_test_id("stException")).to_have_count(0)


@pytest.mark.thorough
def test_the_image_stays_in_its_place_while_an_index_is_built(labeling: Labeling) -> None:
    """How far the index is takes the room that is left beside the buttons, and moves nothing."""
    labeling.page.set_viewport_size({"width": 1440, "height": 900})
    labeling.press("y")
    labeling.press("n")
    labeling.page.evaluate(WATCH_PLACES)
    labeling.pick_strategy("LBH-Hash, weighted")
    labeling.page.wait_for_function("places.whileGrowing.size > 0")
    expect(labeling.page.locator(".st-key-growth")).to_have_count(0, timeout=FIRST_MS)
    assert len(labeling.page.evaluate("[...places.all]")) == 1


@pytest.mark.thorough
def test_a_question_is_text_and_never_markup(server: Server, labeling: Labeling) -> None:
    """Whatever somebody calls a concept, nothing of it is run."""
    nasty = "Is it <img src=x onerror=\"document.title='run'\"> or **bold**?"
    labeling.page.get_by_role("button", name="Settings").click()
    labeling.page.get_by_label("Another question about these items").fill(nasty)
    labeling.page.get_by_role("button", name="Add and label").click()
    expect(labeling.page.locator(".question", has_text="onerror")).to_have_text(nasty)
    expect(labeling.page.get_by_test_id("stPopoverBody")).to_have_count(0)  # nothing covers the image
    expect(labeling.card).to_have_count(1)
    labeling.wait()
    labeling.page.goto(f"{server.url}/projects")
    expect(labeling.page.get_by_role("heading", name="Projects")).to_be_visible()
    assert labeling.page.title() != "run"


def likeness(painted: Image.Image, drawn: Image.Image) -> float:
    """Correlation of two images at 32 × 32 grey values."""
    a, b = (
        np.asarray(i.convert("L").resize((32, 32), Image.Resampling.BOX), float).ravel()
        for i in (painted, drawn)
    )
    return float(np.corrcoef(a, b)[0, 1])
