"""Selection by hyperplane hashing: score only the rows whose codes are similar to the hyperplane's.

A query follows Section 3.5 of the paper: hash the hyperplane, collect candidates in a search structure,
compute wᵀx + b of these alone, and take the nearest. The paper stops at N^ρ = 500 candidates.

A hash family is refitted when the pool has doubled (`core.hashing.pool.fit_rows`). Until then, the codes of
the old rows are kept and only new rows are hashed; the search structure is rebuilt from the codes, which is
the smaller part of the work.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Literal, Self

import numpy as np

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, Codes, EHHash, HHash, HyperplaneHasher, LBHHash
from closecall.core.hashing.base import named, part_of
from closecall.core.hashing.pool import fit_rows, hash_on
from closecall.core.search import STRUCTURES, SearchStructure
from closecall.core.search.ranking import Measure, check_measure
from closecall.core.selection.base import Arrays, Choice, Progress, Query, QueryStrategy
from closecall.core.selection.nearest import at_most, balanced, float32_error, nearest_first
from closecall.core.selection.reader import PoolRows, Rows

Structure = Literal["table", "orders", "scan"]


class HashedSearch(QueryStrategy):
    """Base class of strategies that score the candidates proposed by hashing and return the nearest.

    Parameters
    ----------
    structure : "table", "orders" or "scan"
        Search structure for candidates; see `core.search.table`, `core.search.orders` and `core.search.scan`.
    measure : "weights", "disagreements", or for H-Hash "difference"
        Similarity between codes and the hyperplane's code; see `core.search.ranking`.
    n_functions : int
        Number of hash functions, k; 300 in the paper.
    n_compared : int
        Number of rows whose full codes are compared with the hyperplane's; a scan compares all. With 0, only
        as many are compared as are scored, as in the paper.
    n_candidates : int
        Number of compared rows with the most similar codes that are scored, N^ρ in the paper and 500 there.
        At least ten per requested item are scored. If exclusions leave fewer than half of this number, the
        search is repeated for more.
    megabytes : int
        Memory limit in MB for permuted orders, in addition to the codes, which take 80 bytes per row for
        H-Hash and 40 for the others with 300 functions. A table takes 4 bytes per row, a scan nothing.
    centred : bool
    scale : float
    n_directions : int or None
        Augmentation of the points; see `core.hashing.augment`.
    random_state : int
    """

    query_params: ClassVar[frozenset[str]] = frozenset({"measure", "n_candidates"})

    hasher_: HyperplaneHasher
    structure_: SearchStructure

    def __init__(
        self,
        *,
        structure: Structure = "table",
        measure: Measure = "weights",
        n_functions: int = 300,
        n_compared: int = 8_000,
        n_candidates: int = 500,
        megabytes: int = 200,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = 32,
        random_state: int = 0,
    ) -> None:
        super().__init__(random_state=random_state)
        self.structure = structure
        self.measure = measure
        self.n_functions = n_functions
        self.n_compared = n_compared
        self.n_candidates = n_candidates
        self.megabytes = megabytes
        self.centred = centred
        self.scale = scale
        self.n_directions = n_directions

    @abstractmethod
    def new_hasher(self) -> HyperplaneHasher:
        """Return an unfitted hasher with these parameters."""

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        if self.structure not in STRUCTURES:
            raise InputError(f"structure must be one of {', '.join(STRUCTURES)}, got {self.structure!r}")
        check_measure(self.measure, self.new_hasher().bits)
        if self.n_compared < 0:
            raise InputError(f"n_compared must be at least 0, got {self.n_compared}")
        if self.n_candidates < 1 or self.megabytes < 1:
            raise InputError(
                f"n_candidates and megabytes must be at least 1, got {self.n_candidates} and {self.megabytes}"
            )

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.prepare`; hashes every row."""
        self._hash(self.new_hasher().fit(pool.rows(fit_rows(len(pool)))), None, pool, progress)

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.grow`; hashes the new rows, or all rows if the pool has doubled."""
        if np.array_equal(fit_rows(old.n_items), fit_rows(len(pool))):
            self._hash(old.hasher_, old.structure_.codes_by_row(), pool, progress)
        else:
            self.prepare(pool, progress)

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        hyperplane, unit = balanced(query.plane())
        rows = self._candidates(query)
        if not len(rows):
            return Choice.nothing()
        rough = self.reader_.rough_margins(rows, hyperplane)
        last = min(query.n, len(rows)) - 1
        reach = float(np.partition(rough, last)[last]) + 2 * float32_error(hyperplane)
        near = rows[at_most(rough, reach)]
        ids, margins = nearest_first(self.pool_.ids[near], self.reader_.margins(near, hyperplane), query.n)
        return Choice(ids, margins * unit, scored=len(rows))

    def arrays(self) -> Arrays:
        """See `QueryStrategy.arrays`."""
        return named("hasher", self.hasher_.arrays()) | named("structure", self.structure_.arrays())

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        self.hasher_ = self.new_hasher().restored(part_of(arrays, "hasher"))
        self.structure_ = STRUCTURES[self.structure].from_arrays(part_of(arrays, "structure"))

    def _hasher_params(self) -> dict[str, Any]:
        names = ("n_functions", "centred", "scale", "n_directions", "random_state")
        return {name: getattr(self, name) for name in names}

    def _hash(
        self, hasher: HyperplaneHasher, old: Codes | None, pool: PoolRows, progress: Progress | None
    ) -> None:
        def advanced(n_rows: int) -> None:
            if progress is not None:
                progress(n_rows, len(pool))

        codes = hash_on(hasher, pool.blocks, len(pool), advanced, old)
        self.hasher_ = hasher
        self.structure_ = STRUCTURES[self.structure].build(
            codes,
            hasher.moments_,
            n_compared=max(self.n_compared, self.n_candidates),
            n_bytes=self.megabytes * 10**6,
            seed=self.random_state,
        )

    def _candidates(self, query: Query) -> Rows:
        code = self.hasher_.query(query.plane())
        wanted = max(self.n_candidates, 10 * query.n)
        asked = wanted
        while True:
            rows = self.structure_.candidates(
                code, asked, n_compared=max(self.n_compared, asked), measure=self.measure
            )
            allowed = rows[query.allowed(self.pool_.ids[rows])]
            if len(allowed) >= max(query.n, wanted // 2) or asked >= self.n_items:
                return allowed[:wanted]
            asked *= 4


class HHashSearch(HashedSearch):
    """Query strategy that finds candidates by H-Hash: two bits per function, compared as pairs.

    See `core.hashing.HHash`. Parameters are those of `HashedSearch`.
    """

    name = "h-hash"

    def new_hasher(self) -> HHash:
        """See `HashedSearch.new_hasher`."""
        return HHash(**self._hasher_params())


class BHHashSearch(HashedSearch):
    """Query strategy that finds candidates by BH-Hash: the sign of a product of two projections.

    See `core.hashing.BHHash`. Parameters are those of `HashedSearch`.
    """

    name = "bh-hash"

    def new_hasher(self) -> BHHash:
        """See `HashedSearch.new_hasher`."""
        return BHHash(**self._hasher_params())


class LBHHashSearch(HashedSearch):
    """Query strategy that finds candidates by LBH-Hash: BH-Hash with learned functions.

    See `core.hashing.LBHHash`.

    Parameters
    ----------
    n_samples : int
        Number of items from which the functions are learned.

    Other parameters are those of `HashedSearch`.
    """

    name = "lbh-hash"

    def __init__(
        self,
        *,
        n_samples: int = 1000,
        structure: Structure = "table",
        measure: Measure = "weights",
        n_functions: int = 32,
        n_compared: int = 8_000,
        n_candidates: int = 500,
        megabytes: int = 200,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = 32,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            structure=structure,
            measure=measure,
            n_functions=n_functions,
            n_compared=n_compared,
            n_candidates=n_candidates,
            megabytes=megabytes,
            centred=centred,
            scale=scale,
            n_directions=n_directions,
            random_state=random_state,
        )
        self.n_samples = n_samples

    def new_hasher(self) -> LBHHash:
        """See `HashedSearch.new_hasher`."""
        return LBHHash(n_samples=self.n_samples, **self._hasher_params())


class EHHashSearch(HashedSearch):
    """Query strategy that finds candidates by EH-Hash: the sign of a quadratic form.

    See `core.hashing.EHHash`.

    Parameters
    ----------
    rank : int, "dense" or "auto"
    query_samples : int or None
        See `core.hashing.EHHash`.

    Other parameters are those of `HashedSearch`.
    """

    name = "eh-hash"

    def __init__(
        self,
        *,
        rank: int | Literal["dense", "auto"] = "auto",
        query_samples: int | None = None,
        structure: Structure = "table",
        measure: Measure = "weights",
        n_functions: int = 300,
        n_compared: int = 8_000,
        n_candidates: int = 500,
        megabytes: int = 200,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = 32,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            structure=structure,
            measure=measure,
            n_functions=n_functions,
            n_compared=n_compared,
            n_candidates=n_candidates,
            megabytes=megabytes,
            centred=centred,
            scale=scale,
            n_directions=n_directions,
            random_state=random_state,
        )
        self.rank = rank
        self.query_samples = query_samples

    def new_hasher(self) -> EHHash:
        """See `HashedSearch.new_hasher`."""
        return EHHash(rank=self.rank, query_samples=self.query_samples, **self._hasher_params())
