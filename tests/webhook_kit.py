"""A receiver of webhooks on 127.0.0.1 that fails as the tests ask, and knows all that it was sent."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.folders import ROOT

Verdict = int | str
"""A status, "hang" until the receiver is released, "cut" before the body is read, "lost" after it is read."""

PATIENCE = 120


@dataclass(frozen=True)
class Request:
    """A request whose body has been read."""

    headers: dict[str, str]
    body: bytes
    verdict: Verdict

    @property
    def events(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.body)["events"]
        return found

    @property
    def is_accepted(self) -> bool:
        return isinstance(self.verdict, int) and 200 <= self.verdict < 300


class Receiver(ThreadingHTTPServer):
    """What it does with a request, `decide` says; by default it accepts all.

    Attributes
    ----------
    requests : list of Request
        In the order in which their bodies were read.
    released : Event
        Until it is set, requests hang that are to.
    """

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.decide: Callable[[], Verdict] = lambda: 204
        self.requests: list[Request] = []
        self.verdicts: list[Verdict] = []
        self.released = threading.Event()
        self.lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?key=1"

    def arrived(self) -> list[str]:
        """Ids of the events of all requests, in order, each once."""
        with self.lock:
            return list(dict.fromkeys(event["id"] for one in self.requests for event in one.events))

    def accepted(self) -> list[str]:
        """Ids of the events of the requests that were accepted, with repetitions."""
        with self.lock:
            return [event["id"] for one in self.requests if one.is_accepted for event in one.events]

    def handle_error(self, *_: object) -> None:
        """The sender may be gone."""


class _Handler(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_POST(self) -> None:
        with self.server.lock:
            verdict = self.server.decide()
            self.server.verdicts.append(verdict)
        if verdict == "cut":
            self.close_connection = True
            return
        length = int(self.headers["Content-Length"])
        body = self.rfile.read(length)
        if len(body) < length:  # the sender was killed while it sent this request
            self.close_connection = True
            return
        with self.server.lock:
            self.server.requests.append(Request(dict(self.headers), body, verdict))
        if verdict == "hang":
            self.server.released.wait(PATIENCE)
            verdict = 200
        if verdict == "lost":
            self.close_connection = True
            return
        self.send_response(int(verdict))
        if verdict == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        raise AssertionError("a redirect was followed")

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def receiving(port: int = 0) -> Iterator[Receiver]:
    """A receiver, in a thread."""
    server = Receiver(port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.released.set()
        server.shutdown()
        server.server_close()
        thread.join()


def documented_check() -> Callable[[str, bytes, str], bool]:
    """The function that the documentation gives to receivers."""
    page = (ROOT / "docs" / "webhooks.md").read_text("utf-8")
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    check: Callable[[str, bytes, str], bool] = names["is_genuine"]
    return check
