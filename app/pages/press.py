"""Presses of buttons that create something, which a double click must create only once."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

AGAIN_SECONDS = 5.0
"""A second press within this many seconds after the first took effect is part of a double click."""


class Press(Generic[T]):
    """The last press of a button in one browser tab.

    Keep it in Streamlit's session state from the run that shows the button: a second press stops the first
    press's run of the page at its next call of Streamlit, and meanwhile runs the page in another thread.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._about: object = None
        self._made: list[T] = []
        self._at = -math.inf

    @property
    def is_recent(self) -> bool:
        """Return whether another press now would be part of a double click."""
        return time.monotonic() - self._at < AGAIN_SECONDS

    def once(self, about: object, make: Callable[[], T]) -> T:
        """Return the result of `make` or, in the second press of a double click, that of the first press.

        `about` has the words in the form: other words are another press. `make` must not call Streamlit.
        """
        with self._lock:
            if about != self._about or not self.is_recent:
                self._made = [make()]
                self._about, self._at = about, time.monotonic()
            return self._made[0]
