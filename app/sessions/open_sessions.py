"""The labeling sessions that are open in this process, one object per session.

A session without requests is dropped after a while, with its views. When its annotator returns, the session
is restored from the log, as after a restart. But while any page refers to the object of a dropped session,
later requests get this object, because two objects for one session would count its rounds independently.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

KEPT_SECONDS = 3600.0
"""Seconds without a request after which a session is dropped."""


class OpenSessions:
    """Open sessions by id. Not thread-safe.

    Parameters
    ----------
    clock : callable
        Monotonic clock, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: WeakValueDictionary[str, LabelingSession] = WeakValueDictionary()
        self._asked: OrderedDict[str, tuple[float, LabelingSession]] = (
            OrderedDict()
        )  # least recently requested first

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._all

    def get(self, session_id: str | None) -> LabelingSession | None:
        """Return the session and keep it for another `KEPT_SECONDS`; return None if it is not open."""
        session = self._all.get(session_id) if session_id else None
        if session is not None:
            self.add(session)
        return session

    def add(self, session: LabelingSession) -> None:
        """Keep the session for `KEPT_SECONDS`; drop sessions that had no request for that long."""
        now = self._clock()
        self._all[session.id] = session
        self._asked[session.id] = now, session
        self._asked.move_to_end(session.id)
        while next(iter(self._asked.values()))[0] < now - KEPT_SECONDS:
            self._asked.popitem(last=False)

    def drop(self, session_id: str) -> LabelingSession | None:
        """Stop keeping the session, which stays open only while a page refers to it.

        Return the session, or None if it is not open.
        """
        self._asked.pop(session_id, None)
        return self._all.get(session_id)
