"""News: events in a project, passed on to subscribers at once.

The kinds of a project's news, with their data:

- ``answers`` (concept, items): answers were stored; `items` is None if there are too many to list
- ``concept`` (concept): a concept is new, or something other than its answers has changed
- ``settings``: the project file has changed
- ``pool`` (items, is_complete): there is a new snapshot of the pool, with `items` items
- ``index`` (strategy): the strategy's index is ready
- ``ahead`` (session, selection): the items that may follow the selection in view are known
- ``session`` (session, server): another server continues the session
- ``passed`` (concept, items): selections have passed over audited items
- ``missed``: some news of other servers may not have arrived
- ``closed``: the project is being closed

The data of ``concept`` and ``missed`` also have `changes`, the number of changes with this one.

If several servers share the project, the kinds that the database knows (`closecall.storage.notices`) come
from all of them. Their data has `elsewhere`, which is true for another server's news.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

log = logging.getLogger(__name__)

CHANGES = ("concept", "missed")
"""Kinds of news that may be about a change of a question."""

Subscriber = Callable[[str, Mapping[str, Any]], None]
"""A function that takes the kind and the data of a piece of news."""


class News:
    """Passes news on to its subscribers. Thread-safe.

    Attributes
    ----------
    changes : int
        Number of changes so far: pieces of news of the kinds ``concept`` and ``missed``. A page that knows
        another number has missed some of them. Each server starts at the time in milliseconds, so that no two
        servers have the same number.
    """

    def __init__(self) -> None:
        self.changes = time.time_ns() // 1_000_000
        self._subscribers: dict[object, Subscriber] = {}
        self._lock = threading.Lock()

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each piece of news; return a function that ends the subscription.

        The subscriber is called in the thread that publishes, which may hold locks. It must therefore
        return at once, and leave all work to another thread. Its errors are logged.
        """
        key = object()
        with self._lock:
            self._subscribers[key] = subscriber

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers.pop(key, None)

        return unsubscribe

    def publish(self, kind: str, **data: Any) -> None:
        """Call all subscribers with a piece of news."""
        with self._lock:
            if kind in CHANGES:
                self.changes += 1
                data["changes"] = self.changes
            subscribers = list(self._subscribers.values())
        for subscriber in subscribers:
            try:
                subscriber(kind, data)
            except Exception:
                log.exception("A subscriber to the news %s failed", kind)
