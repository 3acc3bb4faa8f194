"""The image, touched: a closer look, and answers by a pull to the side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from PIL import Image, ImageChops
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server
from tests.browser.touching import Fingers

CENTRE = {"x": 160, "y": 160}
CLOSER: dict[str, Callable[[Labeling], None]] = {
    "key": lambda labeling: labeling.page.keyboard.press("z"),
    "click": lambda labeling: labeling.image.click(),
    "wheel": lambda labeling: (labeling.image.hover(), labeling.page.mouse.wheel(0, -300))[1],
    "button": lambda labeling: labeling.page.get_by_role("button", name="Zoom").press("Enter"),
}
PLACES = ".question, .frame, .answer, .tool, .strip, .value"


@pytest.fixture
def phone(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    yield made
    made.close()


@pytest.fixture
def touched(server: Server, phone: BrowserContext) -> Labeling:
    return Labeling(phone.new_page(), f"{server.url}/?project=digits&session=new")


def places(labeling: Labeling) -> list[object]:
    return [part.bounding_box() for part in labeling.page.locator(PLACES).all()]


def is_painted_again(before: Image.Image, labeling: Labeling) -> bool:
    """Whether the frame shows what it showed, once all that moves has come to rest."""
    for _ in range(10):
        if not ImageChops.difference(before, labeling.painted()).getbbox():
            return True
        labeling.page.wait_for_timeout(100)
    return False


def is_zoomed(labeling: Labeling) -> bool:
    return labeling.page.locator(".frame").get_attribute("data-zoomed") == "true"


@pytest.mark.thorough
def test_a_closer_look_moves_nothing_else(server: Server, labeling: Labeling) -> None:
    """The pixels in the frame change, the rest keeps its place; Escape goes back; nothing is answered."""
    frame = labeling.page.locator(".frame")
    before, stood = labeling.painted(), places(labeling)
    for look_closer in CLOSER.values():
        look_closer(labeling)
        expect(frame).to_have_attribute("data-zoomed", "true")
        assert places(labeling) == stood
        labeling.page.mouse.move(0, 0)
        assert ImageChops.difference(before, labeling.painted()).getbbox()
        labeling.page.keyboard.press("Escape")
        expect(frame).to_have_attribute("data-zoomed", "false")
        labeling.page.locator(".question").click()
        assert is_painted_again(before, labeling)
    assert server.answers(labeling.session) == []


@pytest.mark.thorough
def test_the_next_image_is_seen_whole(server: Server, labeling: Labeling) -> None:
    """An answer given to a close look belongs to that image; the look ends with it."""
    item = labeling.item
    labeling.page.keyboard.press("z")
    labeling.page.keyboard.press("Shift+ArrowLeft")
    labeling.press("y")
    assert not is_zoomed(labeling)
    assert [(row["item"], row["answer"]) for row in server.answers(labeling.session)] == [(item, "yes")]


@pytest.mark.thorough
def test_what_is_zoomed_can_be_moved_by_keys_and_mouse(labeling: Labeling) -> None:
    """Shift and the arrows, or the mouse, show another part, and never what is outside the image."""
    labeling.page.keyboard.press("z")
    seen = [labeling.painted()]
    labeling.page.keyboard.press("Shift+ArrowDown")
    seen.append(labeling.painted())
    box = labeling.page.locator(".frame").bounding_box()
    assert box
    labeling.page.mouse.move(box["x"] + 100, box["y"] + 100)
    labeling.page.mouse.down()
    labeling.page.mouse.move(box["x"] + 3000, box["y"] + 300, steps=5)
    labeling.page.mouse.up()
    seen.append(labeling.painted())
    assert all(ImageChops.difference(*pair).getbbox() for pair in pairwise(seen))
    image = labeling.image.bounding_box()
    assert image
    assert image["x"] <= box["x"] + 1
    assert image["x"] + image["width"] >= box["x"] + box["width"] - 1


def test_a_pull_to_the_right_is_yes_and_to_the_left_no(server: Server, touched: Labeling) -> None:
    """The pull shows what it will answer; the answer is stored on the image that was pulled."""
    given = []
    for dx, word in [(150, "yes"), (-150, "no"), (150, "yes")]:
        given.append((touched.item, word))
        before = touched.selection
        fingers = Fingers(touched)
        fingers.pull(dx, 10)
        expect(touched.page.locator(f".pull.{word}")).to_be_visible()
        fingers.lift()
        expect(touched.card).not_to_have_attribute("data-painted-selection", before, timeout=30_000)
        touched.wait()
    assert [(row["item"], row["answer"]) for row in server.answers(touched.session)] == given


@pytest.mark.thorough
def test_other_movements_answer_nothing(server: Server, touched: Labeling) -> None:
    """Neither a scroll of the page nor a pull that is let go early."""
    before = touched.selection
    for dx, dy in [(60, 0), (100, 150), (0, -300), (-70, 10)]:
        fingers = Fingers(touched)
        fingers.pull(dx, dy)
        fingers.lift()
        touched.page.wait_for_timeout(200)
        assert touched.selection == before
        assert touched.page.locator(".frame").get_attribute("data-pull") == ""
    assert server.answers(touched.session) == []


@pytest.mark.thorough
def test_a_pull_taken_back_answers_nothing(server: Server, touched: Labeling) -> None:
    """It counts where the finger is lifted."""
    fingers = Fingers(touched)
    fingers.pull(160, 0)
    expect(touched.page.locator(".frame")).to_have_attribute("data-far", "true")
    fingers.pull(20, 0)
    fingers.lift()
    touched.page.wait_for_timeout(200)
    assert server.answers(touched.session) == []


@pytest.mark.thorough
def test_two_fingers_look_closer_and_one_then_moves(server: Server, touched: Labeling) -> None:
    """What is zoomed is moved by a pull, not answered; a tap goes back."""
    fingers = Fingers(touched)
    fingers.pinch(apart=60, to=220)
    expect(touched.page.locator(".frame")).to_have_attribute("data-zoomed", "true")
    before = touched.painted()
    fingers.pull(150, 0)
    fingers.lift()
    assert ImageChops.difference(before, touched.painted()).getbbox()
    touched.page.locator(".frame").tap(position=CENTRE)
    expect(touched.page.locator(".frame")).to_have_attribute("data-zoomed", "false")
    assert server.answers(touched.session) == []
    touched.press("y")
    assert [row["answer"] for row in server.answers(touched.session)] == ["yes"]
