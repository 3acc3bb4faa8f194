"""Where labels are: in a file of SQLite's, or in a schema of a PostgreSQL server's database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine

from closecall.storage import files, sqlite
from closecall.storage.address import is_address
from closecall.storage.errors import StorageError


class Place(Protocol):
    """What `Database` has to know of the engine that it runs on; as text, what sentences call it."""

    @property
    def errors(self) -> type[Exception]:
        """What the engine's driver raises."""

    @property
    def writing(self) -> Mapping[str, Any]:
        """The execution options of a connection that is going to write."""

    def engine(self, *, read_only: bool, busy_timeout: float, alone: bool = False) -> Engine:
        """An engine for it; nothing is opened yet. `busy_timeout` is in seconds.

        With `alone` it connects only as long as no other program may write, where a file's folder has no
        lock that says so.
        """

    def explain(self, error: BaseException, busy_timeout: float = 0.0) -> StorageError:
        """Say in one sentence what an error of the driver means."""

    def require_room(self, connection: Connection) -> None:
        """Make sure, inside a transaction that may write, that there is room for more rows.

        Raises
        ------
        StorageError
            `full`.
        """

    def exists(self) -> bool:
        """Whether there is something, be it a label database or not."""

    def unopenable(self) -> StorageError:
        """Why there is nothing to open."""

    def check_makable(self) -> None:
        """Refuse to make a database where none can be."""

    def being_made(self) -> AbstractContextManager[LabelFile | Server]:
        """Where to make it, so that it is there whole from its first moment on, or not at all."""

    def check_owner(self) -> None:
        """Refuse, without changing it, what is another program's."""

    def check_writable(self) -> None:
        """Refuse early what cannot be written."""

    def before_migration(self, connection: Connection) -> None:
        """Prepare a connection, before its transaction."""

    def make(self, connection: Connection) -> None:
        """Make what tables are put into, inside the transaction."""

    def after_migration(self, connection: Connection) -> None:
        """Check what was made, inside the transaction."""

    def copy_name(self, folder: Path | None, words: str) -> Path:
        """The file for a copy made before a migration: in `folder` or, if None, beside the database."""


class Server(Place, Protocol):
    """What carrying labels to a server and back takes, beside that."""

    def take_alone(self, connection: Connection) -> None:
        """Keep everybody else out until the transaction ends, or say who is there."""

    def set_aside(self, connection: Connection) -> Server:
        """Give what is there another name, inside the transaction; returns where it is then."""

    def continue_counting(self, connection: Connection) -> None:
        """Let the next rows of each table come after those that it was given, inside the transaction."""


def place_of(where: Where) -> LabelFile | Server:
    """The place that a path, or an address such as ``postgresql://host/labels?schema=herbarium``, means.

    Raises
    ------
    StorageError
        `invalid` for an address that is none; `other` where the driver is not installed.
    """
    if isinstance(where, str) and is_address(where):
        try:
            from closecall.storage.postgres import Schema
        except ImportError:
            raise StorageError(
                'PostgreSQL needs psycopg, which is not installed: pip install "closecall[postgresql]"',
                "other",
            ) from None
        return Schema.at(where)
    return LabelFile(Path(where)) if isinstance(where, (str, Path)) else where


class LabelFile:
    """A file of SQLite's."""

    errors = sqlite.Error
    writing: Mapping[str, Any] = {sqlite.WRITE: True}

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def engine(self, *, read_only: bool, busy_timeout: float, alone: bool = False) -> Engine:  # noqa: ARG002
        """See `Place`; who serves a file holds a lock in its folder."""
        return sqlite.engine(self.path, read_only=read_only, busy_timeout=busy_timeout)

    def explain(self, error: BaseException, busy_timeout: float = 0.0) -> StorageError:
        """See `Place`."""
        return sqlite.explain(error, self.path, busy_timeout)

    def require_room(self, connection: Connection) -> None:  # noqa: ARG002
        """See `Place`; a row that is rolled back never gets as far as the disk, so a file tries it."""
        sqlite.require_room(self.path)

    def exists(self) -> bool:
        """See `Place`."""
        return self.path.exists()

    def unopenable(self) -> StorageError:
        """See `Place`."""
        return sqlite.unopenable(self.path)

    def check_makable(self) -> None:
        """See `Place`."""
        if not self.path.parent.is_dir():
            raise self.unopenable()
        self.check_writable()

    @contextmanager
    def being_made(self) -> Iterator[LabelFile]:
        """It is made under another name, and has its own at the end."""
        partial = files.partial_name(self.path)
        try:
            yield LabelFile(partial)
            sqlite.fold_journal(partial)
            files.publish(partial, self.path, overwrite=False)
        except StorageError as error:
            if error.kind != "exists":  # somebody else was faster
                raise
        finally:
            for left in (partial, *sqlite.companions(partial)):
                left.unlink(missing_ok=True)

    def check_owner(self) -> None:
        """See `Place`."""
        sqlite.check_owner(self.path)

    def check_writable(self) -> None:
        """See `Place`."""
        sqlite.check_writable(self.path)

    def before_migration(self, connection: Connection) -> None:
        """See `Place`."""
        sqlite.before_migration(connection)

    def make(self, connection: Connection) -> None:
        """The connection has made the file."""

    def after_migration(self, connection: Connection) -> None:
        """See `Place`."""
        sqlite.after_migration(connection, self.path)

    def copy_name(self, folder: Path | None, words: str) -> Path:
        """See `Place`."""
        return (folder or self.path.parent) / f"{self.path.stem}.{words}"


Where = str | Path | LabelFile | Server
"""How a database may be named."""
