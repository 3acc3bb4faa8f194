"""Texts on the labeling page: read, scrolled and answered; nothing else moves."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, expect

from closecall.app.projects.config import ProjectFile
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.browser.alike import Alike
from tests.browser.labeling import Labeling
from tests.browser.served import Server, move_beside
from tests.browser.test_accessibility import SCREENS, grave_findings
from tests.scale import thorough

LINE = "the honey of the hive is gathered in the meadow by many bees"


@pytest.fixture(scope="module")
def server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of texts on the server of all tests."""
    root = tmp_path_factory.mktemp("texts")
    rng = np.random.default_rng(0)
    for number in range(200):
        topic = ("ant", "bee")[number % 2]
        file: Path = root / "texts" / topic / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        words = " ".join(f"{topic}{word}" for word in rng.integers(0, 40, 20))
        paragraphs = [words, "<b>not bold</b> & so on", *[f"{LINE}\nand {number}."] * 30]
        file.write_text("From: me\nSubject: " + topic + "\n\n" + "\n\n".join(paragraphs))
    build(source_from(f"texts:{root / 'texts'}"), root / "pool")
    with Workspace(root / "projects") as workspace:
        workspace.create(NewProject(str(root / "pool"), "Is it about bees?"), key="texts")
    return move_beside(root / "projects" / "texts", "texts", server)


@pytest.fixture
def labeling(server: Server, context: BrowserContext) -> Labeling:
    return Labeling(context.new_page(), f"{server.url}/?project=texts&session=new")


def places(labeling: Labeling) -> list[object]:
    parts = labeling.page.locator(".question, .frame, .answer, .tool, .value")
    return [part.bounding_box() for part in parts.all()]


def test_a_text_is_read_and_answered_by_keys(server: Server, labeling: Labeling) -> None:
    """Letters are text and never markup; every answer is stored for the text that was in view."""
    seen = []
    for key, word in [("y", "yes"), ("n", "no"), ("s", "skip"), ("m", "unsure"), ("ArrowRight", "yes")]:
        sheet = labeling.page.locator(".frame .text")
        expect(sheet).to_contain_text("<b>not bold</b> & so on")
        expect(sheet.locator(".head")).to_contain_text("Subject: ")
        item = labeling.card.get_attribute("data-painted-item")
        assert (sheet.get_attribute("aria-label") or "").endswith(".txt")
        seen.append((int(item or -1), word))
        labeling.press(key)
    labeling.wait_until_saved()
    assert [(row["item"], row["answer"]) for row in server.answers(labeling.session)] == seen
    expect(labeling.page.locator(".strip img")).to_have_count(5)


@pytest.mark.thorough
def test_a_long_text_scrolls_and_nothing_else_moves(labeling: Labeling) -> None:
    """By wheel and page keys; the next text begins at its top; a closer look makes letters larger."""
    sheet, stood = labeling.page.locator(".frame .text"), places(labeling)

    def top() -> float:
        return sheet.evaluate("sheet => sheet.scrollTop")

    def size() -> float:
        return sheet.evaluate("sheet => parseFloat(getComputedStyle(sheet).fontSize)")

    assert sheet.evaluate("sheet => sheet.scrollHeight > sheet.clientHeight + 400")
    labeling.page.keyboard.press("PageDown")
    by_key = top()
    assert by_key > 200
    sheet.hover()
    labeling.page.mouse.wheel(0, 150)
    further = "([sheet, by_key]) => sheet.scrollTop > by_key"
    labeling.page.wait_for_function(further, arg=[sheet.element_handle(), by_key])
    small = size()
    labeling.page.keyboard.press("z")
    assert size() == pytest.approx(1.6 * small)
    assert places(labeling) == stood
    labeling.press("n")
    assert (top(), size()) == (0, small)
    assert places(labeling)[:4] == stood[:4]


@pytest.mark.thorough
def test_what_follows_a_text_is_there_in_the_next_frame(labeling: Labeling) -> None:
    """Texts are looked ahead for as images are."""
    labeling.press("y")
    labeling.press("n")
    labeling.wait_for_what_follows()
    shown = labeling.page.locator(".frame .text").inner_text()
    labeling.page.keyboard.press("n")
    labeling.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert labeling.page.locator(".frame .text").inner_text() != shown


