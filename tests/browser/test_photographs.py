"""Photographs on the card and in the grid: as large as the window allows, and seen down to their pixels."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, BrowserContext, Locator, Page, expect

from closecall.app.display.thumbnails import CARD_SIZE
from tests.browser.labeling import Labeling, at_rest, resize
from tests.browser.many import Gridding
from tests.browser.photographs import PRINT, SHAPES, Photographs, photographs
from tests.scale import thorough

Window = tuple[int, int]

PHONES: list[Window] = [(390, 844), (844, 390)]
WINDOWS: list[Window] = [(1280, 720), (1440, 900), (1920, 1080), *PHONES]
"""Three screens, and a phone in both directions."""

LEAST = 0.85
"""Share of the free height that an image takes, unless the width limits it."""

CARD_ROOM: dict[Window, tuple[float, float]] = {
    (1280, 720): (0.56, 0.60),
    (1440, 900): (0.61, 0.68),
    (1920, 1080): (0.57, 0.66),
    (390, 844): (0.91, 0.42),
    (844, 390): (0.68, 0.83),
}
LEAST_ROOM = {
    "card": CARD_ROOM,
    "examples": CARD_ROOM
    | {
        (1280, 720): (0.56, 0.55),
        (1440, 900): (0.61, 0.64),
        (1920, 1080): (0.57, 0.62),
        (390, 844): (0.91, 0.38),
    },
    "classes": CARD_ROOM | {(390, 844): (0.91, 0.36)},
}
"""Least shares of the window's width and height that an image may take, in each view and window.

