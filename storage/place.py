"""Places where labels are stored: an SQLite file, or a schema of a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NoReturn, Protocol

from sqlalchemy import Connection, Engine

from closecall.storage import files, sqlite
from closecall.storage.address import is_address
from closecall.storage.errors import StorageError
from closecall.storage.leading import Lead
from closecall.storage.listening import Listening


class Place(Protocol):
    """A place where labels are stored. Its `str` is its name in messages.

    The methods are the operations that differ between database engines.
    """

    @property
    def errors(self) -> type[Exception]:
        """Return the base class of the driver's exceptions."""

    @property
    def writing(self) -> Mapping[str, Any]:
        """Return the execution options of a connection for writing."""

    @property
    def writing_losable(self) -> Mapping[str, Any]:
        """Return the options of `writing` for a transaction that may be lost if the database server crashes.

        Such a transaction is lost only together with all transactions after it.
        """

    @property
    def clock(self) -> str:
        """Return the SQL expression of the database's time in milliseconds since 1970 UTC."""

    def engine(
        self, *, read_only: bool, busy_timeout: float, alone: bool = False, server: str | None = None
    ) -> Engine:
        """Return an engine without opening a connection. `busy_timeout` is in seconds.

        With `alone`, the engine connects only while no other program has the place open for writing. If
        `server`, the id of one of several servers, is given, the engine connects only while no program has
        the place open with `alone`. An SQLite file needs no such check, because the program that serves it
        holds a lock in the project's folder.
        """

    def require_shareable(self) -> None:
        """Raise an error if several servers can't write here.

        Raises
        ------
        StorageError
            If they can't (kind `invalid`).
        """

    def take_alone(self, connection: Connection, before: str = "restoring") -> None:
        """Get exclusive access to the labels until the transaction ends.

        Raise an error if another program has the labels open. The message ends with the words "stop it
        before" and `before`.
        """

    def notify(self, connection: Connection, message: str) -> None:
        """Send a message to all servers that share the place, when the open transaction is committed."""

    def listening(
        self, heard: Callable[[str], None], renewed: Callable[[], None], busy_timeout: float
    ) -> Listening:
        """Return a thread, not yet started, that calls `heard` with each message of `notify`.

        After each new connection, the thread calls `renewed`, because it may have missed messages.
        """

    def lead(self, what: str, busy_timeout: float) -> Lead:
        """Return a handle of work that only one of several servers may do. `what` names the work."""

    def is_serving(self, connection: Connection, server: str) -> bool:
        """Return whether the server with this id is connected."""

    def explain(self, error: BaseException, busy_timeout: float = 0.0) -> StorageError:
        """Convert an error of the driver into a StorageError."""

    def require_room(self, connection: Connection) -> None:
        """Check, in a writing transaction, that there is room for more rows.

        Raises
        ------
        StorageError
            If there is no room (kind `full`).
        """

    def exists(self) -> bool:
        """Return whether anything exists at this place, even if it is not a label database."""

    def unopenable(self) -> StorageError:
        """Return the error that explains why there is nothing to open."""

    def check_makable(self) -> None:
        """Raise an error if no database can be created here."""

    def being_made(self) -> AbstractContextManager[LabelFile | Server]:
        """Yield the place in which to create the database, so that it appears complete or not at all."""

    def check_owner(self, busy_timeout: float = sqlite.BUSY_SECONDS) -> None:
        """Raise an error, without changing anything, if the database belongs to another program."""

    def check_writable(self) -> None:
        """Raise an error early if the database can't be written."""

    def before_migration(self, connection: Connection) -> None:
        """Prepare a connection before its transaction."""

    def make(self, connection: Connection) -> None:
        """Create the container of the tables, such as a schema, in the transaction."""

    def after_migration(self, connection: Connection) -> None:
        """Check the migrated database in the transaction."""

    def copy_name(self, folder: Path | None, words: str) -> Path:
        """Return the path of a copy before a migration, in `folder`. None means the database's own folder."""


