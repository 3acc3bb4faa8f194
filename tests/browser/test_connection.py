"""Whatever happens between browser and server: what was answered is stored, on its item, once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Locator, WebSocketRoute, expect

from tests.browser.kills import LONGEST_RETURN_MS, is_sound, kill_and_label
from tests.browser.labeling import Labeling, at_rest
from tests.browser.proxy import Proxy
from tests.browser.served import Server
from tests.scale import scaled

WORDS = {"y": "yes", "n": "no", "s": "skip", "m": "unsure"}


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    made = Proxy(server.port)
    yield made
    made.close()


def given(labeling: Labeling, after: int = 0) -> list[tuple[int, str]]:
    """The answers that the card took: presses that met a painted image."""
    met = [press for press in labeling.presses()[after:] if press[2] == "true" and press[0] in WORDS]
    return [(int(item), WORDS[key]) for key, item, _ in met]


def stored(server: Server, session: str) -> list[tuple[int, str]]:
    rows = server.answers(session)
    assert all(row["item"] == row["shown"] for row in rows)
    return [(row["item"], row["answer"]) for row in rows]


def test_a_connection_cut_for_seconds_loses_nothing(
    server: Server, proxy: Proxy, context: BrowserContext
) -> None:
    """Keys go on being pressed; what the card took meanwhile is stored as soon as the connection is back."""
    labeling = Labeling(context.new_page(), f"{proxy.url}/?project=digits&session=new")
    for key in "yny":
        labeling.press(key)
    labeling.wait_for_what_follows()
    proxy.cut()
    for turn in range(scaled(quick=10, all=25)):
        labeling.page.keyboard.press("nyns"[turn % 4])
        labeling.page.wait_for_timeout(200)
    assert len(given(labeling)) > 3
    assert int(labeling.card.get_attribute("data-saving") or 0) > 0
    proxy.mend()
    expect(labeling.card).to_have_attribute("data-saving", "0", timeout=LONGEST_RETURN_MS)
    labeling.wait()
    labeling.press("y")
    assert stored(server, labeling.session) == given(labeling)


@pytest.mark.thorough
def test_bursts_of_forty_are_stored_as_they_were_taken(server: Server, labeling: Labeling) -> None:
    """At once, and at two paces that no person has."""
    for gap in (0, 20, 50):
        for turn in range(40):
            labeling.page.keyboard.press("ny"[turn % 2])
            labeling.page.wait_for_timeout(gap)
        labeling.wait()
    assert stored(server, labeling.session) == given(labeling) != []


@pytest.mark.thorough
def test_the_back_button_comes_back_to_the_same_session(server: Server, labeling: Labeling) -> None:
    """Answers of just before are there, and go on."""
    labeling.press("y")
    session = labeling.session
    labeling.page.keyboard.press("n")
    labeling.page.goto(f"{server.url}/projects")
    expect(labeling.page.get_by_role("heading", name="Projects")).to_be_visible()
    labeling.page.go_back()
    labeling.wait()
    assert labeling.session == session
    labeling.press("s")
    assert stored(server, session) == given(labeling)


FOLLOWS_VISITS = "() => Object.hasOwn(history, 'pushState')"
"""Whether the page's last script runs, a moment after the card is painted."""


@pytest.mark.thorough
def test_back_and_forward_go_from_view_to_view(labeling: Labeling) -> None:
    """Each step shows what its address names, and Back leads out of the view that was opened last."""
    page, session = labeling.page, labeling.session
    one, grid = page.locator(".card:not(.grid)[data-state]"), page.locator(".card.grid")

    def show(view: str, card: Locator) -> None:
        page.get_by_test_id("stButtonGroup").get_by_text(view, exact=True).click()
        expect(card).to_be_visible()

    show("Grid", grid)
    show("One", one)
    show("Grid", grid)
    for step, card, ending in (
        (page.go_back, one, ""),
        (page.go_back, grid, "&grid=28"),
        (page.go_back, one, ""),
        (page.go_forward, grid, "&grid=28"),
    ):
        page.wait_for_function(FOLLOWS_VISITS)
        step()
        expect(card).to_be_visible()
        expect(page).to_have_url(re.compile(rf"project=\w+&session={session}{ending}$"))
    page.get_by_role("link", name="Progress").click()
    expect(page).to_have_url(re.compile(rf"/progress[?]project=\w+&session={session}$"))
    page.go_back()
    expect(grid).to_be_visible()  # as the page was left
    expect(page).to_have_url(re.compile("&grid=28$"))
    page.wait_for_function(FOLLOWS_VISITS)
    page.go_back()
    expect(one).to_be_visible()


