"""A lock on a session, for projects that run on several servers."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType


class SessionLock:
    """A reentrant lock that calls `hold` whenever a thread acquires it.

    If `hold` raises an error, the lock is released again, and the error propagates.

    Parameters
    ----------
    hold : callable
        Makes sure that this server, and no other, runs the session. It is not called for nested acquisitions.
    """

    def __init__(self, hold: Callable[[], None]) -> None:
        self._hold = hold
        self._lock = threading.RLock()
        self._depth = 0

    def __enter__(self) -> bool:
        self._lock.acquire()
        self._depth += 1
        if self._depth == 1:
            try:
                self._hold()
            except BaseException:
                self._release()
                raise
        return True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._release()

    def _release(self) -> None:
        self._depth -= 1
        self._lock.release()
