"""Search for the items of a pool nearest to an example, by hash codes or by a scan.

A search follows Section 3.3 of Kulis, Jain and Grauman, *Fast similarity search for learned metrics*, PAMI
2009: hash the example, get candidates from a search structure, rank them by their exact nearness
(`core.similar.nearness`), and return the nearest. Neighbours that are not candidates are missed.
`ExactSearch` scans all rows and misses none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing import Codes, SimilarityHasher
from closecall.core.hashing.pool import hash_rows
from closecall.core.hashing.similarity import Estimate, checked_rows
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.search import (
    SIMILARITY_STRUCTURES,
    SearchStructure,
    built_for_points,
)
from closecall.core.search.ranking import Measure
from closecall.core.selection.base import Progress
from closecall.core.selection.exclusion import rows_among
from closecall.core.selection.reader import Ids, PoolRows
from closecall.core.selection.requests import sorted_ids
from closecall.core.similar.nearness import Nearness, Ranked, nearness_of

COMPARED = 200_000

LEAST_COMPARED = 2_000
"""Minimum number of codes compared with each query if there are several queries. With only a few hundred
codes, a search finds too few neighbours.
"""

LEAST_SHARE = 0.02
"""Fraction of the pool's codes that may be compared with each query, however many queries there are."""

LEAST_CANDIDATES = 256
"""Minimum number of candidates for each query if there are several queries."""

StructureName = Literal["table", "orders", "scan", "tables", "ball"]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The items nearest to an example.

    Parameters
    ----------
    ids : array of shape (n,), int64
        Item ids, nearest first; ties go to the lower id.
    values : array of shape (n,), float64
        The exact nearness of each item.
    measure : "angle", "distance", "kernel" or "overlap"
        The quantity in `values`. Angles are in radians. Distances are those under a learned metric.
    scored : int
        Number of items whose features were read.
    compared : int
        Number of comparisons of codes with examples, but at most `items`.
    items : int
        Number of items in the pool.
    seconds : float
        Wall-clock time of the whole search. If one pass answered several queries, this is the time for all of
        these queries.
    """

    ids: Ids
    values: NDArray[np.float64]
    measure: Estimate
    scored: int
    compared: int
    items: int
    seconds: float

    @property
    def degrees(self) -> NDArray[np.float64]:
        """The angles in degrees, if `measure` is "angle"."""
        return np.degrees(self.values)

    @property
    def examined(self) -> int:
        """Number of items examined: the larger of `scored` and `compared`."""
        return max(self.scored, self.compared)

    @property
    def searched(self) -> float:
        """Fraction of the pool's items whose features were read."""
        return self.scored / self.items


class SimilaritySearch(ABC):
    """Search for the neighbours of examples. It is immutable, so any number of threads may use it."""

    name: str
    """Name used to choose the search, and in logs."""

    nearness: Nearness

    @property
    def pool(self) -> PoolRows:
        """The snapshot of the pool that is searched."""
        return self.nearness.pool

    @abstractmethod
    def neighbours(self, queries: Rows, n: int = 10, *, exclude: Iterable[int] = ()) -> Neighbours:
        """Return the n items nearest to any of the examples, or fewer if a search finds fewer.

        Parameters
        ----------
        queries : array of shape (n_features,) or (n_queries, n_features), or csr_array
            Features of the examples.
        n : int
            Number of items.
        exclude : iterable of int
            Ids to leave out.

        Raises
        ------
        InputError
            If n is less than 1, or the features are not finite, have no direction, or have the wrong length.
        """

    def _checked(self, queries: Rows, n: int) -> Rows:
        if n < 1:
            raise InputError(f"n must be at least 1, got {n}")
        queries = queries if is_sparse(queries) else np.atleast_2d(np.asarray(queries, dtype=np.float32))
        if queries.shape[1] != self.pool.n_features or not queries.shape[0]:
            raise InputError(f"an example needs {self.pool.n_features} features, got shape {queries.shape}")
        return checked_rows(queries)

    def _result(self, ranked: Ranked, *, scored: int, compared: int, start: float) -> Neighbours:
        return Neighbours(
            ids=self.pool.ids[ranked.rows].astype(np.int64),
            values=self.nearness.values(ranked),
            measure=self.nearness.measure,
            scored=scored,
            compared=compared,
            items=len(self.pool),
            seconds=perf_counter() - start,
        )


