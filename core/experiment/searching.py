"""Recall and cost of search structures over codes, and of single searches.

A query is answered as on the page Find similar: a structure proposes candidates, which are
then ranked exactly (`core.similar.index`). Recall@10 is the share of the ten exact neighbours that are among
the ten results. The share searched is the share of rows whose features were read. The time of a whole query
is given in seconds, and as a ratio to the time of an exact scan by the measure that the family is made for.
The cosine kernel orders rows as their angle does, so the ratio is then to the scan by angle, which is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import thread_time
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing import Codes, SimilarityHasher
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool
from closecall.core.search import built_for_points
from closecall.core.similar import HashedSimilarity, Nearness, Neighbours

STRUCTURES = ("scan", "table", "tables", "orders")

SEARCHED = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Shares of the pool for which a search may compute exact distances. Every share is measured."""

USUALLY_COMPARED = 5
"""Number of codes to compare for each row that is ranked exactly; some structures ignore this number."""

COMPARED = {"table": 40}
"""Structures for which `USUALLY_COMPARED` is replaced by another number.

A table stores codes in the order of its buckets, so comparisons are cheaper.
"""

BYTES_A_ROW = 256
"""Memory of tables and permuted orders in addition to the codes, in bytes per row."""

WANTED = 10
"""k of recall@k, by which search structures are measured."""

Ids = NDArray[np.int64]

Number = tuple[str, int | None, float]
"""Name of a measure, the number of rows ranked exactly or None, and the value."""

P = ParamSpec("P")
T = TypeVar("T")


def measures_of(
    name: str,
    family: SimilarityHasher,
    codes: Codes,
    nearness: Nearness,
    pool: Pool,
    queries: Sequence[Rows],
    own: Ids,
    scan_seconds: float,
    seed: int,
) -> Iterator[Number]:
    """Yield the time and memory to build a search structure, then its results for each share in `SEARCHED`.

    The results are recall@10, the share of the codes that are compared, and the time of a query. The ids of
    the exact neighbours of query i are those of the rows `own[i]`, the nearest first.
    """
    start = thread_time()
    a_candidate = COMPARED.get(name, USUALLY_COMPARED)
    structure = built_for_points(
        name,
        codes,
        n_compared=min(round(a_candidate * SEARCHED[0] * len(pool)), len(pool)),
        n_bytes=BYTES_A_ROW * len(pool),
        seed=seed,
    )
    yield "build seconds", None, thread_time() - start
    yield "bytes", None, structure.n_bytes / len(pool)
    shares = {min(max(round(share * len(pool)), 10 * WANTED), len(pool)) for share in SEARCHED}
    for k in sorted(shares):
        search = HashedSimilarity(
            family,
            structure,
            nearness,
            n_compared=min(a_candidate * k, len(pool)),
            n_candidates=k,
        )
        found = search_each(search, queries, pool.ids[own[: len(queries), :WANTED]])
        yield "recall", k, found.recall
        yield "searched", k, found.searched
        yield "compared", k, float(np.mean([one.compared for one in found.neighbours])) / len(pool)
        yield "seconds", k, found.seconds
        yield "scan ratio", k, found.seconds / scan_seconds


class Searched(NamedTuple):
    """Results of a search that answers several queries, one by one.

    Parameters
    ----------
    neighbours : list of core.similar.Neighbours
    recall : float
        Mean share of the exact neighbours that were found.
    searched : float
        Mean share of the pool whose features were read.
    seconds : float
        Median processor time of a query.
    """

    neighbours: list[Neighbours]
    recall: float
    searched: float
    seconds: float


def search_each(
    search: HashedSimilarity, queries: Sequence[Rows], exact: Sequence[Ids] | NDArray[np.int64]
) -> Searched:
    """Search for each query, and compare the results with the exact neighbours of the query.

    Parameters
    ----------
    search : HashedSimilarity
        The search to measure.
    queries : sequence of arrays of shape (1, n_features)
        The features of at least one query.
    exact : sequence of arrays of shape (k,), int64
        Ids of the k exact neighbours of each query.
    """
    k = len(exact[0])
    search.neighbours(queries[0], k)  # the first call loads compiled code
    both = [timed(search.neighbours, query, k) for query in queries]
    found = [one for one, _ in both]
    return Searched(
        found,
        recall=float(np.mean([np.isin(ids, one.ids).mean() for ids, one in zip(exact, found, strict=True)])),
        searched=float(np.mean([one.searched for one in found])),
        seconds=float(np.median([seconds for _, seconds in both])),
    )


def timed(work: Callable[P, T], *args: P.args, **words: P.kwargs) -> tuple[T, float]:
    """Call `work`; return its result and the processor time of the calling thread in seconds."""
    start = thread_time()
    result = work(*args, **words)
    return result, thread_time() - start
