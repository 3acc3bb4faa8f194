"""The groups of near-duplicates that a log refers to.

Selections leave out near-duplicates of answered items. If the search for groups is run again with other
settings, the groups change. The groups that selections depend on are therefore kept in the project's
database, and the log names their digest.
"""

from __future__ import annotations

import threading

from closecall.core.duplicates import ItemGroups
from closecall.core.errors import InputError
from closecall.storage.groupings import Groupings


class KeptGroups:
    """The groups of near-duplicates in a project's database, with a cache of all groups used. Thread-safe.

    Parameters
    ----------
    groupings : Groupings
    """

    def __init__(self, groupings: Groupings) -> None:
        self._groupings = groupings
        self._known: dict[str, ItemGroups] = {}
        self._lock = threading.Lock()

    def keep(self, groups: ItemGroups) -> ItemGroups:
        """Store groups and return them; if equal groups are cached already, return the cached object.

        Raises
        ------
        StorageError
            If the groups can't be stored.
        """
        with self._lock:
            if not self._groupings.has(groups.digest):
                self._groupings.keep(groups.digest, groups.to_bytes())
            return self._known.setdefault(groups.digest, groups)

    def named(self, digest: str | None) -> ItemGroups | None:
        """Return the groups with this digest, or None if `digest` is None.

        Raises
        ------
        InputError
            If the database has no such groups, or they are damaged.
        """
        if digest is None:
            return None
        with self._lock:
            if digest not in self._known:
                content = self._groupings.content(digest)
                if content is None:
                    raise InputError(f"the database has no groups of near-duplicates {digest}")
                self._known[digest] = ItemGroups.from_bytes(content, digest)
            return self._known[digest]
