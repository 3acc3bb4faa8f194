"""A PostgreSQL server for the storage tests; ``python -m tests.postgres`` provides one where there is none.

One that is installed, else Debian's package where it may be installed. Each worker of the tests starts a
server of its own, in a temporary folder and on a socket in there, and leaves the machine's alone. Where none
can be had the tests run on SQLite alone, and the run says so.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from tests import debian
from tests.folders import in_memory, made_once

NOT_RUN = "no PostgreSQL can be had here: storage tests did NOT run on PostgreSQL"


def find() -> Path | None:
    """The folder of the server's programs: ``POSTGRES_BIN``, the newest of Debian's, or one in ``PATH``."""
    named, on_path = os.environ.get("POSTGRES_BIN"), shutil.which("initdb")
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    folders = [*([Path(named)] if named else []), *debian, *([Path(on_path).parent] if on_path else [])]
    complete = (folder for folder in folders if all((folder / name).is_file() for name in PROGRAMS))
    return next(complete, None)


PROGRAMS = ("initdb", "postgres")


def _version(folder: Path) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", folder.parent.name)))


@dataclass
class Server:
    """A running server; `durable` ones write to the disk when they say so."""

    programs: Path
    folder: Path
    durable: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def address(self) -> str:
        """Of its database, which is empty at first."""
        return f"postgresql://closecall@/postgres?host={self.folder}"

    def schema(self) -> str:
        """The address of a schema that is not there yet."""
        return f"{self.address}&schema=test-{uuid4().hex}"

    def create(self) -> None:
        """Make its files: a copy of those that the first server of the run was given."""
        data, made = self.folder / "data", made_once("postgresql", self._make)
        if not data.exists():
            _copy(made, data)

    def _make(self, path: Path) -> None:
        words = ["--auth=trust", "--username=closecall", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
        subprocess.run(
            [self.programs / "initdb", "--pgdata", self.folder / "data", *words],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **_ordinary_user(),
        )
        _copy(self.folder / "data", path)

    def start(self) -> None:
        """Let it answer, after a crash too."""
        on = "on" if self.durable else "off"
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": self.folder,
            "fsync": on,
            "full_page_writes": on,
            "synchronous_commit": "off",  # what an answer must not depend on
            "shared_buffers": "16MB",
            "autovacuum": "off",
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        log = (self.folder / "log").open("ab")
        with log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.folder / "data", *words],
                stdout=log,
                stderr=log,
                cwd=self.folder,
                **_ordinary_user(),
            )
        patience = time.monotonic() + 300
        while True:
            try:
                psycopg.connect(self.address).close()
                return
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > patience:
                    raise RuntimeError((self.folder / "log").read_text("utf-8", "replace")) from None
                time.sleep(0.02)

    def stop(self) -> None:
        """End it at once, as a power cut would for all but the disk."""
        if self.process is not None:
            self.process.send_signal(signal.SIGQUIT)
            self.process.wait()
            self.process = None


def _copy(folder: Path, path: Path) -> None:
    """With its owners, whom PostgreSQL looks at."""
    subprocess.run(["cp", "-a", folder, path], check=True)


@contextmanager
def running(*, durable: bool = False) -> Iterator[Server]:
    """A server of one's own, gone with the block.

    Raises
    ------
    RuntimeError
        If it does not start.
    """
    programs = find()
    if programs is None:
        raise RuntimeError(NOT_RUN)
    place = in_memory() or "/tmp"  # a socket's path must be short
    with tempfile.TemporaryDirectory(prefix="pg-", dir=place) as name:
        folder = Path(name)
        if "user" in _ordinary_user():
            shutil.chown(folder, _ordinary_user()["user"])
        server = Server(programs, folder, durable)
        server.create()
        try:
            server.start()
            yield server
        finally:
            server.stop()


def _ordinary_user() -> dict[str, Any]:
    """How to start a program as somebody else than root, whom PostgreSQL refuses."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd  # only where there are such users

    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get("postgres") or known["nobody"]
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def main() -> None:
    """Provide a server if there is none, and try it; exit with 1 under ``CI=true`` where that fails."""
    if find() is None:
        print("No PostgreSQL found: trying to install one for the storage tests.", flush=True)
        debian.install("postgresql")
    if find():
        with running() as server, psycopg.connect(server.address) as connection:
            version = connection.info.server_version
        print(f"Storage tests use PostgreSQL {version // 10_000}.{version % 10_000} from {find()}")
    else:
        print("No PostgreSQL can be had here: the storage tests will NOT run on PostgreSQL.")
        if os.environ.get("CI") == "true":
            sys.exit(1)


if __name__ == "__main__":
    main()
