from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.served import Server, free_port
from tests.waiting import until

HALF_A_REQUEST = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\nhalf"
SERVED = "tests.unit.app.server.served_slowly"


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_browser_that_never_ends_its_request_does_not_keep_the_server_from_stopping(number: int) -> None:
    """The server would wait for it for ever; it ends as it does without any browser."""
    port = free_port()
    server = subprocess.Popen([sys.executable, "-m", SERVED, str(port)], stdout=subprocess.PIPE, text=True)
    try:
        until(lambda: is_open(port) or server.poll() is not None)
        with socket.create_connection(("127.0.0.1", port)) as browser:
            browser.sendall(HALF_A_REQUEST % b"/")
            assert server.stdout is not None
            assert server.stdout.readline() == "half\n"
            server.send_signal(number)
            said, _ = server.communicate(timeout=60)
    finally:
        server.kill()
    assert said.splitlines() == ["asked to stop", "the application has ended"]


@pytest.mark.slow
@pytest.mark.thorough
def test_so_does_the_real_one(tmp_path: Path) -> None:
    """Streamlit starts it, which may do so in another way one day."""
    server = Server(tmp_path / "projects", items=400, port=free_port())
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)) as browser:
            browser.sendall(HALF_A_REQUEST % b"/api/v1/projects/digits/sessions")
            browser.settimeout(1)
            with pytest.raises(TimeoutError):  # the server waits for the other half
                browser.recv(1)
            server.stop()
    finally:
        if server.process is not None:
            server.kill()
