"""Similarity families measured on one pool: what codes retrieve, what they cost, and how structures do.

**The yardsticks.** The true neighbours of a query, of which so many are to be found, are those by whatever
the family looks for (its own: `core.similar.nearness`), and beside them those by the angle between the rows,
which are the same for all families. Precision asks for neither, but for the query's class.

**Codes.** All rows are taken in the order of their Hamming distance from the query
(`core.experiment.retrieval`).

**Structures.** A query goes as in Find similar: a structure proposes candidates, these are ranked exactly
(`core.similar.index`), and recall@10 is the share of the ten exact neighbours among the ten that come out.
The share of the pool that was searched is that of the rows whose features were read. Time is that of whole
queries, over that of the exact scan by the same yardstick.

**Cost.** All times are processor time of one thread, which other work on the machine disturbs least. Fitting
is timed once for each length of code, hashing by the family alone on the first `TIMED_ROWS` rows at most; a
query is hashed and compared with all codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import thread_time
from typing import NamedTuple, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.families import SHARED, Draw, Make, codes_of_pool, forms_of, yardstick
from closecall.core.experiment.retrieval import retrieve
from closecall.core.hashing import Codes, SimilarityHasher
from closecall.core.mercer.kernel import Transformed
from closecall.core.numerics.rows import Rows, cut
from closecall.core.pool.pool import Pool
from closecall.core.search import SIMILARITY_STRUCTURES, built_for_points
from closecall.core.similar import ByDistance, ExactSearch, HashedSimilarity, Nearness, nearness_of

STRUCTURES = ("scan", "table", "tables", "orders")

SEARCHED = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
"""Which shares of the pool a structure may rank exactly, one after the other."""

USUALLY_COMPARED = 5
"""For each row that is ranked exactly, the codes of so many are compared, by structures that can choose."""

COMPARED = {"table": 40}
"""Where it is another number: a table's codes lie in the order of its buckets, and cost so much less."""

BYTES_A_ROW = 256
"""The memory of tables and permuted orders beside the codes, for each row."""

WANTED = 10
"""Of recall@10."""

TIMED_ROWS = 8_192

Neighbours = NDArray[np.int64]

P = ParamSpec("P")
T = TypeVar("T")


class Value(NamedTuple):
    """One number that was measured.

    Parameters
    ----------
    form : str
        See `core.experiment.families.forms_of`.
    bits : int
        Functions a code.
    structure : str or None
        Where it is about one.
    retrieved : int or None
        Among how many rows: the first by code, or those ranked exactly.
    measure : str
        Of codes: "nearest" (recall@R), "neighbours" (share of the true ones), "neighbours by angle",
        "precision". Of structures: "recall", "searched" and "compared" (shares of the pool), "seconds" (a
        query), "scan ratio" (of the exact scan's time), "bytes" (an item), "build seconds". Of cost: "fit
        seconds", "hash seconds" (an item), "query seconds", "bytes" (of a code). Of a family as it was
        chosen: "rank", "scale".
    value : float
    """

    form: str
    bits: int
    structure: str | None
    retrieved: int | None
    measure: str
    value: float


@dataclass(frozen=True, eq=False)
class Queries:
    """What is searched for: held-out items.

    Parameters
    ----------
    X : array or csr_array of shape (n_queries, n_features)
    truth : array of shape (n_queries,), int16
        Their classes, −1 where unknown.
    """

    X: Rows
    truth: NDArray[np.int16]

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def first(self, n: int) -> list[Rows]:
        """The first n, one by one."""
        return [cut(self.X, i, i + 1) for i in range(min(n, len(self)))]