@pytest.mark.thorough
def test_back_leads_out_of_a_page_that_completes_its_address(labeling: Labeling) -> None:
    """Find similar adds what it shows to its address: this is no step of its own."""
    page = labeling.page
    page.wait_for_function(FOLLOWS_VISITS)
    page.get_by_role("link", name="Find similar").click()
    expect(page).to_have_url(re.compile(r"/similar.*&like=\w+$"))
    page.wait_for_function(FOLLOWS_VISITS)
    page.go_back()
    expect(page.locator(".frame img.item")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/\?project=\w+&session="))
    page.go_forward()
    expect(page).to_have_url(re.compile(r"/similar.*&like=\w+$"))


@pytest.mark.thorough
def test_two_tabs_on_one_session_store_each_item_once(server: Server, labeling: Labeling) -> None:
    """Both show the same image: the first answer counts, the second is told so; then each goes on."""
    labeling.press("y")
    other = Labeling(labeling.page.context.new_page(), labeling.page.url)
    assert other.item == labeling.item
    labeling.press("n")
    other.press("y")
    expect(other.page.locator(".status")).to_contain_text("answered already")
    for key in "nys":
        labeling.press(key)
        other.press(key)
    rows = stored(server, labeling.session)
    assert max(Counter(item for item, _ in rows).values()) == 1
    assert set(rows) <= set(given(labeling)) | set(given(other))


@pytest.mark.thorough
def test_a_reload_between_answer_and_acknowledgement_stores_it_once(
    server: Server, proxy: Proxy, context: BrowserContext
) -> None:
    """The connection is cut, the page reloaded when it is back: what was kept in the browser is sent."""
    labeling = Labeling(context.new_page(), f"{proxy.url}/?project=digits&session=new")
    labeling.press("y")
    labeling.wait_for_what_follows()
    proxy.cut()
    for key in "ny":
        labeling.page.keyboard.press(key)
    expect(labeling.card).not_to_have_attribute("data-saving", "0")
    taken = given(labeling)
    proxy.mend()
    labeling.page.reload()
    labeling.wait()
    assert stored(server, labeling.session) == taken


@pytest.mark.thorough
def test_a_server_killed_at_random_moments_loses_nothing(server: Server, labeling: Labeling) -> None:
    """Again and again, in the middle of presses; `tests.browser.kills` does it a hundred times."""
    found = kill_and_label(server, labeling, kills=scaled(quick=1, all=3, long=100), seed=0)
    assert is_sound(found), found


def test_the_first_choice_after_a_restart_counts(server: Server, labeling: Labeling) -> None:
    """The new server doesn't know the page until the page has run there, which happens without a click."""
    labeling.press("y")
    server.kill()
    server.start()
    page = labeling.page.get_by_test_id("stApp")
    expect(page).to_have_attribute("data-test-connection-state", "CONNECTED", timeout=LONGEST_RETURN_MS)
    at_rest(labeling.page, LONGEST_RETURN_MS)
    labeling.pick_strategy("Exhaustive")


@pytest.mark.thorough
def test_a_page_that_is_never_heard_is_loaded_anew(server: Server, context: BrowserContext) -> None:
    """Where the server is there, but what the page says comes to nothing: nothing of it is lost."""
    page, is_deaf = context.new_page(), False

    def hear() -> None:
        nonlocal is_deaf
        is_deaf = False

    def listen(browser: WebSocketRoute) -> None:
        there = browser.connect_to_server()
        browser.on_message(lambda message: None if is_deaf else there.send(message))

    page.route_web_socket("**/_stcore/stream", listen)
    page.route("**/api/v1/**/card", lambda route: route.abort())  # so that the page's script gets the answers
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    labeling.press("n")
    labeling.wait_for_what_follows()
    session, before = labeling.session, given(labeling)
    is_deaf = True
    with page.expect_response("**/healthz") as there:
        page.keyboard.press("y")
        before.append(given(labeling)[-1])
    assert there.value.ok
    with page.expect_event("load", timeout=30_000):
        page.once("framenavigated", lambda _: hear())
        page.evaluate("(t => { performance.now = () => t() + 60_000 })(performance.now.bind(performance))")
    labeling.wait()
    assert stored(server, session) == before
