"""A person at the labeling page, many images at once."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, expect

KEYS = {"yes": "y", "no": "n", "skip": "s", "unsure": "m"}


class Gridding:
    """The labeling page's grid in one tab."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.card = page.locator(".card.grid")
        self.wait()

    @property
    def session(self) -> str:
        return parse_qs(urlsplit(self.page.url).query)["session"][0]

    @property
    def items(self) -> list[int]:
        """The items whose images are painted."""
        return [int(item) for item in (self.card.get_attribute("data-painted") or "").split()]

    @property
    def marks(self) -> list[str]:
        """The mark of each image; empty where it is open."""
        return self.page.locator(".tile").evaluate_all("tiles => tiles.map((tile) => tile.dataset.mark)")

    @property
    def cursor(self) -> int:
        return self.page.locator(".tile").evaluate_all(
            "tiles => tiles.findIndex((tile) => tile.matches('.cursor'))"
        )

    @property
    def columns(self) -> int:
        return len(
            {place["x"] for place in map(Locator.bounding_box, self.page.locator(".tile").all()) if place}
        )

    def tile(self, place: int) -> Locator:
        return self.page.locator(".tile").nth(place)

    def wait(self) -> None:
        """Until images may be marked and everything is saved."""
        expect(self.card).to_have_attribute("data-answerable", "true", timeout=30_000)
        expect(self.card).to_have_attribute("data-saving", "0", timeout=30_000)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def mark(self, *words: str) -> list[tuple[int, str]]:
        """Mark the first images by keyboard; what the log must have once it is sent."""
        self.press(*(KEYS[word] for word in words))
        return list(zip(self.items, words, strict=False))

    def send(self) -> None:
        """Send what is marked, and wait for the next grid."""
        before = self.card.get_attribute("data-painted")
        self.press("Enter")
        expect(self.card).not_to_have_attribute("data-painted", before or "", timeout=30_000)
        self.wait()


class Finding(Gridding):
    """The labeling page's search by name, and what it found."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        page.goto(url)
        self.card = page.locator(".card.grid[data-finding=true]")
        self.field = page.get_by_role("searchbox")
        expect(self.card).to_be_visible(timeout=30_000)

    @property
    def names(self) -> list[str]:
        return self.page.locator(".tile .name").all_inner_texts()

    @property
    def free(self) -> list[int]:
        """The places that can be answered."""
        settled = self.page.locator(".tile").evaluate_all("tiles => tiles.map((t) => 'settled' in t.dataset)")
        return [place for place, is_settled in enumerate(settled) if not is_settled]

    def find(self, text: str) -> None:
        """Type what to find and give the keys back to the images."""
        before = self.card.get_attribute("data-painted")
        self.press("/")
        self.field.fill(text)
        self.field.press("Enter")
        expect(self.card).not_to_have_attribute("data-painted", before or "", timeout=30_000)
        self.wait()

    def turn(self, key: str, place: str) -> None:
        """To another page; `place` is what it says of itself."""
        self.press(key)
        expect(self.page.locator(".finder .place")).to_have_text(place)
        self.wait()

    def mark_place(self, place: int, word: str) -> tuple[int, str]:
        """Mark one image by clicks; what the log must have once it is sent."""
        for _ in range(["yes", "no", "skip"].index(word) + 1):
            self.tile(place).click()
        return self.items[place], word
