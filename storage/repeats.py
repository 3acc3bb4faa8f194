"""Near-duplicates of answered items. Annotators need not be asked about them."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from closecall.storage.ascending import Ascending, Items, Marks


class ItemGroups(Protocol):
    """Groups of items that show almost the same."""

    @property
    def digest(self) -> str:
        """Digest of the groups."""

    def members(self, item: int, /) -> Items:
        """Return the items of the groups of `item`, including `item`, ascending; empty if it has no group."""

    def members_of(self, items: Sequence[int], /) -> Items:
        """Return the items of the groups of all `items`, ascending."""


class Repeats:
    """The items of all groups of near-duplicates that have an asked item.

    An item counts as asked if it has an answer for training that was not undone; a skip counts as an answer
    (`storage.fold`). An asked item is marked True if it has an answer other than a skip, and False otherwise.
    An item that is not asked is marked None. The time for changing a mark is proportional to the size of the
    item's groups.

    Parameters
    ----------
    groups : ItemGroups
    answered : container of int
        The items that have any answer that was not undone. The caller keeps this container up to date.
    asked : mapping of int to bool
        The marks of the asked items when the object is made.

    Attributes
    ----------
    n_open : int
        Number of items without an answer that are in a group with an asked item.
    """

    def __init__(self, groups: ItemGroups, answered: Container[int], asked: Mapping[int, bool]) -> None:
        self.groups = groups
        self.n_open = 0
        self._answered = answered
        # By item: the number of asked items that it repeats, with an answer other than a skip, and without.
        self._numbers: dict[bool, dict[int, int]] = {True: {}, False: {}}
        self._items = Ascending()
        for item, mark in asked.items():
            self.settle(item, None, mark)

    def settle(self, item: int, before: bool | None, after: bool | None) -> None:
        """Update the items after the mark of `item` has changed from `before` to `after`."""
        members = self.groups.members(item).tolist()
        was_in = {member for member in members if self.mark(member) is not None}
        for mark, change in ((before, -1), (after, 1)):
            if mark is not None:
                numbers = self._numbers[mark]
                for member in members:
                    number = numbers.get(member, 0) + change
                    if number:
                        numbers[member] = number
                    else:
                        del numbers[member]
        for member in members:
            mark = self.mark(member)
            self._items.put(member, mark)
            if member not in self._answered:
                self.n_open += (mark is not None) - (member in was_in)

    def note(self, item: int, *, is_answered: bool) -> None:
        """Update `n_open` after an item got its first answer or lost its last answer.

        If the answer was given for training, call `settle` afterwards.
        """
        if self.mark(item) is not None:
            self.n_open += -1 if is_answered else 1

    def n_open_after(self, item: int, *, is_asked: bool) -> int:
        """Return what `n_open` would be after an answer about the item.

        `is_asked` is whether the item would then be asked.
        """
        n_open = self.n_open - (self.mark(item) is not None and item not in self._answered)
        if is_asked:
            members = self.groups.members(item).tolist()
            others = (one for one in members if one != item and one not in self._answered)
            n_open += sum(self.mark(one) is None for one in others)
        return n_open

    def read(self) -> tuple[Items, Marks]:
        """Return the items, ascending, and the `mark` of each."""
        return self._items.read()

    def supposing(self, item: int, before: bool | None, after: bool | None) -> tuple[Items, Marks]:
        """Return what `read` would return after `settle` with the same arguments."""
        if before == after:
            return self.read()
        answered, skipped = ((after is mark) - (before is mark) for mark in (True, False))
        members = self.groups.members(item).tolist()
        return self._items.read({member: self.mark(member, answered, skipped) for member in members})

    def mark(self, item: int, answered: int = 0, skipped: int = 0) -> bool | None:
        """Return True if the item is in a group with an asked item that has an answer other than a skip.

        Return False if its groups only have asked items with skips, and None if they have no asked items. The
        result supposes that the groups have `answered` more asked items with an answer other than a skip, and
        `skipped` more asked items with skips only. A negative number means fewer.
        """
        if self._numbers[True].get(item, 0) + answered:
            return True
        return False if self._numbers[False].get(item, 0) + skipped else None
