"""Disk cache of byte strings, of bounded size; the least recently used entries are deleted first.

Any number of threads and processes may use the same folder. If the disk is full or the folder can't be
written, nothing is stored and no error is raised.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
import uuid
from contextlib import suppress
from pathlib import Path

from closecall.core.files.durable import TEMPORARY

_CHECKSUM = 16
_FILLED_TO = 0.9
"""Fraction of the maximum size to which a full cache is reduced, so that deletions are rare."""
_RECOUNTED = 1 / 32
"""After writing this fraction of the maximum size, the cache measures its folder again, because other
processes may add files to the folder.
"""
SPARE_BYTES = 1 << 30
"""Free disk space in bytes below which nothing is added."""


class DiskCache:
    """Cache of byte strings by key. Each entry is a file below `folder`.

    Parameters
    ----------
    folder : Path
        Created when the first entry is stored, with access for this user only.
    most_bytes : int
        Maximum size of all entries together, in bytes.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most = most_bytes
        self._lock = threading.Lock()
        self._bytes: int | None = None
        self._unmeasured = 0

    def get(self, key: str) -> bytes | None:
        """Return the data stored under `key`, or None if there is no such entry or it is damaged."""
        file = self._file(key)
        try:
            content = file.read_bytes()
            os.utime(file)
        except OSError:
            return None
        data = content[_CHECKSUM:]
        return data if _checksum(data) == content[:_CHECKSUM] else None

    def put(self, key: str, data: bytes, *, evict: bool = True) -> bool:
        """Store `data` under `key`, and return whether this was possible.

        Without `evict`, it is not possible if another entry would have to be deleted. An earlier entry under
        `key` is replaced, or deleted if `data` can't be stored.
        """
        size, file = _CHECKSUM + len(data), self._file(key)
        with suppress(OSError), self._lock:
            former = file.stat().st_size if file.exists() else 0
            if not self._has_room(size - former, evict):
                file.unlink(missing_ok=True)
                self._bytes = None if self._bytes is None else self._bytes - former
                return False
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            temporary = file.with_name(f"{uuid.uuid4().hex}{TEMPORARY}")
            try:
                temporary.write_bytes(_checksum(data) + data)
                temporary.replace(file)
            except OSError:
                temporary.unlink(missing_ok=True)
                file.unlink(missing_ok=True)
                raise
            self._bytes = (self._bytes or 0) + size - former
            self._unmeasured += size
            return True
        return False

    def _has_room(self, size: int, evict: bool) -> bool:
        if size > self._most * _FILLED_TO:
            return False
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._bytes is None or self._unmeasured > self._most * _RECOUNTED:
            self._measure()
        if shutil.disk_usage(self._folder).free < SPARE_BYTES + size:
            return False
        if evict and (self._bytes or 0) + size > self._most:
            self._delete(to=int(self._most * _FILLED_TO) - size)
        return (self._bytes or 0) + size <= self._most

    def _measure(self) -> list[tuple[float, int, Path]]:
        """Measure the cache; return the time of last use, the size in bytes and the path of each file."""
        found = []
        for file in self._folder.glob("??/*"):
            with suppress(OSError):
                state = file.stat()
                found.append((state.st_mtime, state.st_size, file))
        self._bytes, self._unmeasured = sum(size for _, size, _ in found), 0
        return found

    def _delete(self, to: int) -> None:
        """Delete the least recently used files until at most `to` bytes are left."""
        for _, size, file in sorted(self._measure()):
            if (self._bytes or 0) <= to:
                return
            file.unlink(missing_ok=True)
            self._bytes = (self._bytes or 0) - size

    def _file(self, key: str) -> Path:
        name = hashlib.blake2b(key.encode(errors="surrogateescape"), digest_size=16).hexdigest()
        return self._folder / name[:2] / name


def _checksum(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_CHECKSUM).digest()
