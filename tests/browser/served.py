"""The real server in a process of its own, and its label database read from outside."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

PATIENCE = 180
"""Seconds until a server must answer: the first start of a machine compiles the kernels."""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make_demo(data: Path, like: Server) -> None:
    """Make the project that ``closecall demo`` serves in this process, which costs less than a server.

    Its pool is a copy of another server's: to draw all digits again would cost more than all the rest.
    """
    import pytest

    from closecall.app.projects.pool_builder import Builder
    from closecall.app.sessions import demo_project
    from closecall.app.sessions.workspace import Workspace

    def copy(builder: Builder) -> None:
        shutil.copytree(like.pool, builder._pool)

    with pytest.MonkeyPatch.context() as patch, Workspace(data) as workspace:
        patch.setattr(Builder, "start", copy)
        project = workspace.project(demo_project.make_demo(workspace, like.items))
        assert project.problem() is None
        assert project.pool is not None
        assert project.pool.complete


def move_beside(folder: Path, key: str, server: Server) -> Server:
    """Let a server have this project, which nobody has open, as well; returns it with the project's key."""

    class Beside(Server): ...

    folder.rename(server.data / key)
    Beside.key = key
    return Beside(server.data, items=server.items, port=server.port)


@dataclass
class Server:
    """``closecall demo`` over the projects in `data`."""

    data: Path
    items: int
    port: int
    process: subprocess.Popen[bytes] | None = None

    key: ClassVar[str] = "digits"
    """The project's folder in `data`."""

    def command(self) -> list[str]:
        """Arguments of ``closecall``."""
        where = ["--port", str(self.port), "--data", str(self.data)]
        return ["demo", "--items", str(self.items), "--headless", *where]

    def is_ready(self) -> bool:
        """Whether it answers and its pool is complete."""
        return self.answers_health() and self._pool_is_complete()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it is ready. A server that takes too long is killed."""
        command = [sys.executable, "-m", "closecall.app.cli", *self.command()]
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, env=environment
            )
        until = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > until:
                if self.process.poll() is None:
                    self.kill()
                raise AssertionError(
                    f"The server did not become ready:\n{self.log.read_text('utf-8', 'replace')}"
                )
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill −9, the builder's process included."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.process = None

    def stop(self) -> None:
        """Ask it to stop.

        Raises
        ------
        AssertionError
            If it does not; with what each of its threads is doing.
        """
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(timeout=90)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal.SIGABRT)
                self.process.wait()
                raise AssertionError(f"The server did not stop:\n{self.last_words(20_000)}") from None
            finally:
                self.process = None

    def last_words(self, most: int) -> str:
        """Return the end of its log, without the names of modules that end what an aborted process says."""
        if not self.log.exists():
            return ""
        lines = self.log.read_text("utf-8", "replace").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith("Extension modules:"))[-most:]

    def answers(self, session: str) -> list[dict[str, Any]]:
        """The answers stored for a session, oldest first, each with the item of its selection."""
        query = """
            SELECT answers.id, answers.item, answer, purpose, undoes, corrects, selection_id,
                   selections.item AS shown
            FROM answers LEFT JOIN selections ON selections.id = selection_id
            WHERE answers.session_id = ? ORDER BY answers.seq
        """
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(query, (session,))]

    def leased_to_others(self, session: str) -> set[int]:
        """The items that other sessions had when the session's last round began."""
        query = "SELECT leased FROM selections WHERE session_id = ? ORDER BY round DESC, seq LIMIT 1"
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            (leased,) = connection.execute(query, (session,)).fetchone()
        return set(json.loads(leased))

    def answered(self) -> set[int]:
        """Every item that somebody gave an answer about."""
        with sqlite3.connect(f"file:{self.database}?mode=ro", uri=True) as connection:
            return {item for (item,) in connection.execute("SELECT item FROM answers")}

    @property
    def log(self) -> Path:
        return self.data.parent / f"server-{self.port}.log"

    @property
    def pool(self) -> Path:
        return self.data / self.key / "pool"

    @property
    def database(self) -> Path:
        return self.data / self.key / "labels.db"

    def answers_health(self) -> bool:
        """Whether it answers at /healthz."""
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=2) as answer:
                return answer.status == 200
        except OSError:
            return False

    def _pool_is_complete(self) -> bool:
        from closecall.core.errors import InputError
        from closecall.core.pool.pool import Pool

        try:
            return Pool.open(self.pool).complete
        except InputError:
            return False
