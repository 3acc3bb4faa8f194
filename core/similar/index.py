"""Find similar: the items of a pool that are nearest to an example, by codes or by a scan.

A search goes as in Section 3.3 of Kulis et al. 2009: hash the example, let a structure give candidates, rank
these by what near means exactly (`core.similar.nearness`), and give the first. What is lost are neighbours
that are no candidates; `ExactSearch` scans all rows, and loses none.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing import FAMILIES, Codes, SimilarityHasher
from closecall.core.hashing.base import named, part_of
from closecall.core.hashing.pool import hash_rows
from closecall.core.hashing.similarity import Estimate, checked_rows
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.search import (
    SIMILARITY_STRUCTURES,
    BucketTables,
    PermutedOrders,
    SearchStructure,
    built_for_points,
)
from closecall.core.search.orders import order_rule
from closecall.core.search.ranking import Measure
from closecall.core.selection.base import Progress, sorted_ids
from closecall.core.selection.exclusion import rows_among
from closecall.core.selection.files import covered_rows, header_of, read_index, write_index
from closecall.core.selection.reader import Ids, PoolRows
from closecall.core.similar.nearness import ByDistance, Nearness, nearness_of

COMPARED = 200_000

StructureName = Literal["table", "orders", "scan", "tables", "ball"]


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The items nearest to an example.

    Parameters
    ----------
    ids : array of shape (n,), int64
        The nearest first; ties by the lower id.
    values : array of shape (n,), float64
        How near each is, exactly.
    measure : "angle", "distance", "kernel" or "overlap"
        What `values` are: angles are in radians, distances under the metric.
    scored : int
        How many items' features were read.
    compared : int
        How many items' codes were.
    items : int
        How many items there are.
    seconds : float
        Wall-clock time of the whole search; of all together, where several were answered by one pass.
    """

    ids: Ids
    values: NDArray[np.float64]
    measure: Estimate
    scored: int
    compared: int
    items: int
    seconds: float

    @property
    def searched(self) -> float:
        """The share of the pool whose features were read, as the papers count it."""
        return self.scored / self.items


class SimilaritySearch(ABC):
    """Finds the neighbours of examples; immutable, and any number of threads may ask."""

    nearness: Nearness

    @abstractmethod
    def neighbours(self, query: Rows, n: int = 10, *, exclude: Iterable[int] = ()) -> Neighbours:
        """The n items nearest to an example, or as many as are found.

        Parameters
        ----------
        query : array of shape (n_features,) or (1, n_features), or csr_array
            The example's features.
        n : int
            How many items.
        exclude : iterable of int
            Ids that are not wanted.

        Raises
        ------
        InputError
            If n is less than 1, or the features are not finite, of no direction, or of another number.
        """

    def _checked(self, query: Rows, n: int) -> Rows:
        if n < 1:
            raise InputError(f"n must be at least 1, got {n}")
        query = query if is_sparse(query) else np.atleast_2d(np.asarray(query, dtype=np.float32))
        if query.shape != (1, self.nearness.pool.n_features):
            raise InputError(
                f"an example needs {self.nearness.pool.n_features} features, got shape {query.shape}"
            )
        return checked_rows(query)


class ExactSearch(SimilaritySearch):
    """All rows are ranked.

    Parameters
    ----------
    nearness : Nearness
        Over the pool.
    """

    def __init__(self, nearness: Nearness) -> None:
        self.nearness = nearness

    def neighbours(self, query: Rows, n: int = 10, *, exclude: Iterable[int] = ()) -> Neighbours:
        """See `SimilaritySearch.neighbours`."""
        return self.neighbours_of_many(self._checked(query, n), n, exclude=exclude)[0]

    def neighbours_of_many(
        self, queries: Rows, n: int = 10, *, exclude: Iterable[int] = ()
    ) -> list[Neighbours]:
        """What `neighbours` gives for each row of `queries`, by one pass over the pool."""
        start = perf_counter()
        pool = self.nearness.pool
        excluded = rows_among(pool, sorted_ids(exclude))
        found = self.nearness.scan(checked_rows(queries), n, excluded)
        seconds = perf_counter() - start
        return [
            Neighbours(
                ids=pool.ids[ranked.rows],
                values=self.nearness.values(ranked),
                measure=self.nearness.measure,
                scored=len(pool),
                compared=0,
                items=len(pool),
                seconds=seconds,
            )
            for ranked in found
        ]


