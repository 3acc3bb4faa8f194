"""Server-sent events: each is sent once, to those who may know it. No stream keeps a server from stopping."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from closecall.app.server import leaving
from closecall.app.server.http import build_api, events
from tests.aside import aside
from tests.projects import label


class Stream:
    """An open stream, as a client reads it."""

    def __init__(self) -> None:
        self.text = ""
        self.status = 0
        self.gone = asyncio.Event()
        self.news = asyncio.Event()

    async def send(self, message: dict[str, Any]) -> None:
        self.status = message.get("status", self.status)
        self.text += message.get("body", b"").decode()
        self.news.set()

    async def receive(self) -> dict[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Return what was told, without what happens to the pool meanwhile."""
        read = []
        for block in self.text.split("\n\n"):
            if block.startswith("event: "):
                kind, data = block.splitlines()
                read.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        return [(kind, data) for kind, data in read if kind != "index" and "is_complete" not in data]

    async def until(self, n_events: int) -> None:
        async with asyncio.timeout(30):
            while len(self.events()) < n_events:
                self.news.clear()
                await self.news.wait()


@asynccontextmanager
async def opened(project, headers: dict[str, str], query: str = "") -> AsyncIterator[Stream]:
    stream = Stream()
    scope = {
        "type": "http",
        "method": "GET",
        "path": f"/projects/{project.key}/events",
        "raw_path": b"",
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), text.encode()) for name, text in headers.items()],
        "root_path": "",
        "app": None,
    }
    running = asyncio.create_task(build_api()(scope, stream.receive, stream.send))
    async with asyncio.timeout(30):
        while ": connected" not in stream.text and not running.done():
            await asyncio.sleep(0.01)
    yield stream
    stream.gone.set()
    await running


def test_answers_are_told_as_they_are_stored(project, token):
    async def listen() -> None:
        concept = project.concepts()[0].id
        async with (
            opened(project, token("read"), f"concept={concept}") as mine,
            opened(project, token("read"), "concept=999") as other,
        ):
            await asyncio.to_thread(label, project.session(), 3)
            await mine.until(3)
            assert other.events() == []
        stored = [answer.item for answer in project.log.answers_after(concept)]
        told = [data for kind, data in mine.events() if kind == "answers"]
        assert [data["items"] for data in told] == [[item] for item in stored]

    aside(lambda: asyncio.run(listen()))


def test_what_may_follow_is_told_to_its_session_only(project, token):
    async def listen() -> None:
        session = project.session()
        async with (
            opened(project, token("read"), f"session={session.id}&concept=999") as mine,
            opened(project, token("read"), "concept=999") as other,
        ):
            await asyncio.to_thread(label, session, 1)
            await mine.until(1)
            assert {kind for kind, _ in mine.events()} == {"ahead"}
            assert other.events() == []

    aside(lambda: asyncio.run(listen()))


def test_a_page_that_knows_fewer_changes_is_told_that_it_missed_some(project, token):
    """At once; one that knows as many, or that says nothing, is not. News of other kinds don't count."""

    async def listen() -> None:
        project.news.publish("concept", concept=1)
        project.news.publish("answers", concept=1, items=None)
        known = project.news.changes
        async with opened(project, token("read"), f"changes={known - 1}") as stream:
            await stream.until(1)
            assert stream.events() == [("missed", {"changes": known})]
        for query in ("", f"changes={known + 1}"):
            async with opened(project, token("read"), query) as stream:
                project.news.publish("concept", concept=1)
                await stream.until(1)
                told = {"concept": 1, "changes": project.news.changes}
                assert stream.events() == [("concept", told)]

    aside(lambda: asyncio.run(listen()))


def test_a_stream_ends_when_the_project_is_closed(project, token):
    async def listen() -> None:
        async with opened(project, token("read")) as stream:
            project.news.publish("closed")
            await stream.until(1)
        assert stream.events() == [("closed", {})]

    aside(lambda: asyncio.run(listen()))


def test_a_stream_ends_when_the_server_is_to_stop(project, token, monkeypatch: pytest.MonkeyPatch):
    async def listen() -> None:
        async with opened(project, token("read")) as stream:
            leaving._is_leaving.set()
            try:
                async with asyncio.timeout(30):
                    while "more_body" in stream.text:
                        await asyncio.sleep(0.01)
            finally:
                leaving._is_leaving.clear()

    monkeypatch.setattr(events, "LOOK_SECONDS", 0.01)
    aside(lambda: asyncio.run(asyncio.wait_for(listen(), 30)))


def test_a_client_that_does_not_read_is_given_up(project, token, monkeypatch: pytest.MonkeyPatch):
    """Its events would fill the memory."""
    monkeypatch.setattr(events, "MOST_WAITING", 3)

    async def listen() -> None:
        async with opened(project, token("read")) as stream:
            for number in range(50):  # the stream can't run meanwhile
                project.news.publish("answers", concept=1, items=[number])
            await asyncio.sleep(1)
            assert len(stream.events()) < 50

    aside(lambda: asyncio.run(asyncio.wait_for(listen(), 30)))


def test_nobody_listens_without_a_credential(project):
    async def listen() -> None:
        async with opened(project, {}) as stream:
            assert stream.status == 401

    aside(lambda: asyncio.run(listen()))
