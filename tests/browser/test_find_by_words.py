from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, expect

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.similar import ByAngle, ExactSearch
from closecall.core.similar.description import Description
from closecall.core.sources import source_from
from tests.browser.labeling import Labeling
from tests.browser.many import Finding
from tests.browser.served import Server, move_beside
from tests.words_kit import every_drawing, trained, write_drawings, write_pair


@pytest.fixture
def pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """Drawings that can be searched by words."""
    root = tmp_path_factory.mktemp("drawn")
    folder = write_pair(root / "clip", pair=trained(10))
    write_drawings(root / "drawings", list(every_drawing()), 1)
    return build(source_from(f"onnx:{folder}:{root / 'drawings'}", use_classes=False), root / "pool")


@pytest.fixture
def drawings(server: Server, pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of them on the server of all tests."""
    root = tmp_path_factory.mktemp("made")
    with Workspace(root) as workspace:
        workspace.create(NewProject(str(pool.path), "Is it a seven?"), key="drawings")
    return move_beside(root / "drawings", "drawings", server)


@pytest.mark.thorough
def test_what_is_described_is_shown_answered_and_labeled_first(
    drawings: Server, pool: Pool, context: BrowserContext
) -> None:
    """Only once Enter is pressed; a reload keeps it. Find by name has another field, and stays as it was."""
    w = Description(["a seven"], ["a bold"]).direction(pool.source.text_model())
    expected = ExactSearch(ByAngle(pool)).neighbours(w, len(pool)).ids
    finding = Finding(context.new_page(), f"{drawings.url}/?project=drawings&session=new&find=")
    page = finding.page
    expect(page.locator(".placeholder")).to_contain_text("Type part of a name", timeout=30_000)
    page.get_by_role("radio", name="By words").click()
    what, without = (page.get_by_role("searchbox", name=name) for name in ("to find", "but not"))
    placeholder = page.locator(".placeholder")
    expect(placeholder.filter(has_text="Describe what to find")).to_be_visible(timeout=30_000)
    expect(placeholder).to_have_count(1, timeout=30_000)  # the other search's grid has left
    expect(what).to_be_focused(timeout=30_000)
    what.press_sequentially("a seven", delay=60)
    without.fill("a bold")
    expect(page.locator(".tile")).to_have_count(0)
    without.press("Enter")
    expect(page.locator(".found")).to_have_text(f"{len(pool)} items, nearest first", timeout=30_000)
    finding.wait()
    assert finding.items == expected[:60].tolist()
    expect(page.locator(".chosen")).to_contain_text("Found by words: “a seven, but not a bold”, round ")
    page.reload()
    finding.wait()
    assert (what.input_value(), without.input_value()) == ("a seven", "a bold")
    assert finding.items == expected[:60].tolist()
    item, word = finding.mark_place(0, "yes")
    finding.press("Enter")
    expect(finding.tile(0)).to_have_attribute("data-settled", "", timeout=30_000)
    finding.wait()
    finding.turn("PageDown", "61–112")
    assert finding.items == expected[60:].tolist()
    assert [(row["item"], row["answer"]) for row in drawings.answers(finding.session)] == [(item, word)]
    labeling = Labeling(page, f"{drawings.url}/?project=drawings&session={finding.session}")
    assert labeling.item == expected[1]
    expect(page.locator(".chosen")).to_contain_text("Like the description “a seven, but not a bold” until")
