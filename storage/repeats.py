"""Items that repeat answered items: near-duplicates, about which the queue need not ask again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol

from closecall.storage.ascending import Ascending, Items


class ItemGroups(Protocol):
    """Groups of items that show almost the same."""

    @property
    def digest(self) -> str:
        """Digest of the groups."""

    def members(self, item: int, /) -> Items:
        """Return the items of the item's groups, ascending, itself among them; none if it has no group."""

    def members_of(self, items: Sequence[int], /) -> Items:
        """Return the items of the groups of all `items`, ascending."""


class Repeats:
    """The items of all groups of near-duplicates that have an asked item.

    An item is asked if it has an answer that was given for training, even a skip, and not undone; see
    `storage.fold`. An update after one item has become asked, or is no longer asked, takes time proportional
    to the size of its groups.

    Parameters
    ----------
    groups : ItemGroups
    asked : iterable of int
        The asked items when the object is made.
    """

    def __init__(self, groups: ItemGroups, asked: Sequence[int] = ()) -> None:
        self.groups = groups
        self._asked: Counter[int] = Counter()  # by item: number of asked items that it repeats
        self._items = Ascending()
        for item in asked:
            self.settle(item, is_asked=True)

    def settle(self, item: int, *, is_asked: bool) -> None:
        """Update the set after an item has become asked, or is no longer asked."""
        change = 1 if is_asked else -1
        for member in self.groups.members(item).tolist():
            self._asked[member] += change
            self._items.put(member, True if self._asked[member] else None)
            if not self._asked[member]:
                del self._asked[member]

    def read(self, supposed: Sequence[int] = ()) -> Items:
        """Return the items, ascending; the items of `supposed` count as asked, too, but only this time."""
        more: Mapping[int, bool] = {
            member: True for item in supposed for member in self.groups.members(item).tolist()
        }
        return self._items.read(more)[0]
