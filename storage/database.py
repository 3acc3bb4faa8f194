"""The database of a project: opened once a process, written in one place, in short transactions."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from storage import copies, migrate, sqlite
from storage.errors import StorageError


class Database:
    """A label database; `Database.open` makes one.

    Any thread may read and write at any time. `write` lets one transaction of this process in at a time,
    and the database one of all processes: transactions commit in the order of `seq`, so whoever has read a
    log up to some `seq` never misses an earlier row. (An engine that lets writers overlap has to take a
    lock here to keep that promise.)
    """

    def __init__(self, path: Path, *, read_only: bool, busy_timeout: float) -> None:
        self.path = path
        self.read_only = read_only
        self.backup_made: Path | None = None
        self._busy_timeout = busy_timeout
        self._engine = sqlite.engine(path, read_only=read_only, busy_timeout=busy_timeout)
        self._writing = threading.Lock()

    @classmethod
    def open(
        cls,
        path: str | Path,
        *,
        create: bool = False,
        read_only: bool = False,
        backup_before_migration: bool = True,
        busy_timeout: float = 5.0,
    ) -> Database:
        """Open the database at `path`, bringing an older one to the newest schema.

        Parameters
        ----------
        path : str or Path
            The file.
        create : bool
            Make it where there is none; an interrupted creation leaves none.
        read_only : bool
            Only read: nothing is created, migrated or written, and a server may have the file open meanwhile.
        backup_before_migration : bool
            Copy an older database beside itself before it is changed; `backup_made` then says where.
        busy_timeout : float
            Seconds to wait for another writer before giving up.

        Raises
        ------
        StorageError
            `missing`, `not-a-database`, `corrupt`, `newer`, `older` (only with `read_only`), `read-only`,
            `locked` or `full`. The file is as it was before.
        """
        path = Path(path)
        if not path.exists():
            if not create or read_only or not path.parent.is_dir():
                raise sqlite.unopenable(path)
            cls._create(path, busy_timeout)
        sqlite.check_owner(path)
        # Even opening for writing changes a file, so first make sure whose it is.
        database = cls(path, read_only=True, busy_timeout=busy_timeout)
        with _closing_on_error(database):
            database._check_version(database.schema_version, may_migrate=not read_only)
        if read_only:
            return database
        database.close()
        sqlite.check_writable(path)
        database = cls(path, read_only=False, busy_timeout=busy_timeout)
        with _closing_on_error(database):
            if database.schema_version != migrate.SCHEMA_VERSION:
                database._migrate(keep_copy=backup_before_migration)
            with database.write():  # says now, not at the first answer, that the file is read-only or locked
                pass
        return database

    @classmethod
    def _create(cls, path: Path, busy_timeout: float) -> None:
        """Make the database under another name first, so that `path` is whole from its first moment on."""
        sqlite.check_writable(path)
        partial = copies.partial_name(path)
        try:
            with cls(partial, read_only=False, busy_timeout=busy_timeout) as database:
                database._migrate(keep_copy=False)
                with database._explained(), database._engine.connect() as connection:
                    sqlite.fold_journal(connection)
            copies.publish(partial, path, overwrite=False)
        except StorageError as error:
            if error.kind != "exists":  # somebody else was faster
                raise
        finally:
            for left in (partial, *sqlite.companions(partial)):
                left.unlink(missing_ok=True)

    def close(self) -> None:
        """Close every connection; the last one to close folds the write-ahead log into the file."""
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def schema_version(self) -> str | None:
        """The number of the newest migration that was applied; None while there are no tables."""
        with self.read() as connection:
            return migrate.version_of(connection)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one state of the database and takes no lock that a writer would wait for.

        Raises
        ------
        StorageError
            Whatever the engine reports, in one sentence.
        """
        with self._explained(), self._engine.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write, alone. Committed, and on the disk, when the block ends without error.

        Raises
        ------
        StorageError
            `locked` after the busy timeout, `full`, `read-only`, or whatever the engine reports; nothing of
            the block was written then.
        """
        if self.read_only:
            raise StorageError(f"{self.path} was opened for reading only", "read-only")
        if not self._writing.acquire(timeout=self._busy_timeout):
            raise StorageError(
                f"{self.path} is busy with another write for {self._busy_timeout:g} s", "locked"
            )
        try:
            with self._explained(), self._engine.connect() as connection:
                connection.execution_options(**{sqlite.WRITE: True})
                with connection.begin():
                    yield connection
        finally:
            self._writing.release()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise sqlite.explain(error.orig or error, self.path, self._busy_timeout) from error
        except sqlite3.Error as error:
            raise sqlite.explain(error, self.path, self._busy_timeout) from error

    def _check_version(self, version: str | None, *, may_migrate: bool) -> None:
        newest = migrate.SCHEMA_VERSION
        if version is None:
            raise StorageError(f"{self.path} is empty: it holds no label database", "not-a-database")
        if version == "":
            raise StorageError(f"{self.path} is the database of another program", "not-a-database")
        if version > newest:
            raise StorageError(
                f"{self.path} was written by a newer version of marginalia (schema {version}, this one knows "
                f"{newest}); update marginalia to open it",
                "newer",
            )
        if version < newest and not may_migrate:
            raise StorageError(
                f"{self.path} was written by an older version of marginalia (schema {version}, this one "
                f"needs {newest}); open it once for labeling to bring it up to date",
                "older",
            )

    def _migrate(self, *, keep_copy: bool) -> None:
        with self._explained(), self._engine.connect() as connection:
            connection.execution_options(**{sqlite.WRITE: True})
            sqlite.before_migration(connection)
            with connection.begin():
                # Another process may have been first; from here on it waits for us.
                version = migrate.version_of(connection)
                if version != migrate.SCHEMA_VERSION:
                    if keep_copy:
                        self.backup_made = copies.backup(self.path, self._name_of_copy(version or ""))
                    migrate.upgrade(connection)
                    sqlite.after_migration(connection, self.path)
            connection.invalidate()  # its foreign keys are off

    def _name_of_copy(self, version: str) -> Path:
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        return self.path.with_name(
            f"{self.path.stem}.{version}-before-{migrate.SCHEMA_VERSION}.{moment}.backup"
        )

    def count_rows(self) -> dict[str, int]:
        """How many rows each table has, by table name."""
        with self.read() as connection:
            return {
                name: int(connection.execute(text(f"SELECT COUNT(*) FROM {name}")).scalar_one())
                for name in ("concepts", "examples", "sessions", "selections", "foreseen", "answers")
            }


@contextmanager
def _closing_on_error(database: Database) -> Iterator[None]:
    """Leave no connection behind where opening fails."""
    try:
        yield
    except BaseException:
        database.close()
        raise
