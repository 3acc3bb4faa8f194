"""On a phone, one button at the lower edge opens the toolbar, and the menu of pages has a name."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server
from tests.scale import thorough
from tests.waiting import until


@pytest.fixture(params=[thorough("light"), "dark"])
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on a phone."""
    screen = {"width": 390, "height": 844}
    made = browser.new_context(viewport=screen, color_scheme=request.param, has_touch=True, is_mobile=True)
    yield made.new_page()
    made.close()


def tools(page: Page) -> Locator:
    return page.locator(".st-key-tools summary")


def is_in_reach(place: Locator) -> bool:
    """Whether it is in the lower half of the screen, and nothing covers it, its lower edge included."""
    box = place.bounding_box()
    assert box
    x, lowest = box["x"] + box["width"] / 2, box["y"] + box["height"] - 2
    return all(
        422 < y < 844
        and place.evaluate(
            "(it, [x, y]) => it.contains(it.getRootNode().elementFromPoint(x, y)) "
            "|| it.getRootNode().elementFromPoint(x, y)?.contains(it)",
            [x, y],
        )
        for y in (box["y"] + box["height"] / 2, lowest)
    )


def test_one_button_opens_the_toolbar(server: Server, page: Page) -> None:
    """It is in reach of the thumb, as is what it opens; the answers are not covered while it is closed."""
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    expect(page.get_by_role("button", name="Settings")).to_be_hidden()
    assert is_in_reach(tools(page))
    for answer in ("no", "yes"):
        assert is_in_reach(page.locator(f".answer.{answer}"))
    tools(page).tap()
    expect(tools(page)).to_have_text("Close", use_inner_text=True)
    for name in ("Find", "Similar", "Settings", "Demo"):
        assert is_in_reach(page.get_by_role("button", name=name, exact=True))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.get_by_role("button", name="Settings").tap()
    expect(page.get_by_text("Show skipped items again")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("radio", name="Grid").tap()
    expect(page.locator(".card.grid")).to_have_attribute("data-answerable", "true", timeout=30_000)
    expect(tools(page)).to_have_text(
        "Tools", use_inner_text=True
    )  # the choice is made: the grid has its room
    expect(page.get_by_role("button", name="Settings")).to_be_hidden()
    assert is_in_reach(page.locator("[data-send]"))
    assert labeling.session


@pytest.mark.thorough
def test_the_menu_of_pages_has_a_name(server: Server, page: Page) -> None:
    """Instead of an arrow; it leads to the other pages."""
    page.goto(f"{server.url}/projects")
    menu = page.get_by_test_id("stExpandSidebarButton")
    content = "it => getComputedStyle(it, '::after').content"
    until(lambda: menu.evaluate(content) == '"Menu"')  # once the page's own style is here
    expect(menu.get_by_test_id("stIconMaterial")).to_be_hidden()
    menu.tap()
    page.get_by_role("link", name="Progress").tap()
    expect(page).to_have_url(re.compile("/progress"))