Example images take a line. On a phone, three classes and None take two.
"""

LONGEST = 4
"""The largest ratio of the longer side of a frame to the shorter one."""

PARTS = ".question, .lead, .brief, .tally, .answers, .answer, .undo, .strip, .status"

HEIGHTS = """() => {
    const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
    const box = (selector) => root.querySelector(selector)?.getBoundingClientRect();
    const [room, frame] = [box('.room'), box('.frame')];
    const toolbar = document.querySelector('.st-key-toolbar').getBoundingClientRect();
    const header = document.querySelector('[data-testid=stHeader]').getBoundingClientRect();
    const isApart = ({ left, right }) => left >= room.right || right <= room.left;
    const others = [...root.querySelectorAll(PARTS)]
        .map((part) => part.getBoundingClientRect())
        .filter((part) => part.height && !isApart(part) && part.top < innerHeight)
        .concat(toolbar.top < innerHeight ? [toolbar] : [], [header]);
    // How many lines of pixels one of the others takes.
    const taken = new Set();
    for (const { top, bottom } of others) {
        for (let y = Math.max(0, Math.round(top)); y < Math.min(innerHeight, bottom); y += 1) taken.add(y);
    }
    return {
        free: innerHeight - taken.size,
        room: room.toJSON(),
        frame: frame.toJSON(),
        lowest: Math.max(
            ...[...root.querySelectorAll('.answer, .undo')].map((one) => one.getBoundingClientRect().bottom),
        ),
    };
}""".replace("PARTS", repr(PARTS))
"""The height that nothing beside the image takes, and where the image is."""

NEXT_FRAME = """(key) => new Promise((done) => {
    const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
    const frame = root.querySelector('.frame');
    const seen = [];
    const look = () => {
        const image = frame.querySelector('img.item');
        const { width, height } = frame.getBoundingClientRect();
        seen.push([image?.alt, width / height, image?.naturalWidth / image?.naturalHeight]);
        if (seen.length < 20) requestAnimationFrame(look);
        else done(seen);
    };
    const options = { key, bubbles: true, composed: true };
    requestAnimationFrame(() => {
        document.body.dispatchEvent(new KeyboardEvent('keydown', options));
        requestAnimationFrame(look);
    });
})"""
"""In each of the frames after a key press: which image is shown, the frame's shape, and the image's."""


@pytest.fixture
def album(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Photographs]:
    """An album of its own for each test, because a test skips many photographs to find one."""
    with photographs(tmp_path_factory.mktemp("album")) as server:
        yield server


@pytest.fixture(scope="module")
def whole_album(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Photographs]:
    """An album of which no session has skipped a photograph."""
    with photographs(tmp_path_factory.mktemp("whole-album")) as server:
        yield server


@pytest.fixture
def labeling(album: Photographs, context: BrowserContext) -> Labeling:
    return Labeling(context.new_page(), f"{album.url}/?project={album.key}&session=new")


def name_of(labeling: Labeling) -> str:
    """Without the number of the copy."""
    return (labeling.image.get_attribute("alt") or "").partition("-")[0]


def seek(labeling: Labeling, *names: str) -> None:
    """Skip until one of these photographs is in view."""
    for _ in range(60):
        if name_of(labeling) in names:
            return
        labeling.press("s")
    raise AssertionError(f"{names} never came")


def place_of(part: Locator) -> tuple[int, ...]:
    """Where a part comes to rest, in whole pixels: a page zoomed for a projector has parts of them."""
    before, box = None, part.bounding_box()
    while box != before:
        part.page.wait_for_timeout(100)
        before, box = box, part.bounding_box()
    assert box
    return tuple(round(box[name]) for name in ("x", "y", "width", "height"))


def ratio_of(name: str) -> float:
    width, height = SHAPES[name]
    return min(LONGEST, max(1 / LONGEST, width / height))


VIEWS: dict[str, dict[str, Any]] = {
    "card": {},
    "examples": {"n_examples": 3},
    "classes": {"questions": ("Is it nice?", "Is it dark?", "Is it round?")},
}
"""What the project has, in each view of the labeling page that shows one image."""


@pytest.mark.parametrize(
    ("view", "is_touched"),
    [
        ("card", False),
        thorough("card", True),
        thorough("examples", False),
        thorough("examples", True),
        thorough("classes", False),
        thorough("classes", True),
    ],
)
def test_the_image_has_the_room_of_the_window(
    view: str, is_touched: bool, browser: Browser, tmp_path: Path
) -> None:
    """In its own shape, as high or as wide as there is room; and no button moves from image to image."""
    context = browser.new_context(has_touch=is_touched, is_mobile=is_touched)
    with closing(context), photographs(tmp_path / "album", **VIEWS[view]) as album:
        address = f"{album.url}/?project={album.key}&session=new{'&classes=1' if view == 'classes' else ''}"
        check_room(Labeling(context.new_page(), address), LEAST_ROOM[view], PHONES if is_touched else WINDOWS)


def check_room(labeling: Labeling, least: dict[Window, tuple[float, float]], windows: list[Window]) -> None:
    left = set(SHAPES)
    buttons: dict[Window, set[tuple[int, ...]]] = {window: set() for window in windows}
    while left:
        seek(labeling, *left)
        name = name_of(labeling)
        left.remove(name)
        for window in windows:
            resize(labeling.page, *window)
            found = labeling.page.evaluate(HEIGHTS)
            frame, room = found["frame"], found["room"]
            where = f"{name} at {window}: {found}"
            assert frame["width"] / frame["height"] == pytest.approx(ratio_of(name), rel=0.02), where
            is_wide = frame["width"] >= 0.99 * room["width"]
            assert is_wide or frame["height"] >= LEAST * found["free"], where
            assert is_wide or frame["height"] >= 0.99 * room["height"], where
            assert room["width"] >= least[window][0] * window[0], where
            assert room["height"] >= least[window][1] * window[1], where
            assert found["lowest"] <= window[1], where
            buttons[window].add(place_of(labeling.page.locator(".answers .answer").last))
    assert {window: len(places) for window, places in buttons.items()} == dict.fromkeys(windows, 1), buttons


def test_the_frame_takes_the_next_shape_with_the_next_image(labeling: Labeling) -> None:
    """In one frame: the size is known before the image is decoded, and nothing jumps afterwards."""
    labeling.wait_for_what_follows()
    before = labeling.image.get_attribute("alt")
    frames = labeling.page.evaluate(NEXT_FRAME, "s")
    assert frames[0][0] != before, "the next image is in the next frame"
    for _, shape, own in frames:
        assert shape == pytest.approx(min(LONGEST, max(1 / LONGEST, own)), rel=0.02)
    assert len({shape for _, shape, _ in frames}) == 1


def test_a_closer_look_shows_the_images_own_pixels(labeling: Labeling) -> None:
    """Fine print that the card shows in grey is black and white; the place under the mouse stays there."""
    page, frame = labeling.page, labeling.page.locator(".frame")
    seek(labeling, "print")
    page.mouse.move(0, 0)
    assert contrast(labeling.image, (0.1, 0.4)) < 60
    box = frame.bounding_box()
    assert box
    x, y = box["x"] + 0.25 * box["width"], box["y"] + 0.5 * box["height"]
    page.mouse.move(x, y)
    page.keyboard.press("z")
    expect(frame).to_have_attribute("data-detail", "shown")
    assert contrast(frame, (0.1, 0.4)) > 90
    tiles = page.locator(".detail img")
    assert tiles.count() > 1
    # The middle of the left half was under the mouse, and still is.
    image = labeling.image.bounding_box()
    assert image
    assert (x - image["x"]) / image["width"] == pytest.approx(0.25, abs=0.01)
    assert image["width"] == pytest.approx(3 * box["width"], rel=0.01)
    right_half_begins = image["x"] + image["width"] / 2
    part = painted(frame).crop((0, 0, int(right_half_begins - box["x"]) - 4, int(box["height"])))
    assert np.asarray(part, float).std(axis=0).mean() < 20, "the stripes on the left are vertical"
    page.mouse.move(0, 0)
    page.keyboard.press("Escape")
    expect(frame).to_have_attribute("data-detail", "none")
    expect(tiles).to_have_count(0)


def test_the_preview_of_a_grid_shows_the_images_own_pixels(
    whole_album: Photographs, context: BrowserContext
) -> None:
    """As the card does: Z shows fine print in grey, and Z again shows it black and white."""
    page = context.new_page()
    grid = Gridding(page, f"{whole_album.url}/?project={whole_album.key}&session=new&grid=60")
    names = page.locator(".tile .name").all_text_contents()
    place = next(place for place, name in enumerate(names) if name.startswith("print"))
    grid.press(*["ArrowRight"] * place, "z")
    frame = page.locator(".preview .frame")
    image = frame.locator("img.item")
    expect(page.locator(".preview .name")).to_have_text(names[place])
    expect(image).to_have_js_property("naturalWidth", CARD_SIZE)
    assert contrast(image, (0.1, 0.4)) < 60
    grid.press("z")
    expect(frame).to_have_attribute("data-detail", "shown")
    assert contrast(frame, (0.1, 0.4)) > 90
    assert page.locator(".preview .detail img").count() > 1


def test_closer_means_as_close_as_the_pixels_are(labeling: Labeling) -> None:
    """The wheel leads on to where one pixel of the original takes more than one of the screen's."""
    seek(labeling, "print")
    labeling.image.hover()
    for _ in range(12):
        labeling.page.mouse.wheel(0, -300)
    expect(labeling.page.locator(".frame")).to_have_attribute("data-detail", "shown")
    width = labeling.image.evaluate("image => image.getBoundingClientRect().width")
    assert width > 1.5 * PRINT[0]
    expect(labeling.page.locator(".detail img[data-level='0']").first).to_be_attached()


