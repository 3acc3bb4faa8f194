"""The ids of a pool's items, and the rows that have them."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError

Ids = NDArray[np.int64]


class ItemIds:
    """Item ids in ascending order, one per row.

    Parameters
    ----------
    ids : array of shape (n_rows,), int64, ascending
    """

    def __init__(self, ids: Ids) -> None:
        self._ids = ids
        # If no id between the first and the last is missing, a row's number is its id minus the first id.
        self._first = int(ids[0]) if len(ids) else 0
        self._gapless = not len(ids) or int(ids[-1]) - self._first == len(ids) - 1

    def has(self, item: int) -> bool:
        """Return whether a row has this id."""
        if self._gapless:
            return 0 <= item - self._first < len(self._ids)
        place = int(np.searchsorted(self._ids, item)) if 0 <= item <= self._ids[-1] else 0
        return bool(self._ids[place] == item)

    def find(self, ids: Ids) -> tuple[Ids, NDArray[np.bool_]]:
        """For each id, return its row, and whether it has a row. If it has none, the row is undefined."""
        if self._gapless:
            rows = ids - self._first
            return rows, (rows >= 0) & (rows < len(self._ids))
        places = np.searchsorted(self._ids, ids)
        return places, self._ids[np.minimum(places, len(self._ids) - 1)] == ids


def whole_numbers(values: ArrayLike, what: str) -> Ids:
    """Return whole numbers of shape (n,) as int64. For other values, raise an InputError.

    `what` names the values in the error message.
    """
    array = np.asarray(values)
    if not array.size:
        return np.empty(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(
            f"{what} must be whole numbers of shape (n,), got {array.dtype} of shape {array.shape}"
        )
    return array.astype(np.int64, copy=False)
