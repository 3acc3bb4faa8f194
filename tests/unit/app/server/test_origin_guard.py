"""Requests by other names and connections from other sites' pages go unanswered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from closecall.app.server.origin_guard import OWN_NAMES, Guard
from tests.aside import aside

OWN = Guard(None, OWN_NAMES)  # type: ignore[arg-type]
PROXIED = Guard(None, OWN_NAMES, ["Label.example.org"])  # type: ignore[arg-type]
ANY = Guard(None)  # type: ignore[arg-type]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8501", "[::1]:8501", "localhost."])
def test_this_machine_is_known_by_its_names(host):
    """With any port: others may be led here."""
    assert OWN.knows(host)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8501",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "[::1",
    ],
)
def test_a_name_that_was_pointed_here_is_not_known(host):
    """Else a page of that name could read and answer as if it were ours ("DNS rebinding")."""
    assert not OWN.knows(host)
    assert ANY.knows(host)


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        (None, "127.0.0.1:8501", True),
        ("http://127.0.0.1:8501", "127.0.0.1:8501", True),
        ("https://label.example.org", "label.example.org", True),
        ("http://evil.example", "127.0.0.1:8501", False),
        ("http://localhost:3000", "localhost:8501", False),
        ("http://127.0.0.1:8501.evil.example", "127.0.0.1:8501", False),
        ("null", "127.0.0.1:8501", False),
        ("null", None, False),
        ("http://[", "[", False),
        ("", "127.0.0.1:8501", False),
    ],
)
def test_only_own_pages_connect(origin, host, own):
    """Another port of the same machine is another program."""
    for guard in (OWN, ANY):
        assert guard.is_own(origin, host) == own


def test_a_proxy_may_keep_its_name_to_itself():
    """What browsers call it is in Origin; it asks for this machine."""
    assert PROXIED.knows("label.example.org")
    assert PROXIED.knows("127.0.0.1:8501")
    assert PROXIED.is_own("https://label.example.org", "127.0.0.1:8501")
    assert not OWN.is_own("https://label.example.org", "127.0.0.1:8501")


def test_what_is_refused_reaches_nothing():
    """A request is answered with a sentence, a connection is closed before it is open."""
    reached: list[str] = []

    async def app(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append(scope["type"])

    def send_to(guard: Guard, kind: str, **headers: str) -> list[dict[str, Any]]:
        said: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            said.append(message)

        encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope: Any = {"type": kind, "method": "GET", "path": "/", "headers": encoded}
        aside(lambda: asyncio.run(guard(scope, None, send)))  # type: ignore[arg-type]
        return said

    guard = Guard(app, OWN_NAMES)
    (start, body) = send_to(guard, "http", host="evil.example")
    assert start["status"] == 421
    assert b"--allow-host" in body["body"]
    (closed,) = send_to(guard, "websocket", host="localhost", origin="http://evil.example")
    assert closed["type"] == "websocket.close"
    (closed,) = send_to(guard, "websocket", host="evil.example", origin="http://evil.example")
    assert closed["type"] == "websocket.close"
    assert reached == []
    send_to(guard, "http", host="localhost:1")
    send_to(guard, "websocket", host="localhost:1", origin="http://localhost:1")
    assert reached == ["http", "websocket"]


def test_every_response_says_that_no_other_site_may_frame_it():
    """What the pages answer, what is refused, and what has a policy already, which stays as it is."""
    own_policy = (b"content-security-policy", b"sandbox")

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [own_policy]})
        await send({"type": "http.response.body", "body": b""})

    for host, status in (("localhost", 200), ("evil.example", 421)):
        start = started(Guard(app, OWN_NAMES), host)
        assert start["status"] == status
        assert (b"content-security-policy", b"frame-ancestors 'self'") in start["headers"]
        assert (b"x-frame-options", b"SAMEORIGIN") in start["headers"]
        assert (own_policy in start["headers"]) == (status == 200)


def started(guard: Guard, host: str) -> dict[str, Any]:
    """The message that begins the answer to a request for `host`."""
    said: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        said.append(message)

    scope: Any = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", host.encode())]}
    aside(lambda: asyncio.run(guard(scope, None, send)))  # type: ignore[arg-type]
    return said[0]
