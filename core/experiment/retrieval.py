"""Recall and precision by Hamming distance alone: the curves in papers on binary codes.

Codes do not order the rows at equal distance from a query. Every number computed here is therefore the mean
over all orders of such rows, and does not depend on the order of rows in the pool. The first k rows include
all rows nearer than some distance, and a random subset of the rows at this distance. Wanted rows are true
neighbours, or rows of the class of the query. The expected number of wanted rows among the first k rows is a
piecewise linear function of k, with a node at each distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import digamma

from closecall.core.errors import InputError
from closecall.core.hashing.base import Codes
from closecall.core.numerics.jit import kernel, ones

Counts = NDArray[np.int64]
Floats64 = NDArray[np.float64]
Words = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class Retrieval:
    """Counts of rows at each Hamming distance from each query, and distances of true neighbours.

    Parameters
    ----------
    rows : array of shape (n_queries, n_functions + 1), int64
        Number of rows whose codes differ from the code of the query in 0, 1, … hash functions.
    alike : array of shape (n_queries, n_functions + 1), int64
        Number of these rows that have the class of the query; all zero if this class is unknown.
    neighbours : array of shape (n_queries, n_neighbours), int64
        Hamming distance of each true neighbour of the query, the nearest neighbour first.
    """

    rows: Counts
    alike: Counts
    neighbours: Counts

    def nearest_found(self, retrieved: ArrayLike) -> Floats64:
        """Return recall@R of each query: the probability that its nearest row is among the first R rows.

        Parameters
        ----------
        retrieved : array of shape (n_retrieved,)
            Values of R, not necessarily integers.

        Returns
        -------
        array of shape (n_queries, n_retrieved), float64
        """
        distance = self.neighbours[:, :1]
        equal = np.take_along_axis(self.rows, distance, axis=1)
        nearer = np.take_along_axis(self.rows.cumsum(axis=1), distance, axis=1) - equal
        return np.asarray(np.clip((np.asarray(retrieved, np.float64) - nearer) / equal, 0, 1))

    def neighbours_found(self, retrieved: ArrayLike) -> Floats64:
        """Return, for each query, the share of its true neighbours that are among the first R rows.

        See `nearest_found` for the parameters and the shape of the result.
        """
        wanted = np.zeros_like(self.rows)
        np.add.at(wanted, (np.arange(len(wanted))[:, None], self.neighbours), 1)
        return np.asarray(among_first(self.rows, wanted, retrieved) / self.neighbours.shape[1])

    def precision(self, retrieved: ArrayLike) -> Floats64:
        """Return, for each query, the share of the first R rows found for it that have the query's class.

        See `nearest_found` for the parameters and the shape of the result.
        """
        return among_first(self.rows, self.alike, retrieved) / np.asarray(retrieved, np.float64)

    def average_precision(self) -> Floats64:
        """Return the average precision of each query, of shape (n_queries,).

        Rows are called alike if they have the class of the query. The average precision is the mean of the
        precisions at the ranks of the alike rows; it is 0 if no row is alike. Suppose that r of the n rows at
        one distance are alike, that N rows are nearer, and that R of the nearer rows are alike. The i-th of
        the n rows is alike with probability r/n. If it is, (i − 1)(r − 1)/(n − 1) of the i − 1 rows before it
        at this distance are alike on average (McSherry and Najork 2008). The expected precisions at this
        distance therefore add up to

            r/n ((R + 1)h + (r − 1)/(n − 1) (n − (N + 1)h)),

        where h = 1/(N + 1) + … + 1/(N + n).
        """
        n, r = self.rows.astype(np.float64), self.alike.astype(np.float64)
        N, R = n.cumsum(axis=1) - n, r.cumsum(axis=1) - r
        h = digamma(N + n + 1) - digamma(N + 1)
        pairs = (r - 1) / np.maximum(n - 1, 1)
        sums = r / np.maximum(n, 1) * ((R + 1) * h + pairs * (n - (N + 1) * h))
        return np.asarray(sums.sum(axis=1) / np.maximum(r.sum(axis=1), 1))


def retrieve(
    codes: Codes,
    queries: Codes,
    neighbours: NDArray[np.int64] | None = None,
    classes: NDArray[np.int16] | None = None,
    own: NDArray[np.integer[Any]] | None = None,
) -> Retrieval:
    """Count rows by their Hamming distance from each query.

    Parameters
    ----------
    codes, queries : Codes
        Codes of the rows and of the queries, by the same hash functions.
    neighbours : array of shape (n_queries, n_neighbours), int64, optional
        Row numbers of the true neighbours of each query, the nearest first.
    classes : array of shape (n_rows,), int16, optional
        Classes of the rows, −1 where unknown. Used only together with `own`.
    own : array of shape (n_queries,), int, optional
        Classes of the queries, −1 where unknown.

    Raises
    ------
    InputError
        If the number of bits per function is not a power of two.
    """
    if codes.bits & (codes.bits - 1):
        raise InputError(f"codes must have 1, 2, 4, … bits a function to be compared, got {codes.bits}")
    if neighbours is None:
        neighbours = np.empty((len(queries), 0), np.int64)
    if classes is None or own is None:
        classes, own = np.full(len(codes), -1, np.int16), np.full(len(queries), -1, np.int16)
    first_bits = Codes.from_bits(np.arange(codes.n_functions * codes.bits)[None] % codes.bits == 0).words[0]
    shape = len(queries), codes.n_functions + 1
    rows, alike = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    near = np.empty(neighbours.shape, np.int64)
    _compare(codes.words, queries.words, codes.bits, first_bits, classes, own, rows, alike)
    _place(codes.words, queries.words, codes.bits, first_bits, neighbours, near)
    return Retrieval(rows, alike, near)


def among_first(rows: Counts, wanted: Counts, retrieved: ArrayLike) -> Floats64:
    """Return the expected number of wanted rows among the first k rows, for each query and each k.

    Rows at equal distance are in random order.

    Parameters
    ----------
    rows, wanted : array of shape (n_queries, n_distances), int64
        Number of rows, and number of wanted rows, at each distance.
    retrieved : array of shape (n_retrieved,)
        Values of k.

    Returns
    -------
    array of shape (n_queries, n_retrieved), float64
    """
    first = np.zeros((len(rows), 1), np.int64)
    up_to = np.concatenate([first, rows.cumsum(axis=1)], axis=1)
    found = np.concatenate([first, wanted.cumsum(axis=1)], axis=1)
    k = np.asarray(retrieved, dtype=np.float64)
    out = np.empty((len(rows), len(k)))
    for query, (places, counts) in enumerate(zip(up_to, found, strict=True)):
        out[query] = np.interp(k, places, counts)
    return out


@kernel
def _distance(a: Words, b: Words, bits: int, first_bits: Words) -> np.uint64:
    """Count the hash functions in which two codes differ.

    In the XOR of the codes, the first bit of each function is set to 1 if any bit of this function is 1. Then
    these first bits are counted.
    """
    total = np.uint64(0)
    for i in range(a.shape[0]):
        differing = a[i] ^ b[i]
        shift = 1
        while shift < bits:
            differing |= differing >> np.uint64(shift)
            shift *= 2
        total += ones(differing & first_bits[i])
    return total


@kernel
def _compare(
    words: Words,
    queries: Words,
    bits: int,
    first_bits: Words,
    classes: NDArray[np.int16],
    own: NDArray[np.integer[Any]],
    rows: Counts,
    alike: Counts,
) -> None:
    """Fill `rows` and `alike`; see `Retrieval`."""
    for q in range(queries.shape[0]):
        for row in range(words.shape[0]):
            distance = _distance(words[row], queries[q], bits, first_bits)
            rows[q, distance] += 1
            alike[q, distance] += own[q] >= 0 and classes[row] == own[q]


@kernel
def _place(
    words: Words, queries: Words, bits: int, first_bits: Words, neighbours: Counts, near: Counts
) -> None:
    """Fill `near` with the distances of the neighbours."""
    for q in range(queries.shape[0]):
        for i in range(neighbours.shape[1]):
            near[q, i] = _distance(words[neighbours[q, i]], queries[q], bits, first_bits)
