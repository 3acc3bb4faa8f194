"""A lock on a file that several processes may hold at once, unless a process holds an exclusive lock."""

from __future__ import annotations

import os
import time
from pathlib import Path
from types import TracebackType
from typing import Self

POLL_SECONDS = 0.05


class SharedLock:
    """A shared lock on the file at `path`.

    `filelock.FileLock` on the same file is exclusive. Nobody gets the exclusive lock while anybody holds a
    shared lock, and nobody gets a shared lock while anybody holds the exclusive lock.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def acquire(self, timeout: float) -> bool:
        """Take the lock, waiting at most `timeout` seconds; return whether it was taken.

        Raises
        ------
        OSError
            If the file can't be locked, or the system has no shared locks.
        """
        if self._file is not None:
            return True
        try:
            import fcntl
        except ImportError:
            raise OSError("this system has no shared locks") from None

        until = time.monotonic() + timeout
        file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    if time.monotonic() >= until:
                        os.close(file)
                        return False
                    time.sleep(POLL_SECONDS)
                else:
                    self._file = file
                    return True
        except OSError:
            os.close(file)
            raise

    def release(self) -> None:
        """Give the lock up, if it is held."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
