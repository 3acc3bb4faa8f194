"""A simulated page, on a clock that nobody waits for."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from closecall.app.experiments.bench.team.card import POLL_AHEAD_SECONDS, RETRY_SECONDS
from closecall.app.experiments.bench.team.lossy import Lossy
from closecall.app.experiments.bench.team.page import Page
from closecall.app.experiments.bench.team.person import Manner, Person
from tests.unit.app.experiments.bench.team.fake import BUSY, CUT, FakeServer
from tests.unit.app.experiments.bench.team.swift import swiftly


class Browser:
    """A browser in which pages of one project are opened, one after the other."""

    def __init__(self, server: FakeServer) -> None:
        self.server = server
        self.store: dict[str, str] = {}
        self.session: str | None = None
        self.heard: list[float | None] = []

    def page(self) -> Page:
        self.last = Page(self.server, "a b", self.session, self.store, self.heard.append)
        return self.last

    async def shown(self, page: Page) -> Page:
        async with asyncio.timeout(60):
            while not page.card.can_answer:
                await asyncio.sleep(0.001)
        self.session = page.session
        return page

    async def saved(self) -> None:
        async with asyncio.timeout(60):
            while self.store:
                await asyncio.sleep(0.01)


def by_three(items: Sequence[int]) -> list[bool]:
    return [item % 3 == 0 for item in items]


def answers_of(body: dict[str, Any]) -> list[int]:
    return [answer["item"] for answer in body["answers"]]


def test_a_page_starts_a_session_and_then_asks_for_what_may_follow():
    async def work():
        began = time.time()
        server = FakeServer(ahead_seconds=0.5)
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            assert page.card.item.id == 0
            assert page.card.in_hand == {0}
            await asyncio.sleep(1)
            assert page.card.in_hand == {0, 1, 2}
        assert server.paths() == ["POST sessions", "POST card", "GET ahead"]
        assert server.asked[1][1] == "POST /projects/a%20b/sessions/session-0/card"
        assert [body for _, _, body in server.asked] == [
            {},
            {"view": "one", "wait": 0, "answers": []},
            {"selection": "s0", "known": 0, "view": "one"},
        ]
        whole, part = browser.heard
        assert began <= whole <= time.time()
        assert part is None

    swiftly(work())


def test_a_page_waits_for_what_follows_only_while_it_shows_something():
    """With an answer that nothing follows, the server does not wait for look-ahead."""

    async def work():
        server = FakeServer(ahead_seconds=0.5)
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            page.card.answer("yes", taken_ms=1)
            await browser.shown(page)
            await asyncio.sleep(1)
            page.card.answer("no", taken_ms=1)
            await browser.saved()
        posts = [body for _, line, body in server.asked if line.endswith("/card")]
        assert [answers_of(body) for body in posts] == [[], [0], [3]]
        assert [body.get("wait") for body in posts] == [0, 0, None]

    swiftly(work())


def test_one_request_at_a_time_sends_the_queue():
    """What is answered meanwhile goes with the next, at once."""

    async def work():
        server = FakeServer()
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            server.open.clear()
            page.card.answer("yes", taken_ms=1)
            assert page.card.item.id == 1
            page.card.answer("yes", taken_ms=1)
            await asyncio.sleep(1.5)
            assert len(page.card.pending) == 2
            server.open.set()
            await browser.saved()
        posts = [body for _, line, body in server.asked if line.endswith("/card")]
        assert [answers_of(body) for body in posts] == [[], [0], [1]]
        assert server.most_at_once == 1
        assert server.asked[-1][0] == pytest.approx(1.5, abs=0.1)

    swiftly(work())


@pytest.mark.parametrize("fault", [CUT, BUSY])
def test_answers_are_sent_again_after_growing_pauses(fault):
    """Until the server has them; the pauses then begin again."""

    async def work():
        server = FakeServer()
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            for _ in range(2):
                before = len(server.asked)
                server.faults.extend([fault] * 5)
                page.card.answer("no", taken_ms=1)
                await browser.saved()
                times = [time for time, _, _ in server.asked[before:]]
                pauses = [b - a for a, b in pairwise(times)]
                assert pauses == pytest.approx([*RETRY_SECONDS, RETRY_SECONDS[-1]])
        assert [answer["item"] for answer in server.log] == [0, 2]

    swiftly(work())


def test_a_page_that_can_not_be_opened_is_tried_again():
    async def work():
        server = FakeServer()
        server.faults.extend([CUT, None, BUSY])
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
        assert server.paths() == ["POST sessions", "POST sessions", "POST card", "POST card"]
        assert list(server.sessions) == ["session-0"]

    swiftly(work())


def test_the_queue_outlives_the_page_and_the_session_goes_on():
    """The answers of a page that was closed are sent by the next, and stored once."""

    async def work():
        server = FakeServer()
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            page.card.answer("yes", taken_ms=1)
            await asyncio.sleep(0)
            page.card.answer("no", taken_ms=1)
        assert len(browser.store) == 2
        async with browser.page() as page:
            await browser.saved()
            await browser.shown(page)
        assert list(server.sessions) == [page.session]
        assert [(answer["item"], answer["answer"]) for answer in server.log] == [(0, "yes"), (1, "no")]

    swiftly(work())


def test_a_refused_answer_is_left_out_of_the_next_request():
    async def work():
        server = FakeServer(refused_items={0})
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            given, _ = page.card.answer("yes", taken_ms=1)
            await browser.saved()
            assert page.card.refused == {given.id: "No."}
            assert page.card.item.id == 0
            assert page.card.can_answer

    swiftly(work())


def test_what_may_follow_is_asked_for_again_when_the_request_is_lost():
    """By a request for a whole payload, after a moment."""

    async def work():
        server = FakeServer(ahead_seconds=0.5)
        server.faults.extend([None, None, CUT])
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            await asyncio.sleep(2)
            assert page.card.in_hand == {0, 1, 2}
        assert server.paths()[2:] == ["GET ahead", "POST card", "GET ahead"]
        lost, polled = (when for when, _, _ in server.asked[2:4])
        assert polled - lost == pytest.approx(POLL_AHEAD_SECONDS)

    swiftly(work())


def test_an_older_payload_only_acknowledges():
    """It was made before the one that is shown."""

    async def work():
        server = FakeServer()
        browser = Browser(server)
        async with browser.page() as page:
            await browser.shown(page)
            server._numbers = iter([-1])
            page.card.answer("yes", taken_ms=1)
            await browser.saved()
            assert page.card.item.id == 0
            server.process, server._numbers = "restarted", iter([0])
            page._poll()
            await asyncio.sleep(0.1)
            assert page.card.item.id == 1

    swiftly(work())


@pytest.mark.parametrize("ahead_seconds", [0.0, 0.3])
@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_people_lose_nothing_whatever_the_requests_meet(share, ahead_seconds):
    """Each answer is stored once, in the order in which it was given, though pages are reloaded."""

    async def work() -> tuple[FakeServer, list[Person], list[Lossy]]:
        server, begin = FakeServer(ahead_seconds=ahead_seconds), asyncio.Event()
        lines = [Lossy(server, share, random.Random(number)) for number in range(3)]
        manner = Manner(pace=0.5, seed=1)
        people = [
            Person(
                f"person {number}", line, "p", lambda items: [item % 3 == 0 for item in items], manner, begin
            )
            for number, line in enumerate(lines)
        ]
        tasks = [asyncio.create_task(person.sit()) for person in people]
        for person in people:
            await person.arrived.wait()
        begin.set()
        await asyncio.sleep(300)
        for person in people:
            person.stop()
        await asyncio.gather(*tasks)
        for person, line in zip(people, lines, strict=True):
            await person.come_back()
            await line.settle()
        return server, people, lines

    server, people, lines = swiftly(work())
    for person in people:
        given = [press.given for press in person.diary.presses]
        own = [answer for answer in server.log if answer["session"] == person.diary.session]
        assert [answer["id"] for answer in own] == [one.id for one in given]
        assert [answer["item"] for answer in own] == [one.item for one in given]
        assert all(press.saved_at is not None for press in person.diary.presses)
        assert person.diary.refused == {}
    assert len(server.log) == len({answer["selection"] for answer in server.log}) > 100
    met = sum(sum(line.met.values()) for line in lines) / sum(line.count for line in lines)
    assert met == pytest.approx(share, abs=0.06)
