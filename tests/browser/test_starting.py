from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from PIL import Image
from playwright.sync_api import BrowserContext, Locator, Page, expect

from closecall.app.cli.main import main
from closecall.app.projects.config import ProjectFile
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from tests.browser.double_click import double_click
from tests.browser.labeling import Labeling, at_rest
from tests.browser.served import Server
from tests.onnx_kit import write_model


@pytest.fixture
def start_page(server: Server, context: BrowserContext) -> Page:
    page = context.new_page()
    page.goto(f"{server.url}/projects")
    expect(page.get_by_role("heading", name="New project")).to_be_visible()
    return page


@pytest.mark.thorough
def test_the_first_address_shows_the_demo(server: Server, context: BrowserContext) -> None:
    """Whoever opens the bare address can label at once."""
    labeling = Labeling(context.new_page(), server.url)
    assert "project=digits" in labeling.page.url


@pytest.mark.thorough
def test_a_project_leads_to_its_labeling_page(start_page: Page) -> None:
    """The list's button opens the project."""
    start_page.locator(".st-key-open-digits button").click()
    expect(start_page.locator(".question")).to_have_text(["Is this a 7?"])


def test_a_folder_becomes_a_project_that_can_be_labeled(
    start_page: Page, server: Server, tmp_path: Path
) -> None:
    """From the form to the first image. A double click makes one project; another one must be confirmed."""
    folder = tmp_path / "squares"
    folder.mkdir()
    for i in range(150):
        Image.new("RGB", (40, 30), (i, 255 - i, (7 * i) % 256)).save(folder / f"{i:03}.png")

    def fill_in() -> Locator:
        start_page.get_by_role("textbox", name="Folder").fill(str(folder))
        start_page.get_by_role("textbox", name="Question").fill("Is it green?")
        return start_page.get_by_role("button", name="Create and label")

    def made() -> set[str]:
        return {found.name for found in server.data.glob("is-it-green*")}

    double_click(fill_in())
    expect(start_page.locator(".question")).to_have_text(["Is it green?"], timeout=30_000)
    expect(start_page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=120_000)
    assert made() == {"is-it-green"}
    start_page.goto(f"{server.url}/projects")
    fill_in().click()
    expect(start_page.get_by_role("alert")).to_contain_text(
        "a project with this question about the same items"
    )
    assert made() == {"is-it-green"}
    double_click(start_page.get_by_role("button", name="Create another"))
    expect(start_page).to_have_url(re.compile("project=is-it-green-2"), timeout=30_000)
    assert made() == {"is-it-green", "is-it-green-2"}


@pytest.mark.thorough
def test_a_model_beside_the_projects_describes_a_folder(
    start_page: Page, server: Server, tmp_path: Path
) -> None:
    """It is offered and described, and examples go through it; without its file, labeling goes on."""
    start_page.get_by_text("Get a model").click()
    command = f"hf download Xenova/clip-vit-base-patch32 .* --local-dir {server.data}/models/clip"
    expect(start_page.locator("code").filter(has_text=re.compile(command))).to_be_visible()
    write_model(server.data / "models" / "small" / "model.onnx", outputs=("image_embeds", "tokens"))
    folder = tmp_path / "stripes"
    folder.mkdir()
    for i in range(150):
        Image.new("RGB", (40, 30), (i, 255 - i, (7 * i) % 256)).save(folder / f"{i:03}.png")
    start_page.reload()
    start_page.get_by_role("textbox", name="Folder").fill(str(folder))
    start_page.get_by_role("combobox", name="Described by").click()
    start_page.get_by_role("option", name="small").click()
    expect(start_page.get_by_text("12 features from output image_embeds.")).to_be_visible()
    expect(start_page.get_by_text("The features of 150 items need 8.7 kB of disk space.")).to_be_visible()
    start_page.get_by_role("combobox", name="Output").click()
    start_page.get_by_role("option", name="tokens, 12 features").click()
    expect(start_page.get_by_text("12 features from output tokens (mean of tokens).")).to_be_visible()
    start_page.get_by_role("combobox", name="Features stored as").click()
    start_page.get_by_role("option", name="float16: half the disk space").click()
    expect(start_page.get_by_text("The features of 150 items need 5.1 kB of disk space.")).to_be_visible()
    start_page.get_by_role("textbox", name="Question").fill("Is it striped?")
    start_page.get_by_test_id("stFileUploader").locator("input").set_input_files(folder / "003.png")
    expect(start_page.get_by_role("button", name="Remove 003.png")).to_be_visible()
    at_rest(start_page)
    start_page.get_by_role("button", name="Create and label").click()
    expect(start_page.locator(".question")).to_have_text(["Is it striped?"], timeout=30_000)
    card = start_page.locator(".card")
    expect(card).to_have_attribute("data-answerable", "true", timeout=120_000)
    pool = Pool.open(server.data / "is-it-striped" / "pool")
    assert (pool.n_features, pool.source.kind) == (12, "onnx")
    manifest = Manifest.read(pool.path)
    assert (manifest.source["output"]["name"], manifest.dtype) == ("tokens", "float16")
    shutil.rmtree(server.data / "models")
    first = card.get_attribute("data-item")
    start_page.keyboard.press("n")
    expect(card).not_to_have_attribute("data-item", str(first))


