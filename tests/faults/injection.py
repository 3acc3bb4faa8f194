"""Faults at a chosen commit of the label database; every other commit is left alone."""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from sqlalchemy import Connection
from sqlalchemy.engine.default import DefaultDialect

from closecall.storage.database import Database

MOMENTS = ("before", "died", "reply lost")
"""Nothing is written; all is written and the process ends; all is written and the caller gets an error."""


class Died(BaseException):
    """The process ends here: nothing may catch this, as nothing catches a power cut."""


@dataclass(frozen=True, order=True)
class Place:
    """The n-th commit, from 1, of the function that opened the transaction."""

    writer: str
    n: int

    def __str__(self) -> str:
        return f"commit {self.n} of {self.writer}"


class Faults:
    """Counts the commits of writing transactions by who opened them, and fails the one that was asked for.

    Parameters
    ----------
    monkeypatch : MonkeyPatch
        Takes the place of the commit in `Database.write`, for every database of this process.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: Counter[str] = Counter()
        self.is_dead = False
        self.has_struck = False
        self._plan: tuple[Place, str] | None = None
        self._lock = threading.Lock()
        self._thread = threading.local()
        write, commit = Database.write, DefaultDialect.do_commit

        def watched(database: Database, *, losable: bool = False) -> Any:
            return self._watched(write(database, losable=losable), sys._getframe(1).f_code.co_qualname)

        def committing(dialect: DefaultDialect, connection: Any) -> None:
            writer, self._thread.writer = getattr(self._thread, "writer", None), None
            self._commit(writer, connection, lambda: commit(dialect, connection))

        monkeypatch.setattr(Database, "write", watched)
        monkeypatch.setattr(DefaultDialect, "do_commit", committing)

    def arm(self, place: Place | None, moment: str) -> None:
        """Count from 0, and let this commit fail at this moment; none where `place` is None."""
        with self._lock:
            self.seen, self.has_struck = Counter(), False
            self._plan = None if place is None else (place, moment)

    def disarm(self) -> None:
        """Let nothing fail from here on; `seen` and `has_struck` stay what they are."""
        with self._lock:
            self._plan, self.seen = None, self.seen.copy()

    def restarted(self) -> None:
        """A new process has taken the place of the one that died."""
        self.is_dead = False

    @contextmanager
    def _watched(self, transaction: Any, writer: str) -> Iterator[Connection]:
        if self.is_dead:
            raise Died
        with transaction as connection:
            yield connection
            self._thread.writer = writer  # the next commit of this thread is this transaction's

    def _commit(self, writer: str | None, connection: Any, commit: Any) -> None:
        if writer is None:  # it has only read
            commit()
            return
        moment = self._moment(writer)
        if moment == "dead":
            raise Died
        if moment != "before":
            commit()
        if moment == "died":
            raise Died
        if moment is not None:
            raise _error(connection, moment)

    def _moment(self, writer: str) -> str | None:
        with self._lock:
            if self.is_dead:
                return "dead"
            self.seen[writer] += 1
            if self._plan is None or self._plan[0] != Place(writer, self.seen[writer]):
                return None
            moment, self._plan, self.has_struck = self._plan[1], None, True
            self.is_dead = moment == "died"
            return moment


def _error(connection: Any, moment: str) -> Exception:
    """What the driver reports: a full disk or a lost server before, a failing disk or a lost server after."""
    if isinstance(connection.driver_connection, sqlite3.Connection):
        told = sqlite3.OperationalError("disk I/O error" if moment == "reply lost" else "disk is full")
        told.sqlite_errorcode = sqlite3.SQLITE_IOERR if moment == "reply lost" else sqlite3.SQLITE_FULL
        return told
    connection.driver_connection.close()  # the server rolls back what it has not committed
    return psycopg.OperationalError("server closed the connection unexpectedly")
