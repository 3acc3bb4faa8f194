"""Semantic hashing: a compact code is an address, and all addresses in a ball around the query are read.

For codes of at most 32 bits, the structure finds all codes that differ from the query's in at most r bits,
where r is the smallest radius that gives enough rows (Salakhutdinov and Hinton 2007). In a pool ten times as
large the ball is smaller, so a query takes about as long.

**Addresses.** A table of 2^30 addresses would take gigabytes, nearly all of them empty, and a ball of radius
5 around a code of 30 bits has 174,437 addresses. Therefore only the first functions of a code form its
address, so few that there are about `ROWS_AN_ADDRESS` rows per address, and rows are stored in that order
(`core.search.table`). Addresses are read in order of their own distance from the query's, and all codes at
them are compared. A code is at least as far as its address, so once all addresses at distance r have been
read, all codes within r are known. In the worst case every row is read, sequentially as in a scan.

**Cost.** Building the structure takes a counting sort of the addresses. In addition to the codes, it takes
4 bytes per row, and little for the addresses.
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
from closecall.core.search.ranking import Measure, closest, comparison
from closecall.core.search.table import HashTable

ROWS_AN_ADDRESS = 16


class HammingBall(SearchStructure):
    """A hash table of compact codes.

    Attributes
    ----------
    table_ : HashTable
        Keyed by the first functions.
    codes_ : Codes
        By position in the table.
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
            If codes have more than 32 bits, or more than one bit per function.
        """
        if codes.bits != 1 or codes.n_functions > PREFIX_BITS:
            raise InputError(
                f"a Hamming ball needs codes of at most {PREFIX_BITS} functions of 1 bit, "
                f"got {codes.n_functions} functions of {codes.bits} bits"
            )
        width = address_bits(len(codes) // ROWS_AN_ADDRESS, codes.n_functions)
        return cls(HashTable.of_functions(codes, np.arange(width)))

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`; compares the rows `within` the smallest ball that has enough."""
        self._check(query)
        places, n_read = self._within(query, max(n, n_compared))
        nearest = closest(self.codes_, places, places + 1, comparison(query, measure), n)
        return Found(self.table_.rows_[nearest].astype(np.int64), n_read)

    def within(self, query: QueryCode, n: int) -> tuple[Rows, int]:
        """Return the rows of the smallest ball with at least n rows, and the number of codes compared.

        The nearest rows come first. If there are fewer than n rows, all are returned. InputError is raised as
        by `found`.
        """
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
        """Return the positions in the smallest ball with at least n, and the number of codes compared."""
        table, code = self.table_, query.code
        address = keys_of_rows(code.packed, table.functions_, 1)[0]
        places, n_read = ball_around(self.codes_.words, table.offsets_, address, code.words[0, 0], n)
        return places, int(n_read)


def address_bits(n_rows: int, key_bits: int) -> int:
    """Return how many of a key's first bits form an address.

    This is log₂ of `n_rows`, rounded down, but at least 1 and at most `key_bits`.
    """
    return max(1, min(n_rows.bit_length() - 1, key_bits))
