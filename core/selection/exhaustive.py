"""Exhaustive selection: score every row and return the nearest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.requests import Choice, Query
from closecall.core.selection.scan import scan


class ExhaustiveSearch(QueryStrategy):
    """Query strategy that finds the n items nearest to the hyperplane exactly, by one scan of the pool.

    It has no thriftier form (`QueryStrategy.thrifty`), because it promises to score every item.
    """

    name = "exhaustive"
    about = "The item nearest the boundary, by scoring all items."
    key: ClassVar[np.ufunc] = np.abs
    """Function of wᵀx + b that is smallest for the items to select; see `core.selection.scan.scan`."""

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`."""
        return scan(self.pool_, self.reader_, queries, self.key)
