from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.labeling import Labeling
from tests.browser.reviewing import Reviewing
from tests.browser.served import Server, free_port, make_demo
from tests.scale import scaled

PROVIDER = """
[auth]
redirect_uri = "http://127.0.0.1:{port}/oauth2callback"
cookie_secret = "as long and as random as it should be"
client_id = "closecall"
client_secret = "none"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""


class TeamServer(Server):
    """``closecall serve`` with two owners, over a project that is there."""

    def command(self) -> list[str]:
        project = str(self.data / self.key)
        owners = ["--owner", "Ada", "--owner", "Cleo"]
        return ["serve", project, *owners, "--headless", "--port", str(self.port)]


@pytest.fixture(scope="module")
def team(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A project that Ada and Cleo own."""
    folder = tmp_path_factory.mktemp("team") / "projects"
    make_demo(folder, server)
    made = TeamServer(folder, items=server.items, port=free_port())
    made.start()
    yield made
    made.stop()


@pytest.fixture
def closed(server: Server, tmp_path: Path) -> Iterator[Server]:
    """Such a project where secrets name a provider that nobody has signed in at."""
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text(PROVIDER, "utf-8")
    make_demo(tmp_path / "projects", server)
    made = TeamServer(tmp_path / "projects", items=server.items, port=free_port())
    with pytest.MonkeyPatch.context() as then:
        then.setenv("HOME", str(tmp_path))
        made.start()
    yield made
    made.stop()


def sign_in(page: Page, server: Server, name: str) -> Labeling:
    """The first visit asks who it is, since there are owners; then the labeling page opens."""
    page.goto(f"{server.url}/?project=digits")
    page.get_by_label("Name").fill(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name=name)).to_be_visible()
    expect(page.locator(".card")).to_have_attribute("data-answerable", "true", timeout=30_000)
    return Labeling(page, page.url)


def owner_of(server: Server, session: str) -> str:
    """Whose session it is, as the database says."""
    import sqlite3

    with sqlite3.connect(f"file:{server.database}?mode=ro", uri=True) as connection:
        return str(
            connection.execute("SELECT annotator FROM sessions WHERE id = ?", (session,)).fetchone()[0]
        )


def test_two_people_label_side_by_side(team: Server, contexts: list[BrowserContext]) -> None:
    """Each under the name that the browser remembers; none is shown what the other has."""
    ada = sign_in(contexts[0].new_page(), team, "Ada")
    bob = sign_in(contexts[1].new_page(), team, "Bob")
    assert [owner_of(team, labeling.session) for labeling in (ada, bob)] == ["Ada", "Bob"]
    seen: dict[str, list[int]] = {"ada": [], "bob": []}
    for key in "ynynyn":
        for name, labeling in (("ada", ada), ("bob", bob)):
            seen[name].append(labeling.item)
            labeling.press(key)
    assert len({*seen["ada"], *seen["bob"]}) == 12
    again = Labeling(contexts[0].new_page(), f"{team.url}/?project=digits")
    expect(again.page.get_by_role("link", name="Ada")).to_be_visible()
    assert owner_of(team, again.session) == "Ada"


@pytest.mark.thorough
def test_another_persons_session_is_not_opened_by_its_address(
    team: Server, contexts: list[BrowserContext]
) -> None:
    """Whoever types it gets one of their own, and answers under their own name."""
    ada = sign_in(contexts[0].new_page(), team, "Ada")
    sign_in(contexts[1].new_page(), team, "Bob")
    theirs = team.answers(ada.session)
    bob = Labeling(contexts[1].new_page(), f"{team.url}/?project=digits&session={ada.session}")
    assert bob.session != ada.session
    assert owner_of(team, bob.session) == "Bob"
    bob.press("y")
    assert team.answers(ada.session) == theirs


@pytest.mark.thorough
def test_who_is_no_owner_is_offered_nothing_of_an_owners(
    team: Server, contexts: list[BrowserContext]
) -> None:
    """Neither questions and examples, nor the demo, nor other people's figures, nor what is to be decided."""
    bob = sign_in(contexts[1].new_page(), team, "Bob")
    bob.press("y")
    page = bob.page
    page.get_by_role("button", name="Settings").click()
    expect(page.get_by_text("Show skipped items again")).to_be_visible()
    expect(page.get_by_text("Example images")).to_have_count(0)
    expect(page.get_by_text("People per item")).to_have_count(0)
    expect(page.get_by_role("button", name="Demo")).to_have_count(0)
    page.goto(f"{team.url}/people?project=digits&view=decide")
    expect(page.locator(".people")).to_have_attribute("data-state", "shown", timeout=30_000)
    expect(page.locator(".people tbody th")).to_have_text([re.compile("^Bob")])
    expect(page.get_by_text("Decide", exact=True)).to_have_count(0)


