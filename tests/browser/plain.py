"""A person at the labeling page of plain widgets."""

from __future__ import annotations

import io
from urllib.parse import parse_qs, urlsplit

from PIL import Image
from playwright.sync_api import Page, expect

from tests.browser.labeling import at_rest

NOTE_PAINTED = """
    window.painted = [];
    document.addEventListener('keydown', () => {
        window.painted.push(Number(document.querySelector('.m-plain')?.dataset.item ?? -1));
    }, true);
"""
"""Notes at every key press which item is painted."""

BRIGHT = "() => getComputedStyle(document.querySelector('.m-plain img')).opacity === '1'"


class PlainLabeling:
    """The page in one tab."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.add_init_script(NOTE_PAINTED)
        page.goto(url)
        self.figure = page.locator(".m-plain")
        expect(self.figure.locator("img")).to_be_visible(timeout=30_000)
        self.settle()

    @property
    def session(self) -> str:
        return parse_qs(urlsplit(self.page.url).query)["session"][0]

    @property
    def item(self) -> int:
        return int(self.figure.get_attribute("data-item") or -1)

    @property
    def selection(self) -> str:
        return self.figure.get_attribute("data-selection") or ""

    def settle(self) -> None:
        """Until a press counts: nothing is under way, and all was drawn longer ago than `SETTLE_SECONDS`.

        On a busy machine the image may be painted, and bright, before the last button is drawn.
        """
        at_rest(self.page)
        self.page.wait_for_timeout(500)
        at_rest(self.page)
        self.page.wait_for_function(BRIGHT)

    def press(self, key: str) -> None:
        """Press a key, and wait for what comes next."""
        before = self.selection
        self.page.keyboard.press(key)
        self.wait_for_another(before)

    def click(self, name: str) -> None:
        """Click a button, and wait for what comes next."""
        before = self.selection
        self.page.get_by_role("button", name=name).click()
        self.wait_for_another(before)

    def painted(self) -> Image.Image:
        """What the screen shows in the frame, in grey."""
        return Image.open(io.BytesIO(self.figure.locator("img").screenshot())).convert("L")

    def painted_at_presses(self) -> list[int]:
        """The items that were painted when keys were pressed."""
        return self.page.evaluate("window.painted")

    def wait_for_another(self, before: str) -> None:
        """Until what follows an answer is there: just after the press, the script doesn't run yet."""
        expect(self.figure).not_to_have_attribute("data-selection", before, timeout=30_000)
        self.settle()
