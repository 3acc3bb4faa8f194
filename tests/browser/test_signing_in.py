"""Names that people type: who must give one is asked, comes to the wanted page, and is nobody's double."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server, free_port, make_demo


class TeamServer(Server):
    """``closecall serve`` for a folder of projects that only Olga and Ada may enter."""

    def command(self) -> list[str]:
        people = ["--owner", "Olga", "--annotator", "Ada"]
        return ["serve", str(self.data), *people, "--headless", "--port", str(self.port)]

    def is_ready(self) -> bool:
        return self.answers_health()


@pytest.fixture(scope="module")
def team(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("named") / "projects"
    make_demo(folder, server)
    made = TeamServer(folder, items=server.items, port=free_port())
    made.start()
    yield made
    made.stop()


def give_name(page: Page, name: str) -> None:
    page.get_by_label("Name", exact=True).fill(name)
    page.get_by_role("button", name="Start labeling").click()


def test_a_visitor_without_a_name_is_asked_for_it(team: Server, context: BrowserContext) -> None:
    """On the list of projects, which then shows what this person may enter, whatever the letter case."""
    page = context.new_page()
    page.goto(f"{team.url}/projects")
    expect(page.get_by_text("open to named people only")).to_be_visible(timeout=30_000)
    expect(page.get_by_text("no access")).to_have_count(0)
    give_name(page, "ADA")
    expect(page.locator(".st-key-open-digits button")).to_be_visible(timeout=30_000)
    page.get_by_role("link", name="Ada").click()
    expect(page.get_by_text("Currently Ada.")).to_be_visible()  # and the page stays


@pytest.mark.parametrize("path", ["progress?project=digits", pytest.param("", marks=pytest.mark.thorough)])
def test_an_address_is_kept_until_the_name_is_given(team: Server, context: BrowserContext, path: str) -> None:
    """A link to a page leads there, after the question for the name; without a page, to the list."""
    page = context.new_page()
    page.goto(f"{team.url}/{path}")
    give_name(page, "Ada")
    wanted = re.escape(path) if path else "projects"
    expect(page).to_have_url(re.compile(rf"/{wanted}"), timeout=30_000)


def test_another_spelling_of_a_name_is_one_person(server: Server, context: BrowserContext) -> None:
    """The known spelling is offered; somebody else may have the same name in other letters."""
    page = context.new_page()
    page.goto(f"{server.url}/sign-in?project=digits")
    give_name(page, "Grace")
    expect(page.get_by_role("link", name="Grace", exact=True)).to_be_visible(timeout=30_000)
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    labeling.press("n")
    for answer, name in (("Yes, I am Grace", "Grace"), ("No, I am graCE", "graCE")):
        page.goto(f"{server.url}/sign-in?project=digits")
        give_name(page, "graCE")
        expect(page.get_by_text("Grace has labeled here before. Is that you?")).to_be_visible()
        page.get_by_role("button", name=answer).click()
        expect(page.get_by_role("link", name=name, exact=True)).to_be_visible(timeout=30_000)
    page.goto(f"{server.url}/sign-in?project=digits")
    give_name(page, "Grace")  # as it is known: no question
    expect(page.get_by_role("link", name="Grace", exact=True)).to_be_visible(timeout=30_000)


def test_a_name_that_is_too_long_is_refused_and_stays_in_the_field(
    server: Server, context: BrowserContext
) -> None:
    """The message says how long names may be; what was pasted can be shortened."""
    page = context.new_page()
    page.goto(f"{server.url}/sign-in")
    field = page.get_by_role("textbox", name="Name")
    field.fill("Ada " * 25)
    field.press("Enter")
    expect(page.get_by_role("alert")).to_contain_text("The name is too long (80 characters at most, got 99)")
    expect(field).to_have_value("Ada " * 25)
