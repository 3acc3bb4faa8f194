"""Exhaustive selection: every row is scored, so the answer is the nearest there is."""

from __future__ import annotations

import numpy as np

from core.selection.base import Choice, Query, QueryStrategy
from core.selection.exclusion import excluded_rows
from core.selection.nearest import float32_error, nearest_first, within_reach


class ExhaustiveSearch(QueryStrategy):
    """The n items nearest to the hyperplane, exactly (see `core.selection.nearest`): one scan of the pool."""

    name = "exhaustive"

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        hyperplane = query.plane()
        margins = np.abs(self.pool_.scores(hyperplane))
        margins[excluded_rows(self.pool_, query)] = np.inf
        rows = within_reach(margins, query.n, float32_error(hyperplane))
        ids, exact = nearest_first(self.pool_.ids[rows], self.reader_.margins(rows, hyperplane), query.n)
        return Choice(ids, exact, scored=len(margins))
