from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from closecall.app.pages.person import GO_TO_WANTED, WANTED
from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port, make_demo
from tests.openid import Account, Provider, serving

ADA = Account("ada@example.org", "Ada Lovelace")
BOB = Account("bob@example.org", "Bob")
EVE = Account("eve@example.com", "Eve")
MALLORY = Account("mallory@example.com", "Mallory", {"email": "ada@example.org", "email_verified": False})


class TeamServer(Server):
    """``closecall serve`` for whoever the provider vouches for: Ada owns, example.org labels."""

    def command(self) -> list[str]:
        people = ["--owner", ADA.email, "--annotator", "@example.org"]
        return ["serve", str(self.data), *people, "--headless", "--port", str(self.port)]


@pytest.fixture(scope="module")
def provider() -> Iterator[tuple[Provider, int]]:
    """With the port that it sends people back to."""
    port = free_port()
    with serving([ADA, BOB, EVE, MALLORY], [f"http://127.0.0.1:{port}/oauth2callback"]) as provider:
        yield provider, port


@pytest.fixture(scope="module")
def team(
    provider: tuple[Provider, int], server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """A folder of projects, with one."""
    folder = tmp_path_factory.mktemp("openid")
    make_demo(folder / "projects", server)
    (folder / ".streamlit").mkdir()
    (folder / ".streamlit" / "secrets.toml").write_text(provider[0].secrets_toml(), "utf-8")
    made = TeamServer(folder / "projects", items=server.items, port=provider[1])
    with pytest.MonkeyPatch.context() as then:
        then.setenv("HOME", str(folder))
        made.start()
    yield made
    made.stop()


def sign_in(page: Page, server: Server, account: Account, path: str = "/?project=digits") -> Page:
    """Through the door, to the provider and back to what was wanted."""
    page.goto(f"{server.url}{path}")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name=account.name, exact=True).click()
    page.wait_for_url(lambda url: url.removeprefix(server.url).startswith(path), timeout=30_000)
    top = page.get_by_test_id("stTopNav")
    expect(top.get_by_role("link", name=account.name)).to_be_visible(timeout=30_000)
    return page


def slowly(route: Route) -> None:
    """Let a request wait for longer than pages take to load."""
    route.request.frame.page.wait_for_timeout(3000)
    route.continue_()


def annotators(server: Server) -> set[str]:
    """Under which names answers are stored."""
    with sqlite3.connect(f"file:{server.database}?mode=ro", uri=True) as connection:
        return {name for (name,) in connection.execute("SELECT DISTINCT annotator FROM answers")}


@pytest.mark.thorough
def test_people_label_under_the_address_that_the_provider_verified(
    team: Server, contexts: list[BrowserContext]
) -> None:
    """The page calls them by name; an owner is whoever was named one, and nobody opens another's session."""
    ada, bob = (
        Labeling(page := sign_in(context.new_page(), team, account), page.url)
        for context, account in zip(contexts, (ADA, BOB), strict=True)
    )
    for key in "yn":
        ada.press(key)
        bob.press(key)
    assert annotators(team) == {ADA.email, BOB.email}
    bob.page.goto(f"{team.url}/?project=digits&session={ada.session}")
    expect(bob.card).to_have_attribute("data-answerable", "true", timeout=30_000)
    assert bob.session != ada.session
    for labeling, number in ((ada, 1), (bob, 0)):
        labeling.page.get_by_role("button", name="Settings").click()
        expect(labeling.page.get_by_text("Show skipped items again")).to_be_visible()
        expect(labeling.page.get_by_text("People per item")).to_have_count(number)


@pytest.mark.thorough
def test_nobody_is_somebody_else_by_a_cookie_or_a_careless_address(
    team: Server, contexts: list[BrowserContext]
) -> None:
    """A name that the browser remembers means nothing here, an address that was not verified neither."""
    cookie = {"name": "closecall_name", "value": ADA.email, "url": team.url}
    contexts[0].add_cookies([cookie])
    page = sign_in(contexts[0].new_page(), team, MALLORY)
    page.goto(f"{team.url}/?project=digits")
    expect(page.get_by_text(f"{MALLORY.subject!r} has no access to this project: ask an")).to_be_visible()
    expect(page.locator(".card")).to_have_count(0)


