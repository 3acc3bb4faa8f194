"""Semantic hashing: a compact code is a memory address, and a query reads all addresses near its own code.

For codes of at most 32 bits, the structure finds all codes that differ from the code of the query in at most
r bits (Salakhutdinov and Hinton 2007). These codes form a Hamming ball of radius r. By default, r is the
smallest radius that gives enough rows. In a larger pool this radius is smaller, so a query takes about as
long as in a small pool. The radius can also be fixed, as in the survey [1]_. The search may then find no
rows.

**Addresses.** A table of 2^30 addresses would take gigabytes, and nearly all addresses would have no rows. A
ball of radius 5 around a code of 30 bits would have 174,437 addresses. Therefore only the first functions of
a code form its address. The number of these functions is chosen so that an address has about
`ROWS_AN_ADDRESS` rows. Rows are stored in the order of their addresses (`core.search.table`). A query reads
addresses in ascending distance from its own address and compares all codes at these addresses. The distance
between two codes is at least the distance between their addresses. After all addresses within distance r have
been read, all codes within distance r are therefore known. In the worst case, every row is read, in sequence
as in a scan.

**Cost.** Building the structure takes a counting sort of the addresses. In addition to the codes, the
structure takes 4 bytes per row, and a little memory for the addresses.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 2.2.
"""

from __future__ import annotations

from typing import Self

import numpy as np

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search.base import Found, Rows, SearchStructure
from closecall.core.search.kernels.ball import MOST_BITS, ball_around
from closecall.core.search.kernels.keys import keys_of_rows
from closecall.core.search.orders import PREFIX_BITS
from closecall.core.search.ranking import Measure, closest, comparison
from closecall.core.search.table import HashTable

ROWS_AN_ADDRESS = 16


class HammingBall(SearchStructure):
    """Search structure that finds all codes within a Hamming distance of the query, for compact codes.

    Parameters
    ----------
    table : HashTable
        Hash table whose key consists of the first functions of the codes.
    radius : int or None
        Maximum Hamming distance, in bits. If it is None, each query uses the smallest distance that gives
        enough rows.

    Attributes
    ----------
    table_ : HashTable
        The hash table.
    codes_ : Codes
        Codes in the order of the positions in the table.
    """

    name = "ball"

    def __init__(self, table: HashTable, radius: int | None = None) -> None:
        self.table_ = table
        self.radius = radius
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
        """See `SearchStructure.build`; balls grow until they have enough rows."""
        return cls.of_radius(codes, None)

    @classmethod
    def of_radius(cls, codes: Codes, radius: float | None) -> Self:
        """Build a structure with this radius in bits; if it is None, balls grow until they have enough rows.

        Raises
        ------
        InputError
            If codes have more than 32 bits, or more than one bit per function, or if the radius is not a
            whole number from 0 to 32.
        """
        if codes.bits != 1 or codes.n_functions > PREFIX_BITS:
            raise InputError(
                f"a Hamming ball needs codes of at most {PREFIX_BITS} functions of 1 bit, "
                f"got {codes.n_functions} functions of {codes.bits} bits"
            )
        if radius is not None and radius not in range(PREFIX_BITS + 1):
            raise InputError(
                f"the radius of a Hamming ball must be a whole number from 0 to {PREFIX_BITS}, got {radius:g}"
            )
        width = address_bits(len(codes) // ROWS_AN_ADDRESS, codes.n_functions)
        table = HashTable.of_functions(codes, np.arange(width))
        return cls(table, None if radius is None else int(radius))

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`. If the radius is fixed, there may be fewer than n rows."""
        self._check(query)
        places, n_read = self._within(query, max(n, n_compared))
        nearest = closest(self.codes_, places, places + 1, comparison(query, measure), n)
        return Found(self.table_.rows_[nearest].astype(np.int64), n_read)

    def within(self, query: QueryCode, n: int) -> tuple[Rows, int]:
        """Return the rows of the smallest ball with at least n rows, and the number of codes compared.

        The nearest rows come first. If the structure has fewer than n rows, all rows are returned. With a
        fixed radius, n has no effect. Raises InputError as `found` does.
        """
        self._check(query)
        places, n_read = self._within(query, n)
        return self.table_.rows_[places].astype(np.int64), n_read

    def codes_by_row(self) -> Codes:
        """See `SearchStructure.codes_by_row`."""
        return self.table_.codes_by_row()

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        fixed = {} if self.radius is None else {"radius": np.array(self.radius)}
        return self.table_.arrays() | fixed

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        radius = int(arrays["radius"]) if "radius" in arrays else None
        return cls(HashTable.from_arrays(arrays), radius)

    def _within(self, query: QueryCode, n: int) -> tuple[Rows, int]:
        """Return the positions of the codes in the ball, and the number of codes compared.

        Without a fixed radius, the ball has at least n codes, or all codes if the structure has fewer than n.
        """
        table, code = self.table_, query.code
        address = keys_of_rows(code.packed, table.functions_, 1)[0]
        wanted, farthest = (n, MOST_BITS) if self.radius is None else (len(self.codes_), self.radius)
        words, own = self.codes_.words, code.words[0, 0]
        places, n_read = ball_around(words, table.offsets_, address, own, wanted, farthest)
        return places, int(n_read)


def address_bits(n_rows: int, key_bits: int) -> int:
    """Return the number of bits of an address: log₂ of `n_rows`, rounded down, from 1 to `key_bits`.

    An address consists of the first bits of a key.
    """
    return max(1, min(n_rows.bit_length() - 1, key_bits))
