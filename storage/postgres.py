"""PostgreSQL: setting up connections, ordering writers, and explaining errors."""

from __future__ import annotations

import hashlib
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateSchema, DropSchema

from closecall.storage import address, rows
from closecall.storage.errors import Kind, StorageError
from closecall.storage.leading import AdvisoryLead, Lead
from closecall.storage.listening import Listening

_DEFAULT = "marginalia"  # the former name of the program, under which the first labels were stored

# An advisory lock has two numbers: one of the next constants, and one computed from a name: that of the
# schema, of a server (`_SERVERS`), or of what only one server may do (`_LEADS`).
_WRITERS = 0x4D617267  # "Marg": two versions that use one schema must respect each other's locks
_IN_USE = _WRITERS + 1
_ALONE = _WRITERS + 2
_SERVERS = _WRITERS + 3
_LEADS = _WRITERS + 4
_LINGERS = 2.0  # seconds after which closed connections, or those of a killed program, hold no locks
# Maximum time of a statement, and between two statements, while a transaction keeps other writers waiting.
_HUNG = "60s"

_PATIENT = "closecall_patient"  # the execution option for transactions that copy or change every row
_LOSABLE = "closecall_losable"  # for transactions that may be lost if the database server crashes

_READING = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

_US = f"closecall {uuid4().hex}"  # application name of this process's connections

# The keepalive settings let the server notice that a program is gone, however it ended.
_SET_UP = """
SELECT set_config('search_path', quote_ident(%s), false), set_config('lock_timeout', %s, false),
       set_config('client_min_messages', 'warning', false),
       set_config('tcp_keepalives_idle', '10', false), set_config('tcp_keepalives_interval', '5', false),
       set_config('tcp_keepalives_count', '3', false)
"""
# A table's file grows as soon as a row needs space, even if the row is never committed.
_ROOM = """
CREATE TEMPORARY TABLE closecall_room ON COMMIT DROP AS
SELECT repeat(md5(number::text), 30) AS filling FROM generate_series(1, 128) AS number
"""
_OTHERS = """
SELECT COUNT(*) FROM pg_locks AS held LEFT JOIN pg_stat_activity AS program USING (pid)
WHERE held.locktype = 'advisory' AND held.classid = %s AND held.objid = %s AND held.objsubid = 2
      AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND program.application_name IS DISTINCT FROM current_setting('application_name')
"""
_IS_HELD = """
SELECT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid = %s AND objsubid = 2
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
"""

_ALIVE = {
    "keepalives_idle": 10,  # seconds, like the next one: a lost server is noticed within half a minute
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,  # milliseconds
}

_KINDS: dict[str, Kind] = {
    "25006": "read-only",  # read_only_sql_transaction, also on a standby
    "42501": "read-only",  # insufficient_privilege
    "3D000": "missing",  # invalid_catalog_name
    "XX001": "corrupt",  # data_corrupted
    "XX002": "corrupt",  # index_corrupted
}


