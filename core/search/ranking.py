"""Ranking of codes by their similarity to a query.

Comparing codes of k functions takes one or two cache lines per row, far less than reading the features of the
row. In the same time, far more rows can therefore be compared by their codes than by their features.

Measures
--------
A measure is a dissimilarity of the code of a row and a query.

disagreements
    The number of functions whose values differ in at least one bit, as in the papers.
difference
    For H-Hash: |A_u − A_v|, where A_u counts the functions whose first bits agree, and A_v counts the
    functions whose second bits agree. Let θ be the angle between a row and the normal of the hyperplane. The
    mean of A_u − A_v is k(1 − 2θ/π), so near the hyperplane it is proportional to π/2 − θ. The number of
    functions with two agreeing bits changes only in proportion to (π/2 − θ)². `difference` is therefore much
    more precise with the same bits.
weights
    A weighted sum of the bits (`QueryCode.weights`). For a hyperplane, the sum estimates the squared score
    (wᵀx + b)². With H-Hash, it estimates the score itself, and the measure is its absolute value. Each weight
    is rounded to ±1 or ±3 times a common step. For normally distributed weights, the squared cosine between
    the weights and the rounded weights is 0.88; with ±1 alone, it would be 0.64. The comparison takes two bit
    counts per word: the bits that differ from the signs of the weights, and the differing bits with a weight
    of ±3.

A measure is computed as |m + 2m' − centre|. Here, m is the number of bits in which the code differs from a
pattern, and m' is the number of these bits that a mask selects. For `difference`, the pattern is the code of
the query with the second bits flipped, so that m = k − A_u + A_v, and the centre is k. For disagreements of
functions with several bits, see `Comparison.together`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Codes, QueryCode, bytes_a_row
from closecall.core.numerics.jit import kernel, ones, prefetch

Words = NDArray[np.uint64]
Positions = NDArray[np.int64]

Measure = Literal["weights", "disagreements", "difference"]

MEASURES: tuple[Measure, ...] = ("weights", "disagreements", "difference")

_EVERY_BIT = np.uint64(0xFFFFFFFFFFFFFFFF)
_SECOND_BITS = np.uint64(0xAAAAAAAAAAAAAAAA)
_ROWS_AHEAD = 32
_TURNS = 8
_WORDS_A_LINE = 8
_ROWS_AT_ONCE = 64


def check_measure(measure: str, bits: int) -> None:
    """Raise InputError unless `measure` is defined for codes with `bits` bits per function."""
    allowed = MEASURES if bits == 2 else MEASURES[:2]
    if measure not in allowed:
        raise InputError(f"measure must be one of {', '.join(allowed)}, got {measure!r}")


@dataclass(frozen=True, eq=False)
class Comparison:
    """The dissimilarity of codes to a query, computed from the bits that differ from a pattern.

    The dissimilarity is |d + 2h − centre|, where d is the number of differing bits and h is the number of
    differing bits that are heavy.

    Parameters
    ----------
    pattern : array of shape (n_words,), uint64
        Bits that the bits of a code are compared with.
    heavy : array of shape (n_words,), uint64
        Mask of the heavy bits.
    centre : int
        Number of differing bits, with heavy bits counted three times, at which the dissimilarity is zero. It
        is from 0 to `most`.
    most : int
        Upper bound of the dissimilarity.
    together : int
        Number of bits in a group: 1, 2, 4, 8 or 16. With more than one bit, d is the number of groups with a
        differing bit, and `heavy` is ignored.
    """

    pattern: Words
    heavy: Words
    centre: int
    most: int
    together: int = 1


def comparison(query: QueryCode, measure: Measure) -> Comparison:
    """Return the comparison of codes with a query by a measure."""
    if measure == "weights":
        return _weighted(query)
    n_bits = query.n_functions * query.bits
    words = query.code.words[0]
    nothing = np.zeros_like(words)
    if measure == "disagreements":
        return Comparison(words, nothing, 0, n_bits, together=query.bits)
    every = Codes.from_bits(np.ones((1, n_bits), dtype=np.bool_), query.bits).words[0]
    return Comparison(words ^ (_SECOND_BITS & every), nothing, query.n_functions, n_bits)


def _weighted(query: QueryCode) -> Comparison:
    """Return the comparison by weights rounded to ±step or ±3·step."""
    n_words = bytes_a_row(query.n_functions, query.bits) // 8
    return Comparison(*_rounded(query.weights, query.offset, query.signed, n_words))


def closest(codes: Codes, starts: Positions, stops: Positions, compared: Comparison, n: int) -> Positions:
    """Return the n positions with the most similar codes within segments of `codes`, best first.

    Segment i has the positions from starts[i] up to, but not including, stops[i]. Equally similar codes are
    in the order of the segments. The result is shorter than n if the segments have fewer positions.
    """
    n = min(n, int((stops - starts).sum()))
    if n < 1:
        return np.empty(0, dtype=np.int64)
    return np.asarray(
        _closest(
            codes.words,
            starts,
            stops,
            compared.pattern,
            compared.heavy,
            compared.centre,
            compared.most,
            compared.together,
            n,
        )
    )


@kernel
def _count(
    words: Words, first: int, pattern: Words, heavy: Words, together: int, counts: NDArray[np.uint64]
) -> None:
    """Set `counts` to the weighted numbers of differing bits of consecutive rows, starting at row `first`.

    The other arguments are those of `Comparison`.
    """
    first_bits = _EVERY_BIT // np.uint64((1 << together) - 1)
    for row in range(counts.shape[0]):
        total = np.uint64(0)
        if together > 1:
            for i in range(pattern.shape[0]):
                differing = words[first + row, i] ^ pattern[i]
                shift = 1
                while shift < together:
                    differing |= differing >> np.uint64(shift)
                    shift *= 2
                total += ones(differing & first_bits)
        else:
            for i in range(pattern.shape[0]):
                differing = words[first + row, i] ^ pattern[i]
                total += ones(differing) + (ones(differing & heavy[i]) << np.uint64(1))
        counts[row] = total


@kernel
def _rounded(
    weights: NDArray[np.float32], offset: float, signed: bool, n_words: int
) -> tuple[Words, Words, int, int]:
    """Return the pattern, heavy bits, centre and maximum of a `Comparison` by rounded weights.

    Each weight w is rounded to ±l · step with a level l of 1 or 3. As in Lloyd's quantiser, two updates
    alternate: the level becomes 3 where |w| > 2 · step, and the step becomes Σ l|w| / Σ l², which has the
    least squared error for these levels.
    """
    n = weights.shape[0]
    step = 0.0
    for turn in range(_TURNS):
        total, squares = 0.0, 0
        for weight in weights:
            level = 3 if turn and abs(weight) > 2 * step else 1
            total += level * abs(weight)
            squares += level * level
        step = total / squares
    pattern, heavy = np.zeros(n_words, dtype=np.uint64), np.zeros(n_words, dtype=np.uint64)
    most = n
    for i in range(n):
        bit = np.uint64(1) << np.uint64(i % 64)
        if weights[i] > 0 if signed else weights[i] < 0:
            pattern[i // 64] |= bit
        if abs(weights[i]) > 2 * step:
            heavy[i // 64] |= bit
            most += 2
    centre = 0
    if signed and step > 0:
        # The estimate is offset + step · (most − 2 · weighted number of bits that differ from the pattern).
        centre = int(np.rint(min(max((offset / step + most) / 2, 0.0), float(most))))
    return pattern, heavy, centre, most


@kernel
def _closest(
    words: Words,
    starts: Positions,
    stops: Positions,
    pattern: Words,
    heavy: Words,
    centre: int,
    most: int,
    together: int,
    n: int,
) -> Positions:
    """Return the n positions with the most similar codes, best first.

    While reading, positions that are better than the n-th best position so far are kept. At the end, they are
    sorted by counting. The arguments are those of `closest` and the fields of `Comparison`.
    """
    differing = np.empty(_ROWS_AT_ONCE, dtype=np.uint64)
    found = np.empty(2 * n + 1, dtype=np.int64)
    unlike = np.empty(2 * n + 1, dtype=np.int64)
    counts = np.zeros(most + 2, dtype=np.int64)
    n_found = 0
    worst, n_better = most + 1, 0  # the n-th smallest value so far, and the number of smaller ones
    coming_segment, coming, to_ask = 0, starts[0], _ROWS_AHEAD
    for segment in range(starts.shape[0]):
        for first in range(starts[segment], stops[segment], _ROWS_AT_ONCE):
            n_rows = min(_ROWS_AT_ONCE, stops[segment] - first)
            to_ask += n_rows
            while to_ask > 0 and coming_segment < starts.shape[0]:
                to_ask -= 1
                for column in range(0, words.shape[1], _WORDS_A_LINE):
                    prefetch(words, coming, column)
                coming += 1
                if coming == stops[coming_segment]:
                    coming_segment += 1
                    coming = starts[min(coming_segment, starts.shape[0] - 1)]
            _count(words, first, pattern, heavy, together, differing[:n_rows])
            for row in range(n_rows):
                value = abs(np.int64(differing[row]) - centre)
                if value >= worst:
                    continue
                if n_found == found.shape[0]:
                    # Of the positions equal to the n-th best, keep only the first ones that fit into n.
                    spare = n - n_better
                    n_found = 0
                    for i in range(found.shape[0]):
                        if unlike[i] < worst or (unlike[i] == worst and spare > 0):
                            spare -= unlike[i] == worst
                            found[n_found], unlike[n_found] = found[i], unlike[i]
                            n_found += 1
                found[n_found], unlike[n_found] = first + row, value
                n_found += 1
                counts[value] += 1
                n_better += 1
                while n_better >= n:
                    worst -= 1
                    n_better -= counts[worst]
    return _sorted(found[:n_found], unlike[:n_found], most, n)


@kernel
def _sorted(found: Positions, unlike: Positions, most: int, n: int) -> Positions:
    """Return the n positions in `found` with the smallest dissimilarity `unlike`, in ascending order.

    Positions of equal dissimilarity stay in the given order.
    """
    place = np.zeros(most + 3, dtype=np.int64)
    for i in range(found.shape[0]):
        place[unlike[i] + 1] += 1
    for value in range(1, most + 2):
        place[value] += place[value - 1]
    ordered = np.empty(n, dtype=np.int64)
    for i in range(found.shape[0]):
        if place[unlike[i]] < n:
            ordered[place[unlike[i]]] = found[i]
        place[unlike[i]] += 1
    return ordered
