"""Stop the server when it is asked to, whatever browsers do.

The server waits for its responses before it stops. A stream of events would keep it from stopping, so the
stream asks `is_leaving`. The server also waits for its connections. It ends the connections that it knows of.
But it may not know of a connection that arrives at this moment, which would stay until the browser closes it.
The wait is therefore limited.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

import uvicorn

_is_leaving = threading.Event()

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask the server to stop."""

PATIENCE_SECONDS = 8
"""Maximum number of seconds for which the server waits for connections. Docker kills it after 10."""


def is_leaving() -> bool:
    """Return whether the server has been asked to stop."""
    return _is_leaving.is_set()


def watch_signals() -> uvicorn.Server | None:
    """Note the signals that ask the server to stop, pass them on, and limit how long the server waits.

    Call this in the main thread, after the server has installed its handlers. Return the server, or None if
    no server has installed handlers.
    """
    _is_leaving.clear()
    found = None
    for number in SIGNALS:
        before = signal.getsignal(number)
        server = getattr(before, "__self__", None)
        if isinstance(server, uvicorn.Server):  # Streamlit does not pass this setting on
            found = server
            server.config.timeout_graceful_shutdown = PATIENCE_SECONDS

        def noted(number: int, frame: FrameType | None, before: object = before) -> None:
            _is_leaving.set()
            if callable(before):
                before(number, frame)

        signal.signal(number, noted)
    return found
