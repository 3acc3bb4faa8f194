"""The middleware for proxies: paths, cookies, closed addresses, and WebSockets that do not arrive."""

from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket

from closecall.app.server.proxy import (
    CLOSED,
    HEALTH,
    HOST_CONFIG,
    STREAM,
    TOLD_SECONDS,
    WITHOUT_UPGRADE,
    BehindProxy,
    checked_prefix,
)
from closecall.core.errors import InputError
from tests.aside import aside

USER = "_streamlit_user=abc; Path=/; HttpOnly; SameSite=lax; Max-Age=2592000"
GONE = "_streamlit_user=; Path=/; Max-Age=0"


async def show(request: Request) -> Response:
    response = PlainTextResponse(request.url.path)
    for cookie in request.query_params.getlist("cookie"):
        response.raw_headers.append((b"set-cookie", cookie.encode()))
    return response


async def go(request: Request) -> Response:
    return RedirectResponse(request.query_params["to"], 302)


async def stream(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text("there")
    await socket.close()


def client(prefix: str = "", sign_in_days: int = 30) -> TestClient:
    routes = [Route("/go", go), WebSocketRoute(STREAM, stream), Route("/{path:path}", show)]
    app = BehindProxy(Starlette(routes=routes), prefix, sign_in_days)
    return TestClient(app, follow_redirects=False)


@pytest.mark.parametrize(
    ("path", "arrives"),
    [("/labels/review", "/review"), ("/review", "/review"), ("/labels/", "/"), ("/labelsx", "/labelsx")],
)
def test_the_prefix_may_be_kept_or_removed(path: str, arrives: str) -> None:
    """The pages see the same."""
    assert aside(lambda: client("/labels").get(path).text) == arrives


@pytest.mark.parametrize(
    ("path", "to"),
    [
        ("/labels", "/labels/"),
        ("/labels/go?to=/", "/labels/"),
        ("/go?to=/x?y=1", "/labels/x?y=1"),
        ("/go?to=https://example.org/", "https://example.org/"),
        ("/go?to=//example.org/", "//example.org/"),
    ],
)
def test_redirections_stay_below_the_prefix(path: str, to: str) -> None:
    """Those to other sites stay as they are."""
    assert aside(lambda: client("/labels").get(path).headers["location"]) == to


@pytest.mark.parametrize("forwarded", [None, "http", "https", "https, http"])
def test_cookies_are_secure_over_https_only(forwarded: str | None) -> None:
    """Otherwise the browser would not keep them. One that is secure already is left as it is."""
    headers = {"X-Forwarded-Proto": forwarded} if forwarded else {}
    asked = {"cookie": ["a=1; Path=/", "b=2; Secure"]}
    found = aside(lambda: client().get("/", params=asked, headers=headers)).headers.get_list("set-cookie")
    is_secure = bool(forwarded) and forwarded.startswith("https")
    assert found == ["a=1; Path=/" + "; Secure" * is_secure, "b=2; Secure"]


def test_signing_in_lasts_as_long_as_it_is_to() -> None:
    """Only of the cookies for signing in; one that is deleted stays deleted."""
    asked = {"cookie": [USER, GONE, "other=1; Max-Age=2592000"]}
    found = aside(lambda: client(sign_in_days=2).get("/", params=asked)).headers.get_list("set-cookie")
    assert found == [USER.replace("2592000", "172800"), GONE, "other=1; Max-Age=2592000"]


def test_nobody_reads_who_uses_the_pages() -> None:
    """Streamlit would tell everybody."""
    assert aside(lambda: client().get(CLOSED).status_code) == 404
    assert aside(lambda: client("/labels").get(f"/labels{CLOSED}").status_code) == 404


def test_websockets_that_are_not_passed_on_are_told_of(monkeypatch, capsys) -> None:
    """Pages ask whether the server is there, and show what it says; a WebSocket that arrives ends this."""
    now = 0.0
    monkeypatch.setattr("closecall.app.server.proxy.time.monotonic", lambda: now)
    browser = client()

    def health(agent: str = "testclient", path: str = HEALTH) -> tuple[int, str]:
        found = aside(lambda: browser.get(path, headers={"User-Agent": agent}))
        return found.status_code, " ".join(found.json().split()) if found.status_code == 503 else found.text

    def fail() -> int:
        return browser.get(STREAM, headers={"Sec-WebSocket-Key": "x"}).status_code

    assert health() == (200, HEALTH)
    assert aside(lambda: browser.get(STREAM).status_code) == 200  # any page can send this
    assert health() == (200, HEALTH)
    for _ in range(2):
        assert aside(fail) == 503
    assert capsys.readouterr().err.count(WITHOUT_UPGRADE) == 1
    assert health() == (503, WITHOUT_UPGRADE)
    assert health(path=f"/review{HOST_CONFIG}") == (503, WITHOUT_UPGRADE)
    assert health("another") == (200, HEALTH)
    now = TOLD_SECONDS
    assert health() == (200, HEALTH)
    aside(fail)
    assert health() == (503, WITHOUT_UPGRADE)

    def connect() -> str:
        with browser.websocket_connect(STREAM) as socket:
            return socket.receive_text()

    assert aside(connect) == "there"
    assert health() == (200, HEALTH)


@pytest.mark.parametrize(
    ("given", "prefix"),
    [("", ""), ("/", ""), ("labels", "/labels"), ("/labels/", "/labels"), ("/a/b-1", "/a/b-1")],
)
def test_a_prefix_is_a_path(given: str, prefix: str) -> None:
    """However its slashes are written."""
    assert checked_prefix(given) == prefix


@pytest.mark.parametrize("given", ["/a b", "/a?b", "/../a", "https://example.org/a", "/ä"])
def test_other_prefixes_are_refused(given: str) -> None:
    """In a sentence."""
    with pytest.raises(InputError, match="--prefix must be a path such as /labels"):
        checked_prefix(given)