class Server(Place, Protocol):
    """A place on a database server, with operations to transfer labels to the server and back."""

    def has_container(self) -> bool:
        """Return whether the container of the tables exists, with or without tables."""

    def remove(self, connection: Connection, *, container: bool) -> None:
        """Remove the tables, with their views and triggers, in the transaction.

        With `container`, the container of the tables is removed, too.
        """

    def set_aside(self, connection: Connection) -> Server:
        """Rename the existing labels in the transaction; return their new place."""

    def continue_counting(self, connection: Connection) -> None:
        """Set the next generated key of each table to one more than the last restored key."""


def place_of(where: Where) -> LabelFile | Server:
    """Return the place of labels, given as a path or a URL.

    An example of a URL is ``postgresql://host/labels?schema=herbarium``.

    Raises
    ------
    StorageError
        If the URL is malformed (kind `invalid`), or the driver is not installed (kind `other`).
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
    """SQLite file with labels."""

    errors = sqlite.Error
    writing: Mapping[str, Any] = {sqlite.WRITE: True}
    writing_losable = writing
    clock = sqlite.CLOCK

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    def engine(
        self,
        *,
        read_only: bool,
        busy_timeout: float,
        alone: bool = False,  # noqa: ARG002 (see `Place`)
        server: str | None = None,  # noqa: ARG002
    ) -> Engine:
        """See `Place`; `alone` and `server` have no effect."""
        return sqlite.engine(self.path, read_only=read_only, busy_timeout=busy_timeout)

    def require_shareable(self) -> NoReturn:
        """Raise an error: only one server can use a file."""
        raise StorageError(
            f"{self} is a file, which only one server can use: several servers need PostgreSQL", "invalid"
        )

    def take_alone(self, connection: Connection, before: str = "restoring") -> None:
        """Do nothing: a process that changes a file has the lock of its project's folder."""

    def notify(self, connection: Connection, message: str) -> None:
        """Do nothing: there is no other server."""

    def listening(
        self,
        heard: Callable[[str], None],  # noqa: ARG002 (see `Place`)
        renewed: Callable[[], None],  # noqa: ARG002
        busy_timeout: float,  # noqa: ARG002
    ) -> Listening:
        """Raise an error: only one server can use a file."""
        self.require_shareable()

    def lead(self, what: str, busy_timeout: float) -> Lead:  # noqa: ARG002 (see `Place`)
        """Return a handle that is always held: there is no other server."""
        return Lead()

    def is_serving(self, connection: Connection, server: str) -> bool:  # noqa: ARG002 (see `Place`)
        """Return false: there is no other server."""
        return False

    def explain(self, error: BaseException, busy_timeout: float = 0.0) -> StorageError:
        """See `Place`."""
        return sqlite.explain(error, self.path, busy_timeout)

    def require_room(self, connection: Connection) -> None:  # noqa: ARG002
        """See `Place`. Writes a temporary file, because a row that is rolled back never reaches the disk."""
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
        """Create the file under another name, and rename it at the end."""
        partial = files.partial_name(self.path)
        try:
            yield LabelFile(partial)
            sqlite.fold_journal(partial)
            files.publish(partial, self.path, overwrite=False)
        except StorageError as error:
            if error.kind != "exists":  # another process was faster
                raise
        finally:
            for left in (partial, *sqlite.companions(partial)):
                left.unlink(missing_ok=True)

    def check_owner(self, busy_timeout: float = sqlite.BUSY_SECONDS) -> None:
        """See `Place`."""
        sqlite.check_owner(self.path, busy_timeout)

    def check_writable(self) -> None:
        """See `Place`."""
        sqlite.check_writable(self.path)

    def before_migration(self, connection: Connection) -> None:
        """See `Place`."""
        sqlite.before_migration(connection)

    def make(self, connection: Connection) -> None:
        """Do nothing: the connection has created the file."""

    def after_migration(self, connection: Connection) -> None:
        """See `Place`."""
        sqlite.after_migration(connection, self.path)

    def copy_name(self, folder: Path | None, words: str) -> Path:
        """See `Place`."""
        return (folder or self.path.parent) / f"{self.path.stem}.{words}"


Where = str | Path | LabelFile | Server
"""A path, an address as text, or a place."""
