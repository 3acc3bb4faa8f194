"""Claims of sessions by servers.

If several servers share a project, only one server at a time has a session open.

A server claims a session before it reads the session's rounds from the log. If another server holds the
claim, the server takes the claim over without asking, because the other server may be dead. The other server
notices this the next time it writes, if not earlier: the log refuses selections and answers of sessions that
another server has claimed. No round number and no selection can therefore exist twice.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from sqlalchemy import Connection, bindparam, insert, select, update

from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import SessionClaim

CONFIRM_SECONDS = 0.01
"""Seconds for which a claim counts as confirmed, so that one request asks the database only once."""

RENEW_MS = 30_000
"""Milliseconds after which activity in a session renews its claim."""

_CLAIM = select(SessionClaim.server, SessionClaim.number, SessionClaim.renewed).where(
    SessionClaim.session_id == bindparam("session")
)
_ELSEWHERE = (
    select(SessionClaim.session_id)
    .where(SessionClaim.session_id.in_(bindparam("sessions", expanding=True)))
    .where(SessionClaim.server != bindparam("server"))
    .limit(1)
)


class Claims:
    """The claims of one of several servers. Thread-safe.

    Parameters
    ----------
    database : Database
        Opened with `shared`.
    """

    def __init__(self, database: Database) -> None:
        assert database.server is not None
        self._database = database
        self._server = database.server
        self._confirmed: dict[str, tuple[int, float]] = {}  # by session: number, and time of the last check

    def hold(self, session_id: str) -> int:
        """Claim the session for this server, unless it has done so already, and return the claim's number.

        The number grows each time the session changes servers. If it has grown since the caller's last call,
        another server has had the session in the meantime.

        Raises
        ------
        StorageError
            If the database fails.
        """
        now = time.monotonic()
        known = self._confirmed.get(session_id)
        if known is not None and now - known[1] < CONFIRM_SECONDS:
            return known[0]
        with self._database.read() as connection:
            row = connection.execute(_CLAIM, {"session": session_id}).first()
            is_due = row is not None and self._database.now(connection) - row.renewed >= RENEW_MS
        number = row.number if row is not None and row.server == self._server and not is_due else None
        if number is None:
            number = self._take(session_id)
        self._confirmed[session_id] = number, now
        return number

    def _take(self, session_id: str) -> int:
        """Claim the session, or renew this server's claim; return its number."""
        with self._database.write(losable=True) as connection:
            row = connection.execute(_CLAIM, {"session": session_id}).first()
            now = self._database.now(connection)
            is_ours = row is not None and row.server == self._server
            number = 1 if row is None else row.number + (not is_ours)
            values = {"server": self._server, "number": number, "renewed": now}
            if row is None:
                connection.execute(insert(SessionClaim).values(session_id=session_id, **values))
            else:
                where = SessionClaim.session_id == session_id
                connection.execute(update(SessionClaim).where(where).values(**values))
            if not is_ours:
                self._database.announce(connection, "session", session=session_id, server=self._server)
        return int(number)

    def doubt(self, session_id: str) -> None:
        """Make the next `hold` ask the database, even if the claim was confirmed a moment ago."""
        self._confirmed.pop(session_id, None)

    def require(self, connection: Connection, sessions: Collection[str]) -> None:
        """Check, in a writing transaction, that no other server has claimed one of the sessions.

        Raises
        ------
        StorageError
            If another server has claimed one of the sessions (kind `moved`).
        """
        if not sessions:
            return
        found = connection.execute(_ELSEWHERE, {"sessions": sorted(sessions), "server": self._server}).first()
        if found is not None:
            self.doubt(found.session_id)
            raise StorageError("another server continues this session now: try again", "moved")

    def is_attended(self, session_id: str, seconds: float) -> bool:
        """Return whether another server used the session in the last `seconds` seconds, and still runs."""
        with self._database.read() as connection:
            row = connection.execute(_CLAIM, {"session": session_id}).first()
            if row is None or row.server == self._server:
                return False
            is_recent = self._database.now(connection) - row.renewed < 1000 * seconds
            return is_recent and self._database.place.is_serving(connection, row.server)
