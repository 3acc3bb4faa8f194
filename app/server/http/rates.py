"""Limit the rate of requests of each credential, so that one program can't keep everybody waiting."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from math import ceil

from closecall.app.server.http.problems import Problem

PER_SECOND = 100.0
"""Requests per second that a credential may make permanently: far more than a person's page makes."""

BURST = 400
"""Requests that a credential may make at once, after a pause."""

_KNOWN = 10_000


class Rates:
    """A token bucket for each credential. Thread-safe.

    Parameters
    ----------
    per_second : float
        Rate at which the buckets are filled.
    burst : int
        Size of the buckets.
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(
        self,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # content and time of filling
        self._lock = threading.Lock()

    def take(self, name: str) -> None:
        """Take one request from the bucket `name`.

        Raises
        ------
        Problem
            With status 429, if the bucket is empty. The header Retry-After says when to try again.
        """
        with self._lock:
            now = self._clock()
            content, filled = self._buckets.pop(name, (float(self._burst), now))
            content = min(float(self._burst), content + (now - filled) * self._per_second)
            is_allowed = content >= 1
            self._buckets[name] = content - is_allowed, now
            while len(self._buckets) > _KNOWN:
                self._buckets.popitem(last=False)
        if not is_allowed:
            wait = ceil((1 - content) / self._per_second)
            raise Problem(429, "Too many requests: slow down", {"Retry-After": str(max(1, wait))})
