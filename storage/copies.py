"""Copies of a database that are whole: of a live one into a file, and from such a file back."""

from __future__ import annotations

import os
import secrets
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from storage import migrate, sqlite
from storage.errors import StorageError


def backup(path: str | Path, file: str | Path, *, overwrite: bool = False) -> Path:
    """Copy the database at `path`, even while a server writes to it, to `file`: one instant of it, checked.

    The copy appears under its name only when it is complete and sound.

    Parameters
    ----------
    path : str or Path
        The database.
    file : str or Path
        The copy to be made.
    overwrite : bool
        Replace an existing `file` instead of refusing.

    Raises
    ------
    StorageError
        `missing`, `not-a-database`, `exists`, `corrupt` (the copy failed its check), `full`, `read-only`.
    """
    path, file = Path(path), Path(file)
    sqlite.check_owner(path)
    _check_target(file, overwrite)
    partial = partial_name(file)
    try:
        _copy(path, partial)
        _check_sound(partial, path)
        publish(partial, file, overwrite)
    finally:
        partial.unlink(missing_ok=True)
    return file


def restore(file: str | Path, path: str | Path, *, overwrite: bool = False) -> Path | None:
    """Put the backup `file` in place as the database at `path`, after checking that it is one.

    No server may have `path` open. With `overwrite` an existing database is not deleted but set aside,
    together with its journal, under the name that is returned. `file` itself is not touched.

    Raises
    ------
    StorageError
        `missing`, `not-a-database`, `corrupt`, `newer`, `exists`, `locked`, `full`, `read-only`; `path` is
        as it was before.
    """
    file, path = Path(file), Path(path)
    sqlite.check_owner(file)
    if not path.parent.is_dir():
        raise StorageError(f"the folder {path.parent} does not exist", "missing")
    _check_target(path, overwrite)
    partial = partial_name(path)
    try:
        _copy(file, partial)
        _check_sound(partial, file)
        _check_version(partial, file)
        aside = _set_aside(path)
        publish(partial, path, overwrite=False)
    finally:
        partial.unlink(missing_ok=True)
    return aside


def _check_target(file: Path, overwrite: bool) -> None:
    if file.is_dir():
        raise StorageError(f"{file} is a folder, where the name of a file was expected", "exists")
    if not file.parent.is_dir():
        raise StorageError(f"the folder {file.parent} does not exist", "missing")
    if file.exists() and not overwrite:
        raise _exists(file)
    if not os.access(file.parent, os.W_OK):
        raise StorageError(f"the folder {file.parent} is read-only", "read-only")


def partial_name(file: Path) -> Path:
    """A name of its own beside `file`, for what is going to be it."""
    return file.with_name(f".{file.name}.{secrets.token_hex(4)}.partial")


def _copy(source: Path, target: Path) -> None:
    damaged = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
    try:
        with (
            closing(sqlite.connect(source, read_only=True)) as live,
            closing(sqlite.connect(target, read_only=False)) as copy,
        ):
            live.backup(copy)
            # One file that is complete by itself, wherever it is carried.
            copy.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        # A damaged page is the source's fault, a full disk the copy's.
        guilty = source if getattr(error, "sqlite_errorcode", 0) & 0xFF in damaged else target
        raise sqlite.explain(error, guilty) from error


def _check_sound(copy: Path, source: Path) -> None:
    try:
        wrong = sqlite.damage(copy)
    except sqlite3.Error as error:
        wrong = str(error)
    if wrong:
        raise StorageError(f"{source} is damaged ({wrong}), so no copy of it was kept", "corrupt")


def _check_version(copy: Path, source: Path) -> None:
    with closing(sqlite.connect(copy, read_only=True)) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {"alembic_version", "answers", "selections"} <= tables:
            raise StorageError(f"{source} is the database of another program", "not-a-database")
        version = str(connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])
    if version > migrate.SCHEMA_VERSION:
        raise StorageError(
            f"{source} was written by a newer version of marginalia (schema {version}, this one knows "
            f"{migrate.SCHEMA_VERSION}); update marginalia to restore it",
            "newer",
        )


def _set_aside(path: Path) -> Path | None:
    """Move an old database out of the way with its journal, which would be replayed into the next one."""
    if path.exists():
        _close_journal(path)
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    aside = path.with_name(f"{path.name}.replaced-{moment}")
    # The database goes first: interrupted here, it is missing, and never open without its journal.
    moved = [old for old in (path, *sqlite.companions(path)) if old.exists()]
    for old in moved:
        old.rename(aside.with_name(aside.name + old.name.removeprefix(path.name)))
    return aside if path in moved else None


def _close_journal(path: Path) -> None:
    try:
        with closing(sqlite.connect(path, read_only=False, busy_timeout=1.0)) as old:
            # Leaving the write-ahead log needs the file for oneself, so this also finds out who has it open.
            old.execute("PRAGMA journal_mode=DELETE")
    except sqlite3.Error as error:
        explained = sqlite.explain(error, path)
        if explained.kind == "locked":
            raise StorageError(
                f"{path} is open in another program; stop it before restoring", "locked"
            ) from error
        # Damaged is no obstacle: that is why it is being replaced.


def publish(partial: Path, file: Path, overwrite: bool) -> None:
    """Give a complete file its name, at once and lastingly.

    Raises
    ------
    StorageError
        `exists`, unless `overwrite`.
    """
    with partial.open("rb") as copy:
        os.fsync(copy.fileno())
    if overwrite:
        partial.replace(file)
    else:
        try:
            file.hardlink_to(partial)  # unlike a rename, it fails where a file of that name has appeared
        except OSError as error:
            if file.exists():
                raise _exists(file) from error
            partial.replace(file)  # a file system without hard links
    folder = os.open(file.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _exists(file: Path) -> StorageError:
    return StorageError(f"{file} exists already and is not overwritten unless asked", "exists")
