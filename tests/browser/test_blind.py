from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from closecall.core.pool.pool import Pool
from tests.browser.labeling import FRAMES, Labeling, at_rest, resize
from tests.browser.served import Server
from tests.browser.test_accessibility import grave_findings
from tests.browser.test_compare import check_curves_inside


@pytest.fixture
def page(server: Server, context) -> Page:
    """The blind view, with nothing begun."""
    made = context.new_page()
    made.goto(f"{server.url}/compare?project=digits&session=new&view=blind")
    begin = made.get_by_role("button", name="Begin", exact=True)
    again = made.get_by_role("button", name=re.compile("Compare again|Start again"))
    expect(begin.or_(again).first).to_be_visible(timeout=30_000)
    if again.is_visible():
        again.click()
    expect(begin).to_be_enabled()
    settle(made)
    return made


def settle(page: Page) -> None:
    """Until nothing of an earlier view is there, which would stay, and fade, as long as the script runs."""
    at_rest(page)


def word(server: Server, item: int) -> str:
    pool = Pool.open(server.pool)
    return "y" if pool.classes[int(pool.truth([item])[0])] == "7" else "n"


@pytest.mark.thorough
def test_who_labels_is_told_in_the_end(server: Server, page: Page) -> None:
    """Not before: the strategies' names are nowhere in the page. A reload and a correction lose nothing."""
    assert grave_findings(page) == []
    page.get_by_role("button", name="Begin", exact=True).click()
    person = Blindly(page)
    person.wait()
    tell = page.get_by_role("button", name="Which chose better?")
    expect(tell).to_be_disabled()
    expect(page.get_by_text("Each strategy needs up to 10 more answers before we can tell.")).to_be_visible()
    items: list[int] = []
    for turn in range(120):
        if tell.is_enabled():
            break
        if turn == 8:
            page.reload()
            person.wait()
            person.press("u")
            assert person.item == items.pop()
        items.append(person.item)
        person.press(word(server, person.item))
    assert len(set(items)) == len(items) >= 10
    shown = page.locator("body").inner_text() + page.locator(".card").inner_text()
    assert "Auto" not in shown
    assert "Random" not in shown
    assert grave_findings(page) == []
    tell.click()
    expect(page.locator(".verdict .line")).to_have_count(2, timeout=30_000)
    named = {name.strip() for name in page.locator(".verdict .who b").all_inner_texts()}
    assert named == {"Auto", "Random"}
    expect(page.locator(".verdict .title")).not_to_be_empty()
    assert page.locator(".verdict .chosen img").count() >= 10
    check_curves_inside(page.locator(".verdict .curves"))
    resize(page, 1280, 720)
    page.get_by_role("button", name="Help").click()
    page.get_by_role("checkbox", name="Large figures").check()
    page.keyboard.press("Escape")
    page.evaluate(FRAMES)
    right = "(labels) => Math.max(...labels.map((label) => label.getBoundingClientRect().right))"
    assert page.locator(".verdict .endlabel").evaluate_all(right) <= 1280
    settle(page)
    assert grave_findings(page) == []
    page.get_by_role("button", name="Add these labels").click()
    expect(page.get_by_text("Added ")).to_be_visible()


def test_strategies_are_chosen_before(page: Page) -> None:
    """The same one twice is no comparison."""
    page.get_by_role("combobox", name="The other").click()
    page.get_by_role("option", name="Auto").click()
    expect(page.get_by_role("button", name="Begin", exact=True)).to_be_disabled()


@pytest.mark.thorough
def test_one_can_be_left_and_gone_on_with(server: Server, page: Page) -> None:
    """For another one, which need not be begun."""
    page.get_by_role("button", name="Begin", exact=True).click()
    person = Blindly(page)
    person.wait()
    person.press("n")
    item = person.item
    page.get_by_role("button", name="Start again").click()
    expect(person.card).to_have_count(0)
    page.get_by_role("button", name="Continue the last one").click()
    person.wait()
    assert person.item == item


class Blindly(Labeling):
    """The card of a blind comparison in a page that is open already."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.card = page.locator(".card")