class ExactSearch(SimilaritySearch):
    """A search that ranks all rows.

    Parameters
    ----------
    nearness : Nearness
        Exact nearness, by which the pool's rows are ranked.
    """

    name = "exact"

    def __init__(self, nearness: Nearness) -> None:
        self.nearness = nearness

    def neighbours(self, queries: Rows, n: int = 10, *, exclude: Iterable[int] = ()) -> Neighbours:
        """See `SimilaritySearch.neighbours`."""
        start = perf_counter()
        queries, excluded = self._checked(queries, n), rows_among(self.pool, sorted_ids(exclude))
        ranked = self.nearness.nearest(queries, n, excluded)
        return self._result(ranked, scored=len(self.pool), compared=0, start=start)

    def neighbours_of_many(
        self, queries: Rows, n: int = 10, *, exclude: Iterable[int] = ()
    ) -> list[Neighbours]:
        """Return the result of `neighbours` for each row of `queries` separately.

        One pass over the pool answers all queries. With `ByAngle`, however, each query takes its own pass.
        See `neighbours` for errors.
        """
        start = perf_counter()
        queries, excluded = self._checked(queries, n), rows_among(self.pool, sorted_ids(exclude))
        each = self.nearness.scan(queries, n, excluded)
        return [self._result(ranked, scored=len(self.pool), compared=0, start=start) for ranked in each]