class HashedSimilarity(SimilaritySearch):
    """Only candidates are ranked, which a search structure over codes proposes.

    `built` makes one, `load` opens one that was saved.

    Parameters
    ----------
    family : SimilarityHasher
        Fitted.
    structure : SearchStructure
        Over the codes of the pool's rows.
    nearness : Nearness
        By what candidates are ranked.
    n_compared : int
        How many whole codes are compared with the example's, a scan compares all.
    n_candidates : int
        How many of them, the likest, are ranked; at least ten for each item wanted.
    measure : "weights", "disagreements" or None
        Which codes are likest: by how much the example's own bits say, or by the number of functions that
        differ. None: by weights, but of functions with several bits by disagreements.
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
            Of unit rows.
        family : SimilarityHasher
            Fitted, to some rows of the pool.
        structure : "table", "orders", "scan", "tables" or "ball"
            See the rooms of `core.search`; made by `core.search.points`.
        megabytes : int
            How much memory tables and orders may take beside the codes.
        radius, epsilon : float, optional
            Of tables both, for the (r, ε) rule; of orders ε, for M = 2N^{1/(1+ε)}.
        random_state : int
            Which functions are used where.
        progress : callable, optional
            Told (rows done, rows in all).
        **params
            `n_compared`, `n_candidates`, `measure`.
        """
        if structure not in SIMILARITY_STRUCTURES:
            allowed = ", ".join(SIMILARITY_STRUCTURES)
            raise InputError(f"structure must be one of {allowed}, got {structure!r}")
        if megabytes < 1:
            raise InputError(f"megabytes must be at least 1, got {megabytes}")
        if not len(pool):
            raise InputError("a search needs a pool with at least one item, got an empty one")
        codes = _hashed(family, pool, progress)
        n_bytes = megabytes * 10**6
        made: SearchStructure
        if structure == "tables" and radius is not None and epsilon is not None:
            made = BucketTables.of_radius(codes, radius, epsilon, n_bytes=n_bytes, seed=random_state)
        elif structure == "orders" and epsilon is not None:
            n_orders = order_rule(len(codes), n_bytes, epsilon)
            made = PermutedOrders.of_orders(codes, n_orders, random_state)
        else:
            n_compared = params.get("n_compared", COMPARED)
            made = built_for_points(
                structure, codes, n_compared=n_compared, n_bytes=n_bytes, seed=random_state
            )
        return cls(family, made, nearness_of(pool, family), **params)

    def neighbours(self, query: Rows, n: int = 10, *, exclude: Iterable[int] = ()) -> Neighbours:
        """See `SimilaritySearch.neighbours`; where so many are excluded that too few remain, it looks on."""
        start = perf_counter()
        query = self._checked(query, n)
        pool, excluded = self.nearness.pool, sorted_ids(exclude)
        code = self.family.queries(query)[0]
        wanted = max(self.n_candidates, 10 * n)
        asked, compared, before = wanted, max(self.n_compared, wanted), -1
        while True:
            found = self.structure.found(code, asked, n_compared=compared, measure=self.measure)
            rows = found.rows
            if len(excluded):
                rows = rows[~np.isin(pool.ids[rows], excluded)]
            if len(rows) >= max(n, wanted // 2) or asked >= len(pool) or len(found.rows) == before:
                break
            before = len(found.rows)
            asked, compared = 4 * asked, max(compared, 4 * asked)
        ranked = self.nearness.nearest_of(query, np.sort(rows[:wanted]), n)
        return Neighbours(
            ids=pool.ids[ranked.rows],
            values=self.nearness.values(ranked),
            measure=self.nearness.measure,
            scored=min(len(rows), wanted),
            compared=found.compared,
            items=len(pool),
            seconds=perf_counter() - start,
        )

    @property
    def bytes_an_item(self) -> float:
        """What codes and structure take in memory."""
        return self.structure.n_bytes / len(self.nearness.pool)

    def save(self, folder: Path | str) -> None:
        """Write family, structure and parameters to `folder`, checksummed, replacing what is there."""
        pool = self.nearness.pool
        header = {
            "family": self.family.name,
            "family-params": self.family.params(),
            "structure": self.structure.name,
            "params": {name: getattr(self, name) for name in ("n_compared", "n_candidates", "measure")},
            **header_of(pool),
        }
        arrays = named("family", self.family.arrays()) | named("structure", self.structure.arrays())
        squares = getattr(self.nearness, "squares_", None)
        write_index(Path(folder), header, arrays if squares is None else {**arrays, "squares": squares})

    @classmethod
    def load(cls, folder: Path | str, pool: PoolRows) -> Self:
        """What was saved in `folder`, over the rows of `pool` that it covered; arrays stay on disk.

        Raises
        ------
        InputError
            If the folder is damaged, of another version, or was made for another pool.
        """
        header, arrays = read_index(Path(folder))
        try:
            covered = covered_rows(Path(folder), header, pool)
            family = FAMILIES[header["family"]](**header["family-params"])
            family = family.restored(part_of(arrays, "family"))
            structure = SIMILARITY_STRUCTURES[header["structure"]].from_arrays(part_of(arrays, "structure"))
            nearness: Nearness
            if "squares" in arrays:
                metric = getattr(family, "metric", None)
                nearness = ByDistance(covered, metric, squares=arrays["squares"])
            else:
                nearness = nearness_of(covered, family)
            return cls(family, structure, nearness, **header["params"])
        except (KeyError, TypeError) as error:
            raise InputError(f"{folder} was made by another version: build the index again") from error


def _hashed(family: SimilarityHasher, pool: PoolRows, progress: Progress | None) -> Codes:
    def advanced(n_rows: int) -> None:
        if progress is not None:
            progress(n_rows, len(pool))

    return hash_rows(family, pool.blocks(), len(pool), advanced)
