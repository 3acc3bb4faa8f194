"""Semantic hashing: a compact code is an address, and the ball of addresses around a query is looked up.

A code of at most 32 bits is looked up itself: first the query's own, then all at Hamming distance 1, at
distance 2, and so on, until there are enough rows (Salakhutdinov and Hinton 2007). How long that takes
depends on the number of addresses, not on the number of rows: with more rows fewer addresses are needed. At
one distance, addresses that differ in the bits of which the query is least sure come first.

**Addresses.** 2^30 of them would take gigabytes, nearly all for nothing. Instead rows are sorted by code, and
the first log₂ N bits of a code, rounded down, address the few rows among which its own are found by halving.

**Cost.** Building sorts N numbers of 64 bits. Beside the code it takes 8 bytes a row, and 2 to 4 for the
addresses. An address costs as much as comparing some `ROWS_AN_ADDRESS` codes one after the other: after
N / `ROWS_AN_ADDRESS` addresses a query that is far from everything compares all codes instead.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.hashing.base import Arrays, Codes, QueryCode
from core.hashing.reconstruction import Moments
from core.search.base import Found, Rows, SearchStructure, packed_arrays, packed_codes
from core.search.kernels import fill_starts, from_ball
from core.search.orders import PREFIX_BITS, prefixes, sorted_orders
from core.search.ranking import Measure, comparison, likest
from core.search.scan import HammingScan

ROWS_AN_ADDRESS = 32


class HammingBall(SearchStructure):
    """Rows sorted by compact codes, and where codes with the same first bits begin.

    Attributes
    ----------
    entries_ : array of shape (n_rows,), uint64
        Code and row, sorted; see `core.search.orders.sorted_orders`.
    starts_ : array of shape (2**top + 1,), uint32
    codes_ : Codes
        By row.
    """

    name = "ball"

    def __init__(self, entries: NDArray[np.uint64], starts: NDArray[np.uint32], codes: Codes) -> None:
        self.entries_ = entries
        self.starts_ = starts
        self.codes_ = codes

    @classmethod
    def build(
        cls,
        codes: Codes,
        moments: Moments | None,  # noqa: ARG003
        *,
        n_compared: int,  # noqa: ARG003
        n_bytes: int,  # noqa: ARG003
        seed: int,  # noqa: ARG003
    ) -> Self:
        """See `SearchStructure.build`.

        Raises
        ------
        InputError
            If codes have more than 32 bits, or more than one bit a function.
        """
        if codes.bits != 1 or codes.n_functions > PREFIX_BITS:
            raise InputError(
                f"a Hamming ball needs compact codes, of at most {PREFIX_BITS} functions of 1 bit, "
                f"got {codes.n_functions} of {codes.bits}"
            )
        entries = sorted_orders(codes, np.arange(codes.n_functions)[None])[0]
        starts = np.empty(2 ** address_bits(len(codes), codes.n_functions) + 1, dtype=np.uint32)
        fill_starts(entries, address_bits(len(codes), codes.n_functions), starts)
        return cls(entries, starts, codes)

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`: of the rows `within` the smallest ball that has so many, or of all."""
        self._check(query)
        wanted = min(max(n, n_compared), len(self.codes_))
        rows, _ = self.within(query, wanted)
        if len(rows) < wanted:
            return HammingScan(self.codes_).found(query, n, n_compared=0, measure=measure)
        return Found(likest(self.codes_, rows, rows + 1, comparison(query, measure), n), len(rows))

    def within(self, query: QueryCode, n: int) -> tuple[Rows, int]:
        """Up to n rows by the Hamming distance of their codes, and how many addresses were looked up.

        Fewer than n where that many are not within the addresses that are worth it, see above.
        """
        n_bits = self.codes_.n_functions
        top = (len(self.starts_) - 1).bit_length() - 1
        key = prefixes(query.code, np.arange(n_bits)[None])[0]
        unsure_first = np.argsort(np.abs(query.weights), kind="stable").astype(np.uint64)
        flips = np.uint64(1) << (np.uint64(63) - unsure_first)
        most = 1 + len(self.codes_) // ROWS_AN_ADDRESS
        return from_ball(self.entries_, self.starts_, top, key, flips, n, most)

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        return {**packed_arrays(self.codes_), "entries": self.entries_, "starts": self.starts_}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        return cls(arrays["entries"], arrays["starts"], packed_codes(arrays))


def address_bits(n_rows: int, key_bits: int) -> int:
    """How many of a key's first bits are an address: log₂ of the number of rows, rounded down."""
    return max(1, min(n_rows.bit_length() - 1, key_bits))
