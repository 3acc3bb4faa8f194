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

from storage import migrate, sqlite
from storage.copies import backup
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
            Make it where there is none, or where an earlier creation was interrupted.
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
        if path.exists():
            sqlite.check_header(path)
        elif not create or read_only or not path.parent.is_dir():
            raise sqlite.unopenable(path)
        if path.exists() and path.stat().st_size:
            # Even opening for writing changes a file, so first make sure whose it is.
            database = cls(path, read_only=True, busy_timeout=busy_timeout)
            with _closing_on_error(database):
                database._check_version(database.schema_version, create=create and not read_only)
                if read_only:
                    database._check_readable(database.schema_version or "")
                    return database
            database.close()
        elif not create or read_only:
            raise StorageError(f"{path} is empty: it holds no label database", "not-a-database")
        sqlite.check_writable(path)
        database = cls(path, read_only=False, busy_timeout=busy_timeout)
        with _closing_on_error(database):
            database._settle_schema(create=create, keep_copy=backup_before_migration)
        return database

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

    def _settle_schema(self, *, create: bool, keep_copy: bool) -> None:
        if self.schema_version != migrate.SCHEMA_VERSION:
            self._migrate(create=create, keep_copy=keep_copy)
        with self.write():  # says now, not at the first answer, that the file is read-only or locked
            pass

    def _check_version(self, version: str | None, *, create: bool) -> None:
        newest = migrate.SCHEMA_VERSION
        if version is None and not create:
            raise StorageError(f"{self.path} is empty: it holds no label database", "not-a-database")
        if version == "":
            raise StorageError(f"{self.path} is the database of another program", "not-a-database")
        if version is not None and version > newest:
            raise StorageError(
                f"{self.path} was written by a newer version of marginalia (schema {version}, this one knows "
                f"{newest}); update marginalia to open it",
                "newer",
            )

    def _check_readable(self, version: str) -> None:
        newest = migrate.SCHEMA_VERSION
        if version < newest:
            raise StorageError(
                f"{self.path} was written by an older version of marginalia (schema {version}, this one "
                f"needs {newest}); open it once for labeling to bring it up to date",
                "older",
            )

    def _migrate(self, *, create: bool, keep_copy: bool) -> None:
        with self._explained(), self._engine.connect() as connection:
            connection.execution_options(**{sqlite.WRITE: True})
            sqlite.before_migration(connection)
            with connection.begin():
                # Another process may have been first; from here on it waits for us.
                version = migrate.version_of(connection)
                self._check_version(version, create=create)
                if version != migrate.SCHEMA_VERSION:
                    if version is not None and keep_copy:
                        self.backup_made = backup(self.path, self._name_of_copy(version))
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
                for name in ("concepts", "examples", "sessions", "selections", "answers")
            }


@contextmanager
def _closing_on_error(database: Database) -> Iterator[None]:
    """Leave no connection behind where opening fails."""
    try:
        yield
    except BaseException:
        database.close()
        raise
