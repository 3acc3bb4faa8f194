"""The leases of sessions as rows of the database, for servers that share a project, and sessions' activity.

The rules of leases are in `app.engine.leases`. All times are the database's, so the clocks of the servers
don't matter. Leases are changed in losable transactions (`Database.write`). The lease of a shown item is not
lost, because the item's selection is stored on disk after the lease, and before the item is shown.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from sqlalchemy import (
    JSON,
    BigInteger,
    ColumnElement,
    Connection,
    String,
    bindparam,
    delete,
    func,
    insert,
    literal_column,
    select,
    text,
    update,
)

from closecall.storage.database import Database
from closecall.storage.models import EndedLease, SessionClaim, SessionLease
from closecall.storage.rows import now_ms

_ACTIVITY = "activity"


@dataclass(frozen=True)
class LeaseRow:
    """The items leased to a session, and the time of its last activity, in ms by the database's clock."""

    items: frozenset[int]
    heard: int


@dataclass(frozen=True)
class LeasesThen:
    """All leases at one moment.

    Parameters
    ----------
    now : int
        The moment, in milliseconds by the database's clock.
    rows : dict
        The leases by session.
    ended : int
        Position in the log of ended leases.
    answered : int
        Position of the last answer, of any concept, in the log of answers.
    """

    now: int
    rows: dict[str, LeaseRow]
    ended: int = 0
    answered: int = 0


@dataclass
class LeaseChange:
    """A change of leases, in one transaction.

    Parameters
    ----------
    then : LeasesThen
        All leases before the change.
    """

    then: LeasesThen
    _connection: Connection
    _scope: str
    _written: set[str] = field(default_factory=set)

    def put(self, session_id: str, items: Iterable[int], heard: int) -> None:
        """Store the items leased to a session, and the time `heard` of the session's last activity."""
        values = {"items": sorted(items), "heard": heard}
        key = {"scope": self._scope, "session_id": session_id}
        if session_id in self.then.rows or session_id in self._written:
            self._connection.execute(update(SessionLease).filter_by(**key).values(**values))
        else:
            self._connection.execute(insert(SessionLease).values(**key, **values))
        self._written.add(session_id)

    def end(self, session_id: str, items: Collection[int]) -> None:
        """Record that a session's leases on these items have ended."""
        if items:
            values = {"scope": self._scope, "session_id": session_id, "items": sorted(items)}
            self._connection.execute(insert(EndedLease).values(**values, ended=self.then.now))

    def ended_since(self, position: float) -> list[tuple[str, list[int]]]:
        """Return (session, items) of each lease that ended after a position in the log of ended leases."""
        after = {"scope": self._scope, "after": position}
        return [(row.session_id, row.items) for row in self._connection.execute(_ENDED, after)]


_ENDED = select(EndedLease.session_id, EndedLease.items).where(
    EndedLease.scope == bindparam("scope"), EndedLease.seq > bindparam("after")
)


