"""Search a project's items by name."""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from closecall.core.pool.name_index import Names
from closecall.core.pool.pool import Pool


class NameSearch:
    """A search for items by name. Thread-safe.

    The first search collects the names of all items, which takes about a second per million items. Later
    searches collect only the names of new items.
    """

    def __init__(self) -> None:
        self._names: Names | None = None
        self._lock = threading.Lock()

    def find(self, pool: Pool, text: str) -> NDArray[np.int64]:
        """Return the items whose names contain every word of `text`, of shape (n_found,), ascending.

        See `core.pool.name_index.Names.search`.

        Raises
        ------
        InputError
            If the pool's source no longer exists.
        """
        with self._lock:
            if self._names is None:
                self._names = Names(pool)
            elif len(self._names) < len(pool):
                self._names = self._names.extended(pool)
            names = self._names
        found = names.search(text)
        return found if len(names) == len(pool) else found[np.isin(found, pool.ids)]
