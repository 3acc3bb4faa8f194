"""Semantic hashing: a compact code is an address, and the ball of addresses around a query is looked up.

Of codes of at most 32 bits all are found that differ from the query's own in r bits or fewer, r being the
least for which there are enough (Salakhutdinov and Hinton 2007). With ten times as many rows the ball is
smaller, so that a query takes about as long.

**Addresses.** 2^30 of them would take gigabytes, nearly all for nothing, and a ball of five bits around a
code of 30 has 174,437 of them. Instead the first functions of a code are its address, so few that there are
`ROWS_AN_ADDRESS` rows at one, and rows lie in that order (`core.search.table`). Addresses are read in the
order of their own distance from the query's, and all codes at them are compared. A code is no nearer than
its address: once all addresses at distance r have been read, all codes within r are known. In the worst case
every row is read, one after the other as a scan does.

**Cost.** Building counts and sorts addresses. Beside the codes it takes 4 bytes a row, and few for addresses.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search.base import Found, Rows, SearchStructure
from closecall.core.search.kernels import ball_around, keys_of_rows
from closecall.core.search.orders import PREFIX_BITS
from closecall.core.search.ranking import Measure, comparison, likest
from closecall.core.search.table import HashTable

ROWS_AN_ADDRESS = 16


class HammingBall(SearchStructure):
    """A hash table of compact codes.

    Attributes
    ----------
    table_ : HashTable
        By the first functions.
    codes_ : Codes
        By position in it.
    """

    name = "ball"

    def __init__(self, table: HashTable) -> None:
        self.table_ = table
        self.codes_ = table.codes_

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
        width = address_bits(len(codes) // ROWS_AN_ADDRESS, codes.n_functions)
        return cls(HashTable.of_functions(codes, np.arange(width)))

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`: of the rows `within` the smallest ball that has so many."""
        self._check(query)
        places, n_read = self._within(query, max(n, n_compared))
        nearest = likest(self.codes_, places, places + 1, comparison(query, measure), n)
        return Found(self.table_.rows_[nearest].astype(np.int64), n_read)

    def within(self, query: QueryCode, n: int) -> tuple[Rows, int]:
        """The rows of the smallest ball that has n, or of all, and how many codes were compared for it."""
        self._check(query)
        places, n_read = self._within(query, n)
        return self.table_.rows_[places].astype(np.int64), n_read

    def codes_by_row(self) -> Codes:
        """See `SearchStructure.codes_by_row`."""
        return self.table_.codes_by_row()

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        return self.table_.arrays()

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        return cls(HashTable.from_arrays(arrays))

    def _within(self, query: QueryCode, n: int) -> tuple[Rows, int]:
        """The positions of the smallest ball that has n."""
        table, code = self.table_, query.code
        address = keys_of_rows(code.packed, table.functions_, 1)[0]
        places, n_read = ball_around(self.codes_.words, table.offsets_, address, code.words[0, 0], n)
        return places, int(n_read)


def address_bits(n_rows: int, key_bits: int) -> int:
    """How many of a key's first bits are an address: log₂ of the number of rows, rounded down."""
    return max(1, min(n_rows.bit_length() - 1, key_bits))
