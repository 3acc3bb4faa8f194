"""The labeling sessions that are open in this process: one object each, shared by all who hold it.

An object whose session nobody asks for is let go, with its views; who comes back goes on where the log ends,
as after a restart. A page that still holds the object gets the very same one again, however late: two
objects of one session would number its rounds independently of each other.
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
"""A session that was not asked for within this time is let go."""


class OpenSessions:
    """Sessions by their ids. It is not locked.

    Parameters
    ----------
    clock : callable
        Gives seconds that only ever grow.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._all: WeakValueDictionary[str, LabelingSession] = WeakValueDictionary()
        self._asked: OrderedDict[str, tuple[float, LabelingSession]] = OrderedDict()  # the longest ago first

    def __contains__(self, session_id: object) -> bool:
        return session_id in self._all

    def get(self, session_id: str | None) -> LabelingSession | None:
        """Return the session if it is open; it is kept for a while from now on."""
        session = self._all.get(session_id) if session_id else None
        if session is not None:
            self.add(session)
        return session

    def add(self, session: LabelingSession) -> None:
        """Keep the session for a while, and let others go that nobody has asked for since long."""
        now = self._clock()
        self._all[session.id] = session
        self._asked[session.id] = now, session
        self._asked.move_to_end(session.id)
        while next(iter(self._asked.values()))[0] < now - KEPT_SECONDS:
            self._asked.popitem(last=False)
