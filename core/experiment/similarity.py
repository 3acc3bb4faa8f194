"""Recall, precision and cost of similarity families and their search structures on one pool.

**Yardsticks.** A yardstick is the measure by which the true neighbours of a query are found. Each family has
two: the measure that the family is made for (`core.similar.nearness`), and the angle between the rows, which
is the same for all families. Precision is the share of retrieved rows that have the class of the query, so it
needs no yardstick.

**Codes.** Rows are ordered by their Hamming distance from the query (`core.experiment.retrieval`).

**Structures.** See `core.experiment.searching`.

**Cost.** All times are processor time of one thread, which is least affected by other work on the machine.
Fitting is timed once for each code length, after one fit that loads compiled code. Hashing is timed on at
most the first `TIMED_ROWS` rows. The time of a query includes hashing the query and comparing its code with
all codes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import thread_time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.families import (
    SHARED,
    Draw,
    Make,
    chosen_for,
    codes_of_pool,
    forms_of,
    yardstick,
)
from closecall.core.experiment.queries import Items
from closecall.core.experiment.retrieval import retrieve
from closecall.core.experiment.searching import STRUCTURES, WANTED, Number, measures_of, timed
from closecall.core.hashing import Codes, SimilarityHasher
from closecall.core.mercer import Cosine
from closecall.core.numerics.rows import Rows, cut
from closecall.core.pool.pool import Pool
from closecall.core.search import SIMILARITY_STRUCTURES
from closecall.core.similar import (
    ByDistance,
    ExactSearch,
    Nearness,
    nearness_of,
)

TIMED_ROWS = 8_192

Ids = NDArray[np.int64]


class Value(NamedTuple):
    """One measured number.

    Parameters
    ----------
    form : str
        See `core.experiment.families.forms_of`.
    bits : int
        Functions per code.
    structure : str or None
        Search structure that was measured; None for the codes themselves.
    retrieved : int or None
        Number of first rows by Hamming distance, or number of rows that the structure ranks exactly. None if
        the measure depends on neither.
    measure : str
        Codes: "nearest" (recall@R), "neighbours" (share of the true neighbours that are retrieved),
        "neighbours by angle", "precision". Structures: "recall", "searched" and "compared" (shares of the
        pool), "seconds" (per query), "scan ratio" (seconds per query / seconds of an exact scan), "bytes"
        (per item), "build seconds". Cost: "fit seconds", "hash seconds" (per item), "query seconds", "bytes"
        (per code). Chosen parameters: "rank", "scale", and "gamma" of a learned metric or kernel.
    value : float
    """

    form: str
    bits: int
    structure: str | None
    retrieved: int | None
    measure: str
    value: float


@dataclass(eq=False)
class Truths:
    """Exact neighbours of queries by several measures of similarity.

    The neighbours by one measure are found in one pass over the pool, and cached.

    Parameters
    ----------
    pool : Pool
    queries : Items
    n : int
        Number of neighbours per query.
    n_timed : int
        Number of queries used to time the exact scan, one by one.
    """

    pool: Pool
    queries: Items
    n: int
    n_timed: int
    _found: dict[str, tuple[Ids, float]] = field(default_factory=dict)

    def by(self, key: str, nearness: Nearness) -> tuple[Ids, float]:
        """Return the rows nearest to each query by one measure, and the median seconds of an exact scan.

        Parameters
        ----------
        key : str
            Name of the measure, under which neighbours are cached.
        nearness : Nearness
            Measure that orders the rows.

        Returns
        -------
        rows : array of shape (n_queries, n), int64
            The nearest first.
        seconds : float
        """
        if key not in self._found:
            ranked = nearness.scan(self.queries.X, self.n, np.empty(0, np.int64))
            exact = ExactSearch(nearness)
            exact.neighbours(self.queries.first(1)[0], WANTED)  # the first call loads compiled code
            seconds = [timed(exact.neighbours, q, WANTED)[1] for q in self.queries.first(self.n_timed)]
            self._found[key] = np.stack([one.rows for one in ranked]), float(np.median(seconds))
        return self._found[key]

    def by_angle(self) -> Ids:
        """Return the neighbours by the angle between the rows."""
        return self._by_angle()[0]

    def seconds_by_angle(self) -> float:
        """Return the median seconds of an exact scan by the angle between the rows."""
        return self._by_angle()[1]

    def _by_angle(self) -> tuple[Ids, float]:
        return self.by("angle", ByDistance(self.pool))


@dataclass(frozen=True, eq=False)
class Measured:
    """Results of one hash family in one `Draw`, a repetition of the comparison.

    Parameters
    ----------
    values : list of Value
        Measured numbers of each form: first the numbers for codes, in the order of `bits`, then the numbers
        for structures.
    yardsticks : dict
        Maps the name of each form to the name of the measure by which its true neighbours are found.
    refused : dict
        Reasons why a form could not be fitted with some number of bits. Keys are "form, n bits", or "n bits"
        for a form without a name. The key "" means that the whole family does not apply.
    nearest : dict
        Maps the name of each form to recall@R of each query, with the longest codes and the smallest R. Forms
        that could not be fitted with the longest codes are left out.
    """

    values: list[Value]
    yardsticks: dict[str, str]
    refused: dict[str, str]
    nearest: dict[str, list[float]] = field(default_factory=dict)


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
    """Measure a hash family in all its forms, which are sets of parameters.

    Parameters
    ----------
    name : str
        Name of a family in `core.hashing.FAMILIES`.
    pool : Pool
        The pool to search.
    draw : Draw
        Seed, sample and parameters of the family.
    truths : Truths
        The queries and their exact neighbours.
    bits : sequence of int, ascending
        Functions per code; structures are measured with the longest codes.
    retrieved : sequence of int, ascending
        Numbers R of first rows by Hamming distance, among which neighbours are counted.
    n_searched : int
        Number of queries that structures answer.
    structures : sequence of str
        Names of `core.search.SIMILARITY_STRUCTURES`.
    told : callable
        Callback that is called with the name of each form before the form is measured. Exceptions of the
        callback are propagated.
    """
    values: list[Value] = []
    yardsticks: dict[str, str] = {}
    refused: dict[str, str] = {}
    nearest: dict[str, list[float]] = {}
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
        if key == Cosine.word:
            scan_seconds = truths.seconds_by_angle()
        codes = codes_of_pool(list(families.values()), pool)
        for (n, family), of_rows in zip(families.items(), codes, strict=True):
            of_codes, found = _codes(family, of_rows, pool, truths, own, retrieved)
            if n == bits[-1]:
                nearest[form] = found
            cost = cost_of(family, of_rows, truths)
            chosen = [(what, None, number) for what, number in chosen_for(family, draw).items()]
            for measure, k, value in [*of_codes, ("fit seconds", None, seconds[n]), *cost, *chosen]:
                values.append(Value(form, n, None, k, measure, value))
        n = longest.n_functions
        for structure in structures:
            queries = truths.queries.first(n_searched)
            measures = measures_of(
                structure, longest, codes[-1], nearness, pool, queries, own, scan_seconds, draw.seed
            )
            values += [Value(form, n, structure, k, measure, value) for measure, k, value in measures]
    return Measured(values, yardsticks, refused, nearest)


def _fitted(
    form: str, make: Make, draw: Draw, bits: Sequence[int], refused: dict[str, str]
) -> tuple[dict[int, SimilarityHasher], dict[int, float]]:
    """Return the fitted families, and how many seconds fitting took, both by number of functions.

    The reasons why a family could not be fitted are added to `refused`.
    """
    families, seconds = {}, {}
    for n in (bits[0], *bits):  # the time of the first fit, which loads compiled code, is replaced
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
    own: Ids,
    retrieved: Sequence[int],
) -> tuple[list[Number], list[float]]:
    """Return recall and precision of the codes, and recall@R of each query for the smallest R."""
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
    means: list[Number] = [
        (measure, place, value)
        for measure, curve in curves.items()
        for place, value in zip(retrieved, curve.mean(axis=0).tolist(), strict=True)
    ]
    return means, [float(value) for value in curves["nearest"][:, 0]]


def cost_of(family: SimilarityHasher, codes: Codes, truths: Truths) -> Iterator[Number]:
    """Yield the times of hashing and of a query, and the size of a code.

    Parameters
    ----------
    family : SimilarityHasher
        A fitted family.
    codes : Codes
        Codes of the rows of the pool, by this family.
    truths : Truths
        The queries, and the number of queries to time.

    Yields
    ------
    (str, None, float)
        Name of the measure, and value; see `Value`.
    """
    pool = truths.pool
    rows = pool.rows(np.arange(min(TIMED_ROWS, len(pool))))
    family.hash_points(cut(rows, 0, 1))  # the first call loads compiled code
    yield "hash seconds", None, timed(family.hash_points, rows)[1] / rows.shape[0]
    scan = SIMILARITY_STRUCTURES["scan"].build(codes, None, n_compared=0, n_bytes=0, seed=0)

    def search(query: Rows) -> object:
        return scan.found(family.queries(query)[0], WANTED, n_compared=0, measure="disagreements")

    queries = truths.queries.first(truths.n_timed)
    search(queries[0])
    taken = [timed(search, q)[1] for q in queries]
    yield "query seconds", None, float(np.median(taken))
    yield "bytes", None, float(codes.packed.shape[1])
