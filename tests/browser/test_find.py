from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, expect

from closecall.core.pool.pool import Pool
from tests.browser.conftest import n_items
from tests.browser.labeling import Labeling, at_rest
from tests.browser.many import Finding
from tests.browser.served import Server

PAGE = 60


@pytest.fixture
def finding(server: Server, context: BrowserContext) -> Finding:
    return Finding(context.new_page(), f"{server.url}/?project=digits&session=new&find=")


def called(server: Server, *words: str) -> list[str]:
    """The names that contain all words, in the order of their items."""
    pool = Pool.open(server.pool)
    return [name for name in pool.source.names(pool.ids) if all(word in name for word in words)]


def selections(server: Server, session: str) -> list[dict[str, Any]]:
    query = "SELECT * FROM selections WHERE session_id = ? ORDER BY seq"
    with closing(sqlite3.connect(f"file:{server.database}?mode=ro", uri=True)) as log:
        log.row_factory = sqlite3.Row
        return [dict(row) for row in log.execute(query, (session,))]


def given(server: Server, finding: Finding) -> list[tuple[int, str]]:
    rows = server.answers(finding.session)
    assert all(row["item"] == row["shown"] for row in rows)
    return [(row["item"], row["answer"]) for row in rows]


def test_what_is_typed_is_shown_with_its_names_and_how_many_there_are(
    server: Server, finding: Finding
) -> None:
    """As soon as the typing pauses; each image that can be answered has a selection that says why."""
    expect(finding.field).to_be_focused()
    expect(finding.page.locator(".placeholder")).to_contain_text("Type part of a name, such", timeout=30_000)
    finding.page.keyboard.type("DIG 43", delay=30)
    expected = called(server, "dig", "43")
    found = finding.page.locator(".found")
    expect(found).to_have_text(f"{len(expected)} of {n_items():,} items", timeout=30_000)
    finding.wait()
    expect(finding.page.locator(".legend .enter")).to_be_visible()  # the letters are the field's until then
    assert finding.names == expected[:PAGE]
    assert [f"digit {item}" for item in finding.items] == finding.names
    assert "find=DIG+43" in finding.page.url
    shown = [row for row in selections(server, finding.session) if "DIG 43" in row["parameters"]]
    assert [row["item"] for row in shown] == [finding.items[place] for place in finding.free]
    assert {row["why"] for row in shown} == {"search"}
    assert [json.loads(row["parameters"])["search"]["place"] for row in shown] == finding.free
    expect(finding.page.locator(".chosen")).to_contain_text("Found by name: “DIG 43”, round ")


@pytest.mark.thorough
def test_keys_that_compose_a_word_are_the_input_methods(finding: Finding) -> None:
    """Enter ends the composition; the search begins with an Enter of its own."""
    finding.find("1987")
    finding.field.focus()
    press = """(field, isComposing) => field.dispatchEvent(new KeyboardEvent("keydown",
        {key: "Enter", isComposing, bubbles: true, composed: true, cancelable: true}))"""
    assert finding.field.evaluate(press, True)
    expect(finding.field).to_be_focused()
    assert not finding.field.evaluate(press, False)
    expect(finding.field).not_to_be_focused()
    expect(finding.page.locator(".legend .enter")).to_be_hidden()


def test_found_items_are_marked_and_sent_in_one_go_and_train_at_once(
    server: Server, finding: Finding
) -> None:
    """By keyboard and mouse. They stay in view as answered, and can't be answered twice."""
    finding.find("44")
    first, second, third, *_ = finding.free
    sent = [finding.mark_place(first, "yes"), finding.mark_place(second, "no")]
    finding.tile(third).click()
    finding.press("u")
    finding.press("s")
    sent.append((finding.items[third], "skip"))
    before = finding.items
    finding.press("Enter")
    expect(finding.tile(first)).to_have_attribute("data-settled", "", timeout=30_000)
    finding.wait()
    assert given(server, finding) == sent
    assert finding.items == before
    assert [finding.marks[place] for place in (first, second, third)] == ["yes", "no", "skip"]
    assert not {first, second, third} & set(finding.free)
    newest = selections(server, finding.session)[-1]
    assert newest["n_labels"] >= 2
    assert newest["hyperplane_digest"] is not None
    finding.tile(first).click()
    expect(finding.page.locator(".status")).to_contain_text("is answered yes; you can change it on Review")
    finding.press("n", "Enter")
    assert finding.marks[first] == "yes"
    assert given(server, finding) == sent


