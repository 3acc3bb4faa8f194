"""The page of plain widgets, for browsers in which the card doesn't run."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from closecall.core.pool.pool import Pool
from tests.browser.double_click import double_click
from tests.browser.labeling import Labeling
from tests.browser.plain import PlainLabeling
from tests.browser.served import Server
from tests.browser.test_labeling import likeness


@pytest.fixture
def plain(server: Server, context: BrowserContext) -> PlainLabeling:
    return PlainLabeling(context.new_page(), f"{server.url}/?project=digits&session=new&plain=1")


def test_answers_are_stored_on_the_item_that_was_painted(server: Server, plain: PlainLabeling) -> None:
    """By key and by mouse; undo brings an item back."""
    source = Pool.open(server.pool).source
    given = []
    for key, word in [("y", "yes"), ("n", "no"), ("s", "skip"), ("m", "unsure"), ("n", "no")]:
        assert likeness(plain.painted(), source.image(plain.item, 200)) > 0.95
        given.append((plain.item, word))
        plain.press(key)
    item = plain.item
    plain.click("Yes")
    plain.press("u")
    assert plain.item == item
    given += [(item, "yes"), (item, "undo")]
    assert [(row["item"], row["answer"]) for row in server.answers(plain.session)] == given


@pytest.mark.thorough
def test_bursts_answer_no_image_unseen(server: Server, plain: PlainLabeling) -> None:
    """What is stored is stored once, on an item that was painted when a key was pressed."""
    first = plain.selection
    for gap in (0, 20, 50):
        for _ in range(40):
            plain.page.keyboard.press("n")
            plain.page.wait_for_timeout(gap)
        plain.settle()
    plain.wait_for_another(first)
    stored = server.answers(plain.session)
    assert stored
    assert len({row["item"] for row in stored}) == len(stored)
    assert {row["item"] for row in stored} <= set(plain.painted_at_presses())


@pytest.mark.thorough
def test_a_held_key_answers_once(server: Server, plain: PlainLabeling) -> None:
    """What the keyboard repeats is no press."""
    first = plain.selection
    for _ in range(40):
        plain.page.keyboard.down("y")
        plain.page.wait_for_timeout(25)
    plain.page.keyboard.up("y")
    plain.wait_for_another(first)
    assert [row["answer"] for row in server.answers(plain.session)] == ["yes"]


@pytest.mark.thorough
def test_a_double_click_answers_once(server: Server, plain: PlainLabeling) -> None:
    first = plain.selection
    double_click(plain.page.get_by_role("button", name="No"))
    plain.wait_for_another(first)
    assert [row["answer"] for row in server.answers(plain.session)] == ["no"]


@pytest.mark.thorough
def test_where_the_card_does_not_run_plain_buttons_are_offered(
    server: Server, context: BrowserContext
) -> None:
    """Its script is not let run, as some companies have it: a button leads on, in the same session."""
    page = context.new_page()
    _forbid_components(page)
    page.goto(f"{server.url}/?project=digits&session=new")
    page.get_by_role("button", name="Use plain buttons instead").click(timeout=40_000)
    page.wait_for_url("**plain=1*")
    plain = PlainLabeling(page, page.url)
    plain.press("y")
    assert [row["answer"] for row in server.answers(plain.session)] == ["yes"]


@pytest.mark.thorough
def test_where_the_card_runs_nothing_else_is_offered(labeling: Labeling) -> None:
    """However long it has been there."""
    offer = labeling.page.locator(".st-key-offer-plain")
    expect(offer).to_be_attached()
    expect(offer).to_have_css("display", "none")


def _forbid_components(page: Page) -> None:
    page.add_init_script("URL.createObjectURL = () => { throw new Error('forbidden'); };")
