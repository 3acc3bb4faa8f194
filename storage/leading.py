"""Leader election among several servers. The leader does the work that only one server may do.

If the leader dies, another server takes its place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    import psycopg

CHECK_SECONDS = 1.0
"""Seconds for which the answer of `Lead.is_held` is kept, before the database is asked again."""


class Lead:
    """A handle of work that only one of several servers may do. A single server always holds it.

    Close it, for example with ``with``, when the work ends.
    """

    def is_held(self) -> bool:
        """Return whether this server leads; try to take the lead if no other server has it.

        Ask before each action. A server that loses its connection to the database learns this within
        `CHECK_SECONDS`. Until then, two servers may act.
        """
        return True

    def close(self) -> None:
        """Give the lead up."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AdvisoryLead(Lead):
    """The lead as an advisory lock of PostgreSQL, which ends with its connection. Thread-safe.

    Parameters
    ----------
    connect : callable
        Opens a connection that commits each statement.
    lock : tuple of int
        The two numbers of the lock.
    errors : type
        Base class of the driver's exceptions.
    """

    def __init__(
        self, connect: Callable[[], psycopg.Connection], lock: tuple[int, int], errors: type[Exception]
    ) -> None:
        self._connect = connect
        self._lock = lock
        self._errors = errors
        self._connection: psycopg.Connection | None = None
        self._is_held = False
        self._asked = -CHECK_SECONDS
        self._using = threading.Lock()

    def is_held(self) -> bool:
        """See `Lead.is_held`. The lead is not held while the database can't be reached."""
        with self._using:
            if time.monotonic() - self._asked >= CHECK_SECONDS:
                try:
                    self._is_held = self._ask()
                except self._errors:
                    self._hang_up()
                self._asked = time.monotonic()
            return self._is_held

    def _ask(self) -> bool:
        if self._connection is None:
            self._connection = self._connect()
        if self._is_held:
            self._connection.execute("SELECT 1")  # the lock is held as long as the connection lives
            return True
        found = self._connection.execute("SELECT pg_try_advisory_lock(%s, %s)", self._lock).fetchone()
        return found is not None and bool(found[0])

    def _hang_up(self) -> None:
        connection, self._connection, self._is_held = self._connection, None, False
        if connection is not None:
            with suppress(self._errors):
                connection.close()

    def close(self) -> None:
        """See `Lead.close`."""
        with self._using:
            self._hang_up()
            self._asked = -CHECK_SECONDS
