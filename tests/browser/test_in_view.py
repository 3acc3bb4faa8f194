"""Long texts on the Label page stay within reach: messages in the window, and guidelines by scrolling."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, expect

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from tests.browser.labeling import Labeling, resize
from tests.browser.served import Server, free_port
from tests.waiting import until

GUIDELINE = " ".join(f"Rule {number}: look at the edge of the leaf." for number in range(250)) + " The end."


class Herbarium(Server):
    """``closecall serve`` over a folder of projects."""

    key = "herbarium"

    def command(self) -> list[str]:
        return ["serve", str(self.data), "--headless", "--port", str(self.port)]

    @property
    def images(self) -> Path:
        """The images, in a folder with a long path."""
        return self.data.parent / " ".join(["pressed leaves of the old herbarium"] * 6)


@pytest.fixture(scope="module")
def herbarium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Herbarium]:
    """A project with a long guideline."""
    made = Herbarium(tmp_path_factory.mktemp("long") / "projects", items=40, port=free_port())
    made.images.mkdir(parents=True)
    for i in range(40):
        Image.effect_noise((40, 30), 20 + i).save(made.images / f"{i}.png")
    with Workspace(made.data) as workspace:
        new = NewProject(str(made.images), "Is it a leaf?", guideline=GUIDELINE)
        project = workspace.project(workspace.create(new, key=made.key))
        until(lambda: project.pool is not None and project.pool.complete)
    made.start()
    yield made
    made.stop()


def test_a_long_guideline_is_read_to_its_end(herbarium: Herbarium, context: BrowserContext) -> None:
    """Opened, it is in the window, and scrolls; at first, it takes one line."""
    page = context.new_page()
    Labeling(page, f"{herbarium.url}/?project=herbarium&session=new")
    guideline = page.get_by_role("button", name="Rule 0")
    closed = guideline.bounding_box()
    assert closed
    assert closed["height"] < 40
    guideline.click()
    expect(guideline).to_be_in_viewport(ratio=1)
    guideline.hover()
    page.mouse.wheel(0, 100_000)
    at_its_end = "e => e.scrollTop > 0 && e.scrollTop + e.clientHeight >= e.scrollHeight - 1"
    page.wait_for_function(f"e => ({at_its_end})(e)", arg=guideline.element_handle())
    expect(guideline).to_be_in_viewport(ratio=1)


def test_undo_looks_disabled_while_there_is_nothing_to_undo(
    herbarium: Herbarium, context: BrowserContext
) -> None:
    """Its text has less contrast than that of Unsure beside it, and the same after an answer."""
    page = context.new_page()
    labeling = Labeling(page, f"{herbarium.url}/?project=herbarium&session=new")
    undo, unsure = (page.locator(f".tool.{name}") for name in ("undo", "unsure"))
    color = "e => getComputedStyle(e).color"
    expect(undo).to_have_attribute("aria-disabled", "true")
    assert undo.evaluate(color) != unsure.evaluate(color)
    labeling.press("y")
    expect(undo).to_have_attribute("aria-disabled", "false")
    assert undo.evaluate(color) == unsure.evaluate(color)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (1280, 720), (390, 844)])
def test_a_long_message_is_in_view(
    herbarium: Herbarium, context: BrowserContext, width: int, height: int
) -> None:
    """The whole sentence about a missing folder, together with all buttons, without scrolling."""
    page = context.new_page()
    resize(page, width, height)
    Labeling(page, f"{herbarium.url}/?project=herbarium&session=new")
    away = herbarium.images.rename(herbarium.data.parent / "away")
    try:
        page.reload()
        status = page.locator(".card .status")
        expect(status).to_contain_text("any more: restore what the pool was made from", timeout=30_000)
        for shown in (status, *page.locator(".answer").all()):
            expect(shown).to_be_in_viewport(ratio=1)
    finally:
        away.rename(herbarium.images)


def test_a_lost_connection_covers_no_toolbar(herbarium: Herbarium, context: BrowserContext) -> None:
    """The line about it ends where the header ends, in every window."""
    page = context.new_page()
    Labeling(page, f"{herbarium.url}/?project=herbarium&session=new")
    herbarium.kill()
    try:
        expect(page.locator('[data-test-connection-state="PINGING_SERVER"]')).to_have_count(1)
        for width, height in ((1440, 900), (390, 844), (844, 390)):
            resize(page, width, height)
            line = page.get_by_test_id("stHeader").evaluate(
                """header => {
                    const { content, top, height } = getComputedStyle(header, "::after");
                    const bottom = header.getBoundingClientRect().top + parseFloat(top) + parseFloat(height);
                    return [content, bottom];
                }"""
            )
            toolbar = page.locator(".st-key-toolbar").bounding_box()
            assert toolbar
            assert "No connection to the server" in line[0]
            assert line[1] <= toolbar["y"], (width, line, toolbar)
    finally:
        herbarium.start()
