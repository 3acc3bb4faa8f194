"""Leases: an item that one session shows now, or may show next, is not shown in other sessions.

A lease ends when the item is answered. It expires if the session is inactive for `LEASE_SECONDS`, or as soon
as its page is closed; other sessions can then lease the item. If the session becomes active again, it keeps
its items, but loses an item if another session has leased this item or a near-duplicate in the meantime. An
answer that arrives after the lease has expired is stored, too.

Choosing takes time, and sessions choose concurrently. A session therefore reads the leases of the other
sessions, then reads the labels, chooses items, and leases them atomically. The last step fails if another
session has leased one of the items since the first step. The session then chooses again without that item.

A person may have several sessions, for example in two tabs, or after a crash of the browser. Selections avoid
the items of all other sessions, but if no other items are left, they choose among the items of the person's
own sessions (`Others.sharing_own`). These items are no obstacle if the person asks for particular items,
as in a search.

The leases are in memory. After a restart, the server takes them from the log, for the sessions whose leases
had not expired. The log has the times of rounds. A session may be active long after its last round was
selected, so the time of its last activity is stored, too (`storage.leases.Activity`). If several servers
share a project, the leases are in the database instead (`app.engine.shared_leases`), with the same rules.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import dataclass, replace

from closecall.storage import Activity

LEASE_SECONDS = 300.0
"""Default number of seconds of inactivity after which a lease expires."""

RENEW_SECONDS = 5.0
"""Seconds between two stores of activity; a tenth of a lease's lifetime if that is less.

A lease may therefore expire this much earlier if the server is killed in the meantime. If storing has just
failed, it may expire up to a minute earlier (`app.projects.project_store`).
"""

_ENDED_AT_MOST = 10_000
"""If more ended leases than this are remembered, the oldest are dropped.

These are the leases that ended more than a lease's lifetime ago.
"""


LEFT = -(10**15)
"""Value of `Held.heard` for a session whose page is closed. It is less than any time."""


def renew_seconds(lease_seconds: float) -> float:
    """Return the time between two stores of activity, in seconds, for leases that last `lease_seconds`."""
    return min(RENEW_SECONDS, lease_seconds / 10)


@dataclass
class Held:
    """Items leased to a session, and the time of its last activity."""

    items: set[int]
    heard: float


def held_by_others(held: Mapping[str, Held], but_for: Collection[str], since: float) -> tuple[int, ...]:
    """Return the items leased to sessions that were active at or after `since`, ascending.

    Sessions in `but_for` are left out.
    """
    those = (one.items for name, one in held.items() if name not in but_for and one.heard >= since)
    return tuple(sorted(frozenset().union(*those)))


def give(
    held: dict[str, Held],
    session: str,
    items: Iterable[int],
    apart: Iterable[int] = (),
    *,
    now: float,
    since: float,
) -> None:
    """Lease `items` to the session, and end other sessions' expired leases on `items` and `apart`.

    A lease has expired if its session's last activity was before `since`. The session's page may have been
    closed while `items` were being selected in advance. They are then added to the session's leases, but all
    these leases stay expired.
    """
    given, over = set(items), {*items, *apart}
    for name, other in held.items():
        if name != session and other.heard < since:
            other.items -= over
    own = held.setdefault(session, Held(set(), now))
    own.heard = now if own.heard != LEFT else LEFT
    own.items |= given


@dataclass(frozen=True)
class Others:
    """The leases of the other sessions, as seen by one session at one moment.

    Parameters
    ----------
    leases : Leases
    session : str
        The session that is about to choose.
    beside : frozenset of str
        This session, and the sessions that may share its items. Their leases are not in `items`.
    items : tuple of int
        Items leased to the other sessions, ascending.
    asked : float
        Moment at which the leases were read, by the clock of `leases`.
    own : callable
        Returns all sessions of the session's person.
    shared : frozenset of str
        Further sessions whose leases are not in `items`. Unlike with `beside`, an item can't be leased if one
        of these sessions has ended its lease since `asked`, because the item may have been answered.
    """

    leases: Leases
    session: str
    beside: frozenset[str]
    items: tuple[int, ...]
    asked: float
    own: Callable[[], Collection[str]] = tuple
    shared: frozenset[str] = frozenset()

    @property
    def left_out(self) -> frozenset[str]:
        """Return the sessions whose leases are not in `items`."""
        return self.beside | self.shared

    def sharing_own(self) -> Others:
        """Return the current leases without those of the person's own other sessions."""
        shared = replace(self, shared=frozenset(self.own()))
        return replace(shared, items=self.leases.held(but_for=shared.left_out))

    def take(self, items: Collection[int], *, apart: Iterable[int] = ()) -> frozenset[int]:
        """Lease all items to the session, or none of them if other sessions have leased some since `asked`.

        Return the items that other sessions have leased. If there are none, the call was successful. Items in
        `apart` are not leased, but other sessions must not have leased them either.
        """
        return self.leases.take(self, items, apart=apart)

    def again(self, lost: Iterable[int]) -> Others:
        """Return the other sessions' current leases, plus this object's `items` and the `lost` items.

        `take` returned the `lost` items. An answer ends the lease of its item. This object's `items` are
        included because some of them may have been answered after this session read the labels.
        """
        now = self.leases.held(but_for=self.left_out)
        return replace(self, items=tuple(sorted({*now, *self.items, *lost})))


