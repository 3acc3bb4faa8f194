"""The margin index: quantized scores find the rows that may be the nearest, and these are scored exactly."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from statistics import NormalDist
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.quantization.quantizer import MAX_CLUSTERS
from closecall.core.selection.base import Arrays, Progress, QueryStrategy
from closecall.core.selection.exhaustive import ExhaustiveSearch
from closecall.core.selection.margin.byte_search import ByteSearch, found_in
from closecall.core.selection.margin.kernels import search, turned
from closecall.core.selection.margin.layout import Layout, read_only
from closecall.core.selection.margin.tables import Found, Statistics, Tables
from closecall.core.selection.nearest import (
    at_most,
    balanced,
    float32_error,
    nearest_first,
    rounding_error,
    within_reach,
)
from closecall.core.selection.reader import PoolRows, Rows
from closecall.core.selection.requests import Choice, Query
from closecall.core.selection.scan import scan
from closecall.core.selection.subsample import Subsample

LEAST_BUDGET = 8_000
"""Smallest budget for which clusters are used. A smaller budget is spent on random rows.

Finding the clusters to read takes as long as reading several thousand random rows. To choose this number, we
compared two rows in 57 settings on three pools: the nearest row that the clusters find within a budget, and
the nearest of the random rows that can be read in the same time. With a budget of 8,000 rows, the comparison
was undecided in 1 setting at the confidence `NEAR_EXACT`, and in none at `WITH_BUDGET`. With budgets of 3,500
to 7,000 rows, it was undecided in 1 to 3 of the 19 settings on a million photographs and variants of
photographs. In all undecided settings, a balanced SVM cut through the bulk of the data.
"""

NEAR_EXACT = 0.9999
"""Default confidence without a budget, when a query looks for the nearest of all rows."""

WITH_BUDGET = 0.9
"""Default confidence with a budget, when nearer rows may remain unread anyway.

A query takes up to a quarter less time than at the confidence `NEAR_EXACT`. In 15 settings on CIFAR-10, the
median rank of the row found was the same.
"""

THRIFTY_BUDGET = 32_000
"""Budget of a query while time is short; see `QueryStrategy.thrifty`."""

LARGE, SHARE_OF_LARGE = 10_000_000, 0.01
"""A query examines this share of the rows of a byte pool with more than this number of rows."""

PROMISING = 32
"""Number of rows, in addition to the number requested, that are scored exactly before all other rows."""

MANY = 256
"""If more rows than this remain, they are scored in float32 before float64."""

BEYOND = 1.1
"""Distance from the origin to a hyperplane that has all rows on one side.

Rows have unit norm, and the decoded rows of a byte pool nearly so.
"""

ALIGNED = 3.0
"""Factor of the tolerance zσ in searches for the largest scores.

