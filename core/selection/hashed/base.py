"""Base class of strategies that use hyperplane hashing: codes propose candidates, and only these are scored.

A query follows Section 3.5 of Jain et al. (NIPS 2010). It looks up candidates in a search structure, computes
wᵀx + b only for the candidates, and returns the nearest. The paper's experiments use N^ρ = 500 candidates
(Section 4).

A hash family is refitted when the pool has doubled (`core.hashing.pool.fit_rows`). Until then, the codes of
old rows are kept and only new rows are hashed. In both cases, the search structure is rebuilt from all codes,
which takes less time than hashing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self

import numpy as np

from closecall.core.errors import InputError
from closecall.core.hashing import Codes, HyperplaneHasher
from closecall.core.hashing.base import named, part_of
from closecall.core.hashing.pool import fit_rows, hash_on
from closecall.core.search import SearchStructure
from closecall.core.selection.base import Arrays, Progress, QueryStrategy
from closecall.core.selection.nearest_among import nearest_among
from closecall.core.selection.reader import PoolRows, Rows
from closecall.core.selection.requests import Choice, Query

THRIFTY_CANDIDATES = 100
"""Number of candidates while time is short; see `QueryStrategy.thrifty`."""

SPARE = 4
"""A structure is asked for up to 1 / `SPARE` more candidates than wanted, to replace excluded ones."""


class HashedSearch(QueryStrategy):
    """Base class of strategies that score the candidates proposed by hashing and return the nearest.

    Parameters
    ----------
    structure : str
        Name of the search structure for candidates, one of `structures`.
    n_functions : int or None
        Number of hash functions, k; 300 in Jain et al. (NIPS 2010). Only `CodeSearch` allows None.
    n_candidates : int
        Number of candidates that are scored; N^ρ = 500 in Jain et al. (NIPS 2010). At least ten candidates
        are scored per requested item.
    refills : bool
        Whether other rows replace the candidates that may not be selected, as if the structure had no
        excluded rows. Otherwise, up to half of the candidates are lost, as in earlier versions: labels that
        do not change the hyperplane then leave fewer and fewer candidates.
    megabytes : int
        Memory limit in MB for the search structure; codes are not counted.
    random_state : int
    """

    structures: ClassVar[Mapping[str, type[SearchStructure]]]
    """Search structures by name."""

    weighted: ClassVar[bool]
    """Whether queries need the weights with which the bits of a row estimate its score."""

    hasher_: HyperplaneHasher
    structure_: SearchStructure

    def __init__(
        self,
        *,
        structure: str,
        n_functions: int | None,
        n_candidates: int,
        refills: bool,
        megabytes: int,
        random_state: int,
    ) -> None:
        super().__init__(random_state=random_state)
        self.structure = structure
        self.n_functions = n_functions
        self.n_candidates = n_candidates
        self.refills = refills
        self.megabytes = megabytes

    @abstractmethod
    def new_hasher(self) -> HyperplaneHasher:
        """Return an unfitted hasher with the parameters of this strategy."""

    @abstractmethod
    def _structure_over(self, codes: Codes, hasher: HyperplaneHasher) -> SearchStructure:
        """Build the search structure over codes that the hasher computed."""

    @abstractmethod
    def _candidates(self, query: Query) -> Rows:
        """Return the rows to score, without excluded rows; an empty array only if all rows are excluded."""

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        if self.structure not in self.structures:
            raise InputError(f"structure must be one of {', '.join(self.structures)}, got {self.structure!r}")
        if self.n_candidates < 1 or self.megabytes < 1:
            raise InputError(
                f"n_candidates and megabytes must be at least 1, got {self.n_candidates} and {self.megabytes}"
            )
        if self.n_functions is not None:
            self.new_hasher().check()

    def thrifty_params(self) -> dict[str, Any]:
        """See `QueryStrategy.thrifty_params`; queries get at most `THRIFTY_CANDIDATES`."""
        return {"n_candidates": THRIFTY_CANDIDATES} if self.n_candidates > THRIFTY_CANDIDATES else {}

    def prepare(self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.prepare`; hashes every row."""
        fitted = self.new_hasher().fit(pool.rows(fit_rows(len(pool))), weighted=self.weighted)
        self._hash(fitted, None, pool, progress)

    def grow(self, old: Self, pool: PoolRows, progress: Progress | None) -> None:
        """See `QueryStrategy.grow`; hashes the new rows, or all rows if the pool has doubled."""
        if np.array_equal(fit_rows(old.n_items), fit_rows(len(pool))):
            self._hash(old.hasher_, old.structure_.codes_by_row(), pool, progress)
        else:
            self.prepare(pool, progress)

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        rows = self._candidates(query)
        return nearest_among(self.pool_, self.reader_, rows, query) if len(rows) else Choice.nothing()

    def arrays(self) -> Arrays:
        """See `QueryStrategy.arrays`."""
        return named("hasher", self.hasher_.arrays()) | named("structure", self.structure_.arrays())

    def restore(self, arrays: Arrays) -> None:
        """See `QueryStrategy.restore`."""
        self.hasher_ = self.new_hasher().restored(part_of(arrays, "hasher"))
        self.structure_ = self.structures[self.structure].from_arrays(part_of(arrays, "structure"))

    def _hasher_params(self) -> dict[str, Any]:
        return {"n_functions": self.n_functions, "random_state": self.random_state}

    def _allowed_of(self, propose: Callable[[int], Rows], query: Query) -> Rows:
        """Return the first of the proposed rows that may be selected, as many as wanted if there are as many.

        `propose(m)` returns about m rows, the most promising first.
        """
        wanted = self._wanted(query)
        enough = wanted if self.refills else max(query.n, wanted // 2)
        asked = wanted + (min(len(query.exclude), wanted // SPARE) if self.refills else 0)
        while True:
            allowed = self._allowed(propose(asked), query)
            if len(allowed) >= enough or asked >= self.n_items:
                return allowed[:wanted]
            asked *= 2 if self.refills else 4

    def _allowed(self, rows: Rows, query: Query) -> Rows:
        return rows[query.allowed(self.pool_.ids[rows])]

    def _wanted(self, query: Query) -> int:
        """Return the number of candidates to score."""
        return max(self.n_candidates, 10 * query.n)

    def _hash(
        self, hasher: HyperplaneHasher, old: Codes | None, pool: PoolRows, progress: Progress | None
    ) -> None:
        def advanced(n_rows: int) -> None:
            if progress is not None:
                progress(n_rows, len(pool))

        codes = hash_on(hasher, pool.blocks, len(pool), advanced, old)
        self.hasher_ = hasher
        self.structure_ = self._structure_over(codes, hasher)