def expect_offer(page: Page, is_ticked: bool) -> None:
    """Subfolders are offered as classes. While the page changes, two checkboxes may be there for a moment."""
    for state in (True, False):
        offers = page.get_by_role("checkbox", name="Subfolders are classes", checked=state)
        expect(offers).to_have_count(int(state == is_ticked))


@pytest.mark.thorough
def test_subfolders_are_offered_as_classes(start_page: Page, server: Server, tmp_path: Path) -> None:
    """They are named, and ticked where the question asks for one; what the page shows is done.

    A tick that a person has set or removed stays. If the press that ends the typing of a question changes the
    classes, it creates nothing.
    """
    for i in range(120):
        file = tmp_path / "walks" / f"2024-0{i % 3 + 1}" / f"{i:03}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), (i, 255 - i, (7 * i) % 256)).save(file)
    start_page.get_by_role("textbox", name="Folder").fill(str(tmp_path / "walks"))
    question = start_page.get_by_role("textbox", name="Question")
    create = start_page.get_by_role("button", name="Create and label")
    question.fill("Is it of 2024-02?")
    question.press("Tab")
    expect_offer(start_page, is_ticked=True)
    expect(start_page.get_by_text("Classes: 2024-01, 2024-02, 2024-03. Some items")).to_be_visible()
    question.fill("Is there a fox?")
    question.press("Tab")
    expect_offer(start_page, is_ticked=False)
    expect(start_page.get_by_text("Subfolders: 2024-01, 2024-02, 2024-03.")).to_be_visible()
    question.fill("Is it of 2024-03?")
    create.click()
    expect(start_page.get_by_role("alert")).to_contain_text("The classes above have changed.")
    expect_offer(start_page, is_ticked=True)
    assert not list(server.data.glob("is-it-of-2024*"))
    start_page.get_by_text("Subfolders are classes").click()
    expect_offer(start_page, is_ticked=False)
    question.fill("Is it of 2024-01?")
    question.press("Enter")
    at_rest(start_page)
    expect_offer(start_page, is_ticked=False)
    question.fill("Is it of 2024-02?")
    create.click()
    expect(start_page.locator(".question")).to_have_text(["Is it of 2024-02?"], timeout=30_000)
    made = json.loads((server.data / "is-it-of-2024-02" / "project.json").read_text())
    assert made["use_classes"] is False


def test_a_folder_is_chosen_instead_of_typed(start_page: Page, tmp_path: Path) -> None:
    """What is typed is completed, and the images in a folder are counted."""
    for name, number in (("herbarium", 3), ("herbs", 0), (".hidden", 2)):
        for i, part in enumerate(["leaf", "seed", "stem"]):
            (tmp_path / "data" / name / part).mkdir(parents=True)
            if i < number:
                Image.new("RGB", (40, 30)).save(tmp_path / "data" / name / part / "1.png")
    (tmp_path / "data" / "mosses" / "frond").mkdir(parents=True)
    Image.new("RGB", (40, 30)).save(tmp_path / "data" / "mosses" / "frond" / "1.png")
    typed = start_page.get_by_role("textbox", name="Folder")
    offered = start_page.locator(".st-key-pick-path-folder")
    typed.press_sequentially(str(tmp_path / "data" / "her"))
    expect(offered).to_contain_text("that begin with “her”")
    expect(offered.get_by_role("radio")).to_have_text(["herbarium", "herbs"])
    offered.get_by_role("radio", name="herbs").click()
    expect(typed).to_have_value(str(tmp_path / "data" / "herbs"))
    expect(start_page.get_by_text("No images here.")).to_be_visible()
    typed.fill(str(tmp_path / "data"))
    expect(start_page.get_by_text("4 images in 4 folders.")).to_be_visible()
    offered.get_by_role("radio", name="herbarium").click()
    expect(start_page.get_by_text("3 images in 3 folders.")).to_be_visible()
    # The folder runs the whole page, which writes it into the field once more and only then shows this.
    expect(start_page.get_by_text("Subfolders: leaf, seed, stem.")).to_be_visible()


def test_the_newest_folders_come_first(server: Server, context: BrowserContext, tmp_path: Path) -> None:
    """While nothing is typed; not those of projects that are closed to a person, nor what is gone."""
    for name in ("herbarium", "mosses", "gone", "of_others"):
        for i in range(2):
            (tmp_path / name).mkdir(exist_ok=True)
            Image.effect_noise((40, 30), 20 + i).save(tmp_path / name / f"{i}.png")
        words = ["--images", str(tmp_path / name), "--question", "Is it green?", "--no-build"]
        done = CliRunner().invoke(main, ["new", str(server.data / f"of-{name}"), *words])
        assert done.exit_code == 0, done.output
    ProjectFile.change(server.data / "of-of_others", owners=["bob"], annotators=["bob"])
    shutil.rmtree(tmp_path / "gone")
    page = context.new_page()
    page.goto(f"{server.url}/projects")
    offered = page.locator(".st-key-pick-path-folder")
    expect(offered).to_contain_text("Recent and usual folders")
    newest = [str(tmp_path / name) for name in ("mosses", "herbarium")]
    found = offered.get_by_role("radio")
    assert found.all_inner_texts()[:2] == newest
    assert not {str(tmp_path / name) for name in ("gone", "of_others")} & set(found.all_inner_texts())
    found.first.click()
    typed = page.get_by_role("textbox", name="Folder")
    expect(typed).to_have_value(newest[0])
    expect(page.get_by_text("2 images.")).to_be_visible()
    at_rest(page)
    typed.fill("")
    expect(found.first).to_have_text(newest[0])


