from __future__ import annotations

import io
import re
import sqlite3

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, expect

from closecall.core.pool.pool import Pool
from tests.browser.double_click import double_click
from tests.browser.labeling import resize
from tests.browser.many import Gridding
from tests.browser.served import Server
from tests.scale import thorough


@pytest.fixture
def grid(server: Server, context: BrowserContext) -> Gridding:
    return Gridding(context.new_page(), f"{server.url}/?project=digits&session=new&grid=12")


def given(server: Server, grid: Gridding) -> list[tuple[int, str]]:
    rows = server.answers(grid.session)
    assert all(row["item"] == row["shown"] for row in rows)
    return [(row["item"], row["answer"]) for row in rows]


def rounds(server: Server, grid: Gridding) -> list[tuple[int, str | None, int]]:
    """Round, hyperplane and number of items of each grid, oldest first."""
    query = """
        SELECT round, hyperplane_digest, count(*) FROM selections WHERE session_id = ?
        GROUP BY round, hyperplane_digest ORDER BY round
    """
    with sqlite3.connect(f"file:{server.database}?mode=ro", uri=True) as connection:
        return connection.execute(query, (grid.session,)).fetchall()


@pytest.mark.thorough
def test_a_look_elsewhere_costs_no_mark_and_enter_still_sends(server: Server, grid: Gridding) -> None:
    """Marks are still there after another view and after another page, whose link has no keys any more."""
    page = grid.page
    first = dict(grid.mark("yes", "no", "no"))
    grid.send()  # from now on, the items nearest to the hyperplane are shown, and shown again
    marked = dict(grid.mark("yes", "no", "skip"))
    page.get_by_role("radio", name="One").click()
    expect(page.locator(".card:not(.grid)")).to_have_attribute("data-answerable", "true", timeout=30_000)
    page.get_by_role("radio", name="Grid").click()
    expect(page.locator(".card:not(.grid)")).to_have_count(0)
    grid.wait()
    page.get_by_role("link", name="Projects", exact=True).click()
    expect(page.get_by_role("heading", name="New project")).to_be_visible()
    page.get_by_role("link", name="Label", exact=True).click()
    grid.wait()
    kept = {item: word for item, word in zip(grid.items, grid.marks, strict=True) if word}
    assert kept == {item: word for item, word in marked.items() if item in grid.items}
    assert len(kept) >= 2
    grid.send()
    assert {row["item"]: row["answer"] for row in server.answers(grid.session)} == first | kept


@pytest.mark.thorough
def test_the_switch_leads_to_the_grid_and_back(server: Server, context: BrowserContext) -> None:
    """The keys go on at once, and a reload stays where it was."""
    page = context.new_page()
    page.goto(f"{server.url}/?project=digits&session=new")
    expect(page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=30_000)
    page.get_by_role("radio", name="Grid").click()
    grid = Gridding(page, page.url if "grid=" in page.url else f"{page.url}&grid=28")
    assert len(grid.items) == 28
    page.reload()
    grid.wait()
    assert len(grid.items) == 28
    page.get_by_role("radio", name="One").click()
    expect(page.locator(".card:not(.grid)")).to_have_attribute("data-answerable", "true", timeout=30_000)
    expect(grid.card).to_have_count(0)
    assert "grid=" not in page.url
    page.keyboard.press("y")
    expect(page.locator(".thumb")).to_have_count(1)
    assert "draft" not in page.evaluate("Object.keys(localStorage).join()")
    page.get_by_role("radio", name="Grid").click()
    expect(page.locator(".card:not(.grid)")).to_have_count(0)
    expect(grid.card).to_have_attribute("data-answerable", "true", timeout=30_000)
    grid.press("n", "n")
    assert grid.marks[:2] == ["no", "no"]


