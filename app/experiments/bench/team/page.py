"""A simulated labeling page without a browser: a `Card` that sends and receives by HTTP requests.

The page makes the same requests as ``components/shared/line.js`` and ``components/label/card.js``:

- One request at a time sends all pending answers. Its reply is the next payload.
- While an item is in view, another request waits for the items that may follow.
- If answers are not acknowledged, they are sent again after a pause. If several requests fail, the pauses
  grow.

A browser gets its session and its first payload from Streamlit. The simulated page starts a session itself,
unless it continues a session, and gets the first payload by a request without answers. If requests fail, a
browser's page runs its Streamlit script, whereas the simulated page only repeats the requests. If the
annotator waits for an item, a browser may send answers in a second request before the first request has a
reply. The simulated page never sends two such requests at once. It does not listen to server-sent events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

from closecall.app.experiments.bench.team.card import POLL_SECONDS, RETRY_SECONDS, Card, Store
from closecall.app.experiments.bench.team.requests import FAILURES, Request
from closecall.client.connection import path_of

PATIENCE_SECONDS, PATIENCE_AHEAD_SECONDS = 15.0, 30.0
"""Seconds after which a request counts as lost.

The second number is for requests that wait for the items that may follow. The server may take up to 15
seconds to reply to such a request.
"""

VIEW = "one"


class Page:
    """A labeling page, used as an async context manager: the page is open within the context.

    Parameters
    ----------
    request : Request
        Makes requests in the name of one person.
    project : str
        Key of the project.
    session : str or None
        Id of the session with which the page continues; None to start a session.
    store : Store
        The browser's ``localStorage``.
    heard : callable
        Called after the card has processed a payload from the server. The argument is the time when a whole
        payload was asked for, and None for a part that has only the items that may follow. The server takes a
        request for a whole payload as a sign of activity, and renews the leases of the page.

    Attributes
    ----------
    card : Card
    session : str or None
        Id of the session, once it is known.
    """

    def __init__(
        self,
        request: Request,
        project: str,
        session: str | None,
        store: Store,
        heard: Callable[[float | None], None],
    ) -> None:
        self.session = session
        self.card = Card(store, self._send)
        self._request = request
        self._project = project
        self._heard = heard
        self._data: Mapping[str, Any] | None = None
        self._failures = 0
        self._is_busy = False
        self._awaited: str | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Page:
        self._start(self._open())
        return self

    async def __aexit__(self, *_: object) -> None:
        for timer in self._timers.values():
            timer.cancel()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for found in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(found, Exception):
                raise found

    async def _open(self) -> None:
        """If there is no session, start one. Then get the first payload. Retry until both succeed."""
        failures = 0
        while True:
            with suppress(*FAILURES):
                if self.session is None:
                    started = await self._ask("POST", self._path("sessions"), body={})
                    self.session = str(started["id"])
                body, asked = {"view": VIEW, "wait": 0, "answers": []}, time.time()
                return self._show(await self._ask("POST", self._card_path, body=body), asked)
            await asyncio.sleep(RETRY_SECONDS[min(failures, len(RETRY_SECONDS) - 1)])
            failures += 1

    def _send(self, answers: list[dict[str, Any]]) -> None:
        """Send the answers in the card's queue, and start the timer of the next retry."""
        self._exchange(answers)
        pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._set_timer("retry", pause, self._retry)

    def _retry(self) -> None:
        self._failures += 1
        if self.card.saving or self._failures < len(RETRY_SECONDS):
            self.card.send()

    def _poll(self) -> None:
        self._exchange(self.card.pending)
        self._set_timer("poll", POLL_SECONDS, self._poll)

    def _exchange(self, answers: list[dict[str, Any]]) -> None:
        """Send answers. If another request is under way, send them after that request."""
        if not self._is_busy:
            self._is_busy = True
            self._start(self._post(answers))

    async def _post(self, answers: list[dict[str, Any]]) -> None:
        wait, asked = {} if self.card.can_answer else {"wait": 0}, time.time()
        try:
            data = await self._ask("POST", self._card_path, body={"view": VIEW, **wait, "answers": answers})
        except FAILURES:
            return  # answers are sent again after a pause
        finally:
            self._is_busy = False
        before = self._data
        if before is not None and _is_older(data, before):
            data = {**before, **{part: data[part] for part in ("acked", "refused", "message")}}
        self._show(data, asked)
        sent = {answer["id"] for answer in answers}
        if any(answer["id"] not in sent for answer in self.card.pending):
            self._exchange(self.card.pending)

    def _show(self, data: Mapping[str, Any], asked: float | None) -> None:
        self._data, waiting = data, len(self.card.pending)
        self.card.update(data)
        if len(self.card.pending) < waiting:
            self._failures = 0
        if not self.card.pending:
            self._set_timer("retry", None)
        self._follow(data)
        self._heard(asked)

    def _follow(self, data: Mapping[str, Any]) -> None:
        """Wait or poll for items that the server has not computed yet."""
        self._set_timer("poll", None)
        if self.card.awaits_ahead and data["item"]:
            self._start(self._await_ahead(data))
        else:
            self._poll_later()

    def _poll_later(self) -> None:
        if self.card.poll_seconds is not None:
            self._set_timer("poll", self.card.poll_seconds, self._poll)

    async def _await_ahead(self, data: Mapping[str, Any]) -> None:
        """Wait for more items that may follow the item of a payload, and pass them to the card."""
        selection = data["item"]["selection"]
        if self._awaited == selection:
            return
        self._awaited, part = selection, None
        with suppress(*FAILURES):
            query = {"selection": selection, "known": len(data["next"]), "view": VIEW}
            part = await self._ask("GET", f"{self._session_path}/ahead", query=query)
        if self._awaited == selection:
            self._awaited = None
        now = self._data
        assert now is not None
        if not now["item"] or now["item"]["selection"] != selection:
            return
        if part is not None:
            self._show({**now, **part, "acked": [], "refused": []}, None)
        elif now is data:
            self._poll_later()

    async def _ask(self, method: str, path: str, **more: Mapping[str, Any]) -> Any:
        seconds = PATIENCE_SECONDS if method == "POST" else PATIENCE_AHEAD_SECONDS
        return await self._request(method, path, seconds=seconds, **more)

    def _path(self, *parts: str) -> str:
        return path_of("projects", self._project, *parts)

    @property
    def _session_path(self) -> str:
        assert self.session is not None
        return self._path("sessions", self.session)

    @property
    def _card_path(self) -> str:
        return f"{self._session_path}/card"

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a task, which is cancelled if it still runs when the page is closed."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or task.exception() is None:
            self._tasks.discard(task)  # errors are raised when the page is closed

    def _set_timer(self, name: str, seconds: float | None, act: Callable[[], None] | None = None) -> None:
        if (before := self._timers.pop(name, None)) is not None:
            before.cancel()
        if seconds is not None and act is not None:
            self._timers[name] = asyncio.get_running_loop().call_later(seconds, act)


def _is_older(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return whether a payload was made before another one of the same process and session."""
    mine, its = one["stamp"], other["stamp"]
    is_of_one = one["session"] == other["session"] and mine["process"] == its["process"]
    return bool(is_of_one and mine["number"] < its["number"])
