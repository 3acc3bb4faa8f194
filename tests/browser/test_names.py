"""Names are text: of files, classes, questions and projects, whatever they look like to HTML or Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect

from closecall.app.api.cards import card_of
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from tests.browser.labeling import at_rest
from tests.browser.served import Server, free_port
from tests.projects import answer

TAG = "<img src=x onerror=alert(1)>"
LINK = "![p](http://192.0.2.1/p.png) [l](javascript:alert(1)) **b** :red[r] $x$"
QUESTION = f"Is it {TAG}?"
GUIDELINE = f"{TAG} {LINK} <script>alert(1)</script>"
CLASS = "<b onclick=alert(1)>c"
FILE = "<svg onload=alert(1)> ![p](x).png"


class NamesServer(Server):
    """``closecall serve`` over projects that are there."""

    def command(self) -> list[str]:
        return ["serve", str(self.data), "--headless", "--port", str(self.port)]

    def is_ready(self) -> bool:
        return self.answers_health()


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A project all of whose names are markup, and its key."""
    folder = tmp_path_factory.mktemp("named")
    for number in range(300):
        file = folder / "images" / (CLASS if number % 2 else "plain") / f"{number}{FILE}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((24, 24), 30 + number).save(file)
    with Workspace(folder / "projects") as workspace:
        key = workspace.create(NewProject(str(folder / "images"), QUESTION, guideline=GUIDELINE))
        project = workspace.project(key)
        project.add_concept(f"Is it {LINK}?", name=f"{TAG} {LINK}")
        while project.pool is None or not project.pool.complete:
            assert project.problem() is None
        for name in (TAG, LINK):
            session = project.session(annotator=name)
            session.store([answer(card_of(session), "no")])
    server = NamesServer(folder / "projects", items=0, port=free_port())
    server.start()
    yield server, key
    server.stop()


@pytest.mark.thorough
def test_names_are_text(named: tuple[Server, str], context: BrowserContext) -> None:
    """On every page: no script runs, no element comes of a name, nothing is fetched from elsewhere."""
    server, key = named
    page = context.new_page()
    heard: list[str] = []
    page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
    page.on(
        "request", lambda request: heard.append(request.url) if _is_foreign(request.url, server) else None
    )
    address = f"{server.url}/?project={quote(key)}"
    page.goto(address)
    expect(page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=60_000)
    expect(page.locator(".card h1")).to_have_text(QUESTION)
    page.keyboard.press("y")
    expect(page.locator(".card")).to_have_attribute("data-saving", "0")
    _has_no_foreign_markup(page)
    page.get_by_role("combobox", name="Question").click()
    expect(page.get_by_role("option", name=LINK)).to_be_visible()
    page.keyboard.press("Escape")
    for path, shown in {
        "?grid=12&": ".card",
        "?classes=1&": ".card",
        "?find=svg&": ".card",
        "?plain=1&": "figure.m-plain img",
        "review?": ".card, .review",
        "progress?": ".st-key-progress",
        "compare?": ".st-key-compare",
        "people?": ".st-key-team",
        "projects?": ".m-project",
        "sign-in?": ".st-key-door button >> nth=1",
    }.items():
        page.goto(f"{server.url}/{path}project={quote(key)}")
        expect(page.locator(shown).first).to_be_visible(timeout=30_000)
        at_rest(page)
        page.wait_for_function("[...document.images].every((image) => image.complete)")
        _has_no_foreign_markup(page)
    page.goto(f"{server.url}/sign-in")
    page.get_by_role("button", name=LINK).click()  # who was here before
    expect(page.get_by_role("link", name=LINK)).to_be_visible()
    _has_no_foreign_markup(page)
    for wrong in (TAG, LINK):  # what an address says comes back in a sentence
        page.goto(f"{server.url}/?project={quote(wrong)}")
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("There is no project")
        expect(alert).to_contain_text(wrong.split()[-1])
        # An address of the web's, shown as it is, may be followed.
        expect(alert.locator("img, b, strong, script, .katex")).to_have_count(0)
        _has_no_foreign_markup(page)
    assert heard == []


def _is_foreign(url: str, server: Server) -> bool:
    return url.startswith("http") and not url.startswith(server.url)


def _has_no_foreign_markup(page: Page) -> None:
    """Nothing on the page is an element that only a name could have brought."""
    for brought in (
        'img[src="x"]',
        "img[src*='192.0.2.1']",
        "[onerror]",
        "[onload]",
        "[onclick]",
        "a[href^=javascript]",
    ):
        expect(page.locator(brought)).to_have_count(0)
