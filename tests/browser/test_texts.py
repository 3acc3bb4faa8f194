"""Texts on the labeling page: read, scrolled and answered; nothing else moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, BrowserContext, Locator, expect

from app.workspace import NewProject, Workspace
from core.build import build
from core.sources import source_from
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port
from tests.browser.test_accessibility import SCREENS, grave_findings

LINE = "the honey of the hive is gathered in the meadow by many bees"


class Texts(Server):
    """``marginalia serve`` over a project of texts."""

    key = "texts"

    def command(self) -> list[str]:
        return ["serve", str(self.data), "--port", str(self.port), "--headless"]

    def is_ready(self) -> bool:
        return self.answers_health()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
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
    made = Texts(root / "projects", items=200, port=free_port())
    made.start()
    yield made
    made.stop()


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
    labeling.page.wait_for_timeout(300)
    assert top() > by_key
    small = size()
    labeling.page.keyboard.press("z")
    assert size() == pytest.approx(1.6 * small)
    assert places(labeling) == stood
    labeling.press("n")
    assert (top(), size()) == (0, small)
    assert places(labeling)[:4] == stood[:4]


def test_what_follows_a_text_is_there_in_the_next_frame(labeling: Labeling) -> None:
    """Texts are looked ahead for as images are."""
    labeling.press("y")
    labeling.press("n")
    labeling.wait_for_what_follows()
    shown = labeling.page.locator(".frame .text").inner_text()
    labeling.page.keyboard.press("n")
    labeling.page.evaluate("() => new Promise(requestAnimationFrame)")
    assert labeling.page.locator(".frame .text").inner_text() != shown


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


@pytest.mark.parametrize("screen", SCREENS)
def test_axe_has_nothing_serious_against_a_text(server: Server, browser: Browser, screen: str) -> None:
    """Neither in light on a desktop nor in dark on a phone."""
    context = browser.new_context(**SCREENS[screen])
    labeling = Labeling(context.new_page(), f"{server.url}/?project=texts&session=new")
    labeling.press("y")
    assert grave_findings(labeling.page) == []
    context.close()
