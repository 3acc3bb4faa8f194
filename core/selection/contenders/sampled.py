"""Base class of strategies for the first labels, which choose among random items of the pool.

They look for items that stand for many others, and need no classifier. When no sampled item stands for others
that have no label yet, items are selected at random.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.base import Arrays, Progress, QueryStrategy
from closecall.core.selection.contenders.cosines import inner_products, rounded
from closecall.core.selection.exclusion import rows_among
from closecall.core.selection.random import RandomSampling
from closecall.core.selection.reader import PoolRows, Rows
from closecall.core.selection.requests import Choice, Query

_ROWS = "rows"

_MOST_MARKS = 100_000
"""Number of labeled items whose marks are kept."""


class Sampled(QueryStrategy):
    """Base class of strategies that select the sampled item that stands for the most others.

    A subclass overrides `described`, `marks` and `representatives`.

    Parameters
    ----------
    n_sampled : int
        Number of random items of the pool that stand for all of them.
    random_state : int
    """

    needs_hyperplane = False

    sample_: Arrays
    X_: Features

    def __init__(self, *, n_sampled: int = 2000, random_state: int = 0) -> None:
        super().__init__(random_state=random_state)
        self.n_sampled = n_sampled

    @abstractmethod
    def described(self, X: Features) -> Arrays:
        """Return arrays that describe the sampled items, for `representatives`.

        X has their features, `core.selection.contenders.cosines.rounded`.
        """

    @abstractmethod
    def marks(self, cosines: NDArray[np.float64]) -> NDArray[Any]:
        """Return what `representatives` needs to know of labeled items, a row for each.

        `cosines`, of shape (n_labels, n_sampled), are those between the labeled and the sampled items. The
        marks are kept, so that a label costs time only once.
        """

    @abstractmethod
    def representatives(self, n: int, marks: NDArray[Any], allowed: NDArray[np.bool_]) -> Rows:
        """Return at most `n` places in the sample, the best first.

        Parameters
        ----------
        n : int
            Number of places wanted.
        marks : array of shape (n_labels, …)
            The `marks` of the labeled items of the pool.
        allowed : array of shape (n_sampled,), bool
            Which sampled items may be selected.
        """

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        if self.n_sampled < 1:
            raise InputError(f"n_sampled must be at least 1, got {self.n_sampled}")

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:  # noqa: ARG002
        """See `QueryStrategy.prepare`."""
        rng = np.random.default_rng([self.random_state, len(pool)])
        rows = np.sort(rng.choice(len(pool), min(self.n_sampled, len(pool)), replace=False))
        self.restore({_ROWS: rows, **self.described(rounded(pool.rows(rows)))})

    def arrays(self) -> Arrays:
        """See `QueryStrategy.arrays`."""
        return self.sample_

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        self.sample_ = arrays
        self.X_ = rounded(self.pool_.rows(arrays[_ROWS]))
        self._marks: dict[int, NDArray[Any]] = {}

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        rows = self.sample_[_ROWS]
        marks = self._marks_of(rows_among(self.pool_, np.sort(query.labels.ids)))
        places = self.representatives(query.n, marks, query.allowed(self.pool_.ids[rows]))
        ids = self.pool_.ids[rows[places]]
        if query.hyperplane is None:
            chosen = Choice(ids, np.full(len(ids), np.nan), scored=0)
        else:
            chosen = Choice(ids, self.reader_.margins(rows[places], query.hyperplane), scored=len(ids))
        return chosen if len(ids) == query.n else self._filled_up(chosen, query)

    def _marks_of(self, labeled: Rows) -> NDArray[Any]:
        """Return the marks of labeled rows of the pool."""
        known = self._marks
        if len(known) > _MOST_MARKS:
            known = self._marks = {}
        new = labeled[[row not in known for row in labeled.tolist()]] if known else labeled
        found = self.marks(inner_products(rounded(self.pool_.rows(new)), self.X_))
        known.update(zip(new.tolist(), found, strict=True))
        return found if len(new) == len(labeled) else np.array([known[row] for row in labeled.tolist()])

    def _filled_up(self, chosen: Choice, query: Query) -> Choice:
        """Return the choice with random items added, up to the number requested."""
        exclude = np.union1d(query.exclude, chosen.ids)
        rest = replace(query, n=query.n - len(chosen.ids), exclude=exclude)
        others = RandomSampling(random_state=self.random_state).restored(self.pool_, {}).choose(rest)
        return Choice(
            np.concatenate([chosen.ids, others.ids]),
            np.concatenate([chosen.margins, others.margins]),
            scored=chosen.scored + others.scored,
        )