@pytest.mark.thorough
def test_marks_survive_turning_pages_and_a_reload(server: Server, finding: Finding) -> None:
    """What is marked on another page is told; the reload goes on with the same page of the same search."""
    n = len(called(server, "1"))
    assert n > 3 * PAGE
    finding.find("1")
    first = finding.free[0]
    item, _ = finding.mark_place(first, "no")
    finding.turn("PageDown", "61–120")
    expect(finding.page.locator(".marked")).to_contain_text("1 marked elsewhere")
    other = finding.free[1]
    finding.mark_place(other, "yes")
    finding.page.reload()
    expect(finding.page.locator(".finder .place")).to_have_text("61–120", timeout=30_000)
    finding.wait()
    assert finding.field.input_value() == "1"
    assert finding.marks[other] == "yes"
    finding.turn("PageUp", "1–60")
    assert (finding.items[first], finding.marks[first]) == (item, "no")
    assert finding.page.locator("[data-turn='-1']").get_attribute("aria-disabled") == "true"
    finding.press("Enter")
    expect(finding.tile(first)).to_have_attribute("data-settled", "", timeout=30_000)
    finding.wait()
    assert given(server, finding) == [(item, "no")]
    expect(finding.page.locator(".marked")).to_contain_text("1 marked elsewhere")


@pytest.mark.thorough
def test_the_last_answers_are_corrected_there(server: Server, finding: Finding) -> None:
    """As in a grid: back, another mark, and on."""
    finding.find("45")
    place = finding.free[0]
    item, _ = finding.mark_place(place, "yes")
    finding.press("Enter")
    expect(finding.tile(place)).to_have_attribute("data-settled", "", timeout=30_000)
    finding.wait()
    finding.press("u")
    expect(finding.card).to_have_attribute("data-last", "true")
    finding.wait()
    finding.tile(finding.items.index(item)).click()
    finding.press("Enter")
    expect(finding.card).to_have_attribute("data-last", "false", timeout=30_000)
    finding.wait()
    assert given(server, finding) == [(item, "yes"), (item, "no")]
    assert finding.marks[place] == "no"


@pytest.mark.thorough
def test_nothing_found_is_said_in_a_sentence(finding: Finding) -> None:
    """With what names are like here; so is a search that is too long."""
    sentence = finding.page.locator(".placeholder")
    finding.field.fill("truck")
    expect(sentence).to_contain_text(
        f"None of the {n_items():,} names contains “truck”. Names look", timeout=30_000
    )
    finding.field.fill("seal 2019")
    expect(sentence).to_contain_text("contains all of “seal”, “2019”")
    finding.page.reload()
    expect(sentence).to_contain_text("contains all of “seal”, “2019”", timeout=30_000)
    finding.page.goto(finding.page.url.partition("&find=")[0] + "&find=" + "x" * 201)
    expect(finding.page.get_by_role("alert")).to_contain_text("at most 200 characters, got 201")


