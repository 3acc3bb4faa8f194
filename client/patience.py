"""Pauses between the attempts of a request."""

from __future__ import annotations

import random
import time

FIRST_SECONDS, LONGEST_SECONDS = 0.1, 10.0
"""First and longest pause, before it is shortened at random. The pause doubles after each attempt."""


class Patience:
    """Growing pauses between attempts, up to a time limit.

    Each pause is shortened by a random fraction of at most one half. Otherwise, all programs would return to
    a restarted server at the same moment.

    Parameters
    ----------
    seconds : float
        Time limit of all attempts together.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.reset()

    def reset(self) -> None:
        """Return to the first pause and the whole time limit, after progress."""
        self._end = time.monotonic() + self.seconds
        self._pause = FIRST_SECONDS

    def pause(self, at_least: float = 0.0) -> bool:
        """Sleep before the next attempt; return False at once if the time limit has passed.

        Parameters
        ----------
        at_least : float
            Minimum length of the pause in seconds, as requested by the server.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            return False
        drawn = self._pause * random.uniform(0.5, 1.0)
        self._pause = min(2 * self._pause, LONGEST_SECONDS)
        time.sleep(min(left, max(drawn, at_least)))
        return True
