"""Atomic writes: a kill, a power cut or a full disk leaves the old content or the new, never a mixture.

Content is first written under a temporary name and flushed to the disk (fsync). A rename makes it visible.
Then the folder that contains it is flushed, too.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError

TEMPORARY = ".tmp"
_READ_BYTES = 1 << 20


@dataclass(frozen=True)
class Stamp:
    """Expected length of a file in bytes, and 128-bit BLAKE2b digest of its content in hex."""

    bytes: int
    checksum: str


class _StampedFile:
    """A file that computes the stamp of its content while it is written."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.blake2b(digest_size=16)
        self._bytes = 0

    def write(self, data: Any) -> int:
        self._file.write(data)
        self._hash.update(data)
        self._bytes += len(data)
        return len(data)

    def stamp(self) -> Stamp:
        return Stamp(self._bytes, self._hash.hexdigest())


def write_array(path: Path, array: NDArray[Any]) -> Stamp:
    """Write a .npy file and flush it to the disk; return its stamp. The write itself is not atomic."""
    with path.open("wb") as file:
        stamped = _StampedFile(file)
        np.save(stamped, array, allow_pickle=False)
        _sync(file)
    return stamped.stamp()


def write_arrays(path: Path, arrays: Iterable[NDArray[Any]]) -> Stamp:
    """Write the bytes of arrays, one after another, and flush the file; return its stamp.

    The write itself is not atomic.
    """
    with path.open("wb") as file:
        stamped = _StampedFile(file)
        for array in arrays:
            stamped.write(raw_bytes(array))
        _sync(file)
    return stamped.stamp()


def write_bytes(path: Path, data: bytes) -> Stamp:
    """Write a file and flush it to the disk; return its stamp. The write itself is not atomic."""
    with path.open("wb") as file:
        stamped = _StampedFile(file)
        stamped.write(data)
        _sync(file)
    return stamped.stamp()


def replace_file(path: Path, data: bytes, *, lasting: bool = True) -> None:
    """Replace the content of `path` atomically; if `lasting`, the new content survives a power cut."""
    temporary = path.with_name(path.name + TEMPORARY)
    if lasting:
        write_bytes(temporary, data)
    else:
        temporary.write_bytes(data)
    temporary.replace(path)
    if lasting:
        sync_folder(path.parent)


def publish_folder(temporary: Path, path: Path) -> None:
    """Rename a folder of finished files to `path`.

    If `path` exists, it is deleted first, so for a moment there is no such folder. The caller must make sure
    that nobody reads the old folder, for example because no manifest names it.
    """
    sync_folder(temporary)
    if path.exists():
        shutil.rmtree(path)
    temporary.replace(path)
    sync_folder(path.parent)


def sync_file(path: Path) -> None:
    """Flush a file's content to the disk, whichever process wrote it."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder, that is, the list of its files, to the disk. Windows needs no such call."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def raw_bytes(array: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the bytes of an array, in C order; without a copy, if the array is contiguous."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def bytes_stamp(data: Any) -> Stamp:
    """Return the stamp of `data`, an object with the buffer protocol."""
    return Stamp(len(data), hashlib.blake2b(data, digest_size=16).hexdigest())


def stamp_of(path: Path) -> Stamp:
    """Return the stamp of a file's current content."""
    digest, length = hashlib.blake2b(digest_size=16), 0
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            digest.update(block)
            length += len(block)
    return Stamp(length, digest.hexdigest())


@contextmanager
def disk_trouble(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into an InputError that names `path` and says whether the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise InputError(
                f"The disk of {path} is full: finished work is safe; free some space and build again"
            ) from error
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())