@pytest.mark.thorough
def test_a_search_begins_and_ends_where_one_labels(server: Server, labeling: Labeling) -> None:
    """A key opens it; the usual selection goes on afterwards, with the answers that were given there."""
    page = labeling.page
    labeling.press("y")
    labeling.press("n")
    n_labels = selections(server, labeling.session)[-1]["n_labels"]
    page.keyboard.press("/")
    page.get_by_role("searchbox").fill("46")
    expect(page.locator(".tile").first).to_be_visible(timeout=30_000)
    page.get_by_role("searchbox").press("Enter")
    page.locator(".tile:not([data-settled])").first.click()
    page.keyboard.press("Enter")
    expect(page.locator("[data-send] span")).to_have_text("Send 0", timeout=30_000)
    expect(page.locator(".card")).to_have_attribute("data-saving", "0")
    page.get_by_role("button", name="End search").click()
    expect(page).not_to_have_url(re.compile("find="))
    expect(page.locator(".card.grid")).to_have_count(0, timeout=30_000)
    labeling.wait()
    newest = selections(server, labeling.session)[-1]
    assert (newest["why"], newest["n_labels"]) == ("strategy", n_labels + 1)
    assert [row["answer"] for row in server.answers(labeling.session)] == ["yes", "no", "yes"]
    # Not while the run that End search began goes on, which may draw the button anew.
    at_rest(page)
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()
    page.get_by_role("radio", name="Grid").click()
    expect(page.locator(".card.grid[data-finding=false]")).to_have_attribute(
        "data-answerable", "true", timeout=30_000
    )
    expect(page).not_to_have_url(re.compile("find="))
    expect(page).to_have_url(re.compile("grid="))


def test_the_grid_before_a_search_is_kept_over_other_pages_and_a_reload(labeling: Labeling) -> None:
    """The address says during the search, too, which view comes after it."""
    page = labeling.page
    page.get_by_role("radio", name="Grid").click()
    expect(page.locator(".card.grid[data-finding=false]")).to_have_attribute(
        "data-answerable", "true", timeout=30_000
    )
    page.get_by_role("button", name="Find", exact=True).click()
    page.get_by_role("searchbox").fill("46")
    page.get_by_role("searchbox").press("Enter")
    found = page.locator(".card.grid[data-finding=true][data-answerable=true] .tile").first
    expect(found).to_be_visible(timeout=30_000)
    page.get_by_role("link", name="Review", exact=True).click()
    expect(page.locator(".review")).to_have_attribute("data-state", "shown", timeout=30_000)
    page.get_by_role("link", name="Label", exact=True).click()
    expect(found).to_be_visible(timeout=30_000)
    expect(page).to_have_url(re.compile("find=46"))
    expect(page).to_have_url(re.compile("grid=28"))
    page.reload()
    expect(found).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="End search").click()
    expect(page.locator(".card.grid[data-finding=false]")).to_have_attribute(
        "data-answerable", "true", timeout=30_000
    )
    expect(page.locator(".tile")).to_have_count(28)


@pytest.mark.thorough
def test_answers_sent_to_a_dead_server_are_stored_once(server: Server, finding: Finding) -> None:
    """They wait in the browser until it is back."""
    finding.find("47")
    place = finding.free[0]
    sent = finding.mark_place(place, "no")
    server.kill()
    finding.press("Enter", "Enter")
    expect(finding.card).to_have_attribute("data-saving", "1")
    server.start()
    finding.page.reload()
    expect(finding.tile(place)).to_have_attribute("data-settled", "", timeout=30_000)
    finding.wait()
    assert given(server, finding) == [sent]


@pytest.mark.thorough
def test_a_search_fits_a_phone(server: Server, context: BrowserContext) -> None:
    """Names below the images, the search above them, and what is sent at the thumb; nothing at the sides."""
    page = context.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    finding = Finding(page, f"{server.url}/?project=digits&session=new&find=48")
    finding.wait()
    assert finding.columns == 3
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    finding.tile(finding.free[0]).click()
    box = page.locator("[data-send]").bounding_box()
    assert box
    assert box["y"] + box["height"] <= 844
    expect(page.locator("[data-send] span")).to_have_text("Send 1")
    name = page.locator(".tile .name").first.bounding_box()
    tile = page.locator(".tile").nth(3).bounding_box()
    assert name
    assert tile
    assert name["y"] + name["height"] <= tile["y"]
