"""What people read who do not know how to go on: the help card, hints, and the lines about strategies."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Locator, expect

from closecall.core.selection.registry import STRATEGIES
from tests.browser.labeling import Labeling, resize
from tests.browser.many import Gridding
from tests.browser.served import Server
from tests.scale import thorough

HINT = "near 0, the classifier can hardly decide"


def help_card(labeling: Labeling | Gridding) -> Locator:
    return labeling.page.get_by_role("dialog", name="Keys")


def test_a_question_mark_asks_for_help_and_answers_nothing(server: Server, labeling: Labeling) -> None:
    """The card names the keys; meanwhile no key answers; Escape, the same key and the button close it."""
    page, item = labeling.page, labeling.item
    for close in ("Escape", "?"):
        page.keyboard.press("?")
        expect(help_card(labeling)).to_contain_text("undo the last answer")
        for key in ("y", "n", "s", "m", "ArrowRight", "z", "u"):
            page.keyboard.press(key)
        page.keyboard.press(close)
        expect(help_card(labeling)).to_have_count(0)
    page.get_by_role("button", name="Keys").click()
    help_card(labeling).get_by_role("button", name="Close").click()
    expect(help_card(labeling)).to_have_count(0)
    assert labeling.item == item
    assert server.answers(labeling.session) == []
    labeling.press("m")
    assert [(row["item"], row["answer"]) for row in server.answers(labeling.session)] == [(item, "unsure")]


@pytest.mark.thorough
def test_the_grid_has_a_help_card_too(server: Server, context: BrowserContext) -> None:
    """Its own keys, and no marks meanwhile."""
    grid = Gridding(context.new_page(), f"{server.url}/?project=digits&session=new&grid=12")
    grid.press("?")
    expect(help_card(grid)).to_contain_text("send the marks")
    grid.press("y", "?")
    expect(help_card(grid)).to_have_count(0)
    grid.press("?", "Enter")  # on "Close", and the grid isn't sent
    expect(help_card(grid)).to_have_count(0)
    grid.press("m")
    assert grid.marks == ["unsure"] + [""] * 11


def test_figures_are_large_for_an_audience_and_stay_so(server: Server, labeling: Labeling) -> None:
    """All controls are still in view; the browser keeps it over a reload, until it is turned off."""
    page = labeling.page
    value = page.locator(".value").first
    size = height_of(value)
    page.keyboard.press("?")
    page.get_by_label("Large figures").check()
    page.keyboard.press("Escape")
    assert height_of(value) > 1.4 * size
    page.reload()
    labeling.wait()
    assert height_of(value) > 1.4 * size
    for width, height in [(1280, 720), (1920, 1080)]:
        resize(page, width, height)
        box = page.locator(".answer.yes").bounding_box()
        assert box
        assert box["y"] + box["height"] <= height
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.goto(f"{page.url}&size=usual")
    labeling.wait()
    resize(page, 1440, 900)
    assert height_of(value) == size


def height_of(text: Locator) -> float:
    return float(text.evaluate("one => parseFloat(getComputedStyle(one).fontSize)"))


@pytest.mark.parametrize("how", ["hover", thorough("focus")])
def test_the_margin_is_explained_in_a_sentence(labeling: Labeling, how: str) -> None:
    """Under the mouse and with the focus, and otherwise not."""
    hint = labeling.page.locator(".rows .hint", has_text=HINT)
    expect(hint).to_be_hidden()
    term = labeling.page.locator(".rows .term", has_text=HINT)
    if how == "hover":
        term.hover()
    else:
        labeling.page.keyboard.press("Tab")
        term.focus()
    expect(hint).to_be_visible()
    box = hint.bounding_box()
    window = labeling.page.viewport_size
    assert box
    assert window
    assert box["x"] + box["width"] <= window["width"]


def test_each_strategy_is_explained_and_the_fitting_one_is_first(labeling: Labeling) -> None:
    """The margin index; but with many no answers and hardly a yes, what finds further positives."""
    page = labeling.page
    opener, panel = page.get_by_role("button", name="Strategy:"), page.get_by_test_id("stPopoverBody")
    opener.click()
    for strategy in STRATEGIES.values():
        expect(panel.get_by_text(strategy.about, exact=True)).to_have_count(1)
    expect(panel.locator("label:has(input)").first).to_contain_text("fits now")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    labeling.pick_strategy("Random")
    labeling.press("y")
    expect(labeling.page.locator(".thumb")).to_have_count(1)
