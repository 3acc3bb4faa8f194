"""Whether the server has been asked to stop, so that long responses end.

A server waits for its responses before it stops. A stream of events would keep it from stopping.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType

_is_leaving = threading.Event()

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask the server to stop."""


def is_leaving() -> bool:
    """Return whether the server has been asked to stop."""
    return _is_leaving.is_set()


def watch_signals() -> None:
    """Note the signals that ask the server to stop, and pass them on to the handlers that there are.

    Call this in the main thread, after the server has installed its handlers.
    """
    _is_leaving.clear()
    for number in SIGNALS:
        before = signal.getsignal(number)

        def noted(number: int, frame: FrameType | None, before: object = before) -> None:
            _is_leaving.set()
            if callable(before):
                before(number, frame)

        signal.signal(number, noted)
