"""Selection of the nearest rows in a random subsample: simple, without index, and hard to beat at equal time.

Consecutive rows on disk are read faster than scattered rows, so the sample is drawn in runs of `run_length`
consecutive rows at uniformly random positions. For any run length, every row is equally likely to be in the
sample. If neighboring rows of the pool are similar, as with one folder per class, a long run is worth less
than the same number of single rows. A run length of 1 gives a simple random sample.
"""

from __future__ import annotations

import numpy as np

from closecall.core.errors import InputError
from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.exclusion import excluded_rows, nth_free
from closecall.core.selection.nearest_among import nearest_among
from closecall.core.selection.reader import Rows
from closecall.core.selection.requests import Choice, Query


class Subsample(QueryStrategy):
    """Query strategy that selects the nearest of `n_scored` random items.

    Parameters
    ----------
    n_scored : int
        Number of items to score. If a query requests more items, all requested items are scored.
    run_length : int
        Number of consecutive rows per random draw. If the pool is too small for enough runs of this length,
        the sample is a single run.
    random_state : int
    """

    name = "subsample"
    about = "The item nearest the boundary among 10,000 random ones."

    def __init__(self, *, n_scored: int = 10_000, run_length: int = 4, random_state: int = 0) -> None:
        super().__init__(random_state=random_state)
        self.n_scored = n_scored
        self.run_length = run_length

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        if self.n_scored < 1 or self.run_length < 1:
            raise InputError(
                f"n_scored and run_length must be at least 1, got {self.n_scored} and {self.run_length}"
            )

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        excluded = excluded_rows(self.pool_, query)
        rows = nth_free(self._sample(query, len(self.pool_) - len(excluded)), excluded)
        if not len(rows):
            return Choice.nothing()
        return nearest_among(self.pool_, self.reader_, rows, query)

    def _sample(self, query: Query, available: int) -> Rows:
        """Return the ranks of the sampled rows among the rows that are not excluded, ascending.

        The ranks are divided into runs of equal length, and some runs are drawn. All drawn ranks are then
        shifted by the same random offset, cyclically: the rank after the last rank is 0.
        """
        wanted = max(self.n_scored, query.n)
        if wanted >= available:
            return np.arange(available)
        rng = np.random.default_rng([self.random_state, query.seed])
        length = self.run_length if wanted <= available // self.run_length * self.run_length else wanted
        runs = rng.choice(available // length, -(-wanted // length), replace=False, shuffle=False)
        places = np.add.outer(runs * length, np.arange(length)).ravel()[:wanted]
        return np.asarray(np.sort((places + rng.integers(available)) % available))
