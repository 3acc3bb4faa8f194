"""What people read who do not know how to go on: the help card, hints, and the lines about strategies."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from closecall.app.projects.roles import SOMEBODY
from closecall.core.selection.contenders import CONTENDERS
from closecall.core.selection.registry import STRATEGIES
from closecall.storage import Archive, Concepts, Database, LabelLog
from tests.browser.labeling import Labeling, resize
from tests.browser.many import Gridding
from tests.browser.served import Server
from tests.browser.test_blind import settle
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


HELP = {
    "review": ("/review?", "Keys", ["correct mistakes", "show the item’s history"]),
    "similar": ("/similar?like=yes", "Keys", ["the same answer", "select all, or none"]),
    "race": ("/compare?view=race", "Keys", ["how fast the classifiers learn", "one round"]),
    "hyperplane": ("/compare?view=hyperplane", "Help", ["for the same hyperplane"]),
    "progress": ("/progress?", "Help", ["when you may stop"]),
    "people": ("/people?", "Help", ["how far they agree"]),
}
"""Address, title and words of the help card, by page."""

BUSY = (*"ynsmual+0", "ArrowRight", "ArrowDown")
"""Keys that do something on one page or another."""


def check_help_card(page: Page, title: str, words: list[str]) -> None:
    """The card has these words; "?", Escape and its button close it. While it is open, no key acts."""
    dialog, seen = page.get_by_role("dialog", name=title), page.locator(".title, .question")
    before = page.url, seen.inner_text()
    for close in ("Escape", "?", "Enter"):  # the last on "Close"
        page.keyboard.press("?")
        for part in words:
            expect(dialog).to_contain_text(part)
        for key in BUSY:
            page.keyboard.press(key)
        expect(dialog).to_be_visible()
        page.keyboard.press(close)
        expect(dialog).to_have_count(0)
    page.get_by_role("button", name=title).click()
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_have_count(0)
    assert (page.url, seen.inner_text()) == before


@pytest.mark.parametrize("name", [thorough(one) if one in ("people", "hyperplane") else one for one in HELP])
def test_each_page_has_a_help_card(server: Server, labeling: Labeling, name: str) -> None:
    """With a sentence and the page's keys, if it has any; while it is open, no key does anything else."""
    labeling.press("y")
    labeling.press("n")
    page, (path, title, words) = labeling.page, HELP[name]
    given = server.answers(labeling.session)
    page.goto(f"{server.url}{path}&project=digits&session={labeling.session}".replace("?&", "?"))
    expect(page.locator(".card[data-state=shown]")).to_be_visible(timeout=60_000)
    settle(page)
    check_help_card(page, title, words)
    assert server.answers(labeling.session) == given


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


def test_a_strategy_that_pages_do_not_offer_is_listed_where_it_is_used(
    server: Server, context: BrowserContext
) -> None:
    """A server that was started with one labels with it, and its pages name it."""
    with Database.open(server.database) as database:
        concept = Concepts(database).create("by two SVMs", "Is it a matter of C?")
        session = LabelLog(database).start_session(concept.id, SOMEBODY, "disagreement:shortlist=20")
    labeling = Labeling(context.new_page(), f"{server.url}/?project=digits&session={session.id}")
    page, panel = labeling.page, labeling.page.get_by_test_id("stPopoverBody")
    for key in "ynynn":
        labeling.press(key)
    page.get_by_role("button", name="Strategy: Disagreement").click()
    expect(panel.get_by_text(CONTENDERS["disagreement"].about, exact=True)).to_be_visible()
    expect(panel.get_by_text("TypiClust")).to_have_count(0)
    page.goto(f"{server.url}/compare?project=digits&session={session.id}&view=blind")
    expect(page.get_by_role("combobox", name="One")).to_have_value("Disagreement", timeout=60_000)
    with Database.open(server.database) as database:
        chosen = LabelLog(database).recent_selections(session.id, 50)
        assert {one.strategy for one in chosen if one.why == "strategy"} == {"disagreement"}
        Archive(database).add(concept.id)


def test_each_strategy_is_explained_and_the_fitting_one_is_first(
    server: Server, context: BrowserContext
) -> None:
    """The margin index; with many no answers, one that finds more positives. The page is not reloaded."""
    with Database.open(server.database) as database:
        concept = Concepts(database).create("rare", "Is it something rare?")
        session = LabelLog(database).start_session(concept.id, SOMEBODY, "margin-index")
    labeling = Labeling(context.new_page(), f"{server.url}/?project=digits&session={session.id}")
    page, panel = labeling.page, labeling.page.get_by_test_id("stPopoverBody")
    first = panel.locator("label:has(input)").first
    opener = page.get_by_role("button", name="Strategy:")
    opener.click()
    for strategy in STRATEGIES.values():
        expect(panel.get_by_text(strategy.about, exact=True)).to_have_count(1)
    expect(first).to_contain_text("Margin index · fits now")
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    for key in "ynnn":
        labeling.press(key)
    opener.click()
    expect(first).to_contain_text("Likely positive · fits now")
    before = labeling.selection
    first.click()
    expect(panel).to_have_count(0)
    expect(page.get_by_role("button", name="Strategy: Likely positive")).to_be_visible()
    expect(labeling.card).not_to_have_attribute("data-painted-selection", before, timeout=30_000)
    with Database.open(server.database) as database:
        Archive(database).add(concept.id)
