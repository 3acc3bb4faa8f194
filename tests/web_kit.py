"""A server of images on 127.0.0.1 that is slow, cuts answers, and refuses as the tests ask."""

from __future__ import annotations

import io
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

import numpy as np
from PIL import Image


def picture(seed: int) -> bytes:
    """A small image, in PNG."""
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, "png")
    return held.getvalue()


class Server(ThreadingHTTPServer):
    """A server of the bytes in `files`, by path; folders are listed.

    Attributes
    ----------
    faults : dict
        What happens to a path: a list with an item per request: a status, "cut" after half of the answer, or
        an address to which it redirects. The last one remains.
    asked : list of str
        The paths asked for, with queries.
    delay : float
        Seconds before each answer.
    together : Barrier, optional
        Where requests wait for each other; it is broken if not enough of them come.
    """

    daemon_threads = True

    def __init__(self, files: dict[str, bytes], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.files = files
        self.faults: dict[str, list[int | str]] = {}
        self.asked: list[str] = []
        self.users: list[str | None] = []
        self.delay = 0.0
        self.together: threading.Barrier | None = None
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client may be gone."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    wbufsize = -1
    """Headers and body are sent together. Otherwise, the body would wait for an acknowledgment, for 40 ms."""

    def do_GET(self) -> None:
        server, path = self.server, unquote(self.path.partition("?")[0], errors="surrogateescape")
        with server.lock:
            server.asked.append(self.path)
            server.users.append(self.headers.get("Authorization"))
            faults = server.faults.get(path, [200])
            fault = faults.pop(0) if len(faults) > 1 else faults[0]
        time.sleep(server.delay)
        if server.together is not None:
            with suppress(threading.BrokenBarrierError):
                server.together.wait()
        if isinstance(fault, str) and fault != "cut":
            self._answer(302, b"", Location=fault)
        elif fault not in (200, "cut"):
            self._answer(int(fault), b"no")
        elif path in server.files:
            self._answer(200, server.files[path], is_cut=fault == "cut")
        elif path.endswith("/") and (names := self._below(path)):
            listed = "".join(f'<a href="{quote(os.fsencode(name))}">{name}</a>' for name in names)
            page = (
                f'<a href="../">up</a><a href="?C=N">sort</a><a href="http://127.0.0.9/x.png">x</a>{listed}'
            )
            self._answer(200, page.encode(errors="surrogateescape"), **{"Content-Type": "text/html"})
        else:
            self._answer(404, b"nothing")

    def _below(self, folder: str) -> list[str]:
        rest = [path[len(folder) :] for path in self.server.files if path.startswith(folder)]
        return sorted({name.partition("/")[0] + ("/" if "/" in name else "") for name in rest})

    def _answer(self, status: int, body: bytes, *, is_cut: bool = False, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if is_cut else body)
        if is_cut:
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Keep the tests' output clean."""


@contextmanager
def nobody_listening(port: int = 0) -> Iterator[str]:
    """An address where no connection can be made: nobody else can take its port meanwhile."""
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


@contextmanager
def serving(files: dict[str, bytes], port: int = 0) -> Iterator[Server]:
    """A server of these files, in a thread."""
    server = Server(files, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
