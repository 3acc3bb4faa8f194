"""A simulated labeling page without a browser: a connection to Streamlit's websocket, and a `Card`.

The page sends the same messages as Streamlit's front end. Each message is a ``rerun`` request with the state
of the labeling component. The first request after each connect is for the whole page. Later requests are for
the fragment of the page that has the card. If the server is down, the page tries to connect again after a
pause.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException
from websockets.typing import Origin, Subprotocol

from closecall.app.experiments.bench.team.card import POLL_SECONDS, RETRY_SECONDS, Card, Store

COMPONENT = "closecall_label"
COOKIE = "closecall_name"
NO_TOKEN = "PLACEHOLDER_AUTH_TOKEN"
"""Streamlit's placeholder for a missing authentication token."""


LEAST_PAUSE, MOST_PAUSE = 0.5, 15.0
"""First and maximum pause between attempts to connect, in seconds. The pause doubles after each attempt."""


class Page:
    """A labeling page, used as an async context manager: the page is open within the context.

    Parameters
    ----------
    url : str
        The server's address.
    name : str
        Name of the annotator who is signed in.
    query : str
        Query string of the page's address.
    store : Store
        The browser's ``localStorage``.
    heard : callable
        Called after each payload from the server, once the card has processed it.
    """

    def __init__(self, url: str, name: str, query: str, store: Store, heard: Callable[[], None]) -> None:
        self.query = query
        self.card = Card(store, self._say)
        self._url = url
        self._name = name
        self._heard = heard
        self._connection: ClientConnection | None = None
        self._session = ""
        self._widget = ""
        self._fragment = ""
        self._state: dict[str, Any] = {}
        self._failures = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._outbox: asyncio.Queue[bytes] = asyncio.Queue()
        self._running: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Page:
        self._running = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(self, *_: object) -> None:
        for timer in self._timers.values():
            timer.cancel()
        assert self._running is not None
        self._running.cancel()
        with suppress(asyncio.CancelledError):
            await self._running

    async def _stay_connected(self) -> None:
        pause = LEAST_PAUSE
        while True:
            try:
                async with self._connected() as self._connection:
                    pause = LEAST_PAUSE
                    self._outbox = asyncio.Queue()
                    self._rerun(whole=True)
                    await self._converse(self._connection)
            except (OSError, WebSocketException, TimeoutError):
                pass
            self._connection = None
            await asyncio.sleep(pause)
            pause = min(2 * pause, MOST_PAUSE)

    def _connected(self) -> connect:
        words = ["streamlit", NO_TOKEN, *([self._session] if self._session else [])]
        return connect(
            f"ws{self._url.removeprefix('http')}/_stcore/stream",
            subprotocols=[Subprotocol(word) for word in words],
            origin=Origin(self._url),
            additional_headers={"Cookie": f"{COOKIE}={quote(self._name, safe='')}"},
            max_size=None,
            ping_interval=None,  # browsers send no pings
            proxy=None,
        )

    async def _converse(self, connection: ClientConnection) -> None:
        speaking = asyncio.create_task(self._speak(connection))
        try:
            async for message in connection:
                if isinstance(message, bytes):
                    self._hear(message)
        finally:
            speaking.cancel()
            with suppress(asyncio.CancelledError, OSError, WebSocketException):
                await speaking

    async def _speak(self, connection: ClientConnection) -> None:
        while True:
            await connection.send(await self._outbox.get())

    def _hear(self, raw: bytes) -> None:
        message = ForwardMsg()
        message.ParseFromString(raw)
        kind = message.WhichOneof("type")
        if kind == "new_session":
            self._session = message.new_session.initialize.session_id or self._session
        elif kind == "page_info_changed":
            self.query = message.page_info_changed.query_string
        elif kind == "delta" and message.delta.WhichOneof("type") == "new_element":
            element = message.delta.new_element
            if element.WhichOneof("type") == "bidi_component":
                component = element.bidi_component
                if component.component_name == COMPONENT:
                    self._widget, self._fragment = component.id, message.delta.fragment_id
                    self._take(json.loads(component.json))

    def _take(self, data: dict[str, Any]) -> None:
        waiting = len(self.card.pending)
        self.card.update(data)
        if len(self.card.pending) < waiting:
            self._failures = 0
        self._set_timer("poll", self.card.poll_seconds, self._poll)
        self._heard()

    def _say(self, answers: list[dict[str, Any]]) -> None:
        """Send the answers in the card's queue, and start the timer of the next retry."""
        self._set_state(answers)
        pause = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        self._set_timer("retry", pause, self._retry)

    def _retry(self) -> None:
        self._failures += 1
        if self.card.saving or self._failures < len(RETRY_SECONDS):
            self.card.send()

    def _poll(self) -> None:
        self._set_state(self.card.pending)
        self._set_timer("poll", POLL_SECONDS, self._poll)

    def _set_state(self, answers: list[dict[str, Any]]) -> None:
        self._state = {"pending": answers}
        if self._connection is not None:
            self._rerun()

    def _rerun(self, *, whole: bool = False) -> None:
        message = BackMsg()
        rerun = message.rerun_script
        rerun.query_string = self.query
        if not whole:
            rerun.fragment_id = self._fragment
        if self._widget:
            rerun.widget_states.widgets.add(id=self._widget, json_value=json.dumps(self._state))
        self._outbox.put_nowait(message.SerializeToString())

    def _set_timer(self, name: str, seconds: float | None, act: Callable[[], None]) -> None:
        if (before := self._timers.pop(name, None)) is not None:
            before.cancel()
        if seconds is not None:
            self._timers[name] = asyncio.get_running_loop().call_later(seconds, act)