def test_small_images_are_crisp_and_photographs_smooth(labeling: Labeling) -> None:
    """Digits are looked at pixel by pixel; a photograph has no squares, however near."""
    for name, rendering in [("tiny", "pixelated"), ("square", "auto")]:
        seek(labeling, name)
        labeling.image.hover()
        for _ in range(12):
            labeling.page.mouse.wheel(0, -300)
        expect(labeling.image).to_have_css("image-rendering", rendering)
        labeling.page.keyboard.press("Escape")


def test_an_item_of_the_grid_is_seen_closely(whole_album: Photographs, context: BrowserContext) -> None:
    """Z enlarges the item under the cursor, which keys go on marking; again zooms, again leads back."""
    page = context.new_page()
    grid = Gridding(page, f"{whole_album.url}/?project={whole_album.key}&session=new&grid=12")
    preview, frame = page.locator(".preview"), page.locator(".preview .frame")
    expect(preview).to_be_hidden()
    grid.press("z")
    expect(frame.locator("img.item")).to_have_count(1)
    tile = grid.tile(0).bounding_box()
    large = frame.bounding_box()
    assert large
    assert tile
    assert max(large["width"], large["height"]) > 1.8 * tile["width"]
    first = preview.locator(".name").inner_text()
    grid.press("y")
    assert grid.marks[0] == "yes"
    expect(preview.locator(".name")).not_to_have_text(first)
    grid.press("ArrowLeft")
    expect(preview.locator(".name")).to_have_text(first)
    expect(preview).to_have_attribute("data-mark", "yes")
    grid.press("z")
    expect(frame).to_have_attribute("data-zoomed", "true")
    grid.press("z")
    expect(preview).to_be_hidden()
    grid.tile(3).hover()
    page.locator(".peek").click()
    expect(preview.locator(".name")).to_have_text(grid.tile(3).locator(".name").text_content() or "")
    assert grid.marks == ["yes"] + [""] * 11, "a look is no mark"
    grid.press("Escape")
    expect(preview).to_be_hidden()
    assert whole_album.answers(grid.session) == []