The normal is a combination of labeled rows. The scores of their near-duplicates are large because every part
of such a row is aligned with the normal, also the unread part, whose score is then many times σ. In 1,000
searches on photographs of turning fruits, the row with the largest score was missed 16 times with a factor of
1, 4 times with 1.5, and never with 2 or 3. A factor of 3 adds a tenth to half of the time.
"""


@dataclass(frozen=True, eq=False)
class Memory:
    """Scores of all rows under one hyperplane, which make later queries cheaper.

    See `MarginIndex.remember`.

    Parameters
    ----------
    scores : array of shape (N,), float32
        wᵀx + b of each row under the hyperplane, scaled by `core.selection.nearest.balanced`. The rows are in
        the order of `order`.
    normal : array of shape (d,), float32
    at_centre : float
        Both describe the hyperplane, as returned by `core.selection.margin.kernels.turned`.
    order : array of shape (N,), int32
        Order of the rows in the index. An index ignores a memory with another order.
    """

    scores: NDArray[np.float32]
    normal: NDArray[np.float32]
    at_centre: float
    order: NDArray[np.int32]


_NOTHING = Memory(np.empty(0, np.float32), np.empty(0, np.float32), 0.0, np.empty(0, np.int32))


class MarginIndex(QueryStrategy):
    """Query strategy that finds the nearest items by clusters and quantized coordinates.

    Rows are stored in the order of their clusters, with one byte per coordinate. A query estimates for each
    cluster how densely its rows lie at the hyperplane, and reads the densest clusters first. If a row turns
    out to be far away, only its first few bytes are read. Rows that may be the nearest are scored exactly,
    with their features from the pool.

    A byte pool is its own index: its bytes are read in place, with the clusters of its codebook, and
    `n_clusters` is ignored.

    Sparse rows are not quantized. Without a budget, all sparse rows are scored; with a budget, that number of
    random rows is scored. `Selection.scored` has the number. A few principal directions do not represent bags
    of words well, and there is little time to save: a scan of 11,000 documents takes 3 ms.

    Parameters
    ----------
    budget : int or None
        Maximum number of rows to examine; in a byte pool, the last cluster is read to its end. With None,
        every row that may be nearer than the rows found is examined, so the result is nearly exact. With a
        budget below `LEAST_BUDGET`, a random subsample is scored instead, with a warning.
    share : float or None
        Maximum share of the rows to examine, above 0 and at most 1, instead of a budget. At least
        `LEAST_BUDGET` rows are examined. If neither is given, the share is `SHARE_OF_LARGE` on byte pools
        with more than `LARGE` rows, and 1 on all other pools.
    confidence : float or None
        Approximate probability, above 0, of finding the nearest of the examined rows (see
        `core.selection.margin.kernels`). With a confidence of 1, all rows are scored, without the index; it
        excludes a budget, and a share below 1. The default is `NEAR_EXACT`, because an item that is missed
        stays in the pool, and is likely to be missed again with the next hyperplane, which is similar. With a
        budget smaller than the pool, the default is `WITH_BUDGET`.
    n_clusters : int or None
        Number of clusters. None means about the square root of the number of rows.
    random_state : int

    Warns
    -----
    UserWarning
        If the budget is below `LEAST_BUDGET`.
    """

    name = "margin-index"
    about = "The item nearest the boundary, found without scoring all items."
    query_params = frozenset({"budget", "share", "confidence"})

    layout_: Layout
    statistics_: Statistics
    tables_: Tables
    z_: float
    _instead: QueryStrategy | None
    _bytes: ByteSearch | None

    def __init__(
        self,
        *,
        budget: int | None = None,
        share: float | None = None,
        confidence: float | None = None,
        n_clusters: int | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(random_state=random_state)
        self.budget = budget
        self.share = share
        self.confidence = confidence
        self.n_clusters = n_clusters

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        self.check_limits()
        if self.n_clusters is not None and not 1 <= self.n_clusters <= MAX_CLUSTERS:
            raise InputError(f"n_clusters must be from 1 to {MAX_CLUSTERS}, or none, got {self.n_clusters}")
        if self.budget is not None and self.budget < LEAST_BUDGET:
            warnings.warn(
                f"a budget of {self.budget:,} rows is spent on a random subsample, because clusters find no "
                f"nearer rows in the same time: give margin-index at least {LEAST_BUDGET:,}, or none",
                stacklevel=3,
            )

    def check_limits(self) -> None:
        """Raise an InputError if the budget, the share or the confidence is invalid."""
        if self.budget is not None and self.budget < 1:
            raise InputError(f"budget must be at least 1, or none, got {self.budget}")
        if self.share is not None and not 0 < self.share <= 1:
            raise InputError(f"share must be above 0 and at most 1, or none, got {self.share:g}")
        if self.share is not None and self.budget is not None:
            raise InputError("give margin-index a budget or a share, not both")
        if self.confidence is not None and not 0 < self.confidence <= 1:
            raise InputError(f"confidence must be above 0 and at most 1, or none, got {self.confidence}")
        if self._is_certain and (self.budget is not None or self.share not in (None, 1)):
            raise InputError("a confidence of 1 needs all rows: give margin-index no budget and no share")

    def thrifty_params(self) -> dict[str, Any]:
        """See `QueryStrategy.thrifty_params`; limits the rows that a query reads to `THRIFTY_BUDGET`."""
        if self._most_rows <= THRIFTY_BUDGET or self._is_certain:
            return {}
        return {"budget": THRIFTY_BUDGET} | ({} if self.share is None else {"share": None})

    def certain_params(self) -> dict[str, Any]:
        """See `QueryStrategy.certain_params`; a budget, a smaller share or a confidence is left as given."""
        limited = self.budget is not None or self.share not in (None, 1) or self.confidence is not None
        return {} if limited else {"confidence": 1.0}

    @property
    def _is_certain(self) -> bool:
        """Whether all rows are scored, without the index."""
        return self.confidence == 1

    @property
    def _most_rows(self) -> int:
        """Maximum number of rows to examine."""
        n_rows, share = self.n_items, self.share
        if self._is_certain:
            return n_rows
        if self.budget is not None:
            return min(self.budget, n_rows)
        if share is None:
            share = SHARE_OF_LARGE if self._bytes is not None and n_rows > LARGE else 1.0
        return min(max(LEAST_BUDGET, ceil(share * n_rows)), n_rows)

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.prepare`."""
        self._build(pool, None, progress)

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.grow` and `Layout.built`."""
        self._build(pool, old, progress)

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self._by_clusters(query) if self._instead is None else self._instead.choose(query)

    def choose_largest(self, queries: Sequence[Query]) -> list[Choice]:
        """Choose the n items with the largest wᵀx + b for each query. The item with the largest comes first.

        They are the nearest ones to a parallel hyperplane that has all rows on its negative side, so they are
        found as the nearest rows are, with the same budget and confidence. A small budget is not spent on
        random rows, because the clusters find much larger scores. Sparse rows are all scored.
        """
        if self.pool_.is_sparse or self._is_certain:
            return scan(self.pool_, self.reader_, queries, np.negative)
        return [self._largest(query) for query in queries]

    def remember(self, hyperplanes: Sequence[Hyperplane]) -> list[object]:
        """See `QueryStrategy.remember`; an object has the scores of all rows.

        With a budget or a share, or if the rows are sparse or bytes, the object is None.
        """
        some = self.budget is not None or self.share is not None
        if some or self._instead is not None or self._bytes is not None:
            return [None for _ in hyperplanes]
        hyperplanes = [balanced(hyperplane)[0] for hyperplane in hyperplanes]
        scores = np.empty((len(hyperplanes), self.n_items), dtype=np.float32)
        for first, block in self.pool_.score_blocks(hyperplanes):
            scores[:, first : first + block.shape[1]] = block
        order = self.layout_.order
        return [
            Memory(row[order], *turned(self.statistics_, hyperplane.normal, hyperplane.bias), order)
            for hyperplane, row in zip(hyperplanes, scores, strict=True)
        ]

    def _by_clusters(self, query: Query, *, largest: bool = False) -> Choice:
        """Return the n nearest rows among those that a query may examine; see `search` for `largest`."""
        n_rows = self.n_items
        limit = min(n_rows, max(self._most_rows, query.n))
        choice = self._nearest(query, limit, largest=largest)
        if len(choice.ids) < query.n and limit < n_rows and not choice.missing:
            return self._nearest(query, n_rows, largest=largest)
        return choice

    def _largest(self, query: Query) -> Choice:
        """Return the n items with the largest wᵀx + b, as far as clusters and quantized coordinates show."""
        plane = query.plane()
        beyond = Hyperplane(plane.normal, -BEYOND * plane.norm)
        choice = self._by_clusters(replace(query, hyperplane=beyond), largest=True)
        hyperplane, unit = balanced(plane)
        rows = np.searchsorted(self.pool_.ids, choice.ids)
        rows, keys = nearest_first(rows, -self.reader_.scores(rows, hyperplane), query.n)
        return replace(choice, ids=self.pool_.ids[rows], margins=np.abs(keys) * unit)

    def _nearest(self, query: Query, limit: int, *, largest: bool) -> Choice:
        """Return the n rows nearest to the hyperplane, among `limit` rows that are likely to be near.

        The rows in `Layout.strayed` are included only if `limit` is the number of all rows.
        """
        hyperplane, unit = balanced(query.plane())
        z = ALIGNED * self.z_ if largest else self.z_
        if self._bytes is not None:
            found, missing = found_in(
                self.pool_, self.reader_, hyperplane, query.exclude, query.n, limit, z, largest=largest
            )
            rows, margins = self._settled(found, hyperplane, query.n)
            scored = min(found.looked, self.n_items)
            return Choice(self.pool_.ids[rows], margins * unit, scored=scored, missing=missing)
        everything, excluded = limit == self.n_items, query.exclude
        strayed = self.layout_.strayed if everything else self.layout_.strayed[:0]
        memory = _NOTHING
        if everything and isinstance(query.memory, Memory) and query.memory.order is self.layout_.order:
            memory = query.memory
        if len(strayed):
            ids = self.pool_.ids[strayed]
            excluded = np.sort(np.concatenate([excluded, ids]))
            strayed = strayed[query.allowed(ids)]
        found = search(
            self.statistics_, self.tables_, hyperplane.normal, hyperplane.bias, read_only(excluded),
            query.n, limit, z, largest, memory.scores, memory.normal, memory.at_centre,
        )  # fmt: skip
        rows, margins = self._settled(found, hyperplane, query.n)
        if len(strayed):
            exact = self.reader_.margins(strayed, hyperplane)
            rows, margins = nearest_first(
                np.concatenate([rows, strayed]), np.concatenate([margins, exact]), query.n
            )
        scored = min(found.looked + len(strayed), self.n_items)
        return Choice(self.pool_.ids[rows], margins * unit, scored=scored)

    def _settled(self, found: Found, hyperplane: Hyperplane, n: int) -> tuple[Rows, NDArray[np.float64]]:
        """Return the n nearest of the rows found, and their exact margins; ties go to the lower row.

        The most promising rows are scored first, because their margins rule out many of the other rows.
        """
        if self._bytes is not None:
            return self._settled_bytes(found, hyperplane, n)
        some = n + PROMISING
        if len(found.rows) <= some:
            return nearest_first(found.rows, self.reader_.margins(found.rows, hyperplane), n)
        order = np.argpartition(found.distances, some)
        rows, distances = found.rows[order], found.distances[order]
        nearest, margins = nearest_first(rows[:some], self.reader_.margins(rows[:some], hyperplane), n)
        rest = rows[some:][distances[some:] <= margins[-1] + found.error]
        if len(rest) > MANY:
            rough = self.reader_.rough_margins(rest, hyperplane)
            rest = rest[at_most(rough, margins[-1] + float32_error(hyperplane))]
        exact = self.reader_.margins(rest, hyperplane)
        return nearest_first(np.concatenate([nearest, rest]), np.concatenate([margins, exact]), n)

    def _settled_bytes(
        self, found: Found, hyperplane: Hyperplane, n: int
    ) -> tuple[Rows, NDArray[np.float64]]:
        """Return the same for a byte pool, whose rows are expensive to decode: rough margins decide first."""
        rows, some = found.rows, n + PROMISING
        if len(rows) > some:
            order = np.argpartition(found.distances, some)
            rough = self.reader_.rough_margins(rows[order[:some]], hyperplane)
            reach = np.partition(rough, n - 1)[n - 1] + found.error
            rows = rows[found.distances <= reach]
        rough = self.reader_.rough_margins(rows, hyperplane)
        rows = rows[within_reach(rough, n, rounding_error(hyperplane))]
        return nearest_first(rows, self.reader_.margins(rows, hyperplane), n)

    def arrays(self) -> Arrays:
        """See `QueryStrategy.arrays`."""
        return {} if self._has_no_layout else self.layout_.arrays()

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        if self._has_no_layout:
            self._build(self.pool_, None, None)
        else:
            self._use(Layout.from_arrays(arrays))

    def _build(self, pool: PoolRows, old: Self | None, progress: Progress | None) -> None:
        self._bytes = None
        if pool.is_sparse:
            self._scan()
        elif pool.byte_segments:
            self._bytes = ByteSearch.of(pool)
            self._set_confidence(self._bytes.n_blocks)
        else:
            kept = None if old is None else old.layout_
            self._use(Layout.built(pool, self.n_clusters, self.random_state, kept, progress))

    @property
    def _has_no_layout(self) -> bool:
        return self.pool_.is_sparse or len(self.pool_.byte_segments) > 0

    def _scan(self) -> None:
        whole = self.budget is None and self.share is None
        strategy = ExhaustiveSearch() if whole else self._random_rows(self._most_rows)
        self._instead = strategy.fit(self.pool_)

    def _random_rows(self, budget: int) -> QueryStrategy:
        return Subsample(n_scored=budget, random_state=self.random_state)

    def _use(self, layout: Layout) -> None:
        self._bytes = None
        self.layout_ = layout
        self.statistics_ = layout.statistics()
        self.tables_ = layout.tables(self.statistics_.starts, self.pool_.ids)
        self._set_confidence(layout.quantizer.n_blocks)

    def _set_confidence(self, n_blocks: int) -> None:
        n_looks = n_blocks + 1
        reads_all = self._most_rows >= self.n_items
        self._instead = None
        if self._is_certain:
            self._instead = ExhaustiveSearch().fit(self.pool_)
            return
        confidence = self.confidence or (NEAR_EXACT if reads_all else WITH_BUDGET)
        self.z_ = -NormalDist().inv_cdf((1 - confidence) / (2 * n_looks))
        if self.budget is not None and self.budget < LEAST_BUDGET:
            self._instead = self._random_rows(self.budget).fit(self.pool_)