@pytest.mark.thorough
def test_an_owner_decides_by_keyboard(team: Server, contexts: list[BrowserContext]) -> None:
    """Who said what stands above the image; Y and N decide, and it is in the log as a decision.

    The next item is there in the next frame, whatever the server does.
    """
    bob = sign_in(contexts[1].new_page(), team, "Bob")
    items = []
    for key in "yn":
        items.append(bob.item)
        bob.press(key)
    ada = sign_in(contexts[0].new_page(), team, "Ada")
    page = ada.page
    page.goto(f"{team.url}/review?project=digits&session={ada.session}")
    expect(page.locator(".review")).to_have_attribute("data-state", "shown", timeout=30_000)
    page.locator("[data-view=all]").click()
    expect(page.locator(".review")).to_have_attribute("data-state", "shown", timeout=30_000)
    for item, key in zip(items, "ny", strict=True):
        page.locator(f".row[data-item='{item}']").click()
        page.keyboard.press(key)
    expect(page.locator(".review")).to_have_attribute("data-saving", "0", timeout=30_000)
    page.get_by_role("link", name="People").click()
    expect(page.locator(".people tbody tr").first).to_be_visible(timeout=30_000)
    page.get_by_text("Decide", exact=True).click()
    card = page.locator(".card:not(.people)")
    expect(card).to_have_attribute("data-painted-item", str(items[0]), timeout=30_000)
    expect(page.locator(".guideline")).to_have_text("no: Ada · yes: Bob")
    expect(card).to_have_attribute("data-ahead", "4")
    assert team.process is not None
    os.kill(team.process.pid, signal.SIGSTOP)
    try:
        page.keyboard.press("y")
        expect(card).to_have_attribute("data-painted-item", str(items[1]))
        expect(card).to_have_attribute("data-answerable", "true")
        expect(page.locator(".guideline")).to_have_text("no: Bob · yes: Ada")
        expect(page.locator(".chosen")).to_contain_text("The last one")
    finally:
        os.kill(team.process.pid, signal.SIGCONT)
    expect(card).to_have_attribute("data-saving", "0", timeout=30_000)
    page.keyboard.press("n")
    expect(page.get_by_text("There is nothing to decide")).to_be_visible(timeout=30_000)
    expect(card).to_have_attribute("data-saving", "0")
    assert decided(team, ada.session) == [(items[0], "yes"), (items[1], "no")]
    card.locator(".thumb").last.click()
    choices = card.get_by_role("menuitemradio")
    expect(choices.locator("span")).to_have_text(["No", "Yes", "Unsure"])  # a skip is no decision
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    expect(card).to_have_attribute("data-painted-item", str(items[1]), timeout=30_000)
    page.keyboard.press("y")
    expect(page.get_by_text("There is nothing to decide")).to_be_visible(timeout=30_000)
    expect(card).to_have_attribute("data-saving", "0")
    assert decided(team, ada.session)[-1] == (items[1], "yes")

    reviewing = Reviewing(page, team.url, ada.session)
    reviewing.show("all")
    page.locator(f".row[data-item='{items[0]}']").click()
    assert reviewing.given(items[0]) == "yes"  # the decision, not the vote
    reviewing.press("n")
    assert decided(team, ada.session)[-1] == (items[0], "no")
    assert reviewing.given(items[0]) == "no"
    reviewing.press("u")
    assert decided(team, ada.session)[-1] == (items[0], "undo")
    assert reviewing.given(items[0]) == "yes"

    contexts[1].clear_cookies()
    cleo = sign_in(contexts[1].new_page(), team, "Cleo")
    reviewing = Reviewing(cleo.page, team.url, cleo.session)
    reviewing.show("all")
    reviewing.row(items[0]).click()
    reviewing.press("n")
    only = "Ada has decided about this item, and only they can change it."
    expect(reviewing.card.locator(".status")).to_have_text(only)
    assert team.answers(reviewing.session) == []


def decided(server: Server, session: str) -> list[tuple[int, str]]:
    """Items and decisions in the log, undone ones too."""
    rows = [row for row in server.answers(session) if row["purpose"] == "decision"]
    return [(row["item"], row["answer"]) for row in rows]


@pytest.mark.thorough
def test_where_people_must_sign_in_nothing_is_shown_before(
    closed: Server, contexts: list[BrowserContext]
) -> None:
    """Whatever address is typed, and whatever name the browser remembers."""
    context = contexts[0]
    context.add_cookies([{"name": "closecall_name", "value": "Ada", "url": closed.url}])
    page = context.new_page()
    every = ("", "projects", "review", "people", "progress", "compare", "sign-in")
    for path in scaled(quick=("", "review"), all=every):
        page.goto(f"{closed.url}/{path}?project=digits")
        expect(page.get_by_text("Sign in to label.")).to_be_visible(timeout=30_000)
        expect(page.get_by_text("Is this a 7?")).to_have_count(0)
        expect(page.locator(".card")).to_have_count(0)
