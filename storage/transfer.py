"""Transfer labels from a server to a file and back, table by table, as one snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy import Connection, MetaData, Table, insert, select
from sqlalchemy.exc import DBAPIError

from closecall.storage import migrate, sqlite
from closecall.storage.errors import StorageError
from closecall.storage.place import LabelFile, Place, Server

_PAGE = 2_000  # rows per batch


def to_file(place: Server, file: LabelFile) -> None:
    """Copy the labels at `place`, of any schema version, into a new `file`.

    Raises
    ------
    StorageError
        If `place` has no label database (kind `not-a-database`), or if one of the two databases fails.
    """
    with _connected(place, read_only=True) as source:
        version = migrate.version_of(source)
        if not version:
            raise StorageError(f"{place} contains no label database", "not-a-database")
        with _connected(file, read_only=False) as target:
            migrate.upgrade(target, version)
            _copy_tables(source, target)
            file.after_migration(target)
    sqlite.leave_journal(file.path)


def to_schema(file: LabelFile, version: str, place: Server, *, overwrite: bool) -> Server | None:
    """Copy the labels of `file`, which has the schema `version`, to `place` in one transaction.

    With `overwrite`, existing labels at `place` are renamed, and their new place is returned. The result is
    None if there were no labels.

    Raises
    ------
    StorageError
        If there are labels at `place` and `overwrite` is false (kind `exists`), or if one of the databases
        fails.
    """
    with _connected(file, read_only=True) as source, _connected(place, read_only=False) as target:
        place.take_alone(target)
        aside = None
        if migrate.version_of(target) is not None:
            if not overwrite:
                raise StorageError(f"{place} exists already and is not overwritten unless asked", "exists")
            aside = place.set_aside(target)
        place.make(target)
        migrate.upgrade(target, version)
        _copy_tables(source, target)
        place.continue_counting(target)
    return aside


def remove(place: Server, *, container: bool) -> None:
    """Remove the labels at `place`. If `container`, also remove the container of their tables.

    Raises
    ------
    StorageError
        If another program has the labels open (kind `locked`), or if the server fails.
    """
    with _connected(place, read_only=False) as target:
        place.take_alone(target)
        place.remove(target, container=container)


@contextmanager
def _connected(place: Place, *, read_only: bool) -> Iterator[Connection]:
    """Open a connection in a transaction that ends with the context."""
    engine = place.engine(read_only=read_only, busy_timeout=sqlite.BUSY_SECONDS)
    try:
        with engine.connect() as connection:
            if not read_only:
                connection.execution_options(**place.writing)
                place.before_migration(connection)
            with connection.begin():
                yield connection
            connection.invalidate()  # settings of `before_migration` stay on the connection
    except DBAPIError as error:
        if not isinstance(error.orig, place.errors):
            raise
        raise place.explain(error.orig) from error
    finally:
        engine.dispose()


def _copy_tables(source: Connection, target: Connection) -> None:
    """Copy all rows, referenced tables first, each table in the order of its key."""
    theirs, ours = _tables(source), _tables(target)
    for name, table in ours.items():
        if name not in theirs:
            raise StorageError(f"the backup has no table {name}", "corrupt")
        wanted = [theirs[name].c[column.name] for column in table.columns]
        query = select(*wanted).order_by(*theirs[name].primary_key.columns)
        found = source.execute(query, execution_options={"yield_per": _PAGE})
        for page in found.mappings().partitions():
            target.execute(insert(table), [dict(row) for row in page])


def _tables(connection: Connection) -> Mapping[str, Table]:
    reflected = MetaData()
    reflected.reflect(connection)
    return {table.name: table for table in reflected.sorted_tables if table.name != "alembic_version"}
