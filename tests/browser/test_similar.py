from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from closecall.app.projects.roles import SOMEBODY
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database, LabelLog
from tests.browser.alike import PATIENCE, Alike
from tests.browser.conftest import n_items
from tests.browser.labeling import Labeling
from tests.browser.served import Server, make_demo, move_beside
from tests.browser.sitting import truth_of
from tests.scale import thorough

PAGE = 24

SOME = re.compile(r"^(1\.00|0\.(?!00)\d\d)$")
"""A share of more than nothing, which the page may have to wait for."""


@pytest.fixture(scope="module")
def server(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Server:
    """A project of its own: what is like something should not have been answered by other tests."""
    folder = tmp_path_factory.mktemp("alike")
    make_demo(folder, server)
    return move_beside(folder / server.key, "alike", server)


@pytest.fixture
def untouched(server: Server, tmp_path: Path) -> Server:
    """Such a project for one test: nothing in it has an answer, or is in another session's view."""
    make_demo(tmp_path / "made", server)
    return move_beside(tmp_path / "made" / "digits", f"untouched-{tmp_path.name}", server)


def first_of(server: Server, positive: str, place: int = 0) -> int:
    """An item of the pool that shows this digit."""
    pool = Pool.open(server.pool)
    truth = pool.truth(pool.ids)
    return int(pool.ids[truth == pool.classes.index(positive)][place])


def alike(server: Server, page: Page, rest: str) -> Alike:
    return Alike(page, f"{server.url}/similar?project={server.key}&session=new{rest}")


@pytest.fixture
def seven(server: Server, tmp_path: Path) -> Path:
    """A picture of a 7, in a file."""
    file = tmp_path / "seven.png"
    pool = Pool.open(server.pool)
    pool.source.image(first_of(server, "7"), 256).save(file)
    return file


@pytest.fixture
def phone(browser: Browser) -> Iterator[Page]:
    made = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    yield made.new_page()
    made.close()


def label_truly(server: Server, view: Alike, n: int) -> list[tuple[int, str]]:
    """Select n items by the mouse and answer them as the truth says; what the log must have."""
    truth, given = truth_of(server, "7"), []
    for word in ("yes", "no"):
        items, marks = view.items, view.marks
        places = [
            place
            for place, item in enumerate(items)
            if truth(item) == word and not marks[place] and item not in dict(given)
        ]
        chosen = places[: n - len(given)]
        for place in chosen:
            view.tile(place).click()
            given.append((items[place], word))
        if chosen:
            view.page.locator(f"[data-answer={word}]").click()
            view.wait()
    return given


@pytest.mark.thorough
def test_everything_can_be_done_by_keys(untouched: Server, context: BrowserContext) -> None:
    """Move, select one by one and in a row, answer, take back, turn the page, look for another."""
    start = first_of(untouched, "2")
    view = alike(untouched, context.new_page(), f"&like={start}")
    view.wait()
    items = view.items
    view.press("ArrowRight", "ArrowRight", "Space")  # the first press shows where the cursor is
    assert view.marks[:3] == ["", "picked", ""]
    view.press("ArrowDown", "Shift+ArrowRight", "Shift+ArrowRight")
    assert [place for place, mark in enumerate(view.marks) if mark] == [1, 7, 8, 9]
    view.press("y")
    view.wait()
    assert view.marks[1] == "yes"
    assert view.marks[7:10] == ["yes"] * 3
    view.press("Escape", "ArrowRight", "n")
    view.wait()
    assert view.marks.count("no") == 1  # nothing was selected: the one under the cursor
    view.press("u")
    expect(view.page.locator(".tile[data-mark=no]")).to_have_count(0)
    view.wait()
    view.press("u")
    expect(view.page.locator(".tile[data-mark=yes]")).to_have_count(0)
    view.wait()
    expect(view.page.locator("[data-undo]")).to_have_attribute("aria-disabled", "true")
    assert view.items == items
    rows = untouched.answers(view.session)
    assert [row["answer"] for row in rows] == ["yes"] * 4 + ["no"] + ["undo"] * 5
    assert {row["undoes"] for row in rows[5:]} == {row["id"] for row in rows[:5]}
    view.press("a")
    assert set(view.marks) == {"picked"}
    view.press("a")
    assert set(view.marks) == {""}
    view.press("PageDown")
    expect(view.title).to_contain_text("25 to 48")
    view.wait()
    view.press("PageUp")
    expect(view.title).to_contain_text(f"The {PAGE} nearest")
    view.wait()
    view.press("ArrowRight", "l")
    expect(view.card).not_to_have_attribute("data-like", str(start))
    expect(view.page).to_have_url(re.compile(f"like={view.card.get_attribute('data-like')}"))
    view.wait()  # what was not painted yet is not answered
    view.page.keyboard.down("y")  # held down it repeats
    for _ in range(5):
        view.page.keyboard.down("y")
    view.page.keyboard.up("y")
    expect(view.page.locator(".tile[data-mark=yes]")).to_have_count(1)
    view.wait()
    view.press("u")
    expect(view.page.locator("[data-undo]")).to_have_attribute("aria-disabled", "true")
    view.wait()
    assert [row["answer"] for row in untouched.answers(view.session)[10:]] == ["yes", "undo"]


@pytest.mark.thorough
def test_too_few_labels_are_told_in_a_sentence(untouched: Server, context: BrowserContext) -> None:
    """How many are missing, of which."""
    view = alike(untouched, context.new_page(), f"&like={first_of(untouched, '6')}")
    view.wait()
    view.pick("metric", "Learned")
    expect(view.page.locator(".aside-note")).to_contain_text("at least 5 yes and 5 no answers")
    expect(view.page.locator(".how")).to_contain_text("No metric is learned yet, so these are by")
    view.wait()
    assert len(view.items) == PAGE


def test_an_upload_is_searched_for_labeled_and_searched_again_by_a_learned_metric(
    untouched: Server, context: BrowserContext, seven: Path
) -> None:
    """Upload, search, label 20, learn the metric, search again: the whole way by mouse."""
    view = alike(untouched, context.new_page(), "")
    page = view.page
    expect(page.locator(".placeholder")).to_contain_text("Choose what to search for: upload an image,")
    under, told = page.locator(".title").bounding_box(), page.locator(".placeholder").bounding_box()
    assert under
    assert told
    assert told["y"] - under["y"] - under["height"] < 40
    expect(page.locator(".sending")).to_be_hidden()  # there is nothing to answer
    view.upload(seven)
    counts = page.locator(".counts").bounding_box()
    expect(view.title).to_have_text(f"The {PAGE} nearest of {n_items():,}")
    assert len(view.items) == PAGE
    assert view.angles == sorted(view.angles)
    assert view.items[0] == first_of(untouched, "7")  # which the picture was drawn of
    expect(view.figure("Share searched")).to_have_text("100.0")
    expect(view.figure("Recall of the nearest 10")).to_have_text("1.00")
    given = label_truly(untouched, view, 12)
    view.press("PageDown")
    expect(view.title).to_contain_text("25 to 48")
    view.wait()
    given += label_truly(untouched, view, 8)
    assert [(row["item"], row["answer"]) for row in untouched.answers(view.session)] == given
    far = first_of(untouched, "1")
    view.page.goto(f"{untouched.url}/similar?project={untouched.key}&session={view.session}&like={far}")
    view.wait()
    given += label_truly(untouched, view, 6)
    view.look_for("yes")
    expect(view.page.locator(".like .name")).to_contain_text("yes answers")
    expect(view.page.locator(".metrics li:visible")).to_have_count(2)
    assert page.locator(".counts").bounding_box() == counts
    view.pick("metric", "Learned")
    expect(view.page.locator(".cells")).to_have_attribute("aria-label", "Learned metric, nearest first")
    view.wait()
    expect(view.figure("Metric")).to_have_text(re.compile(f"^{len({item for item, _ in given})}"))
    assert not set(view.items) & {item for item, word in given if word == "yes"}
    view.pick("metric", "Side by side")
    expect(view.page.locator(".list h2:visible")).to_have_text(["Original", "Learned"])
    view.wait()
    assert len(view.items) == 2 * PAGE
    view.pick("method", "Hashing, bucket tables")
    expect(view.page.locator(".how")).to_contain_text("Hashing, bucket tables:", timeout=PATIENCE)
    view.wait()
    expect(view.figure("Recall of the nearest 10")).to_have_text(SOME)
    assert len(untouched.answers(view.session)) == len(given)


@pytest.mark.thorough
def test_other_settings_are_behind_more(server: Server, context: BrowserContext) -> None:
    """Those that apply; what they cost is shown before they are applied, and what is wrong with them."""
    view = alike(server, context.new_page(), f"&like={first_of(server, '5')}")
    page = view.page
    view.wait()
    expect(page.locator(".st-key-more")).to_have_count(0)  # the exact scan has none
    view.pick("method", "Hashing, Hamming scan")
    expect(page.locator(".how")).to_contain_text("Hashing, Hamming scan:", timeout=PATIENCE)
    view.wait()
    view.choose("Codes", re.compile("^KLSH:"))
    expect(page.locator(".how")).to_contain_text("kernel values computed", timeout=PATIENCE)
    view.wait()
    page.locator(".st-key-more button").first.click()
    inside = page.locator("[data-testid=stPopoverBody]")
    expect(inside).to_contain_text(re.compile(r"Memory: codes [\d.]+ kB\."))
    expect(inside.get_by_role("button", name="Apply")).to_be_disabled()
    expect(inside.get_by_label("Rank", exact=True)).to_have_count(0)
    view.choose("Form", "Low rank")
    expect(inside.get_by_label("Rank", exact=True)).to_have_value("64")
    inside.get_by_label("Rank", exact=True).fill("400")
    inside.get_by_label("Rank", exact=True).press("Enter")
    expect(inside).to_contain_text("Rank must be less than the number of landmarks, 300, got 400")
    inside.get_by_label("Rank", exact=True).fill("32")
    inside.get_by_label("Rank", exact=True).press("Enter")
    cost = inside.get_by_text("Memory: codes")  # instead of which there was a complaint
    before = cost.inner_text()
    inside.get_by_label("Code length (bits)", exact=True).fill("64")
    inside.get_by_label("Code length (bits)", exact=True).press("Enter")
    expect(cost).not_to_have_text(before)  # what is entered while the page runs may be set back
    expect(inside).to_contain_text(re.compile(r"To compute: 300 kernel values per item, about \d+ s\."))
    assert "(64 bits)" not in page.locator(".how").inner_text()
    inside.get_by_role("button", name="Apply").click()
    expect(page.locator(".how")).to_contain_text(
        "Hashing, Hamming scan (low rank, 64 bits):", timeout=PATIENCE
    )
    view.press("Escape")
    view.wait()
    page.reload()
    view.wait()
    expect(page.locator(".how")).to_contain_text("Hashing, Hamming scan (low rank, 64 bits):")
    view.pick("method", "Hashing, Hamming ball")
    expect(page.locator(".how")).to_contain_text("Hashing, Hamming ball (low rank):", timeout=PATIENCE)


@pytest.mark.thorough
def test_settings_are_chosen_by_the_data_and_guaranteed(server: Server, context: BrowserContext) -> None:
    """A rank, which is entered and not applied yet; and what tables for a radius find."""
    view = alike(server, context.new_page(), f"&like={first_of(server, '5')}")
    page = view.page
    view.wait()
    view.pick("method", "Hashing, bucket tables")
    view.wait()
    view.choose("Codes", re.compile("^KLSH:"))
    expect(page.locator(".how")).to_contain_text("kernel values computed", timeout=PATIENCE)
    view.wait()
    page.locator(".st-key-more button").first.click()
    inside = page.locator("[data-testid=stPopoverBody]")
    view.choose("Form", "Low rank, transformed")
    expect(inside.get_by_label("Radius (°)", exact=True)).to_have_count(0)
    inside.get_by_label("Rank", exact=True).fill("7")
    inside.get_by_label("Rank", exact=True).press("Enter")
    expect(inside.get_by_label("Rank", exact=True)).to_have_value("7")
    inside.get_by_role("button", name="Choose rank and scale by the data").click()
    expect(inside.get_by_label("Rank", exact=True)).to_have_value(
        re.compile("^(16|32|64|128|256)$"), timeout=PATIENCE
    )
    expect(inside.get_by_label("Scale", exact=True)).to_have_value(re.compile("^[13579]$"))
    assert "transformed" not in page.locator(".how").inner_text()
    view.press("Escape")
    view.choose("Codes", re.compile("^Shift-invariant:"))
    expect(page.locator(".how")).not_to_contain_text("being prepared", timeout=PATIENCE)
    view.wait()
    page.locator(".st-key-more button").first.click()
    inside.get_by_label("Radius (°)", exact=True).fill("20")
    inside.get_by_label("Radius (°)", exact=True).press("Enter")
    expect(inside).to_contain_text(
        re.compile(r"an item within 20° shares a bucket with a probability of at least (about )?\d+ %")
    )
    inside.get_by_role("button", name="Apply").click()
    view.press("Escape")
    compared = re.compile(r"^Hashing, bucket tables: [\d,]+ codes compared")  # not "all codes", as before
    expect(page.locator(".how")).to_have_text(compared, timeout=PATIENCE)
    view.wait()
    expect(page.locator(".how")).to_have_text(compared)
    expect(view.card).to_have_attribute("data-painted", re.compile(rf"^\d+( \d+){{{PAGE - 1}}}$"))


@pytest.mark.thorough
def test_a_reload_shows_the_same_search(server: Server, context: BrowserContext, seven: Path) -> None:
    """An upload, too: what was looked for is in the address, and kept in the project."""
    view = alike(server, context.new_page(), "")
    view.upload(seven)
    items = view.items
    expect(view.page).to_have_url(re.compile("like=upload-"))
    view.page.reload()
    view.wait()
    assert view.items == items
    expect(view.page.locator(".what img")).to_have_count(1)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "can't be used: the file is empty"),
        thorough(b"This is a letter, and no image.", "it is not an image of a supported format"),
        thorough("corrupt", "the image is damaged or incomplete"),
        thorough("huge", "can't be used: it is too large (20,000,000 bytes at most, got 20,000,001)"),
    ],
)
def test_what_is_no_image_is_told_in_a_sentence(
    server: Server,
    context: BrowserContext,
    tmp_path: Path,
    seven: Path,
    content: bytes | str,
    complaint: str,
) -> None:
    """And what was looked for before stays in view."""
    view = alike(server, context.new_page(), f"&like={first_of(server, '8')}")
    view.wait()
    items, file = view.items, tmp_path / "what.png"
    corrupt = seven.read_bytes()[:-200]
    file.write_bytes({"corrupt": corrupt, "huge": bytes(20_000_001)}.get(str(content), content))
    view.send(file)
    expect(view.trouble).to_contain_text(complaint, timeout=30_000)
    expect(view.trouble).to_contain_text("“what.png”")
    assert view.items == items


