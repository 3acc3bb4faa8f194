"""Candidates in the order in which their whole codes are like the query's.

A table or an order looks at a few functions only. Comparing all k of them costs a cache line or two a row,
far less than reading the row, so a few thousand rows can be looked up for the few hundred that are scored.

Measures
--------
disagreements
    In how many functions the values differ (of H-Hash: pairs, in which at least one bit does).
difference
    For H-Hash: |A_u − A_v|, where A_u and A_v count the agreements of the first and of the second bits. The
    mean of A_u − A_v is k(1 − 2θ/π): it changes with the angle to first order, where the number of agreeing
    pairs changes to second order only. Sharper by far, from the same bits.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.hashing.base import Codes
from core.kernels import kernel
from core.search.base import Rows

Measure = Literal["disagreements", "difference"]

MEASURES: tuple[Measure, ...] = ("disagreements", "difference")

_BITS, _PAIRS, _DIFFERENCE = 0, 1, 2


def check_measure(measure: str, bits: int) -> None:
    """Raise InputError unless there is such a measure for codes of so many bits a function."""
    allowed = MEASURES if bits == 2 else MEASURES[:1]
    if measure not in allowed:
        raise InputError(f"measure must be one of {', '.join(allowed)} here, got {measure!r}")


def likest(codes: Codes, query: Codes, rows: Rows, n: int, measure: Measure = "disagreements") -> Rows:
    """The `n` of `rows` whose codes are most like the query's, likest first; ties in the order of `rows`."""
    kind = _BITS if codes.bits == 1 else _PAIRS if measure == "disagreements" else _DIFFERENCE
    most = codes.n_functions * codes.bits
    return np.asarray(_likest(codes.words, query.words[0], rows, kind, most, min(n, len(rows))))


@kernel
def _ones(word: np.uint64) -> int:
    """How many bits of a word are set."""
    word -= (word >> np.uint64(1)) & np.uint64(0x5555555555555555)
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@kernel
def _unlikeness(code: NDArray[np.uint64], query: NDArray[np.uint64], kind: int) -> int:
    first_bits = np.uint64(0x5555555555555555)
    total = 0
    for i in range(query.shape[0]):
        differing = code[i] ^ query[i]
        if kind == _BITS:
            total += _ones(differing)
        elif kind == _PAIRS:
            total += _ones((differing | (differing >> np.uint64(1))) & first_bits)
        else:
            total += _ones(differing & first_bits) - _ones(differing & ~first_bits)
    return abs(total)


@kernel
def _likest(
    words: NDArray[np.uint64],
    query: NDArray[np.uint64],
    rows: NDArray[np.int64],
    kind: int,
    most: int,
    n: int,
) -> NDArray[np.int64]:
    """Counting sort by unlikeness, which is `most` at most, as far as the first n."""
    unlike = np.empty(rows.shape[0], dtype=np.int64)
    place = np.zeros(most + 2, dtype=np.int64)
    for i in range(rows.shape[0]):
        unlike[i] = _unlikeness(words[rows[i]], query, kind)
        place[unlike[i] + 1] += 1
    for value in range(1, most + 2):
        place[value] += place[value - 1]
    found = np.empty(n, dtype=np.int64)
    for i in range(rows.shape[0]):
        if place[unlike[i]] < n:
            found[place[unlike[i]]] = rows[i]
        place[unlike[i]] += 1
    return found
