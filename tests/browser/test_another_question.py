"""Another question about a project that is served alone, asked in the settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import BrowserContext, expect

from closecall.app.cli.main import main
from closecall.storage import Concepts, Database
from tests.browser.double_click import double_click
from tests.browser.labeling import Labeling, at_rest
from tests.browser.photographs import Photographs
from tests.browser.served import free_port


class Pets(Photographs):
    """``closecall serve pets``."""

    key = "pets"


@pytest.fixture
def pets(tmp_path: Path) -> Iterator[Pets]:
    """A project of two classes, which is served alone."""
    for kind in ("dog", "wild_cat"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for i in range(40):
            Image.effect_noise((40, 30), 20 + i).save(tmp_path / "images" / kind / f"{i}.png")
    made = Pets(tmp_path / "projects", items=80, port=free_port())
    made.data.mkdir()
    words = ["new", str(made.data / made.key), "--images", str(tmp_path / "images")]
    done = CliRunner().invoke(main, [*words, "--question", "Is it a dog?"])
    assert done.exit_code == 0, done.output
    made.start()
    yield made
    made.stop()


def test_its_class_is_chosen_where_the_question_may_mean_one(pets: Pets, context: BrowserContext) -> None:
    """Until then, the question is refused; then it is asked at once, and the class means yes.

    The menu of questions, which is there from then on, gives the keys back if it is closed without a choice.
    """
    labeling = Labeling(context.new_page(), pets.url)
    page = labeling.page
    expect(page.locator(".question")).to_have_text(["Is it a dog?"])
    labeling.press("y")
    before = labeling.session
    page.get_by_role("button", name="Settings").click()
    panel = page.get_by_test_id("stPopoverBody")
    panel.get_by_label("Another question about these items").fill("Is it a cat?")
    panel.get_by_role("button", name="Add and label").click()
    expect(panel).to_contain_text("Choose the class that means yes: wild_cat, or No class.")
    with Database.open(pets.database) as database:
        assert [concept.question for concept in Concepts(database).all()] == ["Is it a dog?"]
    panel.get_by_role("combobox", name="Class that means yes").click()
    page.get_by_role("option", name="wild_cat").click()
    panel.get_by_role("button", name="Add and label").click()
    expect(page.locator(".question")).to_have_text(["Is it a cat?"], timeout=30_000)
    expect(panel).to_have_count(0)
    page.wait_for_url(lambda url: before not in url)  # the address follows the card
    labeling.wait()
    menu = page.get_by_role("combobox", name="Question")
    menu.click()
    expect(page.get_by_role("option", name="Is it a dog?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).not_to_be_focused()
    item = labeling.item
    labeling.press("n")
    assert [(row["item"], row["answer"]) for row in pets.answers(labeling.session)] == [(item, "no")]
    with Database.open(pets.database) as database:
        meant = {concept.question: concept.positive_class for concept in Concepts(database).all()}
    assert meant == {"Is it a dog?": "dog", "Is it a cat?": "wild_cat"}
    page.get_by_role("combobox", name="Question").click()
    page.get_by_role("option", name="Is it a dog?").click()
    expect(page.locator(".question")).to_have_text(["Is it a dog?"], timeout=30_000)


def test_a_double_click_adds_it_once_and_asks_it(pets: Pets, context: BrowserContext) -> None:
    """The second click does nothing: it neither complains nor returns to the former question."""
    labeling = Labeling(context.new_page(), pets.url)
    page = labeling.page
    for number, slower in enumerate([0.0, 0.1, 0.13, 0.16, 0.2]):
        question = f"Is it number {number}?"
        page.get_by_role("button", name="Settings").click()
        panel = page.get_by_test_id("stPopoverBody")
        panel.get_by_label("Another question about these items").fill(question)
        double_click(panel.get_by_role("button", name="Add and label"), slower)
        expect(page.locator(".question")).to_have_text([question], timeout=30_000)
        at_rest(page)
        expect(page.locator(".question")).to_have_text([question])
        expect(page.get_by_text("already")).to_have_count(0)
        expect(panel).to_have_count(0)
        with Database.open(pets.database) as database:
            assert len(Concepts(database).all()) == 2 + number
