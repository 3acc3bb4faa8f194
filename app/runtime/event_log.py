"""Events on the server as JSON lines on stderr, for ``--log-format json``.

An event is logged by `logging.getLogger("closecall")` with ``extra={"fields": {...}}``. Without
``--log-format json``, events are dropped. Other output on stderr is also logged as events, so that every line
on stderr is an event.

Three rules keep secrets out. Fields of events are numbers, kinds and ids, never the content of requests. URLs
are logged without their query. Secrets that the process knows, and anything that looks like a secret, are
removed from all strings (see `Redaction`).
"""

from __future__ import annotations

import io
import json
import logging
import re
import sys
import threading
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

FORMATS = ("text", "json")

LONGEST = 4000
"""Number of characters after which a string in an event is cut."""

HIDDEN = "***"

OPEN_SETTINGS = frozenset({"redirect_uri", "server_metadata_url", "client_id"})
"""The settings in secrets.toml that are not secret."""

ROUTES = (
    "/",
    "/healthz",
    "/race",
    "/map/state",
    "/map/tile",
    "/map/near",
    "/map/lasso",
    "/oauth2callback",
    "/auth/login",
    "/auth/logout",
    "/_stcore/stream",
    "/_stcore/health",
    "/_stcore/script-health-check",
    "/_stcore/metrics",
    "/_stcore/host-config",
)
"""URL paths that are logged in full."""

FOLDERS = (
    "/api/v1/",
    "/_stcore/upload_file/",
    "/_stcore/bidi-components/",
    "/_stcore/agent/",
    "/component/",
    "/media/",
    "/modules/",
    "/static/",
)
"""Beginnings of URL paths. The rest of such a path is not logged, because it may be a secret key."""

_logger = logging.getLogger("closecall")


def emit(event: str, level: int = logging.INFO, **fields: Any) -> None:
    """Log an event with its fields (numbers, short words and ids), unless the event log is off."""
    if is_on():
        _logger.log(level, event, extra={"fields": fields})


