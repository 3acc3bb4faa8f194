"""Images across a slow network: a server on this machine that delays, cuts and refuses responses.

The images are those of a pool. They are listed in a file of addresses, and a pool is built from this list.
"""

from __future__ import annotations

import csv
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from closecall.app.display.thumbnails import CARD_SIZE, encode
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import AddressList
from closecall.core.sources.base import Source

CUT_ONE_IN, REFUSED_ONE_IN = 20, 50
"""Numbers of images of which one is cut off at its first request, and of which one is refused (403) at every
request.
"""

LIST = "addresses.csv"


class SlowImages(ThreadingHTTPServer):
    """A server of a source's images, at addresses that end with their item ids.

    Parameters
    ----------
    source : Source
    delay : float
        Seconds before each response.
    """

    daemon_threads = True

    def __init__(self, source: Source, delay: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self._source = source
        self._lock = threading.Lock()
        self._cut = set[int]()
        self.delay = delay

    def address(self, item: int) -> str:
        """Return the address of an item's image."""
        return f"http://127.0.0.1:{self.server_port}/{item}"

    def image(self, item: int) -> tuple[bytes, str]:
        """Return an item's image as bytes, and its media type."""
        return encode(self._source.image(item, CARD_SIZE))

    def is_refused(self, item: int) -> bool:
        """Return whether an item's image is refused."""
        return item % REFUSED_ONE_IN == 0

    def cuts(self, item: int) -> bool:
        """Return whether an item's image is cut off now. Note that it has been requested."""
        with self._lock:
            is_first = item not in self._cut
            self._cut.add(item)
        return is_first and item % CUT_ONE_IN == 1

    def cut_again(self) -> None:
        """Forget which images have been requested."""
        with self._lock:
            self._cut.clear()


class _Handler(BaseHTTPRequestHandler):
    server: SlowImages
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet

    def do_GET(self) -> None:
        item = int(self.path.rpartition("/")[2])
        time.sleep(self.server.delay)
        if self.server.is_refused(item):
            self._respond(403, b"", "text/plain")
            return
        body, media_type = self.server.image(item)
        self._respond(200, body, media_type, is_cut=self.server.cuts(item))

    def _respond(self, status: int, body: bytes, media_type: str, *, is_cut: bool = False) -> None:
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if is_cut else body)
        self.close_connection = self.close_connection or is_cut

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@contextmanager
def across_network(pool: Pool, n_items: int, delay: float, folder: Path) -> Iterator[Pool]:
    """Yield a pool with the first `n_items` images of a pool, which are read from a server on this machine.

    Each response is delayed by `delay` seconds, and some are cut or refused; refused images are left out. The
    list, the pool and the cache of images are below `folder`, which must not exist. At first, the cache of
    this process and of its children is empty.
    """
    with ExitStack() as stack:
        server = stack.enter_context(SlowImages(pool.source, delay))
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        _write_list(folder / LIST, pool, pool.ids[:n_items].tolist(), server)
        with _environment(NO_PROXY="*", XDG_CACHE_HOME=str(folder / "cache")):
            build(AddressList(folder / LIST), folder / "pool")
        server.cut_again()
        stack.enter_context(_environment(NO_PROXY="*", XDG_CACHE_HOME=str(folder / "empty")))
        yield Pool.open(folder / "pool")


def _write_list(file: Path, pool: Pool, items: Sequence[int], server: SlowImages) -> None:
    """Write the addresses of items, with their classes if they have any."""
    file.parent.mkdir(parents=True)
    with file.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened)
        writer.writerow(["url", "label"])
        for item, place in zip(items, pool.truth(items).tolist(), strict=True):
            writer.writerow([server.address(item), pool.classes[place] if place >= 0 else ""])


@contextmanager
def _environment(**words: str) -> Iterator[None]:
    """Set environment variables during a context, for this process and its children."""
    before = {name: os.environ.get(name) for name in words}
    os.environ.update(words)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
