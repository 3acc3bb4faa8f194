from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, WebSocketRoute, expect

from closecall.app.exchange.rows import add_labels
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from tests.browser.labeling import Labeling, resize
from tests.browser.reviewing import Reviewing
from tests.browser.served import Server, move_beside

GIVEN = ["no", "yes", "no", "skip", "no"]


@pytest.fixture
def reviewing(server: Server, labeling: Labeling) -> Reviewing:
    """All answers listed, five given just now on top, the last one first."""
    for answer in GIVEN:
        labeling.press(answer[0])
    review = Reviewing(labeling.page, server.url, labeling.session)
    review.show("all")
    return review


def stored(server: Server, reviewing: Reviewing) -> list[dict]:
    """What the session stored since it came to the review page."""
    return server.answers(reviewing.session)[len(GIVEN) :]


@pytest.mark.thorough
def test_the_last_answers_are_listed_first(server: Server, reviewing: Reviewing) -> None:
    """Each with what was answered, and the first one is current."""
    given = server.answers(reviewing.session)
    assert reviewing.items[:5] == [row["item"] for row in reversed(given)]
    assert [reviewing.given(item) for item in reviewing.items[:5]] == GIVEN[::-1]
    assert reviewing.current == reviewing.items[0]


def test_keys_correct_the_current_answer_and_undo_takes_it_back(server: Server, reviewing: Reviewing) -> None:
    """Each correction is stored once, on the item of the marked row, and names what it corrects."""
    first, second = reviewing.items[:2]
    before = {view: reviewing.count(view) for view in ("no", "yes", "skip", "all")}
    reviewing.press("y", "ArrowDown", "n")
    assert (reviewing.current, reviewing.given(first), reviewing.given(second)) == (second, "yes", "no")
    assert reviewing.items[:2] == [first, second]
    rows = stored(server, reviewing)
    assert [(row["item"], row["answer"]) for row in rows] == [(first, "yes"), (second, "no")]
    originals = {row["item"]: row["id"] for row in server.answers(reviewing.session)[:5]}
    assert [row["corrects"] for row in rows] == [originals[first], originals[second]]
    after = {view: reviewing.count(view) for view in before}
    assert after == before | {"yes": before["yes"] + 1, "skip": before["skip"] - 1}
    reviewing.press("u", "u")
    assert reviewing.current == first
    assert [reviewing.given(item) for item in (first, second)] == ["no", "skip"]
    assert [row["answer"] for row in stored(server, reviewing)[2:]] == ["undo", "undo"]
    assert {view: reviewing.count(view) for view in before} == before
    reviewing.press("u")
    assert len(stored(server, reviewing)) == 4


@pytest.mark.thorough
def test_a_click_corrects_and_the_history_tells_both(server: Server, reviewing: Reviewing) -> None:
    """The answer that was there stays in sight."""
    item = reviewing.items[2]
    reviewing.row(item).locator("[data-answer=yes]").click()
    reviewing.wait()
    assert reviewing.given(item) == "yes"
    assert [(row["item"], row["answer"]) for row in stored(server, reviewing)] == [(item, "yes")]
    reviewing.row(item).locator(".by").click()
    lines = reviewing.row(item).locator(".history li")
    expect(lines.last).to_contain_text("correction")
    n = lines.count()  # before these two, others may have answered it and taken that back
    expect(lines.nth(n - 2)).to_contain_text("no")
    reviewing.page.keyboard.press("n")
    reviewing.wait()
    expect(lines).to_have_count(n + 1)


@pytest.mark.thorough
def test_what_changes_nothing_is_not_stored(server: Server, reviewing: Reviewing) -> None:
    """The answer that stands already, shortcuts of the browser, other letters."""
    reviewing.press("n", "Control+y", "q")
    reviewing.page.wait_for_timeout(200)
    assert stored(server, reviewing) == []


@pytest.mark.thorough
def test_a_held_key_corrects_once(server: Server, reviewing: Reviewing) -> None:
    """What the keyboard repeats is no answer."""
    for _ in range(20):
        reviewing.page.keyboard.down("y")
    reviewing.page.keyboard.up("y")
    reviewing.wait()
    assert [row["answer"] for row in stored(server, reviewing)] == ["yes"]


@pytest.mark.thorough
def test_an_item_is_found_by_its_id_and_letters_of_the_search_answer_nothing(
    server: Server, reviewing: Reviewing
) -> None:
    """The slash leads to the search, Enter back to the list."""
    others = server.answered()  # by other tests' sessions, too
    item, answer = next(
        (item, answer)
        for item in reviewing.items
        if (answer := reviewing.given(item)) in {"yes", "no"}
        and not any(str(item) in str(other) for other in others - {item})
    )
    reviewing.page.keyboard.press("/")
    reviewing.page.locator(".search").press_sequentially(f"digit {item} {answer}")
    reviewing.press("Enter")
    assert reviewing.items == [item]
    reviewing.press("ArrowDown", "s")
    assert reviewing.given(item) == "skip"
    reviewing.page.keyboard.press("/")
    reviewing.press("Escape")
    assert len(reviewing.items) >= 5
    assert [(row["item"], row["answer"]) for row in stored(server, reviewing)] == [(item, "skip")]


@pytest.mark.thorough
def test_arrows_go_from_page_to_page(server: Server, labeling: Labeling) -> None:
    """Down from the last row leads to the next page's first, and up leads back."""
    for _ in range(25):
        labeling.press("n")
    review = Reviewing(labeling.page, server.url, labeling.session)
    review.show("all")
    first = review.items
    review.press("End", "ArrowDown")
    expect(review.page.locator(".place")).to_contain_text("21–")
    assert not set(review.items) & set(first)
    assert review.current == review.items[0]
    review.press("ArrowUp")
    expect(review.page.locator(".place")).to_contain_text("1–20")
    assert (review.items, review.current) == (first, first[-1])