class Redaction:
    """A function that removes secrets from text.

    Parameters
    ----------
    secrets : iterable of str
        Known secrets. Secrets shorter than four characters are ignored, because they occur in other text.
    """

    LOOKS = (
        # A password in a URL. The password ends at the last @ before the path.
        (re.compile(r"(\b[a-z][a-z0-9+.-]*://[^\s:/@]*):[^\s/]*@", re.I), rf"\1:{HIDDEN}@"),
        # The query of a URL.
        (re.compile(r"((?:\bhttps?:/|(?<![\w:/]))/[^\s?\"'<>]*)\?[^\s\"'<>]+", re.I), rf"\1?{HIDDEN}"),
        # A JSON web token, and the credentials of a header.
        (re.compile(r"\beyJ[\w-]+\.[\w-]+(?:\.[\w-]*)*"), HIDDEN),
        (re.compile(r"\b(bearer|basic)\s+[\w.~+/=-]+", re.I), rf"\1 {HIDDEN}"),
        (re.compile(r"((?:set-)?cookie[\"']?\s*[:=]\s*)[^\n]+", re.I), rf"\1{HIDDEN}"),
        (
            re.compile(r"(\b_streamlit_\w+[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s;,]+)", re.I),
            rf"\1{HIDDEN}",
        ),
        # A value whose name marks it as a secret.
        (
            re.compile(
                r"((?:pass(?:word|wd|phrase)?|pwd|secret|token|authorization|credentials?|api[_-]?key)\w*"
                r"[\"']?\s*[:=]\s*)(?:\"[^\"]*\"|'[^']*'|[^\s;,&)}\]]+)",
                re.I,
            ),
            rf"\1{HIDDEN}",
        ),
    )

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        longest_first = sorted({text for text in secrets if len(text) >= 4}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None

    def __call__(self, text: str) -> str:
        """Return `text` without secrets, cut to `LONGEST` characters."""
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for look, instead in self.LOOKS:
            text = look.sub(instead, text)
        return text if len(text) <= LONGEST else text[:LONGEST] + "…"

    def clean(self, value: Any) -> Any:
        """Return `value` as JSON, without secrets in its strings and field names."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, Mapping):
            return {self(str(name)): self.clean(inner) for name, inner in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self.clean(inner) for inner in value]
        return value if isinstance(value, (bool, int, float, type(None))) else self(str(value))


class Lines(logging.Formatter):
    """A formatter of events as lines of JSON: time, level, event and its fields.

    Parameters
    ----------
    redaction : Redaction
    """

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter.format`."""
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[0] is not None:
            fields |= {"error": record.exc_info[0].__name__, "trace": self.formatException(record.exc_info)}
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry = {"time": moment, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps(entry | self._redaction.clean(entry | fields) | {"time": moment})


class StderrEvents(io.TextIOBase):
    """A replacement for stderr that logs printed text as events named "message"."""

    def __init__(self) -> None:
        super().__init__()
        self._half = ""
        self._lock = threading.RLock()

    def writable(self) -> bool:
        """See `io.IOBase.writable`."""
        return True

    def write(self, text: str) -> int:
        """Log printed text as soon as a line is complete. Several lines printed at once are one event."""
        with self._lock:
            self._half += text
            if not self._half.endswith("\n"):
                return len(text)
            entry, self._half = self._half.strip(), ""
        if entry:
            emit("message", logging.WARNING, message=entry)
        return len(text)


def begin(redaction: Redaction, stream: TextIO | None = None) -> None:
    """Start to log events to `stream`, by default stderr. Call this before importing libraries that log."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(Lines(redaction))
    _logger.handlers = [handler]
    _logger.setLevel(logging.INFO)
    _logger.propagate = False
    sys.stderr = StderrEvents()
    sys.excepthook = _crashed
    threading.excepthook = lambda failed: _crashed(failed.exc_type, failed.exc_value, failed.exc_traceback)


def is_on() -> bool:
    """Return whether events are logged."""
    return _logger.isEnabledFor(logging.INFO)


def known_secrets(environment: Mapping[str, str], files: Iterable[Path]) -> set[str]:
    """Return the secrets to remove: the database's password, and secrets in files such as secrets.toml."""
    found = {environment.get("PGPASSWORD", "")}
    for path in files:
        try:
            found |= set(_values(tomllib.loads(path.read_text("utf-8"))))
        except (OSError, ValueError):
            continue  # `app.projects.oidc.sign_in` reports the error
    return {text for text in found if text}


def _values(settings: Mapping[str, Any]) -> Iterator[str]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _values(value)
        elif isinstance(value, str) and name not in OPEN_SETTINGS:
            yield value


def _crashed(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
    if error is not None and not issubclass(kind, (KeyboardInterrupt, SystemExit)):
        _logger.critical("crash", exc_info=(kind, error, trace))


def route_of(path: str) -> str:
    """Return the route of a request's path: one of `ROUTES` or `FOLDERS`, or "other"."""
    if path in ROUTES:
        return path
    return next((folder + "…" for folder in FOLDERS if path.startswith(folder)), "other")


class Requests:
    """ASGI middleware that logs requests (method, route, status, milliseconds) and WebSocket connections.

    Parameters
    ----------
    app : ASGI application
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a connection; see the ASGI specification."""
        if scope["type"] == "http":
            await self._request(scope, receive, send)
        elif scope["type"] == "websocket":
            await self._connection(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _request(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, status = time.perf_counter(), 500

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = int(message["status"])
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            level = logging.WARNING if status >= 400 else logging.INFO
            milliseconds = round(1000 * (time.perf_counter() - began), 1)
            emit(
                "request", level, method=scope["method"], route=route_of(scope["path"]), status=status,
                ms=milliseconds,
            )  # fmt: skip

    async def _connection(self, scope: Scope, receive: Receive, send: Send) -> None:
        began, is_open = time.perf_counter(), False

        async def watched(message: Message) -> None:
            nonlocal is_open
            if message["type"] == "websocket.accept":
                is_open = True
                emit("connected", route=route_of(scope["path"]))
            elif not is_open:
                emit("connection refused", logging.WARNING, route=route_of(scope["path"]))
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            if is_open:
                seconds = round(time.perf_counter() - began, 1)
                emit("disconnected", route=route_of(scope["path"]), seconds=seconds)