@pytest.mark.thorough
def test_what_was_refused_is_forgotten_with_the_next_file(
    server: Server, context: BrowserContext, tmp_path: Path, seven: Path
) -> None:
    """Whether the browser or the server refused it."""
    view = alike(server, context.new_page(), f"&like={first_of(server, '8')}")
    view.wait()
    huge, empty = tmp_path / "huge.png", tmp_path / "empty.png"
    huge.write_bytes(bytes(20_000_001))
    empty.write_bytes(b"")
    for file in (huge, empty, huge):
        view.send(file)
        expect(view.trouble).to_contain_text(f"“{file.name}” can't be used", timeout=30_000)
    view.upload(seven)
    expect(view.trouble).to_have_text("")


@pytest.mark.thorough
@pytest.mark.parametrize("width", [1000, thorough(1200), 1319, thorough(1440)])
def test_nothing_in_the_margin_is_cut_or_runs_over(server: Server, browser: Browser, width: int) -> None:
    """Whatever the width, with and without answers there; each count has the colour of its answer."""
    made = browser.new_context(viewport={"width": width, "height": 900})
    page = made.new_page()
    with Database.open(server.database) as database:  # without a class that means yes, answers are counted
        concept = Concepts(database).create(f"pretty at {width}", f"Is it pretty at {width} pixels?")
        unanswered = LabelLog(database).start_session(concept.id, SOMEBODY, "margin-index")
    for session, found in [("new", r"\d+ of 24"), (unanswered.id, "none answered")]:
        like = f"session={session}&like={first_of(server, '5')}"
        Alike(page, f"{server.url}/similar?project={server.key}&{like}").wait()
        value = page.locator(".metrics li:visible b")
        expect(value).to_have_text(re.compile(found))
        right = page.evaluate("innerWidth") - 32
        assert value.evaluate("value => value.scrollWidth <= value.clientWidth")
        for part in page.locator(".notes dt > span, .notes .heading, .way > span, .metrics b:visible").all():
            box = part.bounding_box()
            assert box
            assert box["x"] + box["width"] <= right + 0.5
    assert len({box["height"] for way in page.locator(".way").all() if (box := way.bounding_box())}) == 1
    colours = page.locator(".counts :is(.no, .yes, .skip) .glyph").evaluate_all(
        "glyphs => glyphs.map((glyph) => getComputedStyle(glyph).color)"
    )
    assert len(set(colours)) == 3
    made.close()


