"""The pages for those who see little, or have no mouse: checked by axe-core, and used by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server

PAGES = {
    "label": ("?project=digits&session={}", ".card[data-answerable=true]"),
    "grid": ("?project=digits&session={}&grid=28", ".card.grid[data-answerable=true]"),
    "plain": ("?project=digits&session={}&plain=1", ".m-plain img"),
    "projects": ("projects", ".st-key-new"),
    "review": ("review?project=digits&session={}", "[data-testid=stBidiComponentIsolated]"),
}
"""Each page's address, and what is there as soon as it is."""

SCREENS = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}
GRAVE = {"serious", "critical"}


@pytest.fixture(scope="module")
def session(server: Server, browser: Browser) -> str:
    """A session with answers of each kind."""
    page = browser.new_page()
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    for key in "ynsmn":
        labeling.press(key)
    page.close()
    return labeling.session


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=SCREENS)
def page(browser: Browser, scheme: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    made = browser.new_context(
        viewport=SCREENS[request.param], color_scheme=scheme, has_touch=request.param == "phone"
    )
    yield made.new_page()
    made.close()


@pytest.mark.parametrize("name", PAGES)
def test_no_page_has_a_serious_finding(server: Server, session: str, page: Page, name: str) -> None:
    """Neither in light nor in dark, on desktop or phone."""
    address, there = PAGES[name]
    page.goto(f"{server.url}/{address.format(session)}")
    page.locator(there).first.wait_for(timeout=30_000)
    page.wait_for_timeout(1500)
    found = Axe().run(page).response
    grave = [
        (finding["id"], [(node["target"], node["any"][:1]) for node in finding["nodes"]])
        for finding in found["violations"]
        if finding["impact"] in GRAVE
    ]
    assert len(found["passes"]) > 10
    assert grave == []


def test_everything_on_the_card_can_be_done_by_keyboard_alone(server: Server, labeling: Labeling) -> None:
    """Answers by letters and by the buttons, a closer look, undo, a correction, another strategy."""
    keys = labeling.page.keyboard
    labeling.press("y")
    labeling.press("n")
    tab_to(labeling.page, "Unsure")
    labeling.press("Enter")
    labeling.press("s")
    labeling.press("u")
    tab_to(labeling.page, "Zoom")
    keys.press("Space")
    expect(labeling.page.locator(".frame")).to_have_attribute("data-zoomed", "true")
    keys.press("Escape")
    tab_to(labeling.page, "Correct it")
    keys.press("Enter")
    keys.press("ArrowRight")
    keys.press("Enter")
    labeling.wait()
    before = labeling.selection
    tab_to(labeling.page, "Query strategy")
    keys.type("Exhaustive")
    keys.press("Enter")
    expect(labeling.card).not_to_have_attribute("data-painted-selection", before, timeout=30_000)
    labeling.wait()
    labeling.press("ArrowLeft")
    stored = server.answers(labeling.session)
    assert [row["answer"] for row in stored] == ["yes", "no", "unsure", "skip", "undo", "skip", "no"]
    assert stored[5]["corrects"] == stored[0]["id"]


def test_whatever_has_the_focus_shows_it(labeling: Labeling) -> None:
    """An outline three pixels wide, on each part of the card that Tab reaches; none of them is hidden."""
    labeling.press("y")
    reached = []
    tab_to(labeling.page, "Zoom")
    for _ in range(7):
        name, outline, opacity = labeling.page.evaluate(FOCUSED)
        reached.append(name)
        assert (outline, opacity) == ("3px", "1"), name
        labeling.page.keyboard.press("Tab")
    assert [name.split()[0] for name in reached] == ["Zoom", "No", "Skip", "Yes", "Undo", "Unsure", "Item"]


FOCUSED = """() => {
    const inner = document.activeElement.shadowRoot?.activeElement;
    const at = inner ?? document.activeElement;
    const name = at.getAttribute('aria-label') ?? at.innerText ?? '';
    const { outlineWidth, opacity } = getComputedStyle(at);
    return [name.trim(), outlineWidth, opacity];
}"""


def tab_to(page: Page, name: str) -> None:
    """Press Tab until the focus is on what is called so."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if name in page.evaluate(FOCUSED)[0]:
            return
    raise AssertionError(f"Tab does not reach {name}")
