"""Leases in the database, for servers that share a project; the rules are those of `app.engine.leases`.

All times are by the database's clock, and leases are read and ended in the order of the database's
transactions. The rules therefore don't depend on the clocks of the servers. Each server remembers for a few
seconds which items it has leased to its sessions, so that not every activity costs a transaction.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Container, Iterable

from closecall.app.engine.leases import LEFT, Held, Leases, Others, give, held_by_others, renew_seconds
from closecall.storage.leases import LeaseChange, LeasesThen, LeaseTable

TIDY_SECONDS = 60.0
"""Minimum number of seconds between two deletions of the leases that ended long ago."""

OPEN_SECONDS = 3600.0
"""A session counts as open in another server for this many seconds after its last activity."""


class SharedLeases(Leases):
    """The leases of all sessions of all servers. Thread-safe. All methods may raise a StorageError.

    Parameters
    ----------
    table : LeaseTable
        The leases in the database.
    seconds : float
        Lifetime of a lease after the session's last activity, in seconds.
    answered : callable or None
        Called by `others` with the last position in the log of answers. Labels that are read afterwards
        must include all answers up to this position, because another server may have stored an answer and
        ended the lease of its item.
    clock : callable
        Monotonic clock, in seconds. It times what this server keeps in memory, and not the leases in the
        database.
    """

    def __init__(
        self,
        table: LeaseTable,
        seconds: float,
        answered: Callable[[int], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(seconds, clock)  # `_held` is what this server remembers
        self._table = table
        self._answered = answered
        self._tidied = clock()

    def renew(self, session: str) -> None:
        """See `Leases.renew`."""
        if self._remembered(session) is None:
            now, items = self._clock(), self._table.renew(session)
            self._remember(session, items or (), now)

    def leave(self, session: str) -> None:
        """See `Leases.leave`."""
        self._table.set_heard(session, LEFT)
        with self._lock:
            self._held.pop(session, None)

    def restore(self, shown: Iterable[tuple[str, int]]) -> None:
        """See `Leases.restore`. Sessions whose leases have not expired are left as they are."""
        pairs = list(shown)
        with self._table.change() as change:
            held, since = _held_in(change.then), self._since(change.then)
            alive = {name for name, one in held.items() if one.heard >= since}
            taken = set(held_by_others(held, (), since))
            for session, item in pairs:
                if session not in alive and item not in taken:
                    give(held, session, {item}, now=change.then.now, since=since)
            self._store(change, held)

    def keep(self, session: str, items: Iterable[int]) -> None:
        """See `Leases.keep`."""
        kept, known = set(items), self._remembered(session)
        if known is not None and not known.items and not kept:
            return
        now = self._clock()
        with self._table.change() as change:
            held, before = _held_in(change.then), change.then.rows.get(session)
            if before is not None:
                change.end(session, before.items - kept)
            if before is not None or kept:
                give(held, session, kept, now=change.then.now, since=self._since(change.then))
                held[session].items = kept
                self._store(change, held)
        if session not in held or held[session].heard != LEFT:
            self._remember(session, kept, now)
        if now - self._tidied > TIDY_SECONDS:
            self._tidied = now
            self._table.drop((), self._seconds)

    def forget(self, but_for: Container[str]) -> None:
        """See `Leases.forget`. Leases of sessions that are open in another server are kept, too."""
        over = [name for name in self._table.idle(self._seconds, OPEN_SECONDS) if name not in but_for]
        with self._lock:
            for name in over:
                self._held.pop(name, None)
        if over:
            self._table.drop(over, self._seconds)

    def add(self, session: str, items: Iterable[int]) -> None:
        """See `Leases.add`."""
        now = self._clock()
        with self._table.change() as change:
            held = _held_in(change.then)
            give(held, session, items, now=change.then.now, since=self._since(change.then))
            self._store(change, held)
        if held[session].heard != LEFT:
            self._remember(session, held[session].items, now)

    def has(self, session: str, item: int) -> bool:
        """See `Leases.has`."""
        known = self._remembered(session)
        if known is None:
            row = self._table.read().rows.get(session)
            return row is not None and item in row.items
        return item in known.items

    def held(self, *, but_for: Collection[str] = ()) -> tuple[int, ...]:
        """See `Leases.held`."""
        then = self._table.read()
        return held_by_others(_held_in(then), but_for, self._since(then))

    def others(
        self, session: str, *, beside: Iterable[str] = (), own: Callable[[], Collection[str]] = tuple
    ) -> Others:
        """See `Leases.others`."""
        then, together = self._table.read(), frozenset({session, *beside})
        if self._answered is not None:
            self._answered(then.answered)
        items = held_by_others(_held_in(then), together, self._since(then))
        return Others(self, session, together, items, then.ended, own)

    def take(self, others: Others, items: Collection[int], *, apart: Iterable[int] = ()) -> frozenset[int]:
        """See `Leases.take`."""
        wanted, now = {*items, *apart}, self._clock()
        with self._table.change() as change:
            held, since = _held_in(change.then), self._since(change.then)
            taken = set(held_by_others(held, others.left_out, since))
            for session, ended in change.ended_since(others.asked):
                if session not in others.beside:
                    taken.update(ended)
            lost = frozenset(taken & wanted)
            if not lost:
                give(held, others.session, items, wanted, now=change.then.now, since=since)
                self._store(change, held)
        if not lost and held[others.session].heard != LEFT:
            self._remember(others.session, held[others.session].items, now)
        return lost

    def _since(self, then: LeasesThen) -> float:
        """Return the time in milliseconds since which a session must have been active to keep its leases."""
        return then.now - 1000 * self._seconds

    def _store(self, change: LeaseChange, held: dict[str, Held]) -> None:
        """Store the leases in `held` that are new or different from the database."""
        for name, one in held.items():
            before = change.then.rows.get(name)
            if before is None or before.items != one.items or before.heard != one.heard:
                change.put(name, one.items, int(one.heard))

    def _remembered(self, session: str) -> Held | None:
        """Return the remembered leases of a session, or None if there are none or they are too old."""
        with self._lock:
            known = self._held.get(session)
            is_fresh = known is not None and self._clock() - known.heard < renew_seconds(self._seconds)
            return known if is_fresh else None

    def _remember(self, session: str, items: Iterable[int], now: float) -> None:
        with self._lock:
            self._held[session] = Held(set(items), now)


def _held_in(then: LeasesThen) -> dict[str, Held]:
    return {name: Held(set(row.items), row.heard) for name, row in then.rows.items()}
