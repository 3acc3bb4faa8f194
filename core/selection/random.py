"""Random selection: the baseline, and the only strategy that needs no classifier."""

from __future__ import annotations

import numpy as np

from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.exclusion import drawn_rows, excluded_rows
from closecall.core.selection.requests import Choice, Query


class RandomSampling(QueryStrategy):
    """Query strategy that selects items uniformly at random among those that are not excluded.

    `Selection.probability` is the number of selected items divided by the number of items that are not
    excluded. It is None if a diverse subset is selected. Without a hyperplane, the margins are NaN.
    """

    name = "random"
    about = "Any item: the baseline for learning."
    needs_hyperplane = False

    def choose(self, query: Query) -> Choice:
        """Return random items in the order in which they are drawn; see `QueryStrategy.choose`."""
        excluded = excluded_rows(self.pool_, query)
        available = len(self.pool_) - len(excluded)
        n = min(query.n, available)
        if not n:
            return Choice.nothing()
        rng = np.random.default_rng([self.random_state, query.seed])
        rows = drawn_rows(rng, n, len(self.pool_), excluded)
        if query.hyperplane is None:
            return Choice(self.pool_.ids[rows], np.full(n, np.nan), scored=0, probability=n / available)
        margins = self.reader_.margins(rows, query.hyperplane)
        return Choice(self.pool_.ids[rows], margins, scored=n, probability=n / available)
