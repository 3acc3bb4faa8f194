"""Whom the server answers: requests by a name of its own, and connections that its own pages open.

A page of any other site may send requests to this machine. By a name that it lets point here ("DNS
rebinding") it would even pass for the server's own; and a page that another program serves on this machine
is no page of ours. Browsers tell in the headers Host and Origin what a request is about; what is no browser
can say there what it likes, and gets no further than anybody else who reaches the port.

Nor may a page of another site show ours in a frame, where a click that it begs for would be an answer: each
response says so ("clickjacking").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""What this machine is called by itself."""

FRAMES = ((b"content-security-policy", b"frame-ancestors 'self'"), (b"x-frame-options", b"SAMEORIGIN"))
"""Who may show a response in a frame: pages of the same origin. The second header is for old browsers.

A policy that a response has besides stays in force: browsers obey all of them.
"""

POLICY_VIOLATION = 1008
"""How a connection is closed that is not wanted."""


class Guard:
    """ASGI middleware: answers only what is addressed to this server, and connections from its own pages.

    Parameters
    ----------
    app : ASGI application
    names : iterable of str or None
        Names that browsers may know the server by; any, if None.
    sites : iterable of str
        Those of a proxy that may have changed the header Host, and not Origin.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] | None = None, sites: Iterable[str] = ()) -> None:
        self._app = app
        self._sites = frozenset(map(str.lower, sites))
        self._names = None if names is None else frozenset(map(str.lower, names)) | self._sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See the ASGI specification."""
        if scope["type"] == "http":
            send = _unframed(send)
            if not self.knows(_header(scope, b"host")):
                return await _misdirected(scope, receive, send)
        elif scope["type"] == "websocket":
            host, origin = _header(scope, b"host"), _header(scope, b"origin")
            if not (self.knows(host) and self.is_own(origin, host)):
                return await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return await self._app(scope, receive, send)

    def knows(self, host: str | None) -> bool:
        """Whether `host`, with or without a port, is this server."""
        return self._names is None or _name(host or "") in self._names

    def is_own(self, origin: str | None, host: str | None) -> bool:
        """Whether `origin` is this server, which was asked for by `host`; what names none is no browser."""
        if origin is None:
            return True
        try:
            asked = urlsplit(origin)
        except ValueError:
            return False
        is_same = bool(asked.netloc) and asked.netloc.lower() == (host or "").lower()
        return is_same or _name(asked.netloc) in self._sites


def _unframed(send: Send) -> Send:
    """Send what is to be sent, each response with `FRAMES` among its headers."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *FRAMES]}
        await send(message)

    return sending


def _name(host: str) -> str | None:
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return None
    return name.rstrip(".") if name else None


def _header(scope: Scope, name: bytes) -> str | None:
    found = [value.decode("latin-1") for key, value in scope["headers"] if key.lower() == name]
    return found[0] if len(found) == 1 else None if not found else ""


async def _misdirected(scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import PlainTextResponse

    said = "This server is not known by that name: start it with --allow-host NAME"
    await PlainTextResponse(said, 421)(scope, receive, send)
