"""Closed tabs: their items are free at once, and the next tab goes on in their session."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.pool import Pool
from tests.browser.served import Server, free_port
from tests.browser.sitting import ServedProject
from tests.scale import scaled

ITEMS = 69
VISITS = scaled(quick=8, all=25, long=100)

PAGES = {
    "": ".card[data-answerable=true]",
    "?grid=60": ".card.grid .tile",
    "similar?like={item}": ".tile",
    "review": ".card, .review",
    "progress": ".st-key-progress",
    "people": ".st-key-team",
}
"""Of each page: what is there once it is."""


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A project with fewer items than two grids of 60 need."""
    data = tmp_path_factory.mktemp("small")
    with Workspace(data) as workspace:
        workspace.create(NewProject(f"digits:{ITEMS}", "Is this a 7?"), key=ServedProject.key)
    server = ServedProject(data, items=0, port=free_port())
    server.start()
    yield server
    server.stop()


def is_locked(page: Page) -> bool:
    """Whether the page says of items that they are in another view, or that all have answers."""
    tiles = page.locator(".tile").evaluate_all("tiles => tiles.map((tile) => tile.ariaLabel ?? '')")
    said = " ".join([*page.locator("main, .card").all_inner_texts(), *tiles])
    return any(words in said for words in ("session's view", "sessions' views", "Every item has an answer"))


def test_a_lone_user_meets_no_lock(small: Server, context: BrowserContext) -> None:
    """Whatever is opened and closed, in whatever order: all items can be answered in the next tab."""
    rng = random.Random(23)
    sessions: set[str] = set()
    first = context.new_page()
    first.goto(f"{small.url}/?project={small.key}")
    expect(first.locator(PAGES[""])).to_be_visible(timeout=60_000)  # all items are prepared
    first.close()
    item = int(Pool.open(small.pool).ids[0])
    for _ in range(VISITS):
        page = context.new_page()
        for path in rng.sample(sorted(PAGES), rng.choice([1, 1, 2])):
            page.goto(f"{small.url}/{path.format(item=item)}{'&' if '?' in path else '?'}project={small.key}")
            expect(page.locator(PAGES[path]).first).to_be_visible(timeout=30_000)
            expect(page.get_by_test_id("stApp")).to_have_attribute("data-test-script-state", "notRunning")
            assert not is_locked(page), path
            if "session=" in page.url:
                sessions.add(page.url.split("session=")[1].split("&")[0])
        with page.expect_event("close"):
            page.close(run_before_unload=rng.random() < 0.5)
    assert len(sessions) == 1


def test_who_waits_for_others_items_gets_them(small: Server, context: BrowserContext) -> None:
    """The page says that they are in others' views, and shows them when the other tab is closed."""
    grid, other = context.new_page(), context.new_page()
    grid.goto(f"{small.url}/?grid=60&project={small.key}&session=new")
    expect(grid.locator(".card.grid .tile")).to_have_count(60)
    other.goto(f"{small.url}/?grid=12&project={small.key}&session=new")
    expect(other.locator('.card.grid[data-answerable="true"]')).to_be_visible()
    other.keyboard.press("Shift+N")
    other.keyboard.press("Enter")
    expect(other.locator(".card")).to_contain_text("The last 60 items without an answer are in other")
    grid.close()
    expect(other.locator(".card.grid .tile")).to_have_count(12, timeout=15_000)
