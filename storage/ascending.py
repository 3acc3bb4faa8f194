"""Sets of items as arrays in ascending order. Small changes copy the arrays, but don't sort them again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Items = NDArray[np.int64]
Marks = NDArray[np.bool_]

_Scalar = TypeVar("_Scalar", bound=np.generic)


class Ascending:
    """Set of items, each with a mark, true or false.

    Items and marks are read as two arrays. Changes are collected until the next read. Returned arrays never
    change, and `read` returns the same objects until an item or a mark changes. If the marks are not needed,
    all items may have the same mark. Not thread-safe.
    """

    def __init__(self) -> None:
        self._changes: dict[int, bool | None] = {}
        self._read: tuple[Items, Marks] = NONE, NO_MARKS
        self._supposed: tuple[frozenset[int], tuple[Items, Marks]] = frozenset(), self._read
        """Items whose marks the last `read` supposed, and its result, for use in the next `read`."""

    def put(self, item: int, mark: bool | None) -> None:
        """Set the item's mark; None removes the item."""
        self._changes[item] = mark

    def read(self, supposed: Mapping[int, bool | None] | None = None) -> tuple[Items, Marks]:
        """Return the items in ascending order, and their marks, as read-only arrays.

        The changes in `supposed` are applied to the result, but not kept.
        """
        if self._changes:
            self._read = self._with(self._changes)
            self._changes, self._supposed = {}, (frozenset(), self._read)
        if not supposed:
            return self._read
        found = self._with(supposed)
        if None not in supposed.values():
            self._supposed = frozenset(supposed), found
        return found

    def _with(self, changes: Mapping[int, bool | None]) -> tuple[Items, Marks]:
        """Return the items and marks after `changes`.

        If the last `read` supposed marks for the same items, only the array of marks is copied.
        """
        items, last = self._supposed
        is_known = items == changes.keys() and None not in changes.values()
        return _changed(*(last if is_known else self._read), changes)


def _changed(items: Items, marks: Marks, changes: Mapping[int, bool | None]) -> tuple[Items, Marks]:
    stays = np.fromiter((mark is not None for mark in changes.values()), np.bool_, len(changes))
    mark = np.fromiter((bool(mark) for mark in changes.values()), np.bool_, len(changes))
    item = np.fromiter(changes, np.int64, len(changes))
    order = np.argsort(item)
    item, mark, stays = item[order], mark[order], stays[order]
    places, there = _found(items, item)
    same = there.copy()
    same[there] = stays[there] & (marks[places[there]] == mark[there])
    marked = there & stays & ~same
    out, new = there & ~stays, stays & ~there
    if marked.any():
        marks = marks.copy()
        marks[places[marked]] = mark[marked]
    if out.any():
        items, marks = np.delete(items, places[out]), np.delete(marks, places[out])
    if new.any():
        places = np.searchsorted(items, item[new])
        items, marks = np.insert(items, places, item[new]), np.insert(marks, places, mark[new])
    return frozen(items), frozen(marks)


def without(items: Items, others: Items) -> Items:
    """Return the `items` that are not among `others`; both arrays are ascending, without repeats."""
    places, there = _found(items, others)
    return np.delete(items, places[there]) if there.any() else items


def joined(items: Items, others: Items) -> Items:
    """Return the union of two ascending arrays without repeats. This is fast if there are few `others`."""
    places, there = _found(items, others)
    return items if there.all() else np.insert(items, places[~there], others[~there])


def frozen(array: NDArray[_Scalar]) -> NDArray[_Scalar]:
    """Make an array read-only, and return it."""
    array.flags.writeable = False
    return array


def _found(items: Items, wanted: Items) -> tuple[NDArray[np.intp], Marks]:
    """Return, for each wanted item, its position (or insertion point) in `items`, and whether it is there."""
    places = np.searchsorted(items, wanted)
    if not len(items):
        return places, np.zeros(len(wanted), dtype=np.bool_)
    return places, items.take(places, mode="clip") == wanted


NONE: Items = frozen(np.empty(0, dtype=np.int64))
NO_MARKS: Marks = frozen(np.empty(0, dtype=np.bool_))