class Leases:
    """The leases of all sessions. Thread-safe.

    Parameters
    ----------
    seconds : float
        Lifetime of a lease after the session's last activity, in seconds.
    clock : callable
        Monotonic clock, in seconds.
    activity : Activity or None
        Gets the sessions' activity, which is stored for the next server.
    """

    def __init__(
        self,
        seconds: float = LEASE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        activity: Activity | None = None,
    ) -> None:
        self._seconds = seconds
        self._clock = clock
        self._activity = activity
        self._held: dict[str, Held] = {}
        self._ended: dict[int, tuple[float, str]] = {}  # by item: end and session of its last lease
        self._lock = threading.Lock()

    def renew(self, session: str) -> None:
        """Record activity of the session, which renews its leases."""
        with self._lock:
            if session in self._held:
                self._held[session].heard = self._clock()
            if self._activity is not None:
                self._activity.note(session)

    def leave(self, session: str) -> None:
        """Let the session's leases expire now, because its page is closed."""
        with self._lock:
            if session in self._held:
                self._held[session].heard = LEFT
            if self._activity is not None:
                self._activity.note(session, is_left=True)

    def restore(self, shown: Iterable[tuple[str, int]]) -> None:
        """Give sessions back their leases of an earlier process; `shown` has pairs of session and item."""
        for session, item in shown:
            self.add(session, {item})

    def keep(self, session: str, items: Iterable[int]) -> None:
        """Lease exactly these items to the session, even if other sessions have leased them.

        The session shows the items. Its leases on all other items end.
        """
        with self._lock:
            before, kept = self._held.get(session), set(items)
            if before is not None:
                self._end(session, before.items - kept)
            self._give(session, kept)
            self._held[session].items = kept

    def forget(self, but_for: Container[str]) -> None:
        """Drop the expired leases of all sessions that are not in `but_for`."""
        with self._lock:
            since = self._clock() - self._seconds
            over = [name for name, held in self._held.items() if held.heard < since and name not in but_for]
            for name in over:
                del self._held[name]

    def add(self, session: str, items: Iterable[int]) -> None:
        """Lease additional items to the session, even if other sessions have leased them."""
        with self._lock:
            self._give(session, items)

    def has(self, session: str, item: int) -> bool:
        """Return whether the item is leased to the session.

        An expired lease counts until `forget` drops it, or until another session leases the item or a
        near-duplicate of it.
        """
        with self._lock:
            held = self._held.get(session)
            return held is not None and item in held.items

    def held(self, *, but_for: Collection[str] = ()) -> tuple[int, ...]:
        """Return the items leased to any session that is not in `but_for`, ascending."""
        with self._lock:
            return self._held_by_others(but_for)

    def others(
        self, session: str, *, beside: Iterable[str] = (), own: Callable[[], Collection[str]] = tuple
    ) -> Others:
        """Return the leases of the other sessions. Call this before reading the labels for a choice.

        See `Others` for the parameters.
        """
        together = frozenset({session, *beside})
        with self._lock:
            return Others(self, session, together, self._held_by_others(together), self._clock(), own)

    def take(self, others: Others, items: Collection[int], *, apart: Iterable[int] = ()) -> frozenset[int]:
        """Lease items to a session; see `Others.take`."""
        with self._lock:
            taken = set(self._held_by_others(others.left_out))
            wanted = {*items, *apart}
            for item in wanted:
                when, whose = self._ended.get(item, (others.asked - 1, others.session))
                if when >= others.asked and whose not in others.beside:
                    taken.add(item)
            lost = taken & wanted
            if not lost:
                self._give(others.session, items, apart)
            return frozenset(lost)

    def _held_by_others(self, but_for: Collection[str]) -> tuple[int, ...]:
        return held_by_others(self._held, but_for, self._clock() - self._seconds)

    def _give(self, session: str, items: Iterable[int], apart: Iterable[int] = ()) -> None:
        now = self._clock()
        give(self._held, session, items, apart, now=now, since=now - self._seconds)

    def _end(self, session: str, items: Iterable[int]) -> None:
        now = self._clock()
        self._ended.update(dict.fromkeys(items, (now, session)))
        if len(self._ended) > _ENDED_AT_MOST:
            recent = {item: end for item, end in self._ended.items() if end[0] >= now - self._seconds}
            self._ended = recent
