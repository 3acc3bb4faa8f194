"""Base class of strategies that choose among a few items near the hyperplane.

The classifier is unsure of all these items. A strategy can therefore look for something else in them, such as
items that are typical of the pool.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.contenders.cosines import rounded
from closecall.core.selection.exclusion import rows_among
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.over_margin import OverMarginIndex
from closecall.core.selection.reader import Ids, Rows
from closecall.core.selection.requests import Choice, Query

DECIMALS = 9
"""Values that agree in this many decimals count as equal, so that rounding errors decide nothing."""


class Shortlisting(OverMarginIndex):
    """Base class of strategies that select the most valuable of the items nearest to the hyperplane.

    Ties go to the lower id. A subclass overrides `values`.

    Parameters
    ----------
    shortlist : int
        Number of nearest items to choose among. If a query requests more items, they are the nearest.
    n_sampled : int
        Number of random items of the pool that stand for all of them.
    budget, confidence
        See `core.selection.margin.MarginIndex`, which finds the nearest items.
    random_state : int
    """

    query_params = frozenset({"shortlist", "n_sampled", "budget", "confidence"})

    sample_rows_: Rows
    sample_: Features

    def __init__(
        self,
        *,
        shortlist: int = 100,
        n_sampled: int = 1000,
        budget: int | None = None,
        confidence: float | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(budget=budget, confidence=confidence, random_state=random_state)
        self.shortlist = shortlist
        self.n_sampled = n_sampled

    @abstractmethod
    def values(self, query: Query, X: Features, ids: Ids) -> NDArray[np.floating]:
        """Return the value of each item of the shortlist, of shape (n,); larger is better.

        Parameters
        ----------
        query : Query
            The query, which has a hyperplane.
        X : array of shape (n, n_features), float64, or csr_array
            Features of the shortlist, `core.selection.contenders.cosines.rounded`.
        ids : array of shape (n,), int64
            Ids of the shortlist, the nearest first.
        """

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        super().check()
        if self.shortlist < 1 or self.n_sampled < 1:
            raise InputError(
                f"shortlist and n_sampled must be at least 1, got {self.shortlist} and {self.n_sampled}"
            )

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        near = self.margin_index_.choose(replace(query, n=max(self.shortlist, query.n)))
        if len(near.ids) < 2:
            return near
        X = rounded(self.pool_.rows(np.searchsorted(self.pool_.ids, near.ids)))
        values = np.round(self.values(query, X, near.ids), DECIMALS)
        best = np.lexsort((near.ids, -values))[: query.n]
        return replace(near, ids=near.ids[best], margins=near.margins[best])

    def labeled(self, query: Query) -> tuple[Features, Ids, NDArray[np.bool_]]:
        """Return the features, ids and answers of the labeled items of the pool, by id.

        Items that the pool doesn't have are left out, such as example images.
        """
        order = np.argsort(query.labels.ids)
        ids, y = query.labels.ids[order], query.labels.y[order]
        rows = rows_among(self.pool_, ids)
        known = self.pool_.ids[rows]
        return self.pool_.rows(rows), known, y[np.searchsorted(ids, known)]

    def _use(self, margin_index: MarginIndex) -> None:
        super()._use(margin_index)
        n = len(self.pool_)
        rng = np.random.default_rng([self.random_state, n])
        self.sample_rows_ = np.sort(rng.choice(n, min(self.n_sampled, n), replace=False))
        self.sample_ = rounded(self.pool_.rows(self.sample_rows_))
