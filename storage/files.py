"""Write files that get their names only when they are complete."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from closecall.storage.errors import Kind, StorageError


def partial_name(file: Path) -> Path:
    """Return a unique name, in the folder of `file`, for a temporary file that is later renamed to `file`."""
    return file.with_name(f".{file.name}.{secrets.token_hex(4)}.partial")


def check_target(file: Path, overwrite: bool) -> None:
    """Raise an error early if no file of this name can be created.

    Raises
    ------
    StorageError
        If there is such a folder, or such a file without `overwrite` (kind `exists`), or if the parent folder
        is missing (kind `missing`) or can't be written (kind `read-only`).
    """
    if file.is_dir():
        raise StorageError(f"{file} is a folder, where the name of a file was expected", "exists")
    if not file.parent.is_dir():
        raise StorageError(f"the folder {file.parent} does not exist", "missing")
    if file.exists() and not overwrite:
        raise _exists(file)
    if not os.access(file.parent, os.W_OK):
        raise StorageError(f"the folder {file.parent} is read-only", "read-only")


def publish(partial: Path, file: Path, overwrite: bool) -> None:
    """Rename the complete file `partial` to `file`, atomically and durably.

    Raises
    ------
    StorageError
        If `file` exists and `overwrite` is false (kind `exists`), or if writing fails (kind `full`,
        `read-only` or `other`). After a failure without `overwrite`, there is no new `file`. After a failure
        with `overwrite`, `file` has either its complete earlier content or the complete new content. If the
        name of the new file can't be flushed to disk, the replacement is not undone.
    """
    with explained(file):
        _sync_file(partial)
        if overwrite:
            partial.replace(file)
            _sync_folder(file.parent)
            return
        try:
            file.hardlink_to(partial)  # unlike a rename, a link fails if a file of this name has appeared
        except OSError as error:
            if file.exists():
                raise _exists(file) from error
            partial.replace(file)  # a file system without hard links
        try:
            _sync_folder(file.parent)
        except OSError:
            file.unlink()
            raise


@contextmanager
def explained(file: Path) -> Iterator[None]:
    """Turn an OSError in the block into a StorageError whose message says that `file` can't be written."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{file} cannot be written: {error.strerror or error}", _KINDS.get(error.errno or 0, "other")
        ) from error


_KINDS: dict[int, Kind] = {
    errno.ENOSPC: "full",
    errno.EDQUOT: "full",
    errno.EROFS: "read-only",
    errno.EACCES: "read-only",
    errno.EPERM: "read-only",
}


def _sync_file(file: Path) -> None:
    """Flush a file's content to disk. Windows requires that the file is open for writing."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    """Flush the names in `folder` to disk; Windows can't open folders, and flushes names itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exists(file: Path) -> StorageError:
    return StorageError(f"{file} exists already and is not overwritten unless asked", "exists")
