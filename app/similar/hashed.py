"""Retrieval by hashing: codes of random hyperplanes, and the structures that find likely neighbours by them.

One code a row, 256 bits (`core.hashing`), of the rows as they are or under a learned metric, and one of the
search structures (`core.search`): the Hamming scan compares all codes, bucket tables and permuted orders only
`SHARE` of them, the likeliest. `CANDIDATES` of the compared are ranked exactly. Of several
queries each has its part of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from app.similar.metric import LearnedMetric
from core.hashing import Codes, MetricLSH, RandomHyperplaneLSH, SimilarityHasher
from core.hashing.pool import hash_rows
from core.pool import Pool
from core.search import SIMILARITY_STRUCTURES
from core.search.base import SearchStructure
from core.similar.finder import Finder, Floats64, Ids, Probe

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
        self._hasher = hasher
        self._structure = structure

    def params(self) -> dict[str, Any]:
        """All numbers that a search depends on."""
        return dict(parameters())

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


def parameters() -> dict[str, Any]:
    """The numbers that hashed searches depend on today."""
    return {
        "functions": N_FUNCTIONS,
        "share": SHARE,
        "least_compared": LEAST_COMPARED,
        "candidates": CANDIDATES,
        "seed": SEED,
    }


def coded(
    pool: Pool, metric: LearnedMetric | None, advanced: Callable[[int, int], None]
) -> tuple[SimilarityHasher, Codes]:
    """A fitted family, and the codes of the pool's rows; `advanced` is told how many of how many are done."""
    hasher: SimilarityHasher = RandomHyperplaneLSH(n_functions=N_FUNCTIONS, random_state=SEED)
    if metric is not None:
        hasher = MetricLSH(metric=metric.metric, n_functions=N_FUNCTIONS, random_state=SEED)
    sample = np.linspace(0, len(pool) - 1, min(len(pool), FITTED_TO)).astype(np.int64)
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
