"""No response waits for the browser to acknowledge the part before."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
import uvicorn

from closecall.app.server.undelayed import send_at_once


async def app(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


@pytest.mark.parametrize("is_undelayed", [False, True])
def test_connections_send_at_once(is_undelayed: bool) -> None:
    """Also on a socket that was opened as Streamlit opens it, where asyncio leaves the delay on."""
    config = uvicorn.Config(app, lifespan="off", log_level="critical")
    config.load()
    server = uvicorn.Server(config)
    if is_undelayed:
        send_at_once(server)
    with socket.socket(family=socket.AF_INET) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        serving = threading.Thread(target=server.run, args=([listening],))
        serving.start()
        try:
            with socket.create_connection(listening.getsockname()) as browser:
                browser.sendall(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
                assert browser.recv(1000).startswith(b"HTTP/1.1 204")
                (its,) = server.server_state.connections
                connection = its.transport.get_extra_info("socket")  # type: ignore[union-attr]
                no_delay = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
                assert bool(no_delay) is is_undelayed
        finally:
            server.should_exit = True
            serving.join(10)
    assert not serving.is_alive()