def painted(where: Locator) -> Image.Image:
    return Image.open(io.BytesIO(where.screenshot())).convert("L")


def contrast(where: Locator, between: tuple[float, float]) -> float:
    """Standard deviation of the grey values in a part of its width, in the middle of its height."""
    grey = np.asarray(painted(where), dtype=float)
    height, width = grey.shape
    first, last = (int(share * width) for share in between)
    return float(grey[int(0.4 * height) : int(0.6 * height), first:last].std())


def covered(page: Page) -> list[str]:
    """The send controls of which another element takes the clicks."""
    return page.evaluate("""() => {
        const root = document.querySelector('[data-testid=stBidiComponentIsolated]').shadowRoot;
        return [...root.querySelectorAll('.sending button:not([hidden])')].filter((button) => {
            const { left, top, width, height } = button.getBoundingClientRect();
            const inside = [[0.1, 0.1], [0.9, 0.1], [0.5, 0.5], [0.1, 0.9], [0.9, 0.9]];
            return inside.some(([x, y]) => {
                const hit = root.elementFromPoint(left + x * width, top + y * height);
                return !button.contains(hit);
            });
        }).map((button) => button.textContent);
    }""")


LONG_QUESTION = (
    "Is there {} somewhere in the picture, whole or in part, near or far, and neither painted nor printed?"
)

GUIDELINE = "Reflections count, shadows don't; if in doubt, look closer, and then say no rather than yes."


def ask_with_examples(labeling: Labeling, question: str, examples: list[Path]) -> None:
    """In the settings, as an owner does it; then the question in view has these examples above the image."""
    page = labeling.page
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Another question about these items").fill(question)
    page.get_by_label("Guideline (optional)").fill(GUIDELINE)
    page.get_by_role("button", name="Add and label").click()
    # While the new question comes, the one before may still be there.
    expect(page.locator(".question")).to_have_text([question])
    labeling.wait()
    page.get_by_role("button", name="Settings").click()
    panel = page.get_by_test_id("stPopoverBody")
    panel.get_by_test_id("stFileUploader").locator("input").set_input_files(examples)
    expect(panel.get_by_role("button", name=re.compile("^Remove"))).to_have_count(len(examples))
    at_rest(page)
    panel.get_by_role("button", name="Add examples").click()
    expect(page.locator(".examples img")).to_have_count(len(examples), timeout=30_000)


@pytest.mark.parametrize("size", [20, 60])
def test_no_image_of_the_grid_covers_a_button(
    whole_album: Photographs, context: BrowserContext, size: int
) -> None:
    """With a long question, its guideline and example images above the grid; all controls are in view."""
    page = context.new_page()
    labeling = Labeling(page, f"{whole_album.url}/?project={whole_album.key}&session=new")
    images = sorted((whole_album.data.parent / "images").glob("*-0.png"))
    question = LONG_QUESTION.format(f"a flock of {size} birds")
    ask_with_examples(labeling, question, [path for path in images if not path.name.startswith("print")][:3])
    where = f"project={whole_album.key}&session={labeling.session}&grid={size}"
    resize(page, 1280, 720)
    grid = Gridding(page, f"{whole_album.url}/?{where}")
    # While the grid comes, the card may still be there.
    expect(page.locator(".question")).to_have_text([question])
    for height in (720, 600):
        resize(page, 1280, height)
        example = page.locator(".examples img").first
        expect(example).to_be_in_viewport()
        assert example.evaluate("image => image.naturalWidth") > 0
        expect(page.locator(".guideline")).to_be_visible()
        assert (
            page.locator(".question").evaluate(
                "one => one.clientHeight / parseInt(getComputedStyle(one).lineHeight)"
            )
            >= 2
        )
        assert covered(page) == []
        box = page.locator("[data-send]").bounding_box()
        assert box
        assert box["y"] + box["height"] <= height
    assert len(grid.items) == size
