from __future__ import annotations

import re

import pytest
from playwright.sync_api import BrowserContext, expect

from closecall.core.pool.pool import Pool
from tests.browser.labeling import Labeling, resize
from tests.browser.mapped import Mapped, make_map
from tests.browser.served import Server, make_demo, move_beside
from tests.browser.test_help import check_help_card


@pytest.fixture(scope="module")
def server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of its own: a map that another test has open may lag behind the answers."""
    folder = tmp_path_factory.mktemp("mapped")
    make_demo(folder, server)
    return move_beside(folder / server.key, "mapped", server)


@pytest.fixture
def labeling(server: Server, context: BrowserContext) -> Labeling:
    return Labeling(context.new_page(), f"{server.url}/?project={server.key}&session=new")


@pytest.mark.thorough
def test_the_map_follows_the_answers_and_lists_what_a_lasso_encloses(
    server: Server, labeling: Labeling
) -> None:
    """Answers in another window move the band without a reload; keys do what the mouse does."""
    make_map(server.pool)
    for key in "nyn":
        labeling.press(key)
    page = labeling.page.context.new_page()
    where = f"project={server.key}&session={labeling.session}"
    page.goto(f"{server.url}/progress?{where}")
    page.get_by_role("link", name="Map", exact=True).click()
    expect(page).to_have_url(re.compile("/map"))
    seen = Mapped(page, f"{server.url}/map?{where}")
    before, painted = seen.version, seen.painted()
    assert painted[0] > 0
    labeling.press("n")
    expect(seen.card).not_to_have_attribute("data-version", str(before))
    seen.wait()
    assert seen.painted() != painted

    page.keyboard.down("Shift")
    seen.drag((0.98, 0.98), (0.02, 0.98), (0.02, 0.02), (0.98, 0.02))
    page.keyboard.up("Shift")
    found = page.locator(".found")
    expect(found.get_by_role("heading")).to_have_text(f"{len(Pool.open(server.pool)):,} images")
    expect(found.locator("li")).to_have_count(48)
    expect(found.locator("img").first).to_be_visible()
    expect(found.get_by_role("link").first).to_have_attribute("href", re.compile(r"/similar\?.*like=\d+"))
    page.keyboard.press("Escape")
    expect(found).to_be_hidden()

    whole = seen.painted()
    for key in ("+", "+", "ArrowLeft"):
        page.keyboard.press(key)
    expect(page.locator(".preview img")).to_be_visible()
    expect(page.locator(".preview")).to_contain_text("wᵀx + b = ")
    assert seen.painted() != whole
    page.keyboard.press("Enter")
    expect(found.get_by_role("heading")).to_have_text(re.compile(r"^[\d,]+ images?$"))

    open_items = found.locator("a[data-stands='']")
    expect(open_items.first).to_be_visible()
    listed = open_items.evaluate_all("links => links.map((link) => Number(link.dataset.item))")
    page.keyboard.press("Enter")
    grid = page.locator('.card.grid[data-finding="true"][data-answerable="true"][data-saving="0"]')
    expect(grid).to_be_visible(timeout=30_000)
    painted = (grid.get_attribute("data-painted") or "").split()
    leased = server.leased_to_others(labeling.session)
    listed = [item for item in listed if item not in leased]
    assert [int(item) for item in painted][: len(listed)] == listed
    expect(page.locator(".finder .found")).to_have_text(re.compile(r"^[\d,]+ of [\d,]+ items? in the lasso"))
    expect(page.get_by_role("searchbox")).to_have_count(0)
    expect(page.locator(".chosen")).to_contain_text("In the lasso: those nearest the hyperplane, round ")
    page.keyboard.press("y")
    page.keyboard.press("Enter")
    expect(page.locator(f'.card.grid[data-painted^="{painted[0]} "]')).to_have_count(0, timeout=30_000)
    expect(grid).to_be_visible(timeout=30_000)
    after = grid.get_attribute("data-painted")
    page.reload()
    expect(grid).to_have_attribute("data-painted", after or "", timeout=30_000)
    rows = [row for row in server.answers(labeling.session) if row["item"] == int(painted[0])]
    assert [row["answer"] for row in rows] == ["yes"]
    page.get_by_role("link", name="Map", exact=True).click()
    seen.wait()
    page.get_by_role("link", name="Label", exact=True).click()
    expect(grid).to_have_attribute("data-painted", after or "", timeout=30_000)
    page.get_by_role("button", name="Leave lasso").click()
    expect(page.locator('.card[data-answerable="true"] .frame img')).to_be_visible(timeout=30_000)


def test_the_list_of_a_lasso_leaves_the_map_in_view(server: Server, labeling: Labeling) -> None:
    """In a projector's window, where the list is beside the map."""
    make_map(server.pool)
    for key in "nyn":
        labeling.press(key)
    page = labeling.page
    resize(page, 1280, 720)
    seen = Mapped(page, f"{server.url}/map?project={server.key}&session={labeling.session}")
    page.keyboard.down("Shift")
    seen.drag((0.98, 0.98), (0.6, 0.98), (0.6, 0.02), (0.98, 0.02))
    page.keyboard.up("Shift")
    found, canvas = page.locator(".found"), page.locator(".canvas")
    expect(found.locator("li").first).to_be_visible()
    listed, mapped = found.bounding_box(), canvas.bounding_box()
    assert listed
    assert mapped
    assert mapped["x"] + mapped["width"] <= listed["x"]
    assert listed["x"] + listed["width"] <= 1280
    page.get_by_role("button", name="Whole map").click()
    resize(page, 1440, 900)


def test_the_map_has_a_help_card(server: Server, labeling: Labeling) -> None:
    """With its keys, which don't move the map while the card is open."""
    make_map(server.pool)
    labeling.press("y")
    labeling.press("n")
    seen = Mapped(labeling.page, f"{server.url}/map?project={server.key}&session={labeling.session}")
    painted = seen.painted()
    check_help_card(labeling.page, "Keys", ["Similar items are near each other", "show the whole map"])
    assert seen.painted() == painted
