"""A connection between browser and server that can be cut."""

from __future__ import annotations

import contextlib
import socket
import threading

BLOCK = 65536


class Proxy:
    """Passes on what comes to a port of its own, until it is cut."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._open: set[socket.socket] = set()
        self._is_cut = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """End every connection, and let none through."""
        self._is_cut = True
        for one in list(self._open):
            _end(one)

    def mend(self) -> None:
        """Let connections through again."""
        self._is_cut = False

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # the listener is closed
            while True:
                browser, _ = self._listener.accept()
                if self._is_cut:
                    _end(browser)
                    continue
                server = socket.create_connection(("127.0.0.1", self._to))
                self._open |= {browser, server}
                for pair in [(browser, server), (server, browser)]:
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):  # either side has gone
            while block := source.recv(BLOCK):
                target.sendall(block)
        for one in (source, target):
            _end(one)
            self._open.discard(one)


def _end(one: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has ended already
        one.shutdown(socket.SHUT_RDWR)
    one.close()