class Schema:
    """Schema of a PostgreSQL database that contains the labels of one project.

    Parameters
    ----------
    url : URL
        Address of the server and the database.
    schema : str
        Name of the schema.
    """

    errors = psycopg.Error
    # After waiting for the lock, each statement sees what the previous writer has committed.
    writing: Mapping[str, Any] = {"isolation_level": "READ COMMITTED", "postgresql_readonly": False}
    writing_losable: Mapping[str, Any] = {**writing, _LOSABLE: True}
    clock = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"

    def __init__(self, url: URL, schema: str) -> None:
        self.schema = schema
        self._url = url
        self._number = _number(schema)

    @classmethod
    def at(cls, where: str) -> Schema:
        """Return the schema at an address. The default is ``marginalia``, the program's former name.

        Raises
        ------
        StorageError
            If the address is malformed (kind `invalid`).
        """
        url, schema = address.parse(where)
        return cls(url, schema or _DEFAULT)

    def __str__(self) -> str:
        return address.shown(self._url, self.schema)

    def engine(
        self, *, read_only: bool, busy_timeout: float, alone: bool = False, server: str | None = None
    ) -> Engine:
        """See `storage.place.Place`. The schema counts as in use while an engine for writing is connected."""
        made = create_engine(
            self._url,
            json_serializer=rows.json_text,
            hide_parameters=True,  # errors must not contain what people answered
            pool_size=8,
            max_overflow=24,
            pool_timeout=busy_timeout,
            pool_pre_ping=True,  # so that a restart of the server causes no error
            execution_options=_READING,
            connect_args=_ALIVE | {"connect_timeout": max(2, ceil(busy_timeout)), "application_name": _US},
        )

        @event.listens_for(made, "connect", insert=True)
        def set_up(connection: DBAPIConnection, _record: object) -> None:
            try:
                connection.autocommit = True
                with closing(connection.cursor()) as cursor:
                    milliseconds = max(1, round(1000 * busy_timeout))
                    cursor.execute(_SET_UP, (self.schema, f"{milliseconds}ms"))
                    if not read_only:
                        cursor.execute("SELECT pg_advisory_lock_shared(%s, %s)", (_IN_USE, self._number))
                    if alone:
                        cursor.execute("SELECT pg_advisory_lock_shared(%s, %s)", (_ALONE, self._number))
                        self._require_no_others(
                            cursor, _IN_USE, "already being served by another process: stop that one first"
                        )
                    if server is not None:
                        cursor.execute("SELECT pg_advisory_lock_shared(%s, %s)", (_SERVERS, _number(server)))
                        self._require_no_others(
                            cursor,
                            _ALONE,
                            "being served by one process alone: stop that one first",
                        )
                connection.autocommit = False
            except BaseException:
                connection.close()
                raise

        @event.listens_for(made, "begin")
        def begin(connection: Connection) -> None:
            options = connection.get_execution_options()
            if not options["postgresql_readonly"]:
                patience = "0" if options.get(_PATIENT) else _HUNG
                # An acknowledged answer must be on disk, whatever the server's default is.
                connection.exec_driver_sql(
                    "SELECT set_config('synchronous_commit', CASE WHEN %s THEN 'off' "
                    "WHEN current_setting('synchronous_commit') = 'off' THEN 'local' "
                    "ELSE current_setting('synchronous_commit') END, true), "
                    "set_config('statement_timeout', %s, true), "
                    "set_config('idle_in_transaction_session_timeout', %s, true), "
                    "pg_advisory_xact_lock(%s, %s)",
                    (bool(options.get(_LOSABLE)), patience, patience, _WRITERS, self._number),
                )

        return made

    def _require_no_others(self, cursor: DBAPICursor, lock: int, problem: str) -> None:
        """Raise a StorageError of kind `locked` if other programs hold the schema's `lock`."""

        def are_none() -> bool:
            cursor.execute(_OTHERS, (lock, self._number & 0xFFFFFFFF))
            row = cursor.fetchone()
            return row is not None and not row[0]

        if not _soon(are_none):
            raise StorageError(f"{self} is {problem}", "locked")

    def require_shareable(self) -> None:
        """Do nothing: several servers can write to a schema."""

    @property
    def channel(self) -> str:
        """Return the name of the channel on which servers that share the schema notify each other."""
        return "closecall_" + hashlib.sha256(self.schema.encode()).hexdigest()[:32]

    def notify(self, connection: Connection, message: str) -> None:
        """See `storage.place.Place`."""
        connection.exec_driver_sql("SELECT pg_notify(%s, %s)", (self.channel, message))

    def connect(self, busy_timeout: float) -> psycopg.Connection:
        """Open a connection that commits each statement and does not belong to the engine.

        Raises
        ------
        psycopg.Error
            If the server can't be reached.
        """
        args, options = self._url.get_dialect()().create_connect_args(self._url)
        timeout = {"connect_timeout": max(2, ceil(busy_timeout)), "application_name": _US}
        return psycopg.connect(*args, **{**options, **_ALIVE, **timeout}, autocommit=True)

    def listening(
        self, heard: Callable[[str], None], renewed: Callable[[], None], busy_timeout: float
    ) -> Listening:
        """See `storage.place.Place`."""
        return Listening(lambda: self.connect(busy_timeout), self.channel, heard, renewed, self.errors)

    def lead(self, what: str, busy_timeout: float) -> Lead:
        """See `storage.place.Place`."""
        lock = _LEADS, _number(f"{self.schema}\0{what}")
        return AdvisoryLead(lambda: self.connect(busy_timeout), lock, self.errors)

    def is_serving(self, connection: Connection, server: str) -> bool:
        """See `storage.place.Place`."""
        return bool(
            connection.exec_driver_sql(_IS_HELD, (_SERVERS, _number(server) & 0xFFFFFFFF)).scalar_one()
        )

    def explain(self, error: BaseException, busy_timeout: float = 0.0) -> StorageError:
        """See `storage.place.Place`."""
        code = getattr(error, "sqlstate", None) or ""
        reason = self._one_line(error)
        waited = f" (waited {busy_timeout:g} s)" if busy_timeout else ""
        if code == "55P03":
            return StorageError(f"{self} is locked by another program{waited}; try again", "locked")
        if code == "57014":
            return StorageError(f"{self} is too busy: {reason}; try again", "locked")
        if code[:2] == "40":
            return StorageError(f"{self} is busy with another write: {reason}; try again", "locked")
        if code == "53100":
            return StorageError(
                f"{self}: the disk of the server is full ({reason}), so nothing was written; "
                f"acknowledged answers are safe, and work continues once there is space",
                "full",
            )
        if code in _KINDS:
            return StorageError(f"{self}: {reason}", _KINDS[code])
        if code[:2] in ("22", "23") or (not code and isinstance(error, psycopg.DataError)):
            return StorageError(f"{self} refuses the row: {reason}", "invalid")
        if code[:2] in ("08", "53", "57") or code == "25P03" or isinstance(error, psycopg.OperationalError):
            return StorageError(f"{self} cannot be reached: {reason}", "unreachable")
        return StorageError(f"{self}: {reason}", "other")

    def _one_line(self, error: BaseException) -> str:
        diagnosis = getattr(getattr(error, "diag", None), "message_primary", None)
        reason = " ".join((diagnosis or str(error)).split())
        for secret in filter(None, address.secrets_of(self._url)):
            reason = reason.replace(secret, "***")
        return reason

    def require_room(self, connection: Connection) -> None:
        """See `storage.place.Place`. If the user may not create temporary tables, nothing is checked."""
        query = "SELECT has_database_privilege(current_database(), 'TEMPORARY')"
        if connection.exec_driver_sql(query).scalar_one():
            connection.exec_driver_sql(_ROOM)

    def exists(self) -> bool:
        """Return whether the schema has tables or views."""
        with self._look() as connection:
            found = connection.exec_driver_sql(
                "SELECT EXISTS (SELECT FROM pg_class WHERE relnamespace = to_regnamespace(quote_ident(%s)) "
                "AND relkind IN ('r', 'p', 'v', 'm', 'f'))",
                (self.schema,),
            )
            return bool(found.scalar_one())

    def unopenable(self) -> StorageError:
        """See `storage.place.Place`."""
        return StorageError(f"{self} has no labels of a project", "missing")

    def check_makable(self) -> None:
        """Do nothing: the transaction that creates the tables fails if they can't be created."""

    @contextmanager
    def being_made(self) -> Iterator[Schema]:
        """Yield this schema: one transaction creates it, so it needs no temporary name."""
        yield self

    def check_owner(self, busy_timeout: float = 0.0) -> None:
        """Do nothing: reading from a server changes nothing, so no check is needed beforehand."""

    def check_writable(self) -> None:
        """See `storage.place.Place`."""
        with self._look() as connection:
            query = "SELECT has_table_privilege(to_regclass(quote_ident(%s) || '.answers'), 'INSERT')"
            if connection.exec_driver_sql(query, (self.schema,)).scalar_one() is False:
                user = connection.exec_driver_sql("SELECT current_user").scalar_one()
                raise StorageError(f"{self} may not be written by the user {user}", "read-only")

    def before_migration(self, connection: Connection) -> None:
        """See `storage.place.Place`."""
        connection.execution_options(**{_PATIENT: True})

    def make(self, connection: Connection) -> None:
        """Create the schema if it is missing, in the connection's transaction."""
        if not self._is_there(connection):
            connection.execute(CreateSchema(self.schema))

    def has_container(self) -> bool:
        """See `storage.place.Server`."""
        with self._look() as connection:
            return self._is_there(connection)

    def _is_there(self, connection: Connection) -> bool:
        found = connection.exec_driver_sql("SELECT to_regnamespace(quote_ident(%s))", (self.schema,))
        return found.scalar_one() is not None

    def remove(self, connection: Connection, *, container: bool) -> None:
        """See `storage.place.Server`. Dropping a table also drops its views and triggers."""
        if container:
            connection.execute(DropSchema(self.schema, cascade=True))
            return
        for table in inspect(connection).get_table_names():
            connection.exec_driver_sql(f'DROP TABLE "{table}" CASCADE')
        connection.exec_driver_sql("DROP FUNCTION never_change()")

    def after_migration(self, connection: Connection) -> None:
        """Do nothing: the transaction itself checks foreign keys."""

    def copy_name(self, folder: Path | None, words: str) -> Path:
        """See `storage.place.Place`.

        Raises
        ------
        StorageError
            If `folder` is None (kind `older`).
        """
        if folder is None:
            raise StorageError(
                f"{self} was written by an older version of closecall; to bring it up to date, give a "
                "folder for the copy that is made first",
                "older",
            )
        return folder / f"{self.schema.replace('/', '-')}.{words}"

    def take_alone(self, connection: Connection, before: str = "restoring") -> None:
        """Lock out all writers until the transaction ends.

        Connections of this program that were just closed may hold the lock for a moment longer, so this
        method waits for them. It does not wait for other programs, because their writers would then have to
        wait, too.

        Raises
        ------
        StorageError
            If another program has the schema open (kind `locked`).
        """

        def is_locked() -> bool:
            query = "SELECT pg_try_advisory_xact_lock(%s, %s)"
            return bool(connection.exec_driver_sql(query, (_IN_USE, self._number)).scalar_one())

        others = connection.exec_driver_sql(_OTHERS, (_IN_USE, self._number & 0xFFFFFFFF)).scalar_one()
        if others or not _soon(is_locked):
            raise StorageError(f"{self} is open in another program; stop it before {before}", "locked")

    def set_aside(self, connection: Connection) -> Schema:
        """See `storage.place.Server`."""
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        aside = f"replaced-{moment}-{self.schema}".encode()[:63].decode(errors="ignore")
        rename = connection.exec_driver_sql(
            "SELECT format('ALTER SCHEMA %%I RENAME TO %%I', %s::text, %s::text)", (self.schema, aside)
        )
        connection.exec_driver_sql(rename.scalar_one().replace("%", "%%"))
        return Schema(self._url, aside)

    def continue_counting(self, connection: Connection) -> None:
        """See `storage.place.Server`."""
        counted = connection.exec_driver_sql(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = current_schema() AND column_default LIKE 'nextval(%%'"
        )
        for table, column in counted.all():
            connection.exec_driver_sql(
                f"SELECT setval(pg_get_serial_sequence('{table}', '{column}'), MAX({column})) FROM {table} "
                f"HAVING MAX({column}) IS NOT NULL"
            )

    @contextmanager
    def _look(self) -> Iterator[Connection]:
        """Open a connection for one query, before there is a `Database`."""
        engine = create_engine(
            self._url, poolclass=NullPool, execution_options=_READING, connect_args={"connect_timeout": 5}
        )
        try:
            with engine.connect() as connection:
                yield connection
        except DBAPIError as error:
            raise self.explain(error.orig or error) from error


def _number(name: str) -> int:
    """Return the number of an advisory lock: a signed integer of 32 bits, computed from a name."""
    checksum = zlib.crc32(name.encode())
    return checksum - (1 << 32 if checksum >> 31 else 0)


def _soon(is_so: Callable[[], bool]) -> bool:
    """Return whether a condition becomes true within `_LINGERS` seconds."""
    until = time.monotonic() + _LINGERS
    while not is_so():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