@pytest.mark.thorough
def test_a_reply_about_the_previous_list_marks_no_row(server: Server, context: BrowserContext) -> None:
    """Keys that are pressed before the requested list is here mark and answer nothing."""
    page, held = context.new_page(), list[str | bytes]()
    is_held, ways = False, list[WebSocketRoute]()

    def listen(browser: WebSocketRoute) -> None:
        ways.append(browser)
        there = browser.connect_to_server()
        there.on_message(lambda message: held.append(message) if is_held else browser.send(message))

    page.route_web_socket("**/_stcore/stream", listen)
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    for answer in GIVEN:
        labeling.press(answer[0])
    review = Reviewing(page, server.url, labeling.session)
    review.show("all")
    corrected = review.current
    is_held = True
    page.keyboard.press("y")
    page.wait_for_timeout(1000)  # as long as the run of the script takes, whose reply is held back
    reply = held.copy()
    page.locator("[data-view=skip]").click()
    for message in reply:
        ways[-1].send(message)
    expect(review.card).to_have_attribute("data-saving", "0")
    expect(page.locator(".row[aria-current=true]")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("m")
    page.wait_for_timeout(1000)
    is_held = False
    for message in held[len(reply) :]:
        ways[-1].send(message)
    review.wait()
    assert review.current == review.items[0]
    assert [(row["item"], row["answer"]) for row in stored(server, review)] == [(corrected, "yes")]


@pytest.mark.thorough
def test_a_correction_given_to_a_dead_server_survives_a_reload(server: Server, reviewing: Reviewing) -> None:
    """Kill −9, a correction, a restart, a reload: it is stored once."""
    item = reviewing.items[0]
    server.kill()
    reviewing.page.keyboard.press("y")
    expect(reviewing.card).to_have_attribute("data-saving", "1")
    expect(reviewing.row(item)).to_have_attribute("data-saving", "true")
    assert reviewing.given(item) == "yes"
    server.start()
    reviewing.page.reload()
    reviewing.wait()
    assert [(row["item"], row["answer"]) for row in stored(server, reviewing)] == [(item, "yes")]


@pytest.mark.thorough
def test_what_another_window_changed_meanwhile_is_told_and_stays(
    server: Server, reviewing: Reviewing, context: BrowserContext
) -> None:
    """The second one to correct is refused with a reason, in view beside the list, and sees what stands."""
    item = reviewing.items[0]
    other = Reviewing(context.new_page(), server.url, reviewing.session)
    other.show("all")
    other.press("y")
    assert other.given(item) == "yes"
    resize(reviewing.page, 1280, 400)
    reviewing.press("s")
    expect(reviewing.page.locator(".status")).to_contain_text("another window")
    expect(reviewing.page.locator(".status")).to_be_in_viewport(ratio=1)
    assert reviewing.given(item) == "yes"
    assert [(row["item"], row["answer"]) for row in stored(server, reviewing)] == [(item, "yes")]


@pytest.mark.thorough
def test_a_correction_is_seen_on_the_labeling_page(server: Server, reviewing: Reviewing) -> None:
    """By way of the navigation, in the same session."""
    item = reviewing.items[0]
    reviewing.press("y")
    session = reviewing.session
    reviewing.page.get_by_role("link", name="Label", exact=True).click()
    expect(reviewing.page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=30_000)
    assert session in reviewing.page.url
    expect(reviewing.page.locator(f".thumb[data-item='{item}']")).to_have_attribute("data-given", "yes")


def test_on_a_phone_a_name_keeps_its_end_and_ties_are_counted_as_such(
    server: Server, context: BrowserContext, tmp_path: Path
) -> None:
    """The numbers of photographs are at the end. A tie is no answer "unsure"."""
    folder = "Anna's holidays"
    images = tmp_path / "images"
    (images / folder).mkdir(parents=True)
    for number in range(8):
        Image.effect_noise((8, 8), 60 + number).save(images / folder / f"DSC_000{number}.png")
    with Workspace(tmp_path / "projects") as workspace:
        build(source_from(str(images), use_classes=False), tmp_path / "pool")
        key = workspace.create(NewProject(str(tmp_path / "pool"), "Is it noise?"))
        project = workspace.project(key)
        said = [
            ("ada", 0, "yes"),
            ("bob", 0, "no"),
            ("ada", 1, "unsure"),
            ("ada", 2, "yes"),
            ("ada", 3, "no"),
        ]
        rows = [{"item": item, "label": word, "annotator": name} for name, item, word in said]
        add_labels(project, project.concepts()[0], rows, "ada")
        folder_of_project = project.folder
    url = move_beside(folder_of_project, "holidays", server).url
    page = context.new_page()
    resize(page, 360, 700)
    page.goto(f"{url}/review?project=holidays")
    page.locator("[data-view=all]").click()
    names = page.locator(".row .name")
    expect(names).to_have_count(4, timeout=60_000)
    shown = names.evaluate_all(
        """all => all.map((name) => [name.textContent, ...[".start", ".end"].map((part) => {
            const place = name.querySelector(part);
            return [place.textContent, place.scrollWidth > place.clientWidth];
        })])"""
    )
    for name, (start, start_is_cut), (end, end_is_cut) in shown:
        assert name == start + end
        assert name in [f"{folder}/DSC_000{number}.png" for number in range(8)]
        assert (start_is_cut, end_is_cut) == (True, False)
    counted = page.locator(".counts li").all_text_contents()
    assert counted == ["1no", "1yes", "0skipped", "1unsure", "1tied", "4left"]