def choose(uploader: Locator, folder: Path) -> None:
    uploader.locator("input").set_input_files(folder)


def drop(uploader: Locator, folder: Path) -> None:
    """Drag a folder from outside the browser and drop it."""
    uploader.scroll_into_view_if_needed()
    box = uploader.bounding_box()
    assert box
    browser = uploader.page.context.new_cdp_session(uploader.page)
    dragged = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {"type": kind, "x": x, "y": y, "data": dragged})


@pytest.mark.parametrize(("bring", "animal"), [(choose, "cat"), (drop, "hare")])
def test_a_folder_of_another_computer_is_uploaded(
    start_page: Page,
    server: Server,
    tmp_path: Path,
    bring: Callable[[Locator, Path], None],
    animal: str,
) -> None:
    """Its images are stored beside the projects; its subfolders may be classes, one of which means yes."""
    for kind in (f"wild_{animal}", "dog"):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for i in range(30):
            Image.effect_noise((40, 30), 20 + i).save(tmp_path / "pets" / kind / f"{i}.png")
    start_page.get_by_role("combobox", name="Items").click()
    start_page.get_by_role("option", name="A folder on your own computer").click()
    start_page.get_by_role("button", name="Create and label").click()
    expect(start_page.get_by_role("alert")).to_contain_text("Choose a folder of images on your computer")
    at_rest(start_page)
    uploader = start_page.get_by_test_id("stFileUploader").first
    bring(uploader, tmp_path / "pets")
    question = start_page.get_by_role("textbox", name="Question")
    question.fill(f"Is it a {animal}?")
    question.press("Tab")
    meant = start_page.get_by_text(f"The question may mean wild_{animal}: then tick this.")
    expect(meant).to_be_visible(timeout=60_000)
    at_rest(start_page)
    start_page.get_by_text("Subfolders are classes").click()
    means_yes = start_page.get_by_role("combobox", name="Class that means yes")
    means_yes.scroll_into_view_if_needed(timeout=60_000)
    # A list that opens while the page runs or scrolls is closed again.
    at_rest(start_page)
    means_yes.click()
    start_page.get_by_role("option", name=f"wild_{animal}").click()
    at_rest(start_page)
    start_page.get_by_role("button", name="Create and label").click()
    expect(start_page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=120_000)
    assert len(list((server.data / "images" / f"is-it-a-{animal}").rglob("*.png"))) == 60
    # The page was opened before the first items were there, which bring the controls that need a class.
    expect(start_page.get_by_role("button", name="Demo")).to_be_visible(timeout=30_000)


def test_the_demo_button_is_there_while_the_pool_grows(start_page: Page, server: Server) -> None:
    """As soon as there are items, long before the last one."""
    start_page.get_by_role("combobox", name="Items").click()
    start_page.get_by_role("option", name="Digits, drawn on demand").click()
    expect(start_page.get_by_role("combobox", name="How many")).to_be_visible()
    start_page.get_by_role("textbox", name="Question").fill("Is this a 4?")
    start_page.get_by_role("textbox", name="Question").press("Tab")
    start_page.get_by_role("button", name="Create and label").click()
    expect(start_page.get_by_role("button", name="Demo")).to_be_visible(timeout=120_000)
    pool = Pool.open(server.data / "is-this-a-4" / "pool")
    assert not pool.complete
    start_page.goto(f"{server.url}/projects")
    server.stop()  # ends the build of a million digits
    shutil.rmtree(server.data / "is-this-a-4")
    server.start()


def test_what_is_wrong_is_said_beside_the_form(start_page: Page, tmp_path: Path) -> None:
    """One sentence, and no project."""
    for folder, question, sentence in [
        ("/no/such/folder", "Is it a leaf?", "/no/such/folder"),
        ("~nosuchuser/pics", "Is it a leaf?", "There is no home folder ~nosuchuser"),
        (f"/{'a' * 300}/pics", "Is it a leaf?", "File name too long: /aaa"),
        ("", "Is it a leaf?", "Enter a folder"),
        (str(tmp_path), "", "A project needs a question"),
    ]:
        start_page.get_by_role("textbox", name="Folder").fill(folder)
        start_page.get_by_role("textbox", name="Question").fill(question)
        start_page.get_by_role("button", name="Create and label").click()
        expect(start_page.get_by_role("alert")).to_contain_text(sentence)
