"""The real server in a process of its own, and its label database read from outside."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PATIENCE = 180
"""Seconds until a server must answer: the first start of a machine compiles the kernels."""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Server:
    """``marginalia demo`` over the projects in `data`."""

    data: Path
    items: int
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers and the demo's pool is complete."""
        log = (self.data.parent / f"server-{self.port}.log").open("ab")
        arguments = ["demo", "--items", str(self.items), "--headless", "--port", str(self.port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *arguments, "--data", str(self.data)],
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._wait(self._answers, "did not answer")
        self._wait(self._pool_is_complete, "did not build the pool")

    def kill(self) -> None:
        """Kill −9, the builder's process included."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Ask it to stop."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=30)
            self.process = None

    def answers(self, session: str) -> list[dict[str, Any]]:
        """The answers stored for a session, oldest first, each with the item of its selection."""
        query = """
            SELECT answers.id, answers.item, answer, undoes, corrects, selection_id, selections.item AS shown
            FROM answers LEFT JOIN selections ON selections.id = selection_id
            WHERE answers.session_id = ? ORDER BY answers.seq
        """
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, (session,))]

    @property
    def database(self) -> Path:
        return self.data / "digits" / "labels.db"

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def _pool_is_complete(self) -> bool:
        from core.errors import InputError
        from core.pool import Pool

        try:
            return Pool.open(self.data / "digits" / "pool").complete
        except InputError:
            return False

    def _wait(self, ready: Any, problem: str) -> None:
        until = time.monotonic() + PATIENCE
        while not ready():
            assert self.process is not None
            if self.process.poll() is not None or time.monotonic() > until:
                said = (self.data.parent / f"server-{self.port}.log").read_text("utf-8", "replace")
                raise AssertionError(f"The server {problem}:\n{said}")
            time.sleep(0.1)
