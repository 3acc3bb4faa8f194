"""Classes on the labeling page: one press gives a class, a yes for one concept and a no for the others."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, expect

from closecall.app.sessions.presses import answer_id
from closecall.storage import Archive, Concepts, Database
from tests.browser.double_click import double_click
from tests.browser.labeling import Labeling, resize
from tests.browser.served import Server
from tests.browser.test_accessibility import SCREENS, grave_findings, tab_to
from tests.browser.test_help import check_help_card
from tests.scale import thorough

QUESTION = {digit: f"Is this a {digit}?" for digit in "731"}
"""The demo's own question, and those that are asked beside it, in the order of their turns."""

ANIMALS = ("bird", "butterfly", "deer", "dog", "grasshopper", "horse")

WORDS = {
    "7": ["yes", "no", "no"],
    "3": ["no", "yes", "no"],
    "1": ["no", "no", "yes"],
    "0": ["no", "no", "no"],
    "n": ["no", "no", "no"],
    "s": ["skip", "skip", "skip"],
    "ArrowDown": ["skip", "skip", "skip"],
    "m": ["unsure", "unsure", "unsure"],
}
"""What each key says to the concepts."""


@contextmanager
def asked(server: Server, *questions: str) -> Iterator[None]:
    """More questions in the server's project, until they are put away."""
    with Database.open(server.database) as database:
        store = Concepts(database)
        made = [store.create(f"{question.strip('?')} {uuid.uuid4()}", question) for question in questions]
    try:
        yield
    finally:
        with Database.open(server.database) as database:
            for concept in made:
                Archive(database).add(concept.id)


@pytest.fixture(scope="module", autouse=True)
def questions(server: Server) -> Iterator[None]:
    """These alone: what other tests have asked is put away."""
    with Database.open(server.database) as database:
        archive = Archive(database)
        for concept in archive.offered()[1:]:
            archive.add(concept.id)
    with asked(server, QUESTION["3"], QUESTION["1"]):
        yield


@pytest.fixture
def classes(server: Server, context: BrowserContext) -> Labeling:
    return Labeling(context.new_page(), address(server))


def address(server: Server) -> str:
    return f"{server.url}/?project=digits&session=new&classes=1"


def stored(server: Server, session: str) -> list[dict[str, Any]]:
    """The presses in the log, oldest first, with what each says to the concepts, and who chose its item."""
    query = """
        SELECT answers.id, answers.concept_id, answers.item, answer, undoes, corrects,
               selections.item AS shown, selections.concept_id AS chooser
        FROM answers LEFT JOIN selections ON selections.id = selection_id ORDER BY answers.seq
    """
    with sqlite3.connect(f"file:{server.database}?mode=ro", uri=True) as connection:
        connection.row_factory = sqlite3.Row
        rows = {row["id"]: dict(row) for row in connection.execute(query)}
        concepts = [row[0] for row in connection.execute("SELECT id FROM concepts ORDER BY id")]
    presses = []
    for leading in server.answers(session):
        own = rows[leading["id"]]["concept_id"]
        ids = [answer_id(leading["id"], concept, own=own) for concept in concepts]
        answers = [rows[name] for name in ids if name in rows]
        assert {answer["item"] for answer in answers} == {leading["item"]}
        choosers = [answer["chooser"] for answer in answers if answer["chooser"] is not None]
        shown = [answer["shown"] for answer in answers if answer["shown"] is not None]
        assert shown in ([], [leading["item"]])
        words = [answer["answer"] for answer in answers]
        presses.append({**rows[leading["id"]], "words": words, "chooser": choosers[0] if choosers else None})
    return presses


def said(server: Server, session: str) -> list[tuple[int, list[str]]]:
    return [(press["item"], press["words"]) for press in stored(server, session)]


def test_each_key_gives_a_class(server: Server, classes: Labeling) -> None:
    """On the item whose pixels are painted, for all concepts, which choose in turn."""
    expected = []
    for key in [*WORDS, "7", "0"]:
        expected.append((classes.item, WORDS[key]))
        classes.press(key)
    assert said(server, classes.session) == expected
    choosers = [press["chooser"] for press in stored(server, classes.session)]
    assert len(set(choosers[:3])) == 3
    assert choosers == (choosers[:3] * 4)[: len(choosers)]
    given = classes.page.locator(".thumb")
    labels = [thumb.get_attribute("aria-label") or "" for thumb in given.all()]
    assert [label.split(": ")[1].split(".")[0] for label in labels][-4:] == ["skip", "unsure", "7", "none"]