@pytest.mark.thorough
def test_label_leads_here(server: Server, context: BrowserContext) -> None:
    """With the item that is in view there."""
    labeling = Labeling(context.new_page(), f"{server.url}/?project=digits&session=new")
    item = labeling.item
    labeling.page.get_by_role("button", name="Similar").click()
    expect(labeling.page.locator(".card.similar")).to_have_attribute("data-like", str(item), timeout=30_000)


@pytest.mark.thorough
def test_a_phone_shows_all_of_it(untouched: Server, phone: Page) -> None:
    """Four columns and no scrolling to the sides; what is pressed is in view."""
    view = alike(untouched, phone, f"&like={first_of(untouched, '4')}")
    view.wait()
    for place in range(3):
        view.tile(place).tap()
    expect(phone.locator(".selected")).to_have_text("3 selected")
    assert phone.evaluate("document.documentElement.scrollWidth") == 390
    boxes = [box for tile in phone.locator(".tile").all() if (box := tile.bounding_box())]
    assert len({box["x"] for box in boxes}) == 4
    title = view.title.bounding_box()
    assert title
    assert title["height"] < 40  # one line
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in boxes)
    yes = phone.locator("[data-answer=yes]").bounding_box()
    assert yes
    assert yes["y"] + yes["height"] <= 844
    phone.locator("[data-answer=yes]").tap()
    view.wait()
    assert view.marks[:3] == ["yes"] * 3
