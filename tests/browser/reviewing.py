"""A person at the review page."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect


class Reviewing:
    """The review page in one tab."""

    def __init__(self, page: Page, url: str, session: str) -> None:
        self.page = page
        self.card = page.locator(".review")
        page.goto(f"{url}/review?project=digits&session={session}")
        self.wait()

    @property
    def session(self) -> str:
        return parse_qs(urlsplit(self.page.url).query)["session"][0]

    @property
    def items(self) -> list[int]:
        """The items on the page, in their order."""
        return self.page.locator(".review .row").evaluate_all(
            "rows => rows.map((row) => Number(row.dataset.item))"
        )

    @property
    def current(self) -> int:
        """The item that keys are about."""
        return int(self.page.locator(".row[aria-current=true]").get_attribute("data-item") or -1)

    def row(self, item: int) -> Locator:
        """An item's row."""
        return self.page.locator(f".row[data-item='{item}']")

    def given(self, item: int) -> str:
        """The answer that is marked as one's own; empty without one."""
        pressed = self.row(item).locator("[aria-pressed=true]")
        return (pressed.get_attribute("data-answer") or "") if pressed.count() else ""

    def count(self, view: str) -> int:
        """What stands in a view's tab."""
        return int(self.page.locator(f"[data-view={view}]").inner_text().split()[-1].replace(",", ""))

    def show(self, view: str) -> None:
        """Pick a view."""
        self.page.locator(f"[data-view={view}]").click()
        self.wait()

    def find(self, line: str) -> None:
        """Search for a line of words."""
        self.page.locator(".search").fill(line)
        self.page.keyboard.press("Enter")
        self.wait()

    def press(self, *keys: str) -> None:
        """Press keys, and wait until everything is saved and shown."""
        for key in keys:
            self.page.keyboard.press(key)
        self.wait()

    def wait(self) -> None:
        """Until what was asked for is shown and everything is saved."""
        expect(self.card).to_have_attribute("data-state", "shown", timeout=30_000)
        expect(self.card).to_have_attribute("data-saving", "0", timeout=30_000)
