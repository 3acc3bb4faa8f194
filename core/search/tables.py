"""Hash tables: a row is in one bucket of each table, keyed by the values of a few functions.

A query looks at the bucket of its own key in each table (Section 3.1 of the paper, after Gionis, Indyk and
Motwani 1999). A point that agrees with the query in one function with probability p is in its bucket with
probability p^width, so wide keys sharpen any difference in p, and need more tables for as many candidates.

**The rule.** At right angles p is 1/4 for a pair of bits and 1/2 for one bit. If all points were there, a
bucket of `width` functions would be expected to hold N·p^width rows, and ⌈n_candidates / (N·p^width)⌉
tables together the wanted number. (They are not, so fewer are found: with the paper's SVMs typical points
are at 50° to the hyperplane's normal once they are augmented, where p is 0.2 and the buckets hold a fifth
to a half of that.) The width is the largest for which so many tables fit into `n_bytes` (4 bytes a row and
4 a bucket in each table) and are at most `MOST_TABLES`.

**When buckets hold too few**, the buckets whose key differs in one function are looked at next, and after
them random rows make up the number: the caller always gets as many as it wants. When they hold too many,
all buckets give rows in turn.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.hashing.base import Codes
from core.search.base import Arrays, Rows, SearchStructure, dealt
from core.search.kernels import from_buckets, keys_of_hands, keys_of_rows, sort_into_buckets

MOST_TABLES = 64
_MOST_KEY_BITS = 24


def table_rule(n_rows: int, bits: int, n_candidates: int, n_bytes: int, n_functions: int) -> tuple[int, int]:
    """(functions a table, number of tables) by the rule above; at least one of each."""
    best = (1, 1)
    for width in range(1, min(_MOST_KEY_BITS // bits, n_functions) + 1):
        n_buckets = 2 ** (bits * width)
        n_tables = -(-n_candidates * n_buckets // n_rows)
        if n_tables > min(MOST_TABLES, n_bytes // (4 * (n_rows + n_buckets))):
            break
        best = (width, n_tables)
    return best


class BucketTables(SearchStructure):
    """Tables of buckets, each one list of all rows sorted by key and the place where each bucket begins."""

    name = "tables"

    functions_: NDArray[np.int64]
    offsets_: NDArray[np.uint32]
    rows_: NDArray[np.uint32]

    def __init__(
        self,
        functions: NDArray[np.int64],
        offsets: NDArray[np.uint32],
        rows: NDArray[np.uint32],
        *,
        n_functions: int,
        bits: int,
    ) -> None:
        self.functions_ = functions
        self.offsets_ = offsets
        self.rows_ = rows
        self.n_functions = n_functions
        self.bits = bits
        self.n_rows = rows.shape[1]

    @classmethod
    def build(cls, codes: Codes, *, n_candidates: int, n_bytes: int, seed: int) -> Self:
        """See `SearchStructure.build`; widths and numbers by `table_rule`."""
        width, n_tables = table_rule(len(codes), codes.bits, n_candidates, n_bytes, codes.n_functions)
        return cls.of_width(codes, width, n_tables, seed)

    @classmethod
    def of_width(cls, codes: Codes, width: int, n_tables: int, seed: int) -> Self:
        """`n_tables` tables keyed by `width` functions each."""
        functions = dealt(codes.n_functions, n_tables, width, seed)
        offsets = np.empty((n_tables, 2 ** (codes.bits * width) + 1), dtype=np.uint32)
        rows = np.empty((n_tables, len(codes)), dtype=np.uint32)
        for table in range(n_tables):
            keys = keys_of_rows(codes.packed, functions[table], codes.bits)
            sort_into_buckets(keys, offsets[table], rows[table])
        return cls(functions, offsets, rows, n_functions=codes.n_functions, bits=codes.bits)

    def bucket(self, query: Codes, table: int) -> Rows:
        """The rows in the query's own bucket of one table, ascending."""
        self._check(query)
        key = int(keys_of_hands(query.packed[0], self.functions_, self.bits)[table])
        return self.rows_[table, self.offsets_[table, key] : self.offsets_[table, key + 1]].astype(np.int64)

    def candidates(self, query: Codes, n_candidates: int, seed: int = 0) -> Rows:
        """See `SearchStructure.candidates`: own buckets, then neighbouring ones, then random rows."""
        self._check(query)
        wanted = min(n_candidates, self.n_rows)
        own = keys_of_hands(query.packed[0], self.functions_, self.bits).astype(np.int64)
        found = from_buckets(self.offsets_, self.rows_, own[None, :, None], wanted, seed)
        if len(found) < wanted:
            found = from_buckets(self.offsets_, self.rows_, self._rings(own), wanted, seed)
        if len(found) < wanted:
            found = _filled_up(found, wanted, self.n_rows, seed)
        return found

    def _rings(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """The query's own buckets, then all whose key differs in one function."""
        width = self.functions_.shape[1]
        flips = np.array(
            [value << (self.bits * place) for place in range(width) for value in range(1, 2**self.bits)],
            dtype=np.int64,
        )
        rings = np.full((2, len(own), len(flips)), -1, dtype=np.int64)
        rings[0, :, 0] = own
        rings[1] = own[:, None] ^ flips
        return rings

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        sizes = np.array([self.n_functions, self.bits], dtype=np.int64)
        return {"functions": self.functions_, "offsets": self.offsets_, "rows": self.rows_, "sizes": sizes}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        n_functions, bits = arrays["sizes"].tolist()
        return cls(arrays["functions"], arrays["offsets"], arrays["rows"], n_functions=n_functions, bits=bits)


def _filled_up(found: Rows, wanted: int, n_rows: int, seed: int) -> Rows:
    """`found` and as many random other rows as are missing."""
    free = n_rows - len(found)
    drawn = np.random.default_rng(seed).choice(free, wanted - len(found), replace=False)
    # The j-th row that isn't found is j + (how many found rows lie before it).
    taken = np.sort(found)
    others = drawn + np.searchsorted(taken - np.arange(len(taken)), drawn, side="right")
    return np.concatenate([found, others])
