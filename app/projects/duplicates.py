"""The near-duplicates and bursts of a project's pool, as ``closecall pool duplicates`` last found them."""

from __future__ import annotations

from collections.abc import Callable

from closecall.app.engine.kept_groups import KeptGroups
from closecall.app.runtime.background import Troubles, Watch
from closecall.core.duplicates import Groups, ItemGroups, folder_of, load_groups
from closecall.core.duplicates.files import Kind, Stamps, stamps_of
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool

POLL_SECONDS = 2.0
"""Seconds between two checks for new groups."""


class Duplicates:
    """A pool's near-duplicates and bursts. A thread reads them again when their files change, until `close`.

    ``closecall pool duplicates``, which finds the groups, can be run while the project is served. Items that
    join the pool later are in no group until the command is run again.

    Parameters
    ----------
    pool : callable
        Returns the newest snapshot of the pool, or None while the pool has no items.
    kept : KeptGroups
        Stores the groups in the database, so that the selection of an item can be repeated later.
    """

    def __init__(self, pool: Callable[[], Pool | None], kept: KeptGroups) -> None:
        self.kept = kept
        self._pool = pool
        self._current: ItemGroups | None = None
        self._read: Stamps = {}
        self._troubles = Troubles()
        self._watch = Watch("duplicates", self.read, POLL_SECONDS)

    def start(self) -> None:
        """Read the groups, and start to watch their files."""
        self.read()
        self._watch.start()

    def close(self) -> None:
        """Stop the thread."""
        self._watch.close()

    @property
    def current(self) -> ItemGroups | None:
        """The current groups; None if there are none. The object stays the same until the groups change."""
        return self._current

    def of(self, pool: Pool) -> ItemGroups | None:
        """Return the groups in another pool; None if that pool has no groups, or they can't be read."""
        others = Duplicates(lambda: pool, self.kept)
        others.read()
        return others.current

    @property
    def problem(self) -> str | None:
        """Why the groups can't be used, in one sentence, or None."""
        return self._troubles.first

    def read(self) -> None:
        """Read the groups if their files have changed. After an error, the previous groups stay in use."""
        pool = self._pool()
        if pool is None:
            return
        with self._troubles.noted("Reading the groups of near-duplicates"):
            stamps = stamps_of(pool.path)
            if stamps != self._read:
                groups = ItemGroups.of(pool, {kind: _groups(pool, kind) for kind in stamps})
                self._current = self.kept.keep(groups) if groups.n_groups else None
                self._read = stamps


def _groups(pool: Pool, kind: Kind) -> Groups:
    folder = folder_of(pool.path, kind)
    try:
        return load_groups(folder, pool).groups
    except InputError as error:
        raise InputError(f"{folder} can't be used, run closecall pool duplicates again") from error
