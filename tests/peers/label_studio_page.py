"""Label Studio's page in a browser: what a person sees and presses there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Locator, Page, expect

from tests.peers.label_studio import PASSWORD
from tests.waiting import PATIENCE

SOON = 1_000 * PATIENCE
"""Milliseconds until what is waited for must be there."""

STORED = re.compile(r"/api/(tasks/\d+/annotations|annotations/\d+)/?$")
"""Paths at which annotations are made and changed; drafts have others."""

SELECTED = re.compile("annotation-button_selected")


@dataclass
class Person:
    """Somebody who has signed in."""

    page: Page
    address: str

    def opens(self, project: int, task: int) -> None:
        """Open a task."""
        self.page.goto(f"{self.address}/projects/{project}/data?task={task}")

    def sees_image(self, width: int, height: int) -> None:
        """The image in view has loaded, and has this size in pixels."""
        image = self.page.get_by_role("img", name="image", exact=True)
        expect(image).to_have_js_property("naturalWidth", width, timeout=SOON)
        expect(image).to_have_js_property("naturalHeight", height, timeout=SOON)

    def sees(self, words: Sequence[str]) -> None:
        """The annotation in view has these choices, one for each question."""
        expect(self._questions).to_have_count(len(words), timeout=SOON)
        for question, word in zip(self._questions.all(), words, strict=True):
            expect(question.locator("input:checked")).to_have_attribute("name", word, timeout=SOON)

    def sees_prediction(self, model: str, words: Sequence[str]) -> None:
        """A model's prediction has these choices, which nobody can change; return to the only annotation."""
        tabs = self.page.locator(".lsf-annotation-button")
        prediction = tabs.filter(has_text=model)
        prediction.click()
        expect(prediction).to_have_class(SELECTED, timeout=SOON)
        self.sees(words)
        inputs = self._questions.locator("input")
        expect(self._questions.locator("input:disabled")).to_have_count(inputs.count(), timeout=SOON)
        tabs.filter(has_not_text=model).click()
        expect(self._questions.locator("input:disabled")).to_have_count(0, timeout=SOON)

    def chooses(self, question: int, word: str) -> None:
        """Choose a word."""
        self._questions.nth(question).locator(f"input[name={word}]").check()

    def presses(self, name: str) -> None:
        """Press Submit or Update, and wait until the server has stored the annotation."""
        with self.page.expect_response(
            lambda answer: (
                answer.request.method in ("POST", "PATCH") and STORED.search(urlsplit(answer.url).path)
            ),
            timeout=SOON,
        ) as stored:
            self.page.locator(".lsf-controls button").filter(has_text=name).click()
        assert stored.value.ok, stored.value.text()

    @property
    def _questions(self) -> Locator:
        return self.page.locator(".lsf-choices")


@contextmanager
def signed_in(browser: Browser, address: str, email: str) -> Iterator[Person]:
    """Sign in on the page."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.set_default_timeout(SOON)
    page.goto(f"{address}/user/login")
    page.locator("input[name=email]").fill(email)
    page.locator("input[name=password]").fill(PASSWORD)
    page.get_by_role("button", name="Log In").click()
    page.wait_for_url(lambda url: "/user/login" not in url)
    yield Person(page, address)
    context.close()
