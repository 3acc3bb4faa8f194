from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import BrowserContext, Page, expect

from closecall.app.cli.main import main
from tests.browser.labeling import Labeling
from tests.browser.served import Server, make_demo, move_beside


@pytest.fixture(scope="module")
def server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of its own: an audit that begins here would go on in other tests."""
    folder = tmp_path_factory.mktemp("audited")
    make_demo(folder, server)
    return move_beside(folder / server.key, "audited", server)


@pytest.fixture
def labeling(server: Server, context: BrowserContext) -> Labeling:
    return Labeling(context.new_page(), f"{server.url}/?project={server.key}&session=new")


def open_progress(server: Server, labeling: Labeling) -> Page:
    """The progress page of the session, with everything computed."""
    page = labeling.page
    page.goto(f"{server.url}/progress?project={server.key}&session={labeling.session}")
    expect(page.locator(".progress")).to_have_attribute("data-state", "shown", timeout=60_000)
    return page


@pytest.fixture
def progress(server: Server, labeling: Labeling) -> Page:
    return open_progress(server, labeling)


def test_the_page_says_how_far_it_is(server: Server, labeling: Labeling) -> None:
    """A headline, the answers over time, and how many there are of each."""
    for key in "nyn":
        labeling.press(key)
    page = open_progress(server, labeling)
    expect(page.locator(".title")).to_have_text(re.compile("Too early|Keep going|You may stop"))
    expect(
        page.get_by_role("img", name=re.compile(r"Answers over time\. \d+ yes and \d+ no"))
    ).to_be_visible()
    expect(page.locator(".audited")).to_have_text(re.compile("hardest|drawn with known probability|begins"))


def test_labels_are_exported_from_the_page(server: Server, labeling: Labeling, tmp_path: Path) -> None:
    """The file has what the command line writes for this question."""
    for key in "yns":
        labeling.press(key)
    page = open_progress(server, labeling)
    with page.expect_download() as coming:
        page.get_by_role("button", name="Export labels").click()
    download = coming.value
    assert download.suggested_filename == f"{server.key}-labels.csv"
    download.save_as(tmp_path / "page.csv")
    project, written = server.data / server.key, tmp_path / "labels.csv"
    result = CliRunner().invoke(main, ["export", str(project), "--out", str(written)])
    assert result.exit_code == 0, result.output
    exported = (tmp_path / "page.csv").read_text("utf-8")
    assert exported == written.read_text("utf-8")
    assert len(exported.splitlines()) > 2


@pytest.mark.thorough
def test_an_audit_begins_with_its_share_and_says_so_on_the_card(server: Server, labeling: Labeling) -> None:
    """The share is chosen by mouse or arrow keys; what is drawn then is named, and stored as the audit's."""
    for key in "ynny":
        labeling.press(key)
    page = open_progress(server, labeling)
    page.get_by_role("radio", name="20").click()
    expect(page.get_by_role("radio", name="20")).to_be_checked()
    page.keyboard.press("Alt+ArrowRight")  # the browser's: forward
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="30")).to_be_checked()
    expect(page.locator(".audited")).not_to_contain_text("hardest")
    again = Labeling(page, f"{server.url}/?project={server.key}&session={labeling.session}")
    for _ in range(40):
        if "audit" in page.locator(".chosen").inner_text():
            break
        again.press("n")
    expect(page.locator(".chosen")).to_contain_text("Drawn for the audit")
    item = again.item
    again.press("n")
    assert server.answers(again.session)[-1] == server.answers(again.session)[-1] | {
        "item": item,
        "purpose": "audit",
    }


@pytest.mark.thorough
def test_the_page_keeps_its_share_when_it_is_loaded_again(server: Server, progress: Page) -> None:
    progress.get_by_role("radio", name="10").click()
    expect(progress.get_by_role("radio", name="10")).to_be_checked()
    progress.reload()
    expect(progress.get_by_role("radio", name="10")).to_be_checked()