@pytest.mark.thorough
def test_keys_that_mean_nothing_here_do_nothing(server: Server, classes: Labeling) -> None:
    """Neither yes and its arrow, nor a digit that is no class, nor what a held key repeats."""
    item = classes.item
    for key in ["y", "ArrowRight", "ArrowLeft", "5", "9"]:
        classes.page.keyboard.press(key)
    for _ in range(4):
        classes.page.keyboard.down("3")
    classes.page.keyboard.up("3")
    classes.wait()
    assert said(server, classes.session) == [(item, WORDS["3"])]


@pytest.mark.thorough
def test_a_class_called_0_has_that_key(server: Server, context: BrowserContext) -> None:
    """Then N alone is for none of them."""
    with asked(server, "Is this a 0?"):
        classes = Labeling(context.new_page(), address(server))
        buttons = classes.page.locator(".answers .answer")
        assert [" ".join(text.split()) for text in buttons.all_inner_texts()][::4] == ["0 0", "None N"]
        classes.press("0")
        classes.press("n")
        words = [press["words"] for press in stored(server, classes.session)]
        assert words == [["no", "no", "no", "yes"], ["no"] * 4]


@pytest.mark.thorough
def test_by_mouse_and_a_double_click_answers_once(server: Server, classes: Labeling) -> None:
    """Each class has a button with its name and key."""
    buttons = classes.page.locator(".answers .answer")
    assert [" ".join(text.split()) for text in buttons.all_inner_texts()] == ["1 1", "3 3", "7 7", "None 0"]
    expected = []
    for name, key in [("3", "3"), ("None", "0"), ("Skip", "s"), ("Unsure", "m"), ("7", "7")]:
        expected.append((classes.item, WORDS[key]))
        double_click(classes.page.locator(".card button[data-answer]", has_text=name).first)
        classes.wait()
    assert said(server, classes.session) == expected


@pytest.mark.thorough
def test_the_next_image_needs_no_server(server: Server, classes: Labeling) -> None:
    """It is painted while the server stands still, with its numbers, which are those of its concept."""
    for key in "7310":
        classes.press(key)
    for key in "730sm":
        answer_without_server(server, classes, key)


def answer_without_server(server: Server, classes: Labeling, key: str) -> None:
    classes.wait_for_what_follows()
    item, numbers = classes.item, classes.page.locator(".rows .value, .counts b, .chosen")
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        classes.page.keyboard.press(key)
        expect(classes.card).to_have_attribute("data-answerable", "true")
        assert classes.item != item
        shown, said_of_it = classes.item, numbers.all_inner_texts()
        courses = classes.page.locator(".course").evaluate_all("all => all.map((path) => path.outerHTML)")
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
    classes.wait()
    assert (classes.item, numbers.all_inner_texts()) == (shown, said_of_it)
    assert classes.page.locator(".course").evaluate_all("all => all.map((path) => path.outerHTML)") == courses
    assert any(f"for “{question}”" in said_of_it[-1] for question in QUESTION.values())
    assert said(server, classes.session)[-1] == (item, WORDS[key])


@pytest.mark.thorough
def test_undo_and_correction_are_for_all_concepts(server: Server, classes: Labeling) -> None:
    """The item that was undone comes back; a thumb's menu has the classes, and their keys."""
    first = classes.item
    classes.press("7")
    second = classes.item
    classes.press("3")
    classes.press("u")
    assert classes.item == second
    classes.press("1")
    tab_to(classes.page, f"Item {first}: 7. Correct it")
    keys = classes.page.keyboard
    keys.press("Enter")
    menu = classes.page.get_by_role("menuitemradio")
    assert [" ".join(text.split()) for text in menu.all_inner_texts()] == [
        *("1 1", "3 3", "7 7", "None 0", "Skip S", "Unsure M")
    ]
    expect(classes.page.get_by_role("menuitemradio", checked=True)).to_contain_text("7")
    keys.press("0")
    classes.wait_until_saved()
    assert said(server, classes.session) == [
        (first, WORDS["7"]),
        (second, WORDS["3"]),
        (second, ["undo"] * 3),
        (second, WORDS["1"]),
        (first, WORDS["0"]),
    ]
    presses = stored(server, classes.session)
    assert presses[2]["undoes"] == presses[1]["id"]
    assert presses[4]["corrects"] == presses[0]["id"]
    expect(classes.page.get_by_role("button", name=f"Item {first}: none.")).to_be_visible()