def test_what_is_marked_is_sent_in_one_go_and_the_rest_stays_open(server: Server, grid: Gridding) -> None:
    """By keyboard alone: each answer on the item whose pixels were painted, one round a submission."""
    source = Pool.open(server.pool).source
    expected = []
    for words in (["no", "yes", "skip", "no", "unsure"], ["yes", "no"], ["no"] * 12):
        for place, item in enumerate(grid.items[:3]):
            painted = Image.open(io.BytesIO(grid.tile(place).locator("img").screenshot())).convert("L")
            assert likeness(painted, source.image(item, 200)) > 0.95
        expected += grid.mark(*words)
        expect(grid.page.locator("[data-send] span")).to_have_text(f"Send {len(words)}")
        assert given(server, grid) == expected[: -len(words)]
        grid.send()
    assert given(server, grid) == expected
    shown = rounds(server, grid)
    assert [n for _, _, n in shown] == [12] * 4
    assert len({digest for _, digest, _ in shown}) == 4


@pytest.mark.thorough
def test_the_cursor_moves_by_arrows_and_a_held_key_marks_once(grid: Gridding) -> None:
    """Across and down the columns, and never out of the grid; what the keyboard repeats is no mark."""
    columns = grid.columns
    grid.press("ArrowRight", "ArrowDown")
    assert grid.cursor == columns + 1
    grid.press("ArrowUp", "ArrowUp", "ArrowLeft", "ArrowLeft")
    assert grid.cursor == 0
    for _ in range(5):
        grid.page.keyboard.down("n")
    grid.page.keyboard.up("n")
    assert grid.marks == ["no"] + [""] * 11


@pytest.mark.thorough
def test_the_rest_is_marked_at_once_and_undone_at_once(server: Server, grid: Gridding) -> None:
    """What is marked already stays."""
    grid.mark("yes", "skip")
    grid.press("Shift+N")
    assert grid.marks == ["yes", "skip"] + ["no"] * 10
    grid.press("u")
    assert grid.marks == ["yes", "skip"] + [""] * 10
    grid.press("u", "u")
    assert grid.marks == [""] * 12
    grid.press("Enter")
    expect(grid.page.locator("[data-send]")).to_have_attribute("aria-disabled", "true")
    assert given(server, grid) == []


@pytest.mark.thorough
def test_all_by_mouse(server: Server, grid: Gridding) -> None:
    """Clicks turn an image through yes, no, skip and open; a double click on Send sends once."""
    items = grid.items
    for place, clicks in enumerate([1, 2, 3, 4]):
        for _ in range(clicks):
            grid.tile(place).click()
    assert grid.marks[:5] == ["yes", "no", "skip", "", ""]
    grid.page.locator("[data-rest=yes]").click()
    grid.page.locator("[data-undo]").click()
    grid.page.locator("[data-rest=no]").click()
    double_click(grid.page.locator("[data-send]"))
    expect(grid.card).not_to_have_attribute("data-painted", " ".join(map(str, items)), timeout=30_000)
    grid.wait()
    words = ["yes", "no", "skip"] + ["no"] * 9
    assert given(server, grid) == list(zip(items, words, strict=True))


@pytest.mark.thorough
def test_enter_sends_after_a_click_and_presses_a_focused_button(server: Server, grid: Gridding) -> None:
    """A clicked button gives the focus back, and a click beside the images takes nothing."""
    page = grid.page
    rest = page.locator("[data-rest=yes]")
    items = grid.items
    grid.mark("no")
    rest.click()
    grid.send()
    assert given(server, grid) == list(zip(items, ["no"] + ["yes"] * 11, strict=True))
    page.mouse.click(8, 400)
    grid.mark("no")
    rest.focus()
    grid.press("Enter")
    assert grid.marks == ["no"] + ["yes"] * 11
    assert len(given(server, grid)) == 12
    page.mouse.click(8, 400)
    grid.send()
    assert len(given(server, grid)) == 24