class HashedSimilarity(SimilaritySearch):
    """A search that ranks only the candidates from a search structure over codes.

    `built` hashes a pool and builds a structure; `core.similar.files` saves codes and structures.

    Parameters
    ----------
    family : SimilarityHasher
        The fitted family.
    structure : SearchStructure
        Structure over the codes of the pool's rows.
    nearness : Nearness
        Exact nearness, by which candidates are ranked.
    n_compared : int
        Number of whole codes that are compared with the code of each example; a scan compares all codes. With
        k > 1 examples, the number is limited to the fraction max(1/k, `LEAST_SHARE`) of the pool's rows, but
        is at least `LEAST_COMPARED`.
    n_candidates : int
        Number of candidates to rank, which are the items with the most similar codes. There are at least ten
        candidates per requested item. With k > 1 examples, each gets 1/k of the candidates, but at least
        `LEAST_CANDIDATES`.
    measure : "weights", "disagreements" or None
        How codes are compared: by bits weighted for the example, or by the number of functions that differ
        (see `core.search.ranking`). None means "weights", or "disagreements" if functions have several bits.

    Raises
    ------
    InputError
        If a parameter is out of range.
    """

    def __init__(
        self,
        family: SimilarityHasher,
        structure: SearchStructure,
        nearness: Nearness,
        *,
        n_compared: int = COMPARED,
        n_candidates: int = 500,
        measure: Measure | None = None,
    ) -> None:
        if measure is None:
            measure = "weights" if family.bits == 1 else "disagreements"
        if measure not in ("weights", "disagreements"):
            raise InputError(f"measure must be one of weights, disagreements, got {measure!r}")
        if n_compared < 0 or n_candidates < 1:
            raise InputError(
                f"n_compared must be at least 0 and n_candidates at least 1, got {n_compared} and "
                f"{n_candidates}"
            )
        self.family = family
        self.structure = structure
        self.name = structure.name
        self.nearness = nearness
        self.n_compared = n_compared
        self.n_candidates = n_candidates
        self.measure: Measure = measure

    @classmethod
    def built(
        cls,
        pool: PoolRows,
        family: SimilarityHasher,
        *,
        structure: StructureName = "table",
        megabytes: int = 200,
        radius: float | None = None,
        epsilon: float | None = None,
        random_state: int = 0,
        progress: Progress | None = None,
        **params: Any,
    ) -> Self:
        """Hash every row of a pool and build a structure.

        Parameters
        ----------
        pool : PoolRows
            Pool of unit rows.
        family : SimilarityHasher
            Fitted to some rows of the pool.
        structure : "table", "orders", "scan", "tables" or "ball"
            See the modules of `core.search`. `core.search.points` builds the structure.
        megabytes : int
            Memory limit in MB for tables and orders; codes are not counted.
        radius, epsilon : float, optional
            Tables take both, for the (r, ε) rule of `core.search.tables`, with r in radians. The rule
            guarantees its probability only if the family has at least
            `core.search.tables.Guarantee.n_functions` functions. With fewer functions, some functions are in
            several tables, and `BucketTables.guarantee` returns what is still guaranteed. Orders take only ε;
            as far as memory permits, M = 2N^{1/(1+ε)} orders of N rows are built. A ball takes only the
            radius, in bits. With a radius, a search may find fewer than n items. Without a radius, balls grow
            until they contain enough rows.
        random_state : int
            Seed of the choice of functions for keys and orders.
        progress : callable, optional
            Called with (rows done, rows in all).
        **params
            The parameters `n_compared`, `n_candidates` and `measure`; see `HashedSimilarity`.

        Raises
        ------
        InputError
            If the pool is empty, if a parameter is out of range, or if the codes are too long for a ball.
        """
        if structure not in SIMILARITY_STRUCTURES:
            allowed = ", ".join(SIMILARITY_STRUCTURES)
            raise InputError(f"structure must be one of {allowed}, got {structure!r}")
        if megabytes < 1:
            raise InputError(f"megabytes must be at least 1, got {megabytes}")
        if not len(pool):
            raise InputError("a search needs a pool with at least one item, got an empty one")
        codes = _hashed(family, pool, progress)
        made = built_for_points(
            structure,
            codes,
            n_compared=params.get("n_compared", COMPARED),
            n_bytes=megabytes * 10**6,
            seed=random_state,
            radius=radius,
            epsilon=epsilon,
        )
        return cls(family, made, nearness_of(pool, family), **params)

    def neighbours(self, queries: Rows, n: int = 10, *, exclude: Iterable[int] = ()) -> Neighbours:
        """See `SimilaritySearch.neighbours`. If exclusion leaves too few candidates, search for more."""
        start = perf_counter()
        queries, excluded = self._checked(queries, n), sorted_ids(exclude)
        codes = self.family.queries(queries)
        asked = max(self.n_candidates, 10 * n)
        asked, compared = for_each(asked, self.n_compared, len(codes), len(self.pool))
        before = -1
        while True:
            found = [
                self.structure.found(code, asked, n_compared=compared, measure=self.measure) for code in codes
            ]
            every = np.unique(np.concatenate([one.rows for one in found]))
            rows = every[~np.isin(self.pool.ids[every], excluded)] if len(excluded) else every
            if len(rows) >= n or asked >= len(self.pool) or len(every) == before:
                break
            before = len(every)
            asked, compared = 4 * asked, max(compared, 4 * asked)
        ranked = self.nearness.nearest_of(queries, rows, n)
        n_compared = min(sum(one.compared for one in found), len(self.pool))
        return self._result(ranked, scored=len(rows), compared=n_compared, start=start)

    @property
    def bytes_an_item(self) -> float:
        """Memory of the codes and the structure per item, in bytes."""
        return self.structure.n_bytes / len(self.nearness.pool)


def for_each(n_candidates: int, n_compared: int, n_queries: int, n_rows: int) -> tuple[int, int]:
    """Return the numbers of candidates and of compared codes per query; see `HashedSimilarity`."""
    if n_queries == 1:
        return n_candidates, max(n_compared, n_candidates)
    share = max(round(n_rows / n_queries), round(LEAST_SHARE * n_rows))
    return max(n_candidates // n_queries, LEAST_CANDIDATES), max(min(n_compared, share), LEAST_COMPARED)


def _hashed(family: SimilarityHasher, pool: PoolRows, progress: Progress | None) -> Codes:
    def advanced(n_rows: int) -> None:
        if progress is not None:
            progress(n_rows, len(pool))

    return hash_rows(family, pool.blocks(), len(pool), advanced)
