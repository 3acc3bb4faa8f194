"""SQLite: setting up connections, explaining errors, and checking files.

`storage.postgres` does the same for PostgreSQL. Backups are SQLite files with either engine, so the modules
about backups use this module, too.
"""

from __future__ import annotations

import errno
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryFile

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import QueuePool

from closecall.storage import rows
from closecall.storage.errors import StorageError

Error = sqlite3.Error
BROKEN = (sqlite3.Error, UnicodeDecodeError)
"""Exceptions that reading a damaged file may raise. Text in the file may not be valid UTF-8."""
APPLICATION_ID = 0x4D617267  # "Marg", at byte 68 of the file: the application id
BUSY_SECONDS = 5.0
"""Default of the busy timeout: seconds to wait for a lock that another program holds."""
WRITE = "closecall_write"  # the execution option of a connection for writing
CLOCK = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
"""The time in milliseconds since 1970 UTC, as an expression in SQL."""
_ROOM = 1 << 17  # bytes that the disk must have free for further answers


def engine(path: Path, *, read_only: bool, busy_timeout: float) -> Engine:
    """Return an engine for the file at `path` without opening it. `busy_timeout` is in seconds."""
    made = create_engine(
        "sqlite://",
        creator=lambda: connect(path, read_only=read_only, busy_timeout=busy_timeout),
        json_serializer=rows.json_text,
        poolclass=QueuePool,
        hide_parameters=True,  # errors must not contain what people answered
        pool_size=8,
        max_overflow=24,
        pool_timeout=busy_timeout,
    )

    @event.listens_for(made, "connect")
    def set_up(connection: DBAPIConnection, _record: object) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA foreign_keys=ON")
        if not read_only:
            cursor.execute("PRAGMA journal_mode=WAL")
            # A commit must be on disk before an answer is acknowledged.
            cursor.execute("PRAGMA synchronous=FULL")
            cursor.execute("PRAGMA fullfsync=ON")
        cursor.close()

    @event.listens_for(made, "begin")
    def begin(connection: Connection) -> None:
        # Writers queue at BEGIN: a transaction that reads first and writes later may fail in the middle.
        write = connection.get_execution_options().get(WRITE, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")

    return made


def explain(error: BaseException, path: Path, busy_timeout: float = 0.0) -> StorageError:
    """Return an error of SQLite as a StorageError about the database at `path`."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if isinstance(code, int) else None
    if primary == sqlite3.SQLITE_FULL:
        return _full(path)
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        waited = f" (waited {busy_timeout:g} s)" if busy_timeout else ""
        return StorageError(
            f"{path} is locked by another program{waited}; close that program, or try again", "locked"
        )
    if primary == sqlite3.SQLITE_READONLY:
        return StorageError(f"{path} is read-only; labels need a database that can be written", "read-only")
    if primary == sqlite3.SQLITE_NOTADB:
        return StorageError(f"{path} is not a label database", "not-a-database")
    if primary == sqlite3.SQLITE_CORRUPT or isinstance(error, UnicodeDecodeError):
        return StorageError(f"{path} is damaged ({_said(error)}); restore it from a backup", "corrupt")
    if primary == sqlite3.SQLITE_CANTOPEN:
        return unopenable(path)
    if primary == sqlite3.SQLITE_CONSTRAINT:
        return StorageError(f"{path} refuses the row: {_said(error)}", "invalid")
    return StorageError(f"{path}: {_said(error)}", "other")


def _full(path: Path) -> StorageError:
    return StorageError(
        f"{path}: the disk is full, so nothing was written; acknowledged answers are safe, "
        f"and work continues once there is space",
        "full",
    )


def require_room(path: Path) -> None:
    """Check that the disk has room for more answers; leave nothing behind.

    Raises
    ------
    StorageError
        If there is no room (kind `full`), or no file can be written next to the database (kind `other`).
    """
    try:
        with TemporaryFile(dir=path.parent) as file:
            file.write(bytes(_ROOM))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _full(path) from error
        raise StorageError(
            f"the folder {path.parent} cannot be written: {error.strerror or error}", "other"
        ) from error


def _said(error: object) -> str:
    """Return SQLite's message on one line, shortened to 300 characters."""
    return " ".join(str(error).split())[:300]


def unopenable(path: Path) -> StorageError:
    """Look at the file system, and return the error that explains why a database can't be opened."""
    folder = path.parent
    if not folder.is_dir():
        return StorageError(f"the folder {folder} does not exist, so there is no database in it", "missing")
    if path.is_dir():
        return StorageError(f"{path} is a folder, where a label database was expected", "not-a-database")
    if not path.exists():
        return StorageError(f"there is no label database at {path}", "missing")
    if not os.access(path, os.R_OK):
        return StorageError(f"{path} may not be read by this user", "read-only")
    if not os.access(folder, os.W_OK):
        return StorageError(
            f"the folder {folder} is read-only; the database needs to write its journal beside itself",
            "read-only",
        )
    return StorageError(f"{path} cannot be opened", "other")


def check_owner(path: Path, busy_timeout: float = BUSY_SECONDS) -> None:
    """Raise an error if a file is not an SQLite database, or belongs to another program.

    The file is never opened directly, but always through SQLite. On POSIX, closing a file releases all locks
    that the process holds on it, and a server in this process may hold some.

    Raises
    ------
    StorageError
        With kind `missing`, `not-a-database`, `corrupt`, `locked` or `read-only`; see `storage.errors.Kind`.
    """
    if not path.is_file():
        raise unopenable(path)
    if not path.stat().st_size:
        raise StorageError(f"{path} is empty: it contains no label database", "not-a-database")
    try:
        with closing(connect(path, read_only=True, busy_timeout=busy_timeout)) as connection:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            (tables,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BROKEN as error:
        raise explain(error, path, busy_timeout) from error
    if application not in (0, APPLICATION_ID):
        raise StorageError(f"{path} is the database of another program", "not-a-database")
    if not tables:
        raise StorageError(f"{path} is empty: it contains no label database", "not-a-database")


def connect(path: Path, *, read_only: bool, busy_timeout: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Return a plain connection to the file at `path`, which begins no transaction by itself.

    Without `read_only` a missing file is created. `busy_timeout` is in seconds.
    """
    options = "mode=rwc"
    if read_only:
        _roll_back(path, busy_timeout)
        options = "mode=ro"
        log = _beside(path, "-wal")
        if not os.access(path.parent, os.W_OK) and not (log.exists() and log.stat().st_size):
            # SQLite can't create its lock file on a read-only medium, and needs none, as nobody can write.
            options = "mode=ro&immutable=1"
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=busy_timeout,
        # With None, we issue BEGIN ourselves. The driver would issue it late, and never BEGIN IMMEDIATE.
        isolation_level=None,
        # The pool gives a connection to one thread after another, but never to two at once.
        check_same_thread=False,
    )


def _roll_back(path: Path, busy_timeout: float) -> None:
    """Roll back a change of journal mode that a killed program began. Only a writer can do this."""
    if _beside(path, "-journal").exists() and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
        with closing(connect(path, read_only=False, busy_timeout=busy_timeout)) as connection:
            connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()


def companions(path: Path) -> tuple[Path, ...]:
    """Return the files that SQLite keeps next to an open database."""
    return tuple(_beside(path, suffix) for suffix in ("-wal", "-shm", "-journal"))


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def damage(path: Path, *, quick: bool = False) -> str | None:
    """Read the whole file, and return the damage that SQLite finds, or None. `quick` leaves out indexes."""
    with closing(connect(path, read_only=True)) as connection:
        rows = connection.execute("PRAGMA quick_check" if quick else "PRAGMA integrity_check").fetchall()
        if rows != [("ok",)]:
            return _said("; ".join(str(row[0]) for row in rows[:3]))
        orphans = connection.execute("PRAGMA foreign_key_check").fetchall()
    return f"{len(orphans)} rows refer to rows that are missing" if orphans else None


def check_writable(path: Path) -> None:
    """Raise an error early if the file system does not permit writing.

    Raises
    ------
    StorageError
        If the file or its folder can't be written (kind `read-only`).
    """
    if path.exists() and not os.access(path, os.W_OK):
        raise StorageError(f"{path} is read-only; labels need a database that can be written", "read-only")
    if not os.access(path.parent, os.W_OK):
        raise StorageError(
            f"the folder {path.parent} is read-only; the database needs to write its journal beside itself",
            "read-only",
        )


def fold_journal(path: Path) -> None:
    """Merge the write-ahead log into the file, so that the file alone is complete.

    Raises
    ------
    StorageError
        If merging fails (kind `full` or another). The write-ahead log is then kept.
    """
    try:
        with closing(connect(path, read_only=False)) as connection:
            busy, *_ = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise sqlite3.OperationalError("the write-ahead log is in use")
    except BROKEN as error:
        raise explain(error, path) from error


def leave_journal(path: Path) -> None:
    """Turn the database into one file that is complete by itself and can be moved.

    Raises
    ------
    StorageError
        If writing fails (kind `full` or another).
    """
    try:
        with closing(connect(path, read_only=False)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")
    except BROKEN as error:
        raise explain(error, path) from error


def before_migration(connection: Connection) -> None:
    """Allow tables to be rebuilt, by turning off foreign keys. Call this before the transaction.

    `after_migration` checks the foreign keys.
    """
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    driver.execute("PRAGMA foreign_keys=OFF")


def after_migration(connection: Connection, path: Path) -> None:
    """Check the foreign keys and mark the file as Closecall's, in the transaction of the migration.

    Raises
    ------
    StorageError
        If a row refers to a missing row (kind `corrupt`).
    """
    if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
        raise StorageError(f"{path} has rows that refer to missing rows; restore it from a backup", "corrupt")
    connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