@pytest.mark.thorough
def test_a_page_that_an_earlier_version_remembered_is_gone_to(
    team: Server, contexts: list[BrowserContext]
) -> None:
    """Somebody was at the provider while the server was upgraded: they come back to what they wanted."""
    context, wanted = contexts[0], "/progress?project=digits"
    page = context.new_page()
    page.goto(f"{team.url}/")
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name=ADA.name, exact=True).wait_for()
    assert "closecall_wanted" not in {cookie["name"] for cookie in context.cookies(team.url)}
    context.add_cookies([{"name": "marginalia_wanted", "value": quote(wanted, safe=""), "url": team.url}])
    page.get_by_role("button", name=ADA.name, exact=True).click()
    page.wait_for_url(f"{team.url}{wanted}**", timeout=30_000)
    assert "marginalia_wanted" not in {cookie["name"] for cookie in context.cookies(team.url)}


def test_the_wanted_page_is_found_although_the_script_runs_twice(
    server: Server, context: BrowserContext
) -> None:
    """Streamlit may run it again before the browser has left the page; the cookie is then used up."""
    page, script = context.new_page(), GO_TO_WANTED.removeprefix("<script>").removesuffix("</script>")
    page.goto(f"{server.url}/projects")
    wanted = "/progress?project=digits"
    context.add_cookies([{"name": WANTED, "value": quote(wanted, safe=""), "url": server.url}])
    page.evaluate(f"() => {{ {{ {script} }} {{ {script} }} }}")
    page.wait_for_url(f"{server.url}{wanted}**", timeout=30_000)
    assert WANTED not in {cookie["name"] for cookie in context.cookies(server.url)}


@pytest.mark.thorough
def test_who_is_not_in_the_team_is_told_so(team: Server, contexts: list[BrowserContext]) -> None:
    """In one sentence, wherever they go; no project is named, and they can leave."""
    page = sign_in(contexts[0].new_page(), team, EVE)
    page.goto(f"{team.url}/projects")
    expect(page.get_by_text("eve@example.com has no access to any project here.")).to_be_visible()
    for path in ("", "review", "people", "progress", "compare"):
        page.goto(f"{team.url}/{path}?project=digits")
        expect(page.get_by_text("'eve@example.com' has no access to this project:")).to_be_visible()
        expect(page.get_by_text("Is this a 7?")).to_have_count(0)


@pytest.mark.thorough
def test_signing_out_lets_another_person_in(team: Server, contexts: list[BrowserContext]) -> None:
    """At the provider, too. Then all tabs ask to sign in, and answers are the next person's.

    This takes time, during which the cookie is still there: no tab may be loaded again before.
    """
    page = sign_in(contexts[0].new_page(), team, ADA)
    other = contexts[0].new_page()
    other.goto(f"{team.url}/review?project=digits")
    expect(other.get_by_role("link", name=ADA.name)).to_be_visible(timeout=30_000)
    page.get_by_role("link", name=ADA.name).click()
    expect(page.get_by_text(f"Your answers are stored under {ADA.email}.")).to_be_visible()
    contexts[0].route("**/auth/logout", slowly)
    page.get_by_role("button", name="Sign out").click()
    page.wait_for_url(f"{team.url}/", timeout=30_000)  # by way of the provider
    expect(page.get_by_text("Sign in to label.")).to_be_visible(timeout=30_000)
    expect(other.get_by_text("Sign in to label.")).to_be_visible(timeout=30_000)
    page.goto(f"{team.url}/?project=digits")
    expect(page.get_by_text("Sign in to label.")).to_be_visible(timeout=30_000)
    sign_in(page, team, BOB)
    page.get_by_role("link", name=BOB.name).click()
    expect(page.get_by_text(f"Your answers are stored under {BOB.email}.")).to_be_visible()


@pytest.mark.thorough
def test_at_an_address_where_signing_in_fails_the_right_one_is_named(
    team: Server, contexts: list[BrowserContext]
) -> None:
    """The provider sends people to one address only, and cookies are another host's there."""
    page = contexts[0].new_page()
    page.goto(team.url.replace("127.0.0.1", "localhost"))
    link = page.get_by_role("link", name=team.url)
    expect(link).to_be_visible(timeout=30_000)
    assert link.get_attribute("href") == f"{team.url}/"


@pytest.mark.thorough
@pytest.mark.parametrize("path", ["/review?project=digits", "/sign-in", "/map?project=digits"])
def test_every_address_leads_to_the_door_and_then_to_itself(
    team: Server, contexts: list[BrowserContext], path: str
) -> None:
    """Nothing is "not found" before signing in, and nothing covers the button."""
    page = contexts[0].new_page()
    page.goto(f"{team.url}{path}")
    expect(page.get_by_role("button", name="Sign in")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("dialog")).to_have_count(0)
    sign_in(page, team, ADA, path)
