"""Hyperplane hashing with weighted bits: our form of the published methods, which finds nearer rows.

With weights from least squares, the bits of a point estimate its score wᵀx + b, or the square of the score
(`core.hashing.reconstruction`). Rows are ranked by this estimate, and the code of the hyperplane is not
looked up. `core.selection.hashed.papers` has the methods as they were published.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from closecall.core.errors import InputError
from closecall.core.hashing import BHHash, Codes, EHHash, HHash, HyperplaneHasher, LBHHash
from closecall.core.search import STRUCTURES, SearchStructure
from closecall.core.search.ranking import Measure, check_measure
from closecall.core.selection.hashed.base import HashedSearch
from closecall.core.selection.reader import Rows
from closecall.core.selection.requests import Query

Structure = Literal["table", "orders", "scan"]


class WeightedSearch(HashedSearch):
    """Base class of strategies that rank candidates by the weighted bits of their codes.

    Parameters
    ----------
    structure : "table", "orders" or "scan"
        Search structure for candidates; see `core.search.table`, `core.search.orders` and `core.search.scan`.
    measure : "weights", "disagreements", or for H-Hash "difference"
        Similarity between codes and the hyperplane; see `core.search.ranking`.
    n_functions : int
        Number of hash functions, k.
    n_compared : int
        Number of rows whose full codes are compared with the hyperplane; at least the number of rows that are
        scored. A scan compares all rows.
    n_candidates : int
        Number of rows that are scored: the rows with the most similar codes. At least ten rows are scored per
        requested item.
    refills : bool
        See `HashedSearch`.
    megabytes : int
        Memory limit in MB for permuted orders. Codes are not counted; with 300 functions, they take 80 bytes
        per row for H-Hash, and 40 for other families. A table takes only 4 bytes per row, and a scan nothing.
    centred : bool
    scale : float
    n_directions : int or None
        Augmentation of the points; see `core.hashing.augment`.
    random_state : int
    """

    query_params: ClassVar[frozenset[str]] = frozenset({"measure", "n_candidates", "refills"})
    structures = STRUCTURES
    weighted = True

    def __init__(
        self,
        *,
        structure: Structure = "table",
        measure: Measure = "weights",
        n_functions: int = 300,
        n_compared: int = 8_000,
        n_candidates: int = 500,
        refills: bool = True,
        megabytes: int = 200,
        centred: bool = True,
        scale: float = 1.0,
        n_directions: int | None = 32,
        random_state: int = 0,
    ) -> None:
        super().__init__(
            structure=structure,
            n_functions=n_functions,
            n_candidates=n_candidates,
            refills=refills,
            megabytes=megabytes,
            random_state=random_state,
        )
        self.measure = measure
        self.n_compared = n_compared
        self.centred = centred
        self.scale = scale
        self.n_directions = n_directions

    def check(self) -> None:
        """See `QueryStrategy.check`."""
        super().check()
        check_measure(self.measure, self.new_hasher().bits)
        if self.n_compared < 0:
            raise InputError(f"n_compared must be at least 0, got {self.n_compared}")

    def _hasher_params(self) -> dict[str, Any]:
        names = ("centred", "scale", "n_directions")
        return super()._hasher_params() | {name: getattr(self, name) for name in names}

    def _structure_over(self, codes: Codes, hasher: HyperplaneHasher) -> SearchStructure:
        return self.structures[self.structure].build(
            codes,
            hasher.moments_,
            n_compared=max(self.n_compared, self.n_candidates),
            n_bytes=self.megabytes * 10**6,
            seed=self.random_state,
        )

    def _candidates(self, query: Query) -> Rows:
        code = self.hasher_.query(query.plane())

        def proposed(n: int) -> Rows:
            return self.structure_.candidates(
                code, n, n_compared=max(self.n_compared, n), measure=self.measure
            )

        return self._allowed_of(proposed, query)


class WeightedHHash(WeightedSearch):
    """Query strategy that ranks candidates by the weighted bits of H-Hash, two per function.

    See `core.hashing.HHash`, and `WeightedSearch` for the parameters.
    """

    name = "h-hash-weighted"
    about = "Like H-Hash, with weighted bits, which find nearer items."

    def new_hasher(self) -> HHash:
        """See `HashedSearch.new_hasher`."""
        return HHash(**self._hasher_params())


class WeightedBHHash(WeightedSearch):
    """Query strategy that ranks candidates by the weighted bits of BH-Hash: signs of products of projections.

    See `core.hashing.BHHash`, and `WeightedSearch` for the parameters.
    """

    name = "bh-hash-weighted"
    about = "Like BH-Hash, with weighted bits, which find nearer items."

    def new_hasher(self) -> BHHash:
        """See `HashedSearch.new_hasher`."""
        return BHHash(**self._hasher_params())


class WeightedLBHHash(WeightedSearch):
    """Query strategy that ranks candidates by the weighted bits of LBH-Hash: BH-Hash with learned functions.

    See `core.hashing.LBHHash`.

    Parameters
    ----------
    n_samples : int
        Number of items from which the functions are learned.

    See `WeightedSearch` for the other parameters.
    """

    name = "lbh-hash-weighted"
    about = "Like LBH-Hash, with weighted bits, which find nearer items."

    def __init__(
        self,
        *,
        n_samples: int = 1000,
        structure: Structure = "table",
        measure: Measure = "weights",
        n_functions: int = 32,
        n_compared: int = 8_000,
        n_candidates: int = 500,
        refills: bool = True,
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
            refills=refills,
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


class WeightedEHHash(WeightedSearch):
    """Query strategy that ranks candidates by the weighted bits of EH-Hash: signs of quadratic forms.

    See `core.hashing.EHHash`.

    Parameters
    ----------
    rank : int, "dense" or "auto"
    query_samples : int or None
        See `core.hashing.EHHash`.

    See `WeightedSearch` for the other parameters.
    """

    name = "eh-hash-weighted"
    about = "Like EH-Hash, with weighted bits, which find nearer items."

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
        refills: bool = True,
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
            refills=refills,
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
