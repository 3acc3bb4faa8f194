"""An owner describes the images again while somebody labels."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from closecall.app.projects.config import ProjectFile
from tests.browser.labeling import Labeling
from tests.browser.served import Server, make_demo, move_beside
from tests.onnx_kit import write_model


@pytest.fixture
def beside(server: Server, tmp_path: Path) -> Iterator[Server]:
    """A project of its own on the same server, and for as long a model among the projects."""
    make_demo(tmp_path / "made", server)
    write_model(server.data / "models" / "small" / "model.onnx")
    yield move_beside(tmp_path / "made" / "digits", "described", server)
    shutil.rmtree(server.data / "models")


def described(server: Server) -> list[str | None]:
    """The description of each selection in the log, oldest first."""
    with closing(sqlite3.connect(server.data / "described" / "labels.db")) as log:
        rows = log.execute("SELECT json_extract(parameters, '$.described') FROM selections ORDER BY seq")
        return [name for (name,) in rows]


def open_the_form(page: Page) -> None:
    page.get_by_role("button", name="Settings").click()
    page.get_by_role("button", name="Describe again…").click()
    expect(page.get_by_role("heading", name="Describe again")).to_be_visible()


@pytest.mark.thorough
def test_who_labels_goes_on_with_the_new_features(beside: Server, context: BrowserContext) -> None:
    """In a page that stays open: no answer is lost, and the queue is selected again without a reload."""
    url = f"{beside.url}/?project=described"
    labeling = Labeling(context.new_page(), f"{url}&session=new")
    for key in "nynyn":
        labeling.press(key)
    owner = Labeling(context.new_page(), f"{url}&session=new").page
    open_the_form(owner)
    owner.get_by_role("combobox", name="Described by").click()
    owner.get_by_role("option", name="small").click()
    expect(owner.get_by_text("12 features from output image_embeds.")).to_be_visible()
    owner.get_by_role("button", name="Describe the images").click()
    owner.get_by_role("button", name="Use", exact=True).click(timeout=120_000)
    expect(owner.locator(".st-key-described-small").get_by_text("In use")).to_be_visible(timeout=30_000)
    assert ProjectFile.read(beside.data / "described").description == "small"

    labeling.page.bring_to_front()
    for key in "nnn":
        labeling.press(key)
    answers = [row["answer"] for row in beside.answers(labeling.session)]
    assert answers == ["no", "yes", "no", "yes", "no", "no", "no", "no"]
    assert described(beside)[-1] == "small"