class LeaseTable:
    """The leases of one scope in the database. Thread-safe.

    Parameters
    ----------
    database : Database
    scope : str
        Separates these leases from others. For example, labeling and adjudicating have separate leases.
    clock : callable or None
        Takes a connection, and returns the time in milliseconds since 1970 UTC. None means the database's
        time.
    """

    def __init__(
        self, database: Database, scope: str, clock: Callable[[Connection], int] | None = None
    ) -> None:
        self._database = database
        self._scope = scope
        self._clock = clock
        now = text(
            f"SELECT clock.now, lease.session_id, lease.items, lease.heard "
            f"FROM (SELECT {database.place.clock} AS now) AS clock "
            f"LEFT JOIN session_leases AS lease ON lease.scope = :scope"
        )
        self._rows = now.columns(now=BigInteger, session_id=String, items=JSON, heard=BigInteger)
        positions = text(
            "SELECT (SELECT COALESCE(MAX(seq), 0) FROM ended_leases WHERE scope = :scope) AS ended, "
            "(SELECT COALESCE(MAX(seq), 0) FROM answers) AS answered"
        )
        self._positions = positions.columns(ended=BigInteger, answered=BigInteger)

    def read(self) -> LeasesThen:
        """Return all leases, as they are now."""
        with self._database.read() as connection:
            positions = connection.execute(self._positions, {"scope": self._scope}).one()
            now, rows = self._read(connection)
        return LeasesThen(now, rows, positions.ended, positions.answered)

    @contextmanager
    def change(self) -> Iterator[LeaseChange]:
        """Open a transaction that changes leases. Until it ends, no other server changes leases."""
        with self._database.write(losable=True) as connection:
            now, rows = self._read(connection)
            yield LeaseChange(LeasesThen(now, rows), connection, self._scope)

    def _read(self, connection: Connection) -> tuple[int, dict[str, LeaseRow]]:
        found = connection.execute(self._rows, {"scope": self._scope}).all()
        now = found[0].now if self._clock is None else self._clock(connection)
        rows = {
            row.session_id: LeaseRow(frozenset(row.items), row.heard)
            for row in found
            if row.session_id is not None
        }
        return now, rows

    def renew(self, session_id: str) -> frozenset[int] | None:
        """Record activity of the session; return the items leased to it, or None if it has no lease."""
        own = (SessionLease.scope == self._scope, SessionLease.session_id == session_id)
        with self._database.write(losable=True) as connection:
            now: ColumnElement[int] = literal_column(self._database.place.clock)
            heard = now if self._clock is None else self._clock(connection)
            renewed = update(SessionLease).where(*own).values(heard=heard).returning(SessionLease.items)
            items = connection.execute(renewed).scalar()
        return None if items is None else frozenset(items)

    def set_heard(self, session_id: str, heard: int) -> None:
        """Set the time of the session's last activity, if it has leases."""
        own = (SessionLease.scope == self._scope, SessionLease.session_id == session_id)
        with self._database.write(losable=True) as connection:
            connection.execute(update(SessionLease).where(*own).values(heard=heard))

    def idle(self, seconds: float, kept_seconds: float) -> list[str]:
        """Return the sessions whose last activity was more than `seconds` seconds ago.

        Sessions that another server has used in the last `kept_seconds` seconds are left out.
        """
        query = (
            select(SessionLease.session_id, SessionLease.heard, SessionClaim.server, SessionClaim.renewed)
            .outerjoin(SessionClaim, SessionClaim.session_id == SessionLease.session_id)
            .where(SessionLease.scope == self._scope)
        )
        with self._database.read() as connection:
            now = self._database.now(connection) if self._clock is None else self._clock(connection)
            rows = connection.execute(query.where(SessionLease.heard < now - 1000 * seconds)).all()
        return [
            row.session_id
            for row in rows
            if row.server in (None, self._database.server) or row.renewed < now - 1000 * kept_seconds
        ]

    def drop(self, sessions: Collection[str], seconds: float) -> None:
        """Delete leases of `sessions`, and records of ended leases, that are older than `seconds` seconds.

        The age of a lease is the time since the last activity of its session.
        """
        with self._database.write(losable=True) as connection:
            now = self._database.now(connection) if self._clock is None else self._clock(connection)
            of_scope = SessionLease.scope == self._scope
            before = int(now - 1000 * seconds)
            connection.execute(
                delete(SessionLease).where(
                    of_scope, SessionLease.session_id.in_(sorted(sessions)), SessionLease.heard < before
                )
            )
            connection.execute(
                delete(EndedLease).where(EndedLease.scope == self._scope, EndedLease.ended < before)
            )


class Activity:
    """The times of the sessions' last activity, stored if a project has only one server. Thread-safe.

    This server has the leases in memory (`app.engine.leases`). The stored times tell the next server which
    leases were still valid. A time is a row of `session_leases` without items, in the scope ``activity``.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.

    Attributes
    ----------
    urgent : callable
        Called by `note` if a session is new, if its page is closed, or if the page is open again. `store`
        should then be called at once, in another thread.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = now_ms) -> None:
        self.urgent: Callable[[], None] = lambda: None
        self._database = database
        self._clock = clock
        self._noted: dict[str, int] = {}  # times that are not stored yet
        self._is_left: dict[str, bool] = {}
        self._lock = threading.Lock()

    def note(self, session_id: str, *, is_left: bool = False) -> None:
        """Note that the session is active now, or that its page is closed, for the next `store`."""
        with self._lock:
            now = self._clock()
            self._noted[session_id] = -now if is_left else now
            is_urgent = self._is_left.get(session_id) != is_left
            self._is_left[session_id] = is_left
        if is_urgent:
            self.urgent()

    def store(self) -> None:
        """Store what was noted since the last call.

        Raises
        ------
        StorageError
            If the database fails. The next call then stores it.
        """
        with self._lock:
            noted, self._noted = self._noted, {}
        if not noted:
            return
        rows = [
            {"scope": _ACTIVITY, "session_id": who, "items": [], "heard": at} for who, at in noted.items()
        ]
        try:
            with self._database.write(losable=True) as connection:
                of_sessions = SessionLease.session_id.in_(sorted(noted))
                connection.execute(delete(SessionLease).where(SessionLease.scope == _ACTIVITY, of_sessions))
                connection.execute(insert(SessionLease), rows)
        except BaseException:
            with self._lock:
                self._noted = {**noted, **self._noted}
            raise

    def times(self) -> dict[str, int]:
        """Return the stored times by session, in ms since 1970 UTC; negative if the page was then closed."""
        query = select(SessionLease.session_id, SessionLease.heard).where(SessionLease.scope == _ACTIVITY)
        with self._database.read() as connection:
            return {row.session_id: row.heard for row in connection.execute(query)}

    def forget(self, since: int) -> None:
        """Delete the times before `since`, in milliseconds since 1970 UTC."""
        with self._database.write(losable=True) as connection:
            is_old = func.abs(SessionLease.heard) < since
            connection.execute(delete(SessionLease).where(SessionLease.scope == _ACTIVITY, is_old))