@dataclass(eq=False)
class Truths:
    """The exact neighbours of the queries by each yardstick, each found by one pass over the pool.

    Parameters
    ----------
    pool : Pool
    queries : Queries
    n : int
        How many neighbours a query has.
    n_timed : int
        For so many queries the exact scan is timed, one by one.
    """

    pool: Pool
    queries: Queries
    n: int
    n_timed: int
    _found: dict[str, tuple[Neighbours, float]] = field(default_factory=dict)

    def by(self, key: str, nearness: Nearness) -> tuple[Neighbours, float]:
        """Rows of shape (n_queries, n), the nearest first, and the median seconds of an exact scan.

        `key` names what the nearness orders by: what has been found once is not looked for again.
        """
        if key not in self._found:
            ranked = nearness.scan(self.queries.X, self.n, np.empty(0, np.int64))
            exact = ExactSearch(nearness)
            seconds = [timed(exact.neighbours, q, WANTED)[1] for q in self.queries.first(self.n_timed)]
            self._found[key] = np.stack([one.rows for one in ranked]), float(np.median(seconds))
        return self._found[key]

    def by_angle(self) -> Neighbours:
        """Those by the angle between the rows."""
        return self.by("angle", ByDistance(self.pool))[0]


@dataclass(frozen=True, eq=False)
class Measured:
    """What came out for one family and draw.

    Parameters
    ----------
    values : list of Value
        In the order of forms, bits, structures.
    yardsticks : dict
        What each form's neighbours are nearest by, by its name.
    refused : dict
        Why a form does not apply, or not with so many bits, by "form" or "form, bits".
    """

    values: list[Value]
    yardsticks: dict[str, str]
    refused: dict[str, str]


def measure_family(
    name: str,
    pool: Pool,
    draw: Draw,
    truths: Truths,
    *,
    bits: Sequence[int],
    retrieved: Sequence[int],
    n_searched: int,
    structures: Sequence[str] = STRUCTURES,
    told: Callable[[str], None] = lambda _: None,
) -> Measured:
    """Measure all forms of a family.

    Parameters
    ----------
    name : str
        One of `core.hashing.FAMILIES`.
    pool : Pool
        Its rows are searched.
    draw : Draw
        What the family is made with.
    truths : Truths
        With the queries.
    bits : sequence of int, ascending
        Functions a code; structures are measured with the most.
    retrieved : sequence of int, ascending
        Among so many first rows neighbours are counted; the first of them is R of recall@R.
    n_searched : int
        So many of the queries are put to the structures.
    structures : sequence of str
        Names of `core.search.SIMILARITY_STRUCTURES`.
    told : callable
        Told the name of each form before it is measured; what it raises ends the measurement.
    """
    values: list[Value] = []
    yardsticks: dict[str, str] = {}
    refused: dict[str, str] = {}
    try:
        forms = forms_of(name, draw)
    except InputError as error:
        return Measured([], {}, {"": str(error)})
    for form, make in forms.items():
        told(form)
        families, seconds = _fitted(form, make, draw, bits, refused)
        if not families:
            continue
        longest = families[max(families)]
        nearness = nearness_of(pool, longest)
        yardsticks[form] = yardstick(longest)
        key = yardsticks[form]
        if key not in SHARED:
            key = f"{key}, {name}, {form}, {draw.seed}"
        own, scan_seconds = truths.by(key, nearness)
        codes = codes_of_pool(list(families.values()), pool)
        for (n, family), of_rows in zip(families.items(), codes, strict=True):
            of_codes = _codes(family, of_rows, pool, truths, own, retrieved)
            cost = _cost(family, of_rows, pool, truths, seconds[n])
            for measure, k, value in [*of_codes, *cost]:
                values.append(Value(form, n, None, k, measure, value))
        n = longest.n_functions
        for structure in structures:
            found = _structure(
                structure, longest, codes[-1], nearness, truths, own, scan_seconds, n_searched, draw.seed
            )
            values += [Value(form, n, structure, k, measure, value) for measure, k, value in found]
    return Measured(values, yardsticks, refused)


_Number = tuple[str, int | None, float]


def _fitted(
    form: str, make: Make, draw: Draw, bits: Sequence[int], refused: dict[str, str]
) -> tuple[dict[int, SimilarityHasher], dict[int, float]]:
    """The family by its number of functions, and what fitting took; why it can't be is put into `refused`."""
    families, seconds = {}, {}
    for n in bits:
        start = thread_time()
        try:
            families[n] = draw.fitted(make, n)
        except InputError as error:
            refused[f"{form}, {n} bits" if form else f"{n} bits"] = str(error)
        seconds[n] = thread_time() - start
    return families, seconds


