"""A project's database: opened once per process, and written in short transactions, one at a time."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnectionError

from closecall.storage import copies, migrate, sqlite
from closecall.storage.errors import Kind, StorageError
from closecall.storage.leading import Lead
from closecall.storage.listening import Listening
from closecall.storage.notices import Notice
from closecall.storage.place import LabelFile, Server, Where, place_of
from closecall.storage.records import new_id

_events = logging.getLogger("closecall.storage")

_TROUBLES: frozenset[Kind] = frozenset({"locked", "unreachable", "full", "read-only", "corrupt", "other"})
"""Kinds of errors that the database causes, rather than a request or a value."""


class Database:
    """Label database with a pool of connections, returned by `Database.open`.

    Any thread may read and write at any time. `write` admits one transaction at a time in this process, and a
    lock in the database admits one transaction at a time among all processes. With SQLite, this lock is
    SQLite's own lock for writers. With PostgreSQL, it is an advisory lock for the schema.

    Rows are therefore committed in the order of `seq`, the increasing key of the log's tables. A reader who
    has read the log up to some `seq` never misses an earlier row.
    """

    def __init__(
        self,
        place: LabelFile | Server,
        *,
        read_only: bool,
        busy_timeout: float,
        alone: bool = False,
        server: str | None = None,
    ) -> None:
        self.place = place
        self.read_only = read_only
        self.server = server
        """This server's id, if several servers share the database; otherwise None."""
        self.backup_made: Path | None = None
        self._busy_timeout = busy_timeout
        self._engine = place.engine(
            read_only=read_only, busy_timeout=busy_timeout, alone=alone, server=server
        )
        self._writing = threading.Lock()
        self._trouble: StorageError | None = None
        self._notices: list[Notice] = []  # of the open transaction
        self._told: Callable[[Notice], None] | None = None
        self._listening: Listening | None = None

    @classmethod
    def open(
        cls,
        where: Where,
        *,
        create: bool = False,
        read_only: bool = False,
        alone: bool = False,
        shared: bool = False,
        backup_before_migration: bool = True,
        copies_in: Path | None = None,
        busy_timeout: float = sqlite.BUSY_SECONDS,
    ) -> Database:
        """Open the database at `where` and, unless `read_only`, migrate its schema to the newest version.

        Parameters
        ----------
        where : str or Path
            A file, or a PostgreSQL address: ``postgresql://user@host/database?schema=name``.
        create : bool
            Create the database if it is missing. An interrupted creation leaves no database.
        read_only : bool
            Only read: nothing is created, migrated or written. Another process may be serving the project.
        alone : bool
            With PostgreSQL, raise an error (`locked`) if another program has the database open for writing.
        shared : bool
            Several servers write to this PostgreSQL database. Raise an error (`locked`) if a program has the
            database open with `alone`. An older schema is migrated only if no other program has the database
            open for writing.
        backup_before_migration : bool
            Copy an older database to a file before it is changed; `backup_made` then has the path.
        copies_in : Path or None
            Folder for the copy that `backup_before_migration` requests. None means the folder of the SQLite
            file. With PostgreSQL, a folder must be given if a copy is needed.
        busy_timeout : float
            Longest wait for another writer, in seconds.

        Raises
        ------
        StorageError
            With kind `invalid` (malformed address), `missing`, `not-a-database`, `corrupt`, `newer`, `older`
            (with `read_only`, or on PostgreSQL without a folder for the copy), `read-only`, `locked`,
            `unreachable`, `full` or `other`; see `storage.errors.Kind`. A database that could not be migrated
            is unchanged. The kind is also `invalid` if `shared` is true but the database is a file.
        """
        place = place_of(where)
        server = new_id() if shared else None
        if shared:
            place.require_shareable()
        if not place.exists():
            if not create or read_only:
                raise place.unopenable()
            cls._create(place, busy_timeout)
        place.check_owner(busy_timeout)
        # Opening a file for writing changes it, so check first that it is a label database.
        database = cls(place, read_only=True, busy_timeout=busy_timeout)
        with _closing_on_error(database):
            version = database.schema_version
            database._check_version(version, may_migrate=not read_only)
            if read_only:
                return database
            place.check_writable()
            if shared and version != migrate.SCHEMA_VERSION:
                # This connection does not count as a use of the database, so servers that start at the same
                # time don't keep each other from migrating it.
                database._migrate(keep_copy=backup_before_migration, copies_in=copies_in, alone=True)
        copy = database.backup_made
        database.close()
        database = cls(place, read_only=False, busy_timeout=busy_timeout, alone=alone, server=server)
        database.backup_made = copy
        with _closing_on_error(database):
            if database.schema_version != migrate.SCHEMA_VERSION:
                database._migrate(keep_copy=backup_before_migration, copies_in=copies_in)
            with database.write():  # raises now, not at the first answer, if the database can't be written
                pass
        return database

    @classmethod
    def _create(cls, place: LabelFile | Server, busy_timeout: float) -> None:
        place.check_makable()
        with (
            place.being_made() as half,
            cls(half, read_only=False, busy_timeout=busy_timeout) as database,
        ):
            database._migrate(keep_copy=False)

    def close(self) -> None:
        """Close all connections. With SQLite, this merges the write-ahead log into the file."""
        if self._listening is not None:
            self._listening.close()
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def schema_version(self) -> str | None:
        """Return the number of the newest applied migration; see `migrate.version_of`."""
        with self.read() as connection:
            return migrate.version_of(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that sees one state of the database and blocks no writer.

        Raises
        ------
        StorageError
            If the database engine reports an error. The message is one sentence.
        """
        with self._explained(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self, *, losable: bool = False) -> Iterator[Connection]:
        """Open the only writing transaction; it is committed to disk when the block ends without an error.

        With `losable`, PostgreSQL does not wait for the disk. If the database server crashes, the transaction
        may be lost, but only together with all transactions after it.

        Raises
        ------
        StorageError
            If the database can't be written. The kind is `locked` after the busy timeout. Other kinds are,
            for example, `full` and `read-only`. After an error, nothing that the block wrote is stored, with
            one exception. If the connection to the server is lost during the commit (kind `unreachable`), the
            writes may be stored. The block must therefore be safe to repeat.
        """
        if self.read_only:
            raise StorageError(f"{self.place} was opened for reading only", "read-only")
        if not self._writing.acquire(timeout=self._busy_timeout):
            trouble = self._trouble
            if trouble is not None and trouble.kind == "locked":
                raise StorageError(str(trouble), "locked")  # the other writer waits for the same lock
            raise StorageError(
                f"{self.place} is busy with another write for {self._busy_timeout:g} s", "locked"
            )
        try:
            self._notices = []
            with self._explained(), self._engine.connect() as connection:
                connection.execution_options(
                    **(self.place.writing_losable if losable else self.place.writing)
                )
                with connection.begin():
                    yield connection
            self._trouble = None
            notices = self._notices
        except StorageError as error:
            if error.kind in _TROUBLES:
                self._trouble = error
            raise
        finally:
            self._writing.release()
        if self._told is not None:
            for notice in notices:
                self._told(notice)

    def announce(self, connection: Connection, kind: str, **data: Any) -> None:
        """Add a notice to the open transaction of `write`; see `storage.notices`.

        After the commit, this process gets the notice. If several servers share the database, the other
        servers get the notice, too.
        """
        notice = Notice(kind, data)
        self._notices.append(notice)
        if self.server is not None:
            self.place.notify(connection, notice.message(self.server))

    def follow(self, told: Callable[[Notice], None], missed: Callable[[], None] = lambda: None) -> None:
        """Call `told`, in any thread, with each notice of a committed transaction; `told` must not raise.

        If several servers share the database, `told` also gets the notices of the other servers. `missed` is
        called whenever the connection for these notices is opened, because earlier notices may have been
        missed.
        """
        self._told = told
        server = self.server
        if server is None:
            return

        def heard(message: str) -> None:
            if (notice := Notice.of(message, server)) is not None:
                told(notice)

        self._listening = self.place.listening(heard, missed, self._busy_timeout)
        self._listening.start()

    @property
    def is_told(self) -> bool:
        """Return whether this server gets every notice of other servers. True if there is only one server."""
        return self.server is None or (self._listening is not None and self._listening.is_current)

    def now(self, connection: Connection) -> int:
        """Return the database's time in milliseconds since 1970 UTC."""
        return int(connection.exec_driver_sql(f"SELECT {self.place.clock}").scalar_one())

    def leads(self, what: str) -> Lead:
        """Return a handle of work that only one of several servers may do. `what` names the work."""
        return Lead() if self.server is None else self.place.lead(what, self._busy_timeout)

    def check(self) -> None:
        """Check whether answers can be stored now, for monitoring.

        If the last write failed, the check also requires a write transaction and room for more rows.

        Raises
        ------
        StorageError
            If answers cannot be stored. The message is the reason.
        """
        with self.read() as connection:
            connection.execute(text("SELECT 1"))
        if self._trouble is not None:
            with self.write() as connection:
                self.place.require_room(connection)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._error(error.orig or error) from error
        except NoConnectionError as error:
            raise self._noted(
                StorageError(
                    f"{self.place} is busy: no connection to it became free within {self._busy_timeout:g} s; "
                    "try again",
                    "locked",
                )
            ) from error
        except (self.place.errors, UnicodeDecodeError) as error:
            raise self._error(error) from error
        except UnicodeEncodeError as error:
            half = f"half a character in {error.object!r:.80}"
            raise StorageError(f"{self.place} refuses {half}", "invalid") from error

    def _error(self, error: BaseException) -> StorageError:
        """Return the engine's error as a StorageError."""
        return self._noted(self.place.explain(error, self._busy_timeout))

    def _noted(self, explained: StorageError) -> StorageError:
        """Return the error, and log an event if the database caused the error."""
        if explained.kind in _TROUBLES:
            fields = {"kind": explained.kind, "message": str(explained)}
            _events.warning("storage", extra={"fields": fields, "trouble": explained})
        return explained

    def _check_version(self, version: str | None, *, may_migrate: bool) -> None:
        newest = migrate.SCHEMA_VERSION
        if version is None:
            raise StorageError(f"{self.place} is empty: it contains no label database", "not-a-database")
        if version == "":
            raise StorageError(f"{self.place} is the database of another program", "not-a-database")
        if version > newest:
            raise StorageError(
                f"{self.place} was written by a newer version of closecall (schema {version}, this one "
                f"knows {newest}); update closecall to open it",
                "newer",
            )
        if version < newest and not may_migrate:
            raise StorageError(
                f"{self.place} was written by an older version of closecall (schema {version}, this one "
                f"needs {newest}); open it once for labeling to bring it up to date",
                "older",
            )

    def _migrate(self, *, keep_copy: bool, copies_in: Path | None = None, alone: bool = False) -> None:
        """Migrate the schema. With `alone`, raise an error if another program has it open for writing."""
        with self._explained(), self._engine.connect() as connection:
            connection.execution_options(**self.place.writing)
            self.place.before_migration(connection)
            with connection.begin():
                # Another process may have migrated the database before this transaction, but not during it.
                version = migrate.version_of(connection)
                if version != migrate.SCHEMA_VERSION:
                    if alone:
                        self.place.take_alone(connection, "it is brought up to date")
                    if keep_copy:
                        self.backup_made = copies.backup(self.place, self._name_of_copy(version, copies_in))
                    self.place.make(connection)
                    migrate.upgrade(connection)
                    self.place.after_migration(connection)
            connection.invalidate()  # `before_migration` has turned SQLite's foreign keys off

    def _name_of_copy(self, version: str | None, folder: Path | None) -> Path:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        return self.place.copy_name(folder, f"{version}-before-{migrate.SCHEMA_VERSION}.{moment}.backup")


@contextmanager
def _closing_on_error(database: Database) -> Iterator[None]:
    """Close the database if opening it fails."""
    try:
        yield
    except BaseException:
        database.close()
        raise