@pytest.mark.thorough
def test_the_last_grid_is_corrected_in_one_go(server: Server, grid: Gridding) -> None:
    """It comes back with its answers; what is changed is sent as corrections, and the next grid follows."""
    items = grid.items
    sent = grid.mark(*["no"] * 10)
    grid.send()
    coming = grid.items
    grid.press("u")
    expect(grid.card).to_have_attribute("data-painted", " ".join(map(str, items)))
    expect(grid.card).to_have_attribute("data-answerable", "true")
    assert grid.marks == ["no"] * 10 + [""] * 2
    grid.press("u")
    expect(grid.card).to_have_attribute("data-painted", " ".join(map(str, coming)))
    expect(grid.card).to_have_attribute("data-answerable", "true")
    grid.press("u")
    expect(grid.card).to_have_attribute("data-painted", " ".join(map(str, items)))
    expect(grid.card).to_have_attribute("data-answerable", "true")
    grid.tile(3).click()
    grid.tile(11).click()
    assert grid.marks[3] == "skip"
    expect(grid.page.locator("[data-send] span")).to_have_text("Correct 2")
    grid.send()
    rows = server.answers(grid.session)
    assert given(server, grid) == [*sent, (items[3], "skip"), (items[11], "yes")]
    assert [row["corrects"] for row in rows[10:]] == [rows[3]["id"], None]
    grid.press("u")
    expect(grid.card).to_have_attribute("data-painted", " ".join(map(str, items)))
    assert grid.marks == ["no"] * 3 + ["skip"] + ["no"] * 6 + ["", "yes"]


@pytest.mark.thorough
def test_marks_and_answers_survive_a_reload_and_a_dead_server(server: Server, grid: Gridding) -> None:
    """Marks that were not sent are there after a reload; a grid sent to a dead server is stored once."""
    grid.mark("no", "yes")
    grid.page.reload()
    grid.wait()
    assert grid.marks[:3] == ["no", "yes", ""]
    sent = list(zip(grid.items, ["no", "yes", "no"], strict=False))
    grid.press("n")
    server.kill()
    grid.press("Enter", "y", "Enter")
    expect(grid.card).to_have_attribute("data-saving", "3")
    expect(grid.card).to_have_attribute("data-answerable", "false")
    server.start()
    grid.page.reload()
    grid.wait()
    assert given(server, grid) == sent
    assert set(grid.marks) == {""}
    expected = sent + grid.mark("no")
    grid.send()
    assert given(server, grid) == expected


def test_two_windows_on_one_session_answer_a_grid_once(
    server: Server, context: BrowserContext, grid: Gridding
) -> None:
    """The second to send is told, and goes on to the next grid."""
    other = Gridding(context.new_page(), grid.page.url)
    assert other.items == grid.items
    sent = grid.mark("no", "yes")
    grid.send()
    other.mark("yes", "yes")
    other.send()
    expect(other.page.locator(".status")).to_contain_text("answered already")
    assert given(server, grid) == sent
    assert other.items == grid.items


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", ["61", thorough("many")])
def test_an_impossible_grid_is_told_in_a_sentence(
    server: Server, context: BrowserContext, wrong: str
) -> None:
    """Whatever somebody writes into the address."""
    page = context.new_page()
    page.goto(f"{server.url}/?project=digits&session=new&grid={wrong}")
    expect(page.get_by_role("alert")).to_contain_text(re.compile(f"Grid .* got '?{wrong}"), timeout=30_000)


@pytest.mark.thorough
@pytest.mark.parametrize("size", [thorough(12), 60])
def test_what_is_sent_stays_in_view(server: Server, context: BrowserContext, size: int) -> None:
    """On every screen the button is there, and no image is cut off at the sides."""
    page = context.new_page()
    grid = Gridding(page, f"{server.url}/?project=digits&session=new&grid={size}")
    for width, height in [(1440, 900), (1280, 720), (800, 1100), (390, 844)]:
        resize(page, width, height)
        box = page.locator("[data-send]").bounding_box()
        assert box
        assert box["y"] + box["height"] <= height
        assert box["x"] + box["width"] <= width
        tiles = [tile.bounding_box() for tile in page.locator(".tile").all()]
        assert all(tile and tile["x"] >= 0 and tile["x"] + tile["width"] <= width for tile in tiles)
        assert all(tile and tile["width"] >= 60 for tile in tiles)
        assert grid.columns == 4 or width > 719


def likeness(painted: Image.Image, drawn: Image.Image) -> float:
    """Correlation of two images at 32 × 32 grey values."""
    a, b = (
        np.asarray(i.convert("L").resize((32, 32), Image.Resampling.BOX), float).ravel()
        for i in (painted, drawn)
    )
    return float(np.corrcoef(a, b)[0, 1])
