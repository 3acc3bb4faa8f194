"""The server that benchmarks measure: ``closecall serve`` with one project, in a separate process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from closecall.app.runtime import child
from closecall.core.errors import InputError

START_SECONDS = 180
"""Seconds that a server may take to start. After that, starting it counts as failed."""


class Server:
    """A server that can be stopped or killed, and then started again at the same address.

    Parameters
    ----------
    project : Path
        The project's folder.
    name : str
        Name of the file in the project's folder to which the server writes its output.
    options : sequence of str
        Further options of ``closecall serve``.

    Attributes
    ----------
    port : int
        Port of the server on this machine. It does not change when the server is restarted.
    """

    def __init__(self, project: Path, name: str = "server.log", options: Sequence[str] = ()) -> None:
        self.project = project
        self.port = _free_port()
        self._log = project / name
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._seconds_before: float | None = 0.0

    @property
    def url(self) -> str:
        """Address of the server's pages."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def cpu_seconds(self) -> float | None:
        """Processor time of the server in seconds, over all restarts; None if the system can't report it."""
        if self._process is None:
            return self._seconds_before
        before, seconds = self._seconds_before, _cpu_seconds(self._process.pid)
        return None if before is None or seconds is None else before + seconds

    def load(self) -> dict[str, Any]:
        """Return the server's counters of its work: the field ``load`` at ``/healthz``.

        Raises
        ------
        InputError
            If the server does not answer.
        """
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=10) as answer:
                found: dict[str, Any] = json.load(answer)["load"]
        except (OSError, ValueError, KeyError) as error:
            raise InputError(f"The server does not report its load: {error}") from None
        return found

    def start(self) -> None:
        """Start the server, and wait until it answers.

        Raises
        ------
        InputError
            If the server ends, or does not answer within `START_SECONDS`.
        """
        words = ["serve", str(self.project), "--headless", "--port", str(self.port), *self._options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                child.command(*words),
                env=child.environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        patience = time.monotonic() + START_SECONDS
        while not _is_healthy(self.url):
            if self._process.poll() is not None or time.monotonic() > patience:
                self.stop()
                raise InputError(f"The server did not start: see {self._log}")
            time.sleep(0.1)

    def stop(self) -> None:
        """Ask the server to stop, and wait until its process has ended."""
        if self._process is not None:
            self._seconds_before = self.cpu_seconds
            self._process.terminate()
            self._over()

    def kill(self) -> None:
        """Kill the server and all processes that it started, with SIGKILL."""
        if self._process is not None:
            self._seconds_before = self.cpu_seconds
            os.killpg(self._process.pid, signal.SIGKILL)
            self._over()

    def _over(self) -> None:
        assert self._process is not None
        self._process.wait()
        self._process = None


@contextmanager
def served(project: Path) -> Iterator[str]:
    """Serve a project during the `with` block, and yield the address of the pages."""
    server = Server(project)
    server.start()
    try:
        yield server.url
    finally:
        server.stop()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _cpu_seconds(pid: int) -> float | None:
    """Return the processor time of a process in seconds, including its children that have ended.

    Return None if the system has no /proc.
    """
    stat = Path(f"/proc/{pid}/stat")
    if not stat.exists():
        return None
    fields = stat.read_text("ascii", "replace").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
