"""The load of a project's server: which work takes turns, and which is skipped when processor time is short.

The *delay* of a session is the time for which other sessions hold up its next look-ahead
(`app.runtime.turns.Turns.delay`). If all sessions have equally much to do, the delay is about

    number of waiting turns of other sessions × recent seconds per turn / number of cores.

While a session's delay exceeds `IN_TIME_SECONDS`, the server is *short* of processor time for it. Then its
look-ahead *sheds* the answers "skip" and "unsure": it omits their selections if they would take time. The
session's selections are *hurried*: they use the thrifty form of the strategy
(`core.selection.QueryStrategy.thrifty`).

A selection in advance serves only one of the possible answers. Near the hyperplane, only about half of these
selections are used. Selections for people who have answered and wait are worth more. While too many people
wait at the same time (`MOST_CROWDING`), the server is *overloaded*. Then there is no look-ahead, and all
selections are hurried.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Any

from closecall.app.runtime.turns import Turns

IN_TIME_SECONDS = 0.3
"""Longest delay, in seconds, after which a look-ahead is still in time for a fast annotator.

Few people answer more than twice a second over a longer time.
"""

MOST_CROWDING = 0.03
"""The server is overloaded if its crowding exceeds this number (`app.runtime.turns.Turns.crowding`).

Crowding is the recent mean of the number of people who wait for a selection, not counting the first of them,
divided by the number of cores. Two cores reach this limit when about ten people label a million items as fast
as they can. With a limit of 0.12, look-ahead delayed people: for 20 people, the 95th percentile of the wait
was 213 to 234 ms, instead of 125 to 167 ms.
"""

TURNS_A_ROUND = 3
"""Number of turns of a complete look-ahead: one each for no and yes, and one for skip and unsure."""


class Load:
    """The load of a project, and counts of the selections that were omitted or hurried. Thread-safe.

    Parameters
    ----------
    turns : Turns
        The turns in which the look-aheads of all sessions are computed.
    """

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(("futures", "futures_shed", "selections", "selections_hurried"), 0)

    def is_short(self, session_id: str) -> bool:
        """Return whether the server is short of processor time for the session."""
        return self.is_overloaded or self.turns.delay(session_id, TURNS_A_ROUND) > IN_TIME_SECONDS

    @property
    def is_overloaded(self) -> bool:
        """Return whether selections in advance would hold up people who wait for the next item."""
        return self.turns.crowding > MOST_CROWDING

    def serving(self, session_id: str) -> AbstractContextManager[None]:
        """Treat the ``with`` block as work for which an annotator of the session waits."""
        return self.turns.serving(session_id)

    def note_futures(self, n: int, *, are_shed: bool = False) -> None:
        """Count `n` possible answers: answers with an item selected in advance or, if `are_shed`, without."""
        with self._lock:
            self._counts["futures"] += n
            self._counts["futures_shed"] += n * are_shed

    def note_selection(self, *, is_hurried: bool) -> None:
        """Count a selection that begins a round."""
        with self._lock:
            self._counts["selections"] += 1
            self._counts["selections_hurried"] += is_hurried

    def report(self) -> dict[str, Any]:
        """Return the counts since the project was opened, the shares, and the present load, as JSON.

        `futures` counts the possible answers for which the next item was to be selected in advance; `shed` is
        the share for which it was not selected. `selections` counts the rounds that began; `hurried` is the
        share whose items a thrifty form of the strategy selected. Shares are None if nothing was counted.
        """
        with self._lock:
            counts = dict(self._counts)
        return {
            **counts,
            "shed": _share(counts["futures_shed"], counts["futures"]),
            "hurried": _share(counts["selections_hurried"], counts["selections"]),
            "turns_waiting": self.turns.n_waiting,
            "seconds_per_turn": self.turns.seconds(),
        }


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