def _codes(
    family: SimilarityHasher,
    codes: Codes,
    pool: Pool,
    truths: Truths,
    own: Neighbours,
    retrieved: Sequence[int],
) -> Iterator[_Number]:
    """What the codes retrieve."""
    queries = family.hash_queries(truths.queries.X)
    classes, truth = pool.truth(pool.ids), truths.queries.truth
    both = retrieve(codes, queries, np.hstack([own, truths.by_angle()]), classes, truth)
    n = own.shape[1]
    found, by_angle = (
        replace(both, neighbours=both.neighbours[:, part]) for part in (slice(n), slice(n, None))
    )
    k = np.asarray(retrieved)
    curves = {
        "nearest": found.nearest_found(k),
        "neighbours": found.neighbours_found(k),
        "neighbours by angle": by_angle.neighbours_found(k),
    }
    known = truth >= 0
    if known.any() and (classes >= 0).any():
        curves["precision"] = found.precision(k)[known]
    for measure, curve in curves.items():
        for place, value in zip(retrieved, curve.mean(axis=0).tolist(), strict=True):
            yield measure, place, value


def _cost(
    family: SimilarityHasher, codes: Codes, pool: Pool, truths: Truths, fit_seconds: float
) -> Iterator[_Number]:
    """What fitting, hashing and a query take, and where rank and scale were chosen, these."""
    yield "fit seconds", None, fit_seconds
    rows = pool.rows(np.arange(min(TIMED_ROWS, len(pool))))
    family.hash_points(cut(rows, 0, 1))  # the first one loads compiled code
    yield "hash seconds", None, timed(family.hash_points, rows)[1] / rows.shape[0]
    scan = SIMILARITY_STRUCTURES["scan"].build(codes, None, n_compared=0, n_bytes=0, seed=0)

    def search(query: Rows) -> object:
        return scan.found(family.queries(query)[0], WANTED, n_compared=0, measure="disagreements")

    queries = truths.queries.first(truths.n_timed)
    search(queries[0])
    taken = [timed(search, q)[1] for q in queries]
    yield "query seconds", None, float(np.median(taken))
    yield "bytes", None, float(codes.packed.shape[1])
    rank, kernel = getattr(family, "rank", None), getattr(family, "kernel", None)
    if rank is not None:
        yield "rank", None, float(rank)
    if isinstance(kernel, Transformed):
        yield "scale", None, kernel.scale


def _structure(
    name: str,
    family: SimilarityHasher,
    codes: Codes,
    nearness: Nearness,
    truths: Truths,
    own: Neighbours,
    scan_seconds: float,
    n_searched: int,
    seed: int,
) -> Iterator[_Number]:
    """Recall@10, shares of the pool and times, for each share that may be ranked exactly."""
    pool = truths.pool
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
    queries = truths.queries.first(n_searched)
    shares = {min(max(round(share * len(pool)), 10 * WANTED), len(pool)) for share in SEARCHED}
    for k in sorted(shares):
        search = HashedSimilarity(
            family,
            structure,
            nearness,
            n_compared=min(a_candidate * k, len(pool)),
            n_candidates=k,
        )
        search.neighbours(queries[0], WANTED)  # the first one loads compiled code
        both = [timed(search.neighbours, q, WANTED) for q in queries]
        answers, taken = zip(*both, strict=True)
        wanted = pool.ids[own[:, :WANTED]]
        hits = [len(np.intersect1d(a.ids, w)) / len(w) for a, w in zip(answers, wanted, strict=False)]
        seconds = float(np.median(taken))
        yield "recall", k, float(np.mean(hits))
        yield "searched", k, float(np.mean([a.searched for a in answers]))
        yield "compared", k, float(np.mean([a.compared for a in answers])) / len(pool)
        yield "seconds", k, seconds
        yield "scan ratio", k, seconds / scan_seconds


def timed(work: Callable[P, T], *args: P.args, **words: P.kwargs) -> tuple[T, float]:
    """What the work gives, and the seconds of processor time that it takes the calling thread."""
    start = thread_time()
    result = work(*args, **words)
    return result, thread_time() - start
