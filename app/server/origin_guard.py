"""Refuse requests that name another server, and WebSockets and API requests from other servers' pages.

A page of another site, or of another program on this machine, can send requests to this server from the
user's browser. If the host name of the other site resolves to this machine ("DNS rebinding"), the browser
even treats the other site's page as a page of this server. In a request's header Host, browsers state the
host that they send the request to. In the header Origin, they state the origin of the page that sends the
request. Clients that are not browsers can forge both headers. They are not refused here: they reach the
port without the help of a user's browser.

The headers of each response also forbid other sites to show the pages in a frame. In a disguised frame, a
click could become an answer without the user's knowledge ("clickjacking").
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OWN_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
"""Names of the local machine."""

FRAMES = ((b"content-security-policy", b"frame-ancestors 'self'"), (b"x-frame-options", b"SAMEORIGIN"))
"""Headers that forbid pages of other origins to show a response in a frame. The second is for old browsers.

If a response has its own content security policy, that policy stays in force: browsers obey all policies.
"""

POLICY_VIOLATION = 1008
"""WebSocket code for connections that are refused."""


class Guard:
    """ASGI middleware that refuses requests for other hosts, and some requests from pages of other origins.

    WebSockets and API requests from such pages are refused. Clients that send no origin may connect, because
    they are not browsers. The middleware also forbids other sites to show the pages in a frame.

    Parameters
    ----------
    app : ASGI application
    names : iterable of str or None
        Host names of the server; None accepts all names.
    sites : iterable of str
        Host names under which proxies offer this server. WebSockets from pages of these hosts are accepted
        even if the proxy has changed the header Host, because proxies do not change the header Origin.
    """

    def __init__(self, app: ASGIApp, names: Iterable[str] | None = None, sites: Iterable[str] = ()) -> None:
        self._app = app
        self._sites = frozenset(map(str.lower, sites))
        self._names = None if names is None else frozenset(map(str.lower, names)) | self._sites

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection; see the ASGI specification."""
        if scope["type"] == "http":
            send = _unframed(send)
            host = _header(scope, b"host")
            if not self.knows(host):
                return await _misdirected(scope, receive, send)
            if scope["path"].startswith("/api/") and not self.is_own(_header(scope, b"origin"), host):
                return await _foreign(scope, receive, send)
        elif scope["type"] == "websocket":
            host, origin = _header(scope, b"host"), _header(scope, b"origin")
            if not (self.knows(host) and self.is_own(origin, host)):
                return await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return await self._app(scope, receive, send)

    def knows(self, host: str | None) -> bool:
        """Return whether `host`, with or without a port, names this server."""
        return self._names is None or _name(host or "") in self._names

    def is_own(self, origin: str | None, host: str | None) -> bool:
        """Return whether `origin` is None, the server that `host` names, or one of `sites`."""
        if origin is None:
            return True
        try:
            asked = urlsplit(origin)
        except ValueError:
            return False
        is_same = bool(asked.netloc) and asked.netloc.lower() == (host or "").lower()
        return is_same or _name(asked.netloc) in self._sites


def _unframed(send: Send) -> Send:
    """Return `send` with `FRAMES` added to the headers of each response."""

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


async def _foreign(scope: Scope, receive: Receive, send: Send) -> None:
    from closecall.app.server.http.problems import respond

    await respond(403, "Pages of other sites may not use this server")(scope, receive, send)


async def _misdirected(scope: Scope, receive: Receive, send: Send) -> None:
    from starlette.responses import PlainTextResponse

    message = "This server is not known by that name: start it with --allow-host NAME"
    await PlainTextResponse(message, 421)(scope, receive, send)
