"""Support for a proxy in front of the server: changes to the paths of pages, and to cookies.

A proxy may offer the server below a path, for example at ``https://example.org/labels/``. Some proxies remove
this prefix from the paths of requests, others keep it. The server accepts both, if it knows the prefix.

Streamlit's cookies for people who have signed in are valid for 30 days, and lack the attribute Secure.
"""

from __future__ import annotations

import logging
import re
import time
from textwrap import fill
from typing import TYPE_CHECKING
from urllib.parse import quote

import click

from closecall.app.projects.oidc import SIGN_IN_DAYS
from closecall.app.runtime import event_log as events
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

STREAM, HEALTH, HOST_CONFIG = "/_stcore/stream", "/_stcore/health", "/_stcore/host-config"
"""Streamlit's path of the pages' WebSockets, and the two that pages request to look for the server.

Pages look for the server below their own paths, too, such as /review/_stcore/health.
"""

CLOSED = "/_stcore/metrics"
"""A path at which Streamlit tells everybody about the people who use the pages."""

WITHOUT_UPGRADE = (
    "The proxy in front of Closecall does not pass on WebSockets. It must pass on the headers Upgrade and "
    "Connection: see “Behind a proxy” in Closecall's documentation."
)

TOLD_SECONDS = 60.0
"""Seconds for which pages show that a WebSocket was not passed on."""

MOST_FAILED = 1000
"""Maximum number of browsers whose failed WebSockets are remembered."""

_SIGN_IN = re.compile(rb"_streamlit_(user|tokens)[^=]*=")
_AGE = re.compile(rb"(max-age=)[1-9]\d*", re.IGNORECASE)


def checked_prefix(prefix: str) -> str:
    """Return the prefix with one slash before it and none after it, or "" for the root.

    Raises
    ------
    InputError
        If `prefix` is not a path.
    """
    parts = [part for part in prefix.split("/") if part]
    if not all(re.fullmatch(r"[\w.~-]+", part, re.ASCII) and part.strip(".") for part in parts):
        raise InputError(f"--prefix must be a path such as /labels, got {prefix!r:.80}")
    return "".join(f"/{part}" for part in parts)


class BehindProxy:
    """ASGI middleware for a server behind a proxy.

    It removes the prefix from the paths of requests and adds the prefix to the paths of redirections. Over
    HTTPS, it makes all cookies Secure. It does not pass on requests for `CLOSED`. If a proxy does not pass on
    WebSockets, the middleware makes Streamlit show the sentence `WITHOUT_UPGRADE` on the page. It recognizes
    such a proxy by ordinary requests with the header Sec-WebSocket-Key: pages can't set this header
    themselves, so each of these requests was meant to open a WebSocket.

    Parameters
    ----------
    app : ASGI application
    prefix : str
        The path below which the proxy offers the server; see `checked_prefix`.
    sign_in_days : int
        Number of days after which people must sign in again.
    """

    def __init__(self, app: ASGIApp, prefix: str = "", sign_in_days: int = SIGN_IN_DAYS) -> None:
        self._app = app
        self._prefix = prefix
        self._age = b"%d" % (sign_in_days * 24 * 3600)
        self._failed: dict[
            object, float
        ] = {}  # by browser: when its WebSocket arrived as an ordinary request
        self._has_warned = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection; see the ASGI specification."""
        app: ASGIApp = self._app
        if scope["type"] in ("http", "websocket"):
            path = self._below(scope["path"])
            scope = {**scope, "path": path, "raw_path": quote(path).encode()}
            if scope["type"] == "http":
                app, send = self._app_for(path, scope), self._sending(send, is_secure=_is_secure(scope))
            elif path == STREAM:
                self._failed.pop(_browser(scope), None)
        await app(scope, receive, send)

    def _below(self, path: str) -> str:
        """Return the path without the prefix, or the path unchanged if a proxy has removed the prefix."""
        has_prefix = bool(self._prefix) and path.startswith(f"{self._prefix}/")
        return path[len(self._prefix) :] if has_prefix else path

    def _app_for(self, path: str, scope: Scope) -> ASGIApp:
        """Return what responds to a request: the application, or a response."""
        from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse

        if self._prefix and path == self._prefix:
            return RedirectResponse("/", 308)
        if path.rstrip("/") == CLOSED:
            return PlainTextResponse("There is nothing here", 404)
        is_failure = path == STREAM and _header(scope, b"sec-websocket-key") is not None
        if is_failure:
            self._note_failure(_browser(scope))
        if is_failure or (path.endswith((HEALTH, HOST_CONFIG)) and self._fails(_browser(scope))):
            # Pages show the content of such a response only if it is JSON, and in lines of this width.
            return JSONResponse(fill(WITHOUT_UPGRADE, 48), 503, headers={"Cache-Control": "no-store"})
        return self._app

    def _fails(self, browser: object) -> bool:
        failed = self._failed.get(browser)
        return failed is not None and time.monotonic() - failed < TOLD_SECONDS

    def _note_failure(self, browser: object) -> None:
        self._failed.pop(browser, None)
        self._failed[browser] = time.monotonic()
        if len(self._failed) > MOST_FAILED:
            del self._failed[next(iter(self._failed))]
        if self._has_warned:
            return
        self._has_warned = True
        if events.is_on():
            events.emit("caution", logging.WARNING, message=WITHOUT_UPGRADE)
        else:
            click.echo(f"Warning: {WITHOUT_UPGRADE}", err=True)

    def _sending(self, send: Send, *, is_secure: bool) -> Send:
        """Return a function like `send` that changes the headers of a response."""

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = [
                    (name, self._header(name.lower(), value, is_secure)) for name, value in message["headers"]
                ]
                message = {**message, "headers": headers}
            await send(message)

        return sending

    def _header(self, name: bytes, value: bytes, is_secure: bool) -> bytes:
        if name == b"location" and value.startswith(b"/") and not value.startswith(b"//"):
            return self._prefix.encode() + value
        if name != b"set-cookie":
            return value
        if _SIGN_IN.match(value):
            value = _AGE.sub(rb"\g<1>" + self._age, value)
        return value if b"secure" in value.lower().split(b"; ") or not is_secure else value + b"; Secure"


def _is_secure(scope: Scope) -> bool:
    """Return whether the browser uses HTTPS, as the proxy says."""
    forwarded = _header(scope, b"x-forwarded-proto")
    said = forwarded.split(b",")[0].strip().lower() if forwarded else scope.get("scheme", "").encode()
    return bool(said == b"https")


def _browser(scope: Scope) -> object:
    """Return a key that tells browsers apart. It also depends on the proxies in front of the server.

    A page shows only its own browser's failures. Otherwise one person could make all pages show failures.
    """
    address = (scope.get("client") or ("",))[0]
    return address, *(_header(scope, name) for name in (b"x-forwarded-for", b"host", b"user-agent"))


def _header(scope: Scope, name: bytes) -> bytes | None:
    found = [value for key, value in scope["headers"] if key.lower() == name]
    return found[-1] if found else None
