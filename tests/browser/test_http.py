"""Answers travel in HTTP requests; where these don't get through, the page's script stores them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Route, expect

from tests.browser.labeling import Labeling
from tests.browser.served import Server
from tests.scale import scaled

N_ANSWERS = scaled(quick=6, all=20)


class Traffic:
    """What a page sends: HTTP requests of its card, and messages to its script."""

    def __init__(self, page: Page) -> None:
        self.requests: list[str] = []
        self.messages = 0
        page.on("request", self._note)
        page.on("websocket", lambda socket: socket.on("framesent", self._count))

    def _note(self, request: Request) -> None:
        if "/api/v1/" in request.url:
            self.requests.append(f"{request.method} {request.url.rpartition('/')[2].partition('?')[0]}")

    def _count(self, _: object) -> None:
        self.messages += 1


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


def label(labeling: Labeling, n_answers: int = N_ANSWERS) -> list[tuple[int, str]]:
    """Answer as a person does, and return the answers."""
    given = []
    for turn in range(n_answers):
        labeling.wait()
        given.append((labeling.item, ["no", "yes"][turn % 2]))
        labeling.press("ny"[turn % 2])
    labeling.wait()
    return given


def stored(server: Server, session: str) -> list[tuple[int, str]]:
    return [(row["item"], row["answer"]) for row in server.answers(session)]


def test_no_script_runs_when_an_answer_is_given(server: Server, page: Page) -> None:
    traffic = Traffic(page)
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    labeling.wait_for_what_follows()
    page.wait_for_timeout(500)
    before = traffic.messages
    given = label(labeling)
    assert traffic.messages == before
    assert traffic.requests.count("POST card") >= N_ANSWERS
    assert stored(server, labeling.session) == given


def test_where_a_proxy_refuses_the_requests_the_script_stores_the_answers(server: Server, page: Page) -> None:
    traffic = Traffic(page)
    page.route(
        "**/api/v1/**",
        lambda route: route.fulfill(status=403, content_type="text/html", body="<h1>Forbidden</h1>"),
    )
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    given = label(labeling)
    assert 1 <= traffic.requests.count("POST card") <= 3  # then a pause
    assert stored(server, labeling.session) == given


@pytest.mark.thorough
def test_requests_that_are_lost_or_doubled_change_nothing(server: Server, page: Page) -> None:
    """A third of them is lost before the server has it, a third is lost after it, and a third comes twice."""
    number = 0

    def trouble(route: Route) -> None:
        nonlocal number
        number += 1
        if number % 3 == 0:
            route.abort()
            return
        response = route.fetch()
        if number % 3 == 1:
            route.abort()
        else:
            route.fetch()
            route.fulfill(response=response)

    page.route("**/api/v1/**/card", trouble)
    labeling = Labeling(page, f"{server.url}/?project=digits&session=new")
    given = label(labeling)
    assert stored(server, labeling.session) == given


@pytest.mark.thorough
def test_a_grid_is_answered_by_requests(server: Server, page: Page) -> None:
    traffic = Traffic(page)
    page.goto(f"{server.url}/?project=digits&session=new&grid=12")
    card = page.locator(".card")
    expect(card).to_have_attribute("data-answerable", "true", timeout=60_000)
    page.wait_for_timeout(500)
    before = traffic.messages
    for _ in range(3):
        shown = card.get_attribute("data-painted")
        page.keyboard.press("Shift+N")
        page.keyboard.press("Enter")
        expect(card).not_to_have_attribute("data-painted", shown or "")
        expect(card).to_have_attribute("data-answerable", "true")
    assert traffic.messages == before
    assert traffic.requests.count("POST card") >= 3
