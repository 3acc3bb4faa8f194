"""Stop the server when it is asked to, whatever browsers do.

The server waits for its responses before it stops. A stream of events would keep it from stopping, so the
stream asks `is_leaving`. The server also waits for its connections. It ends those that it knows of, but a
connection that arrives at this moment may be unknown, and would stay until the browser closes it. So the wait
is limited.
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


def watch_signals() -> None:
    """Note the signals that ask the server to stop, pass them on to the server, and limit its patience.

    Call this in the main thread, after the server has installed its handlers.
    """
    _is_leaving.clear()
    for number in SIGNALS:
        before = signal.getsignal(number)
        server = getattr(before, "__self__", None)
        if isinstance(server, uvicorn.Server):  # Streamlit does not pass this setting on
            server.config.timeout_graceful_shutdown = PATIENCE_SECONDS

        def noted(number: int, frame: FrameType | None, before: object = before) -> None:
            _is_leaving.set()
            if callable(before):
                before(number, frame)

        signal.signal(number, noted)
