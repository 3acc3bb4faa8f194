"""A person at the Find similar page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

READY = '.card.similar[data-answerable="true"][data-saving="0"][data-pending="false"]'

PATIENCE = 180_000
"""For what is compiled the first time."""


class Alike:
    """The page in one tab."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.card = page.locator(".card.similar")
        self.title = page.locator(".title")
        self.trouble = page.locator(".trouble")
        expect(self.card).not_to_have_attribute("data-state", "loading", timeout=60_000)

    @property
    def session(self) -> str:
        return parse_qs(urlsplit(self.page.url).query)["session"][0]

    @property
    def items(self) -> list[int]:
        """The items whose pictures are painted, list by list."""
        return [int(item) for item in (self.card.get_attribute("data-painted") or "").split()]

    @property
    def marks(self) -> list[str]:
        """How each is marked: picked, answered, held, or empty where it is open."""
        return self.page.locator(".tile").evaluate_all("tiles => tiles.map((tile) => tile.dataset.mark)")

    @property
    def angles(self) -> list[float]:
        return [float(text.rstrip("°")) for text in self.page.locator(".tile .angle").all_inner_texts()]

    def tile(self, place: int) -> Locator:
        return self.page.locator(".tile").nth(place)

    def figure(self, name: str) -> Locator:
        """A value in the margin; some are computed when the items are there already, so it is waited for."""
        return self.page.locator(".rows > div", has_text=name).locator(".value")

    def wait(self) -> None:
        """Until items may be answered, everything is saved, and nothing is being prepared, all at one moment.

        What has been prepared may bring other items, which are then not painted yet.
        """
        expect(self.page.locator(READY)).to_have_count(1, timeout=PATIENCE)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def send(self, file: Path) -> None:
        """Choose a file to look for."""
        self.page.locator(".file").set_input_files(file)

    def upload(self, file: Path) -> None:
        """Send an image, and wait for what is like it."""
        self.send(file)
        expect(self.card).to_have_attribute("data-like", re.compile("^upload-"), timeout=60_000)
        self.wait()

    def look_for(self, way: str) -> None:
        """By one of the buttons, and wait for what is found."""
        before = self.card.get_attribute("data-like") or ""
        self.page.locator(f"[data-way={way}]").click()
        expect(self.card).not_to_have_attribute("data-like", before, timeout=30_000)
        self.wait()

    def pick(self, control: str, name: str) -> None:
        """A metric, or a method, by Streamlit's own pickers."""
        if control == "metric":
            self.page.locator(".st-key-metric").get_by_text(name, exact=True).click()
        else:
            self.choose("Search method", re.compile(f"^{re.escape(name)}"))

    def choose(self, label: str, name: str | re.Pattern[str]) -> None:
        """An option, by its whole name or a pattern."""
        self.page.get_by_role("combobox", name=label).click()
        self.page.get_by_role("option", name=name, exact=True).click()
