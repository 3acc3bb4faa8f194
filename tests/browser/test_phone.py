"""On a phone, upright or on its side: one button opens the toolbar, the menu has a name, and all fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from closecall.core.pool.pool import Pool
from tests.browser.alike import Alike
from tests.browser.labeling import Labeling, resize
from tests.browser.many import Gridding
from tests.browser.served import Server, make_demo, move_beside
from tests.browser.test_classes import ANIMALS, asked
from tests.browser.test_photographs import HEIGHTS, LEAST
from tests.scale import thorough
from tests.waiting import until

UPRIGHT, ON_ITS_SIDE = (390, 844), (844, 390)

PLACES = count(0, 40)
"""Each phone looks for other items: those of the last one may still be held for it."""

NAMES = (*ANIMALS, "cat", "frog")


@pytest.fixture(scope="module")
def server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of its own: questions that other tests have asked would be more classes."""
    folder = tmp_path_factory.mktemp("phone")
    make_demo(folder, server)
    return move_beside(folder / server.key, "phone", server)


def address(server: Server, path: str = "", more: str = "") -> str:
    """A page of a new session."""
    return f"{server.url}/{path}?project={server.key}&session=new{more}"


@pytest.fixture(
    params=[
        thorough((UPRIGHT, "light"), id="upright-light"),
        pytest.param((UPRIGHT, "dark"), id="upright-dark"),
        pytest.param((ON_ITS_SIDE, "light"), id="side-light"),
        thorough((ON_ITS_SIDE, "dark"), id="side-dark"),
    ]
)
def page(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page on a phone."""
    (width, height), scheme = request.param
    screen = {"width": width, "height": height}
    made = browser.new_context(viewport=screen, color_scheme=scheme, has_touch=True, is_mobile=True)
    page = made.new_page()
    yield page
    page.goto("about:blank")  # which frees the items for the next phone
    made.close()


def is_upright(page: Page) -> bool:
    size = page.viewport_size
    assert size
    return size["height"] > size["width"]


def tools(page: Page) -> Locator:
    return page.locator(".st-key-tools summary")


def is_in_view(place: Locator) -> bool:
    """Whether it is on the screen, and nothing covers it, its lower edge included."""
    box, screen = place.bounding_box(), place.page.viewport_size
    assert box
    assert screen
    x, lowest = box["x"] + box["width"] / 2, box["y"] + box["height"] - 2
    return (
        box["x"] >= 0
        and box["x"] + box["width"] <= screen["width"]
        and all(
            0 < y < screen["height"]
            and place.evaluate(
                "(it, [x, y]) => it.contains(it.getRootNode().elementFromPoint(x, y)) "
                "|| it.getRootNode().elementFromPoint(x, y)?.contains(it)",
                [x, y],
            )
            for y in (box["y"] + box["height"] / 2, lowest)
        )
    )


def is_in_reach(place: Locator) -> bool:
    """Whether it is also in the half of the screen where the thumb is: the lower one, or the right one."""
    box, screen = place.bounding_box(), place.page.viewport_size
    assert box
    assert screen
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    return is_in_view(place) and (
        y > screen["height"] / 2 if is_upright(place.page) else x > screen["width"] / 2
    )


def fits(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_one_button_opens_the_toolbar(server: Server, page: Page) -> None:
    """It is in reach of the thumb; it covers nothing while it is closed, and nothing covers what it opens."""
    labeling = Labeling(page, address(server))
    expect(page.get_by_role("button", name="Settings")).to_be_hidden()
    assert is_in_reach(tools(page))
    for answer in ("no", "yes", "skip"):
        assert is_in_reach(page.locator(f".answer.{answer}"))
    assert is_in_reach(page.locator("[data-undo]"))
    tools(page).tap()
    expect(tools(page)).to_have_text("Close", use_inner_text=True)
    for name in ("Find", "Similar", "Settings", "Demo"):
        assert is_in_view(page.get_by_role("button", name=name, exact=True))
    assert fits(page)
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


@pytest.mark.parametrize("n_classes", [0, 3, thorough(9)])
def test_the_image_has_the_height_and_the_answers_are_at_the_thumb(
    server: Server, page: Page, n_classes: int
) -> None:
    """Of one question, and of up to nine classes."""
    with asked(server, *(f"Is it a {name}?" for name in NAMES[: max(0, n_classes - 1)])):
        labeling = Labeling(page, address(server, more="&classes=1" if n_classes else ""))
        labeling.press("s")
        assert fits(page)
        for button in page.locator(".card button[data-answer]:visible, .card [data-undo]").all():
            assert is_in_reach(button), button.inner_text()
        assert is_in_reach(tools(page))
        found = page.evaluate(HEIGHTS)
        frame, room = found["frame"], found["room"]
        is_wide = frame["width"] >= 0.99 * room["width"]
        least = 0.8 if n_classes == 9 and is_upright(page) else LEAST  # the rows of classes need the rest
        assert is_wide or frame["height"] >= least * found["free"], found


@pytest.mark.parametrize("size", [12, 28])
def test_a_grid_shows_its_items_and_its_controls(server: Server, page: Page, size: int) -> None:
    """On its side, all of the usual number at once; upright, most of them. Those found by name scroll."""
    grid = Gridding(page, address(server, more=f"&grid={size}"))
    assert fits(page)
    shown = sum(map(is_in_view, page.locator(".tile").all()))
    assert shown >= (20 if size == 28 and is_upright(page) else size)
    for button in ("[data-rest=no]", "[data-rest=yes]", "[data-undo]", "[data-send]"):
        assert is_in_reach(page.locator(button)), button
    assert is_in_reach(tools(page))
    grid.tile(0).tap()
    assert grid.marks[0]
    page.goto(address(server, more="&find=digit"))
    expect(page.locator(".card.grid[data-finding=true] .tile")).to_have_count(60, timeout=30_000)
    assert fits(page)
    assert sum(map(is_in_view, page.locator(".tile").all()[:24])) >= 6
    assert is_in_reach(page.locator("[data-send]"))


@pytest.mark.parametrize("width", [390, thorough(320)])
def test_find_similar_fits(server: Server, page: Page, width: int) -> None:
    """No button runs off the narrowest phone; on its side, the query stays beside the tiles."""
    if is_upright(page):
        resize(page, width, 844)
    query = Pool.open(server.pool).ids[next(PLACES)]
    view = Alike(page, address(server, "similar", f"&like={query}"))
    view.wait()
    assert fits(page)
    screen = page.viewport_size
    assert screen
    boxes = [box for one in page.locator("button:visible").all() if (box := one.bounding_box())]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= screen["width"] for box in boxes)
    page.locator(".tile[data-mark='']").first.tap()
    for answer in ("no", "yes"):
        assert is_in_reach(page.locator(f".sending [data-answer={answer}]"))
    assert is_in_view(view.tile(0))


@pytest.mark.parametrize("path", ["progress", "people", thorough("review"), thorough("compare")])
def test_the_question_can_be_picked_on_other_pages(server: Server, page: Page, path: str) -> None:
    """Their few controls are not folded up."""
    page.goto(address(server, path))
    expect(page.get_by_role("combobox", name="Question")).to_be_visible(timeout=30_000)
    expect(page.locator(".card[data-state]").first).not_to_have_attribute("data-state", "loading")
    expect(tools(page)).to_have_count(0)
    assert fits(page)


@pytest.mark.thorough
def test_the_menu_of_pages_has_a_name(server: Server, page: Page) -> None:
    """Instead of an arrow; it leads to the other pages."""
    if not is_upright(page):
        resize(page, 667, 375)  # there is a row of pages where there is room
    page.goto(f"{server.url}/projects")
    menu = page.get_by_test_id("stExpandSidebarButton")
    content = "it => getComputedStyle(it, '::after').content"
    until(lambda: menu.evaluate(content) == '"Menu"')  # once the page's own style is here
    expect(menu.get_by_test_id("stIconMaterial")).to_be_hidden()
    menu.tap()
    page.get_by_role("link", name="Progress").tap()
    expect(page).to_have_url(re.compile("/progress"))