@pytest.mark.thorough
def test_texts_have_pictures_in_grid_and_review(labeling: Labeling) -> None:
    """Of their first lines."""
    labeling.press("y")
    labeling.press("n")
    page = labeling.page
    page.get_by_text("Grid", exact=True).click()
    have_pictures(page.locator(".tile img"))
    page.get_by_role("link", name="Review").click()
    page.locator("[data-view=all]").click()
    have_pictures(page.locator(".row img.picture"))


def have_pictures(pictures: Locator) -> None:
    expect(pictures.first).to_be_visible(timeout=30_000)
    assert pictures.first.evaluate("image => image.decode().then(() => image.naturalWidth)") >= 88


@pytest.mark.thorough
@pytest.mark.parametrize("screen", ["desktop-light", thorough("phone-dark")])
def test_axe_has_nothing_serious_against_a_text(server: Server, browser: Browser, screen: str) -> None:
    """Neither in light on a desktop nor in dark on a phone."""
    context = browser.new_context(**SCREENS[screen])
    labeling = Labeling(context.new_page(), f"{server.url}/?project=texts&session=new")
    labeling.press("y")
    assert grave_findings(labeling.page) == []
    context.close()


@pytest.fixture
def alike(server: Server, context: BrowserContext) -> Alike:
    """What is like a text."""
    view = Alike(context.new_page(), f"{server.url}/similar?project=texts&session=new&like=27")
    view.wait()
    return view


def is_like(server: Server, view: Alike, item: int) -> None:
    view.page.goto(f"{server.url}/similar?project=texts&session={view.session}&like={item}")
    view.wait()


def answer(view: Alike, word: str, n: int) -> None:
    for place in [place for place, mark in enumerate(view.marks) if not mark][:n]:
        view.tile(place).click()
    view.page.locator(f"[data-answer={word}]").click()
    view.wait()


def side_by_side(server: Server, view: Alike) -> None:
    """Label some of both, unless another test did, and see both metrics."""
    by_metric, folder = view.page.locator(".metrics li:visible"), server.data / server.key
    pool = Pool.open(folder / ProjectFile.read(folder).pool)
    ant, bee = (int(pool.ids[pool.truth(pool.ids) == place][0]) for place in (0, 1))
    for item, word in ((bee, "yes"), (ant, "no")) if by_metric.count() < 2 else ():
        is_like(server, view, item)
        answer(view, word, 6)
    expect(by_metric).to_have_count(2, timeout=60_000)
    view.pick("metric", "Side by side")
    expect(view.page.locator(".list h2:visible")).to_have_text(["Original", "Learned"], timeout=60_000)
    view.wait()


def can_be_read(view: Alike) -> None:
    """Letters, in a size for reading; nothing is cut at the sides, and no line in half."""
    tiles = view.page.locator(".tile .opening")
    assert tiles.count() == len(view.items)
    for tile in (tiles.first, tiles.last):
        expect(tile.locator("b")).to_have_text(re.compile("^(ant|bee)$"))
        expect(tile).to_contain_text("<b>not bold</b> & so on")
        assert tile.evaluate("tile => parseFloat(getComputedStyle(tile).fontSize)") >= 13
        lines = tile.locator(".lines")
        height, line = lines.evaluate("l => [l.clientHeight, parseFloat(getComputedStyle(l).lineHeight)]")
        assert height >= 4 * line
        assert height % line == 0
        assert tile.evaluate("t => t.clientHeight >= t.querySelector('.lines').clientHeight + 16")
        assert tile.evaluate("t => t.scrollWidth <= t.clientWidth")


@pytest.mark.thorough
def test_what_is_like_a_text_can_be_read(server: Server, alike: Alike) -> None:
    """In one list and in two side by side; what is looked for, too; and no image is spoken of."""
    can_be_read(alike)
    expect(alike.page.locator(".what .opening b")).to_have_text("bee")
    expect(alike.page.locator("[data-way=upload]")).to_be_hidden()
    expect(alike.page.locator(".ways")).not_to_contain_text("image", use_inner_text=True)
    side_by_side(server, alike)
    can_be_read(alike)
    alike.look_for("yes")
    expect(alike.page.locator(".what .opening").first).to_have_text(re.compile("^(ant|bee)$"))


