"""The server's log as text on stderr, for ``--log-format text``: errors, and one line for each outage.

While a database can't be used, each request and each background job fails. The log then has one line for each
kind of error, without a traceback, until the database has worked for `QUIET_SECONDS`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from closecall.storage import StorageError

QUIET_SECONDS = 15.0
"""Time without an error of some kind after which the next one belongs to another outage."""

UNCAUGHT = "streamlit.error_util"
"""The logger of errors that no page caught."""


class Outages(logging.Filter):
    """A filter that reduces an outage to one line, and drops the events of the event log.

    Parameters
    ----------
    clock : callable
        Returns the time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._last: dict[str, float] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        """See `logging.Filter.filter`."""
        is_event = hasattr(record, "fields")
        error = getattr(record, "trouble", None) if is_event else (record.exc_info or (None, None))[1]
        if not (isinstance(error, StorageError) and error.passes):
            return not is_event
        if not self._is_first(error.kind):
            return False
        record.msg, record.args = f"Labels can't be read or stored: {error.full}", ()
        record.exc_info = record.exc_text = None
        return True

    def _is_first(self, kind: str) -> bool:
        with self._lock:
            before, now = self._last.get(kind), self._clock()
            self._last[kind] = now
        return before is None or now - before > QUIET_SECONDS


def begin() -> None:
    """Reduce outages in the text log from now on."""
    outages = Outages()
    for place in (logging.lastResort, logging.getLogger(UNCAUGHT)):
        if place is not None and not any(isinstance(its, Outages) for its in place.filters):
            place.addFilter(outages)
