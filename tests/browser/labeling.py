"""A person at the labeling page."""

from __future__ import annotations

import io
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from PIL import Image
from playwright.sync_api import Locator, Page, expect

WATCH_PRESSES = """
    const noted = () => JSON.parse(sessionStorage.getItem('presses') ?? '[]');
    const note = (what) => {
        const host = document.querySelector('[data-testid=stBidiComponentIsolated]');
        const card = host?.shadowRoot.querySelector('.card');
        if (!card) return;
        const press = [what, card.dataset.paintedItem, card.dataset.answerable];
        sessionStorage.setItem('presses', JSON.stringify([...noted(), press]));
    };
    document.addEventListener('keydown', (event) => note(event.key), true);
"""
"""Notes at every key press, before the card sees it, which item is painted and whether it may be answered.

Kept as long as the tab: a page that is never heard loads itself anew.
"""

ANSWERABLE_AND_SAVED = '.card[data-answerable="true"][data-saving="0"]'

FIRST_MS = 120_000
"""Until there is an image: a project's first items may have to be built."""

FRAMES = """async () => {
    for (let frame = 0; frame < 20; frame += 1) await new Promise(requestAnimationFrame);
}"""
"""A third of a second, longer on a slow machine: what the scripts do about a new size is done in frames."""


def resize(page: Page, width: int, height: int) -> None:
    """Give the window this size, and wait until everything has its place in it."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(FRAMES)


def at_rest(page: Page, ms: float = 60_000) -> None:
    """Wait until the page's script does not run."""
    expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning", timeout=ms)


def choose_strategy(page: Page, name: str) -> None:
    """By the picker, whose panel closes by itself."""
    page.get_by_role("button", name="Strategy:").click()
    panel = page.get_by_test_id("stPopoverBody")
    panel.locator("label", has=page.get_by_text(re.compile(f"^{name}(?: · fits now)?$"))).click()
    expect(panel).to_have_count(0)


class Labeling:
    """The labeling page in one tab."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.add_init_script(WATCH_PRESSES)
        page.goto(url)
        self.card = page.locator(".card")
        expect(self.card).to_have_attribute("data-answerable", "true", timeout=FIRST_MS)
        self.wait()

    @property
    def session(self) -> str:
        return parse_qs(urlsplit(self.page.url).query)["session"][0]

    @property
    def item(self) -> int:
        """The item whose image is painted."""
        return int(self.card.get_attribute("data-painted-item") or -1)

    @property
    def selection(self) -> str:
        return self.card.get_attribute("data-painted-selection") or ""

    @property
    def image(self) -> Locator:
        return self.page.locator(".frame img.item")

    def wait(self) -> None:
        """Until an image may be answered and everything is saved, both at one moment.

        The reply that says what is saved may bring another item, which is then not painted yet.
        """
        expect(self.page.locator(ANSWERABLE_AND_SAVED)).to_have_count(1, timeout=30_000)

    def wait_for_what_follows(self) -> None:
        """Until what follows each answer is here, and its images are decoded."""
        expect(self.card).to_have_attribute("data-ahead", "4", timeout=30_000)

    def wait_until_saved(self) -> None:
        expect(self.card).to_have_attribute("data-saving", "0", timeout=30_000)

    def press(self, key: str) -> None:
        """Press a key, and wait for what comes next."""
        self.page.keyboard.press(key)
        self.wait()

    def click(self, answer: str) -> None:
        """Click a button, and wait for what comes next."""
        self.page.locator(f".card [data-answer={answer}]").click()
        self.wait()

    def pick_strategy(self, name: str) -> None:
        """By the picker, and wait until it has chosen what is in view."""
        before = self.selection
        choose_strategy(self.page, name)
        expect(self.card).not_to_have_attribute("data-painted-selection", before, timeout=30_000)
        self.wait()

    def painted(self) -> Image.Image:
        """What the screen shows in the frame, in grey."""
        return self.painted_in_colour().convert("L")

    def painted_in_colour(self) -> Image.Image:
        """What the screen shows in the frame, without the button that lies on it under the mouse."""
        shot = self.image.screenshot(style=".look { visibility: hidden !important }")
        return Image.open(io.BytesIO(shot)).convert("RGB")

    def presses(self) -> list[list[Any]]:
        """What was painted at each key press in this tab: key, item, whether it could be answered."""
        return self.page.evaluate("JSON.parse(sessionStorage.getItem('presses') ?? '[]')")