@pytest.mark.thorough
def test_a_whole_text_is_read_where_the_mouse_rests(alike: Alike) -> None:
    """Beside the nearest: it covers no tile, nothing moves, and it is gone with the mouse."""
    page, reader = alike.page, alike.page.locator(".reader")
    expect(reader).to_be_hidden()
    parts = page.locator(".title, .tile, .read, .sending .answer, .value")
    stood = [part.bounding_box() for part in parts.all()]
    alike.tile(4).hover()
    expect(reader).to_be_visible()
    expect(reader).to_contain_text(f"and {name_of(alike, 4).split('/')[1].split('.')[0]}.")
    assert [part.bounding_box() for part in parts.all()] == stood
    over, stage = reader.bounding_box(), page.locator(".stage").bounding_box()
    assert over
    assert stage
    assert over["x"] >= stage["x"] + stage["width"]
    text = reader.locator(".text")
    text.hover()
    page.mouse.wheel(0, 300)
    page.wait_for_function("text => text.scrollTop > 0", arg=text.element_handle())
    page.wait_for_timeout(500)  # the mouse is on the text: it stays
    assert text.evaluate("text => text.scrollTop") > 0
    page.locator(".title").hover()
    expect(reader).to_be_hidden()


@pytest.mark.thorough
def test_a_whole_text_is_read_by_keys(alike: Alike) -> None:
    """Z opens what the cursor is on, which the text follows; page keys scroll it; Escape closes it."""
    reader = alike.page.locator(".reader")
    alike.press("ArrowRight", "z")
    for step in ("ArrowRight", "ArrowDown"):
        alike.press(step)
        place = alike.page.locator(".tile").evaluate_all("ts => ts.findIndex((t) => t.matches('.cursor'))")
        expect(reader.locator(".name")).to_have_text(name_of(alike, place))
    alike.press("PageDown")
    assert reader.locator(".text").evaluate("text => text.scrollTop") > 100
    expect(alike.title).to_contain_text("The 24 nearest")
    alike.press("Escape")
    expect(reader).to_be_hidden()
    assert "picked" not in alike.marks
    alike.press("PageDown")
    expect(alike.title).to_contain_text("25 to 48")


@pytest.mark.thorough
def test_a_whole_text_is_read_on_a_phone(server: Server, browser: Browser) -> None:
    """By the button below its tile; the text leaves the answers free, and is closed by its own."""
    made = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    view = Alike(made.new_page(), f"{server.url}/similar?project=texts&session=new&like=27")
    view.wait()
    can_be_read(view)
    view.page.locator(".read").nth(1).tap()
    reader = view.page.locator(".reader")
    expect(reader.locator(".name")).to_have_text(name_of(view, 1))
    over, yes = reader.bounding_box(), view.page.locator("[data-answer=yes]").bounding_box()
    assert over
    assert yes
    assert 0 <= over["x"] < over["x"] + over["width"] <= 390
    assert over["y"] + over["height"] <= yes["y"]
    assert "picked" not in view.marks
    close, name = reader.get_by_role("button", name="Close"), reader.locator(".name").bounding_box()
    button = close.bounding_box()
    assert name
    assert button
    assert button["y"] < name["y"] + name["height"] < button["y"] + button["height"]  # in one line
    close.tap()
    expect(reader).to_be_hidden()
    assert view.page.evaluate("document.documentElement.scrollWidth") == 390
    made.close()


@pytest.mark.thorough
@pytest.mark.parametrize("screen", [thorough("desktop-light"), "phone-dark"])
def test_axe_has_nothing_serious_against_texts_side_by_side(
    server: Server, browser: Browser, screen: str
) -> None:
    """Nor against one that is read."""
    context = browser.new_context(**SCREENS[screen])
    view = Alike(context.new_page(), f"{server.url}/similar?project=texts&session=new&like=27")
    view.wait()
    side_by_side(server, view)
    assert grave_findings(view.page) == []
    view.page.locator(".read").first.click()
    expect(view.page.locator(".reader")).to_be_visible()
    view.page.wait_for_timeout(300)
    assert grave_findings(view.page) == []
    context.close()


def name_of(view: Alike, place: int) -> str:
    return (view.tile(place).get_attribute("aria-label") or "").split(",")[0]