@pytest.mark.thorough
def test_a_reload_and_a_dead_server_lose_nothing(server: Server, classes: Labeling) -> None:
    """The same item and strip are there again; what was pressed meanwhile is stored once."""
    expected = []
    for key in "703":
        expected.append((classes.item, WORDS[key]))
        classes.press(key)
    item, strip = classes.item, classes.page.locator(".thumb").count()
    classes.page.reload()
    classes.wait()
    assert (classes.item, classes.page.locator(".thumb").count()) == (item, strip)
    assert "classes=1" in classes.page.url
    classes.wait_for_what_follows()
    server.kill()
    for key in "17":
        expected.append((classes.item, WORDS[key]))
        classes.page.keyboard.press(key)
        if key == "1":
            expect(classes.card).to_have_attribute("data-answerable", "true")
    expect(classes.card).to_have_attribute("data-saving", "2")
    server.start()
    classes.page.reload()
    classes.wait()
    assert said(server, classes.session) == expected


@pytest.mark.thorough
def test_bursts_of_presses_are_stored_as_they_were_seen(server: Server, classes: Labeling) -> None:
    """At three paces: each on the item that was painted when the key went down, once."""
    for gap in (0, 20, 50):
        draw = random.Random(gap)
        for _ in range(40):
            classes.page.keyboard.press(draw.choice(["7", "3", "1", "0", "s", "m"]))
            classes.page.wait_for_timeout(gap)
        classes.wait()
    taken = [(int(item), WORDS[key]) for key, item, answerable in classes.presses() if answerable == "true"]
    assert taken
    assert said(server, classes.session) == taken
    assert len({item for item, _ in taken}) == len(taken)


@pytest.mark.thorough
def test_the_switch_leads_to_the_classes_and_back(server: Server, context: BrowserContext) -> None:
    """Each chooses anew, and the keys mean what is on the buttons."""
    labeling = Labeling(context.new_page(), f"{server.url}/?project=digits&session=new")
    page = labeling.page
    labeling.press("y")
    page.get_by_role("radio", name="Classes").click()
    view(labeling, "Which is it?")
    expect(page.get_by_role("combobox", name="Question")).to_have_count(0)
    assert "classes=1" in page.url
    chosen = labeling.item
    labeling.press("3")
    page.get_by_role("radio", name="Grid").click()
    view(labeling, "Which of these are a 7?")
    assert "classes" not in page.url
    assert str(chosen) not in (page.locator(".card.grid").get_attribute("data-painted") or "").split()
    page.get_by_role("radio", name="Classes").click()
    view(labeling, "Which is it?")
    labeling.press("7")
    page.get_by_role("radio", name="One").click()
    view(labeling, QUESTION["7"])
    assert "classes" not in page.url
    labeling.press("n")
    words = [press["words"] for press in stored(server, labeling.session)]
    assert words == [["yes"], WORDS["3"], WORDS["7"], ["no"]]


def view(labeling: Labeling, question: str) -> None:
    """Wait for the view that asks so, and until no other is there."""
    expect(labeling.page.get_by_role("heading", name=question)).to_be_visible(timeout=30_000)
    expect(labeling.card).to_have_count(1)
    labeling.wait()


@pytest.mark.thorough
def test_plain_buttons_ask_one_question(server: Server, context: BrowserContext) -> None:
    """Whatever the address says beside."""
    labeling = Labeling(context.new_page(), address(server))
    page = labeling.page
    page.goto(f"{page.url}&plain=1")
    expect(page.locator(".m-plain img")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("heading", name=QUESTION["7"])).to_be_visible()
    expect(page.get_by_role("radio", name="Classes")).to_have_count(0)


