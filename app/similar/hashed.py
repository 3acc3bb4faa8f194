"""Retrieval by hashing: codes of one family, and the structures that find likely neighbours by them.

One code a row, 256 bits (`core.hashing`), and one of the search structures (`core.search`): the Hamming scan
compares all codes, bucket tables and permuted orders only `SHARE` of them, the likeliest. `CANDIDATES` of the
compared are ranked exactly. Of several queries each has its part of both.

Whatever a family estimates, the candidates are ranked by the angle. Under a learned metric the codes are of
random hyperplanes in the space that it makes; other families know nothing of metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from app.similar.metric import LearnedMetric
from core.hashing import FAMILIES, Codes, MetricLSH, RandomHyperplaneLSH, SimilarityHasher
from core.hashing.klsh import KernelHasher
from core.hashing.pool import hash_rows
from core.pool import Pool
from core.search import SIMILARITY_STRUCTURES
from core.search.base import SearchStructure
from core.similar.finder import Finder, Floats64, Ids, Probe

USUAL = RandomHyperplaneLSH.name
"""The family whose codes are compared unless another is picked, and the only one that knows of metrics."""

OFFERED = tuple(
    name for name, family in FAMILIES.items() if family is not MetricLSH and not family.needs_labels
)
"""The families whose codes take nothing but the pool."""

N_FUNCTIONS = 256

SHARE = 0.02
"""Of the rows, the codes of so many are compared by a structure that can choose which."""

LEAST_COMPARED = 2_000
"""Small pools are searched for the most part: a share of a few hundred rows tells nothing."""

CANDIDATES = 1_000

LEAST_CANDIDATES = 64
"""For each of many queries."""

FITTED_TO = 20_000
"""Rows, spread evenly over the pool, whose mean the family is centred at."""

LANDMARKS = 300
"""Of kernelized families: each row of the pool is compared with so many."""

BYTES_A_ROW = 128
"""The memory of tables and permuted orders beside the codes, for each row."""

SEED = 0


class HashedSearch(Finder):
    """A search structure over the codes of a pool.

    Parameters
    ----------
    pool : Pool
        The snapshot whose rows have the codes.
    hasher : SimilarityHasher
        Fitted.
    structure : SearchStructure
    """

    def __init__(self, pool: Pool, hasher: SimilarityHasher, structure: SearchStructure) -> None:
        super().__init__(pool)
        self.name = structure.name
        self.family = hasher.name
        self._hasher = hasher
        self._structure = structure

    def params(self) -> dict[str, Any]:
        """All numbers that a search depends on."""
        return parameters(USUAL if self.family == MetricLSH.name else self.family)

    def _retrieved(self, probe: Probe, weights: Floats64, n: int) -> tuple[Ids, int]:  # noqa: ARG002
        queries = self._hasher.queries(probe.X)
        wanted = max(CANDIDATES // len(queries), LEAST_CANDIDATES)
        each = n_compared(self.n_items)
        found = [
            self._structure.found(query, wanted, n_compared=each, measure="weights") for query in queries
        ]
        compared = min(sum(one.compared for one in found), self.n_items)
        return np.unique(np.concatenate([one.rows for one in found])), compared


def n_compared(n_items: int) -> int:
    """How many codes a query compares, of structures that can choose which."""
    return min(max(round(SHARE * n_items), LEAST_COMPARED), n_items)


def parameters(family: str = USUAL) -> dict[str, Any]:
    """All that hashed searches by a family's codes depend on today."""
    return {
        "family": family,
        "functions": N_FUNCTIONS,
        "share": SHARE,
        "least_compared": LEAST_COMPARED,
        "candidates": CANDIDATES,
        "landmarks": LANDMARKS,
        "seed": SEED,
    }


def coded(
    pool: Pool, metric: LearnedMetric | None, advanced: Callable[[int, int], None], family: str = USUAL
) -> tuple[SimilarityHasher, Codes]:
    """A fitted family, and the codes of the pool's rows; `advanced` is told how many of how many are done.

    Raises
    ------
    InputError
        If the family does not apply to the rows.
    """
    sample = np.linspace(0, len(pool) - 1, min(len(pool), FITTED_TO)).astype(np.int64)
    how: dict[str, Any] = {"n_functions": N_FUNCTIONS, "random_state": SEED}
    if issubclass(FAMILIES[family], KernelHasher):
        how["n_landmarks"] = min(LANDMARKS, len(sample))
    hasher = FAMILIES[family](**how) if metric is None else MetricLSH(metric=metric.metric, **how)
    hasher.fit(pool.rows(sample))
    return hasher, hash_rows(hasher, pool.blocks(), len(pool), lambda done: advanced(done, len(pool)))


def built(name: str, pool: Pool, hasher: SimilarityHasher, codes: Codes) -> HashedSearch:
    """The structure `name` over these codes."""
    n_bytes, each = BYTES_A_ROW * len(pool), n_compared(len(pool))
    structure = SIMILARITY_STRUCTURES[name].build(codes, None, n_compared=each, n_bytes=n_bytes, seed=SEED)
    search = HashedSearch(pool, hasher, structure)
    # The first search takes longer: compiled code is loaded.
    search.find(Probe(pool.rows(np.zeros(1, dtype=np.int64)), pool.ids[:0]), 1)
    return search
