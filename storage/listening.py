"""Listen to notices of other servers, over a separate connection."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import psycopg

SILENCE_SECONDS = 10.0
"""After this many seconds without a message, the connection is tested."""

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""First and longest pause between attempts to connect, in seconds. The pause doubles after each failure."""

_events = logging.getLogger("closecall.storage")


class Listening(threading.Thread):
    """A thread that listens on a channel of PostgreSQL until `close` is called, and reconnects if necessary.

    Parameters
    ----------
    connect : callable
        Opens a connection that commits each statement.
    channel : str
        Name of the channel.
    heard : callable
        Called with each message.
    renewed : callable
        Called after each new connection, because messages may have been missed, and before `is_current`
        becomes true.
    errors : type
        Base class of the driver's exceptions.

    Attributes
    ----------
    is_current : bool
        Whether the thread listens, so that every message arrives. A broken connection may be noticed only
        after `SILENCE_SECONDS`.
    """

    def __init__(
        self,
        connect: Callable[[], psycopg.Connection],
        channel: str,
        heard: Callable[[str], None],
        renewed: Callable[[], None],
        errors: type[Exception],
    ) -> None:
        super().__init__(name="notices", daemon=True)
        self.is_current = False
        self._connect = connect
        self._channel = channel
        self._heard = heard
        self._renewed = renewed
        self._errors = errors
        self._is_closed = False
        self._ear, self._mouth = socket.socketpair()

    def close(self) -> None:
        """Stop the thread, and wait at most 2 seconds for its end. An attempt to connect may take longer."""
        self._is_closed = True
        self._mouth.send(b".")
        self.join(timeout=2.0)
        self._mouth.close()

    def run(self) -> None:
        """Listen; see `threading.Thread.run`."""
        pause = FIRST_PAUSE
        with self._ear, selectors.DefaultSelector() as closed:
            closed.register(self._ear, selectors.EVENT_READ)
            while not self._is_closed:
                try:
                    with closing(self._connect()) as connection:
                        connection.execute(f'LISTEN "{self._channel}"'.encode())
                        self._renewed()
                        self.is_current, pause = True, FIRST_PAUSE
                        self._listen(connection)
                except (self._errors, OSError, ValueError) as error:  # ValueError: the socket was closed
                    if self.is_current:
                        _events.warning("Notices of other servers are interrupted: %s", error)
                finally:
                    self.is_current = False
                closed.select(pause)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _listen(self, connection: psycopg.Connection) -> None:
        with selectors.DefaultSelector() as waiting:
            waiting.register(self._ear, selectors.EVENT_READ)
            waiting.register(connection.fileno(), selectors.EVENT_READ)
            while not self._is_closed:
                if not waiting.select(SILENCE_SECONDS):
                    connection.execute("SELECT 1")
                for message in connection.notifies(timeout=0):
                    self._heard(message.payload)