@pytest.mark.thorough
def test_a_press_that_waits_is_stored_from_wherever_it_is_sent(server: Server, classes: Labeling) -> None:
    """The browser's queue may hold presses on the classes when one question is in view, and vice versa."""
    page, session = classes.page, classes.session
    item, selection = classes.item, classes.selection
    concepts = sorted(int(b["concept"]) for b in _buttons(classes))
    press = {
        "item": item,
        "selection": selection,
        "answer": "yes",
        "concept": concepts[1],
        "classes": concepts,
    }
    _leave_in_queue(classes, press)
    page.goto(page.url.replace("&classes=1", ""))
    view(classes, QUESTION["7"])
    assert said(server, session) == [(item, WORDS["3"])]
    _leave_in_queue(classes, {"item": classes.item, "selection": classes.selection, "answer": "yes"})
    one = classes.item
    page.goto(f"{page.url}&classes=1")
    view(classes, "Which is it?")
    assert said(server, session) == [(item, WORDS["3"]), (one, ["yes"])]


def _buttons(classes: Labeling) -> list[dict[str, str]]:
    names = classes.page.locator(".answers .answer").evaluate_all("all => all.map((b) => b.dataset.answer)")
    return [{"concept": name.removeprefix("class-")} for name in names if name.startswith("class-")]


def _leave_in_queue(labeling: Labeling, answer: dict[str, Any]) -> None:
    """As if the page had gone away before the server heard of it."""
    whole = {
        "id": str(uuid.uuid4()),
        "session": labeling.session,
        "browser_time": 1_700_000_000_000,
        **answer,
    }
    key = f"closecall/digits/{labeling.session}/{whole['id']}"
    entry = json.dumps({"place": 0, "answer": whole})
    labeling.page.evaluate("([key, entry]) => localStorage.setItem(key, entry)", [key, entry])


@pytest.mark.thorough
def test_what_chose_the_item_is_checked_against_a_full_scan(classes: Labeling) -> None:
    """Whichever concept it was."""
    page = classes.page
    for key in "731731":
        classes.press(key)
    for key in "700":
        page.get_by_role("button", name="Check against a full scan").click()
        expect(page.locator(".full-scan")).to_contain_text("Rank 0", timeout=30_000)
        classes.press(key)


@pytest.mark.thorough
@pytest.mark.parametrize("n", [thorough(3), 9])
def test_all_classes_are_in_view(server: Server, context: BrowserContext, n: int) -> None:
    """On every screen, on the phone for a thumb; no name is cut off, and the image has its room."""
    with asked(server, *(f"Is it a {name}?" for name in ANIMALS[: n - 3])):
        page = context.new_page()
        labeling = Labeling(page, address(server))
        for width, height in [(1440, 900), (1280, 720), (800, 1100), (390, 844)]:
            resize(page, width, height)
            buttons = page.locator(".card [data-answer]:visible")
            assert buttons.count() == n + 3
            for button in buttons.all():
                box = button.bounding_box()
                assert box
                assert box["y"] + box["height"] <= height
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= width
                assert box["height"] >= (48 if width < 720 else 40)
                assert button.locator("span").evaluate("span => span.scrollWidth <= span.clientWidth + 1")
            frame = page.locator(".frame").bounding_box()
            assert frame
            assert frame["width"] >= 200
        labeling.press("1")
        assert page.locator(".thumb").last.inner_text() == ("1" if n == 3 else "7")


@pytest.mark.thorough
@pytest.mark.parametrize("screen", [thorough("desktop-light"), "phone-dark"])
def test_there_is_no_serious_finding(server: Server, browser: Browser, screen: str) -> None:
    """By axe-core, with answers of each kind in the strip."""
    with asked(server, *(f"Is it a {name}?" for name in ANIMALS)):
        made = browser.new_context(**SCREENS[screen])
        labeling = Labeling(made.new_page(), address(server))
        for key in "130sm":
            labeling.press(key)
        labeling.page.wait_for_timeout(500)
        assert grave_findings(labeling.page) == []
        made.close()


def test_the_help_card_names_the_classes(server: Server, classes: Labeling) -> None:
    """And their keys."""
    check_help_card(classes.page, "Keys", ["Choose the class of the item in view", "33", "0Nnone"])
    assert server.answers(classes.session) == []
