"""Backups: copying a live database to a file, and restoring a database from such a file."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

from closecall.storage import carried, files, migrate, sqlite, transfer
from closecall.storage.carried import Upload
from closecall.storage.errors import StorageError
from closecall.storage.place import LabelFile, Server, Where, place_of


def backup(
    where: Where, file: str | Path, *, overwrite: bool = False, uploads: Iterable[Upload] = ()
) -> Path:
    """Copy a snapshot of the database at `where` to `file`, even while a server writes to the database.

    The copy is always an SQLite file, even if the labels are on a PostgreSQL server. It gets its name only
    after it is complete and has been checked.

    Parameters
    ----------
    where : str or Path
        The database, as for `Database.open`.
    file : str or Path
        Path of the copy.
    overwrite : bool
        Whether an existing `file` is replaced.
    uploads : iterable of Upload
        Images to store in the copy, because the log may refer to them (see `storage.carried`). They are read
        after the labels are copied, so that no image in the copied log is missing.

    Raises
    ------
    StorageError
        With kind `invalid` (malformed address, or damaged upload), `missing`, `not-a-database`, `exists`,
        `corrupt` (the copy failed its check), `full`, `read-only`, `locked` or `unreachable`; see
        `storage.errors.Kind`.
    """
    place, file = place_of(where), Path(file)
    if not place.exists():
        raise place.unopenable()
    place.check_owner()
    files.check_target(file, overwrite)
    partial = files.partial_name(file)
    try:
        if isinstance(place, LabelFile):
            _copy(place.path, partial)
        else:
            transfer.to_file(place, LabelFile(partial))
        _forget_secrets(partial)
        carried.write(partial, uploads)
        _check_sound(partial, place)
        files.publish(partial, file, overwrite)
    finally:
        for left in (partial, *sqlite.companions(partial)):
            left.unlink(missing_ok=True)
    return file


def restore(file: str | Path, where: Where, *, overwrite: bool = False) -> LabelFile | Server | None:
    """Check the backup `file`, and install a copy of it as the database at `where`.

    No server may have the database at `where` open. With `overwrite`, an existing database is renamed, and
    its new place is returned. A database file is renamed together with its journal. `file` itself is not
    changed. The uploads in `file` do not become part of the database; `storage.carried.read` yields them.

    Raises
    ------
    StorageError
        With kind `invalid` (malformed address), `missing`, `not-a-database`, `corrupt`, `newer`, `exists`,
        `locked`, `full`, `read-only` or `unreachable`; see `storage.errors.Kind`. The database at `where` is
        then unchanged.
    """
    file, place = Path(file), place_of(where)
    sqlite.check_owner(file)
    if isinstance(place, LabelFile):
        return _restore_file(file, place.path, overwrite=overwrite)
    _check_sound(file, file)
    return transfer.to_schema(LabelFile(file), _checked_version(file), place, overwrite=overwrite)


def removal(where: str) -> Callable[[], None]:
    """Return a function that undoes a later `restore` to a server's address, by removing the labels.

    There must be no labels at this address yet. The returned function raises no error if it fails.

    Raises
    ------
    StorageError
        If the address is malformed (kind `invalid`), or the server can't be reached (kind `unreachable`).
    """
    place = place_of(where)
    assert not isinstance(place, LabelFile)
    is_container_ours = not place.has_container()

    def remove() -> None:
        with suppress(StorageError):
            transfer.remove(place, container=is_container_ours)

    return remove


def _restore_file(file: Path, path: Path, *, overwrite: bool) -> LabelFile | Server | None:
    if not path.parent.is_dir():
        raise StorageError(f"the folder {path.parent} does not exist", "missing")
    files.check_target(path, overwrite)
    partial = files.partial_name(path)
    try:
        _copy(file, partial)
        _check_sound(partial, file)
        _checked_version(partial, file)
        carried.remove(partial)
        with _set_aside(path) as aside:
            files.publish(partial, path, overwrite=False)
    finally:
        for left in (partial, *sqlite.companions(partial)):
            left.unlink(missing_ok=True)
    return LabelFile(aside) if aside else None


def _copy(source: Path, target: Path) -> None:
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    try:
        with (
            closing(sqlite.connect(source, read_only=True)) as live,
            closing(sqlite.connect(target, read_only=False)) as copy,
        ):
            live.backup(copy)
            # Without a journal, the copy is a single file, which can be moved anywhere.
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite.BROKEN as error:
        # A damaged page is in the source. All other errors, such as a full disk, concern the copy.
        guilty = source if getattr(error, "sqlite_errorcode", 0) & 0xFF in damaged else target
        raise sqlite.explain(error, guilty) from error


def _forget_secrets(copy: Path) -> None:
    """Remove the secrets of the servers from a copy, and overwrite their bytes."""
    try:
        with closing(sqlite.connect(copy, read_only=False)) as connection:
            tables = "SELECT COUNT(*) FROM sqlite_master WHERE type = 'table' AND name = 'secrets'"
            if connection.execute(tables).fetchone()[0]:
                connection.execute("PRAGMA secure_delete=ON")
                connection.execute("DELETE FROM secrets")
    except sqlite.BROKEN as error:
        raise sqlite.explain(error, copy) from error


def _check_sound(copy: Path, source: object) -> None:
    try:
        wrong = sqlite.damage(copy)
    except sqlite.BROKEN as error:
        wrong = str(error)
    if wrong:
        raise StorageError(f"{source} is damaged ({wrong}), so no copy of it was kept", "corrupt")


def _checked_version(copy: Path, source: Path | None = None) -> str:
    source = source or copy
    with closing(sqlite.connect(copy, read_only=True)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"alembic_version", "answers", "selections"} <= tables:
            raise StorageError(f"{source} is the database of another program", "not-a-database")
        version = str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    if version > migrate.SCHEMA_VERSION:
        raise StorageError(
            f"{source} was written by a newer version of closecall (schema {version}, this one knows "
            f"{migrate.SCHEMA_VERSION}); update closecall to restore it",
            "newer",
        )
    return version


@contextmanager
def _set_aside(path: Path) -> Iterator[Path | None]:
    """Rename an old database and its journal, then run the block, which creates the new database.

    The old journal would otherwise be replayed into the new database. If the block fails, both files get
    their names back, unless another program has created a file at `path`.
    """
    if path.exists():
        _close_journal(path)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.name}.replaced-{moment}")
    # The database is renamed before its journal, so that it is never opened without the journal, even if the
    # program is interrupted here.
    names = [
        (old, aside.with_name(aside.name + old.name.removeprefix(path.name)))
        for old in (path, *sqlite.companions(path))
        if old.exists()
    ]
    with files.explained(path):
        try:
            for old, new in names:
                old.rename(new)
            yield aside if aside.exists() else None
        except BaseException:
            if not path.exists():
                for old, new in reversed(names):
                    if new.exists():
                        new.rename(old)
            raise


def _close_journal(path: Path) -> None:
    try:
        with closing(sqlite.connect(path, read_only=False, busy_timeout=1.0)) as old:
            # Leaving write-ahead mode needs exclusive access, so it fails if another program uses the file.
            old.execute("PRAGMA journal_mode=DELETE")
    except sqlite.BROKEN as error:
        explained = sqlite.explain(error, path)
        if explained.kind == "locked":
            raise StorageError(
                f"{path} is open in another program; stop it before restoring", "locked"
            ) from error
        # Other errors are ignored, because a damaged database may be replaced.
