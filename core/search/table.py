"""A hash table that is probed by likelihood: a query reads the buckets that are likeliest to have near rows.

A few functions of the codes form the key of the table, and each value of the key has a bucket of rows. The
classical method (section 3.1 of [1]_, after Gionis, Indyk and Motwani 1999) has many tables and reads one
bucket of each table, the bucket with the key of the query. But the query also shows how certain the value of
each function is. Multi-probe hashing (Lv et al. 2007) therefore also reads buckets whose keys differ in the
least certain functions. If the query is a hyperplane, the bucket with its key is not even the likeliest.

**Probing.** The bits of a key give an estimate of the score wᵀx + b, or of its square, for all points in the
bucket (`core.hashing.reconstruction`). The error is about the same in all buckets. Buckets are read in
ascending order of the absolute estimate for H-Hash, and of the estimated square for other families. A key is
so short that all buckets can be ordered. The estimates of each half of the key are tabulated, and the
estimate of a bucket is the sum of two entries.

If the values of a function have several bits and all wrong values are equally likely, as for Min-Hash, single
bits carry no information. If such codes are compared by the number of functions that disagree, buckets are
read in ascending order of the number of functions in which their keys disagree with the query's.

**One table.** Suppose that the likeliest buckets, with a fraction f of all rows, contain a fraction g of the
near rows. If f is small, g is proportional to f. Reading the fraction f/L of each of L tables then finds as
many near rows as reading the fraction f of one table, but takes L times the memory. There is therefore only
one table. The codes are stored in the order of the buckets, so that comparisons read memory sequentially.
Looking up the code of each row would take ten times as long.

**Length of the key.** Let r be the number of rows per bucket, and N the number of rows. Each bucket costs a
jump in memory, as much as comparing about ten codes, so r should be several tens. To follow the order of
likelihood, a query should read a few hundred buckets, so r should not exceed 1/256 of the rows that the query
compares. Therefore r = n_compared / 256, but at least `LEAST_ROWS` and at most `MOST_ROWS`. The key has
log₂(N / r) bits, rounded down to whole functions. It has at most `MOST_KEY_BITS` bits, because ordering all
buckets must cost less than reading some of them.

References
----------
.. [1] P. Jain, S. Vijayanarasimhan, K. Grauman, "Hashing hyperplane queries to near points with applications
   to large-scale active learning", NIPS 2010.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments, Reconstruction
from closecall.core.search.base import Found, Rows, SearchStructure, packed_arrays, packed_codes
from closecall.core.search.kernels.keys import keys_of_rows
from closecall.core.search.kernels.table import likeliest_buckets, nearest_buckets, sort_into_buckets
from closecall.core.search.ranking import Measure, closest, comparison

LEAST_ROWS = 8
MOST_ROWS = 64
MOST_KEY_BITS = 16


def width_rule(n_rows: int, bits: int, n_compared: int, n_functions: int) -> int:
    """Return the number of functions in a key, at least one; the module explains the choice."""
    rows_a_bucket = min(max(n_compared // 256, LEAST_ROWS), MOST_ROWS)
    key_bits = min(max(n_rows // rows_a_bucket, 1).bit_length() - 1, MOST_KEY_BITS)
    return max(1, min(key_bits // bits, n_functions))


class HashTable(SearchStructure):
    """Hash table: codes, sorted by the values of a few hash functions, and the start of each bucket.

    Attributes
    ----------
    functions_ : array of shape (width,), int64
        Functions of the key. The first function has the highest bits of the key. A key is the number of its
        bucket.
    offsets_ : array of shape (n_buckets + 1,), uint32
        Bucket b has the positions from offsets_[b] up to, but not including, offsets_[b + 1].
    rows_ : array of shape (n_rows,), uint32
        Row at each position, ascending within a bucket.
    codes_ : Codes
        Code at each position.
    key_ : Reconstruction or None
        Reconstruction of points from the bits of the key alone. It gives the weights of these bits. If it is
        None, the bits have the same weights as in whole codes.
    """

    name = "table"

    def __init__(
        self,
        functions: NDArray[np.int64],
        offsets: NDArray[np.uint32],
        rows: NDArray[np.uint32],
        codes: Codes,
        key: Reconstruction | None,
    ) -> None:
        self.functions_ = functions
        self.offsets_ = offsets
        self.rows_ = rows
        self.codes_ = codes
        self.key_ = key

    @classmethod
    def build(
        cls,
        codes: Codes,
        moments: Moments | None,
        *,
        n_compared: int,
        n_bytes: int,  # noqa: ARG003
        seed: int,
    ) -> Self:
        """See `SearchStructure.build`; `width_rule` gives the width."""
        width = width_rule(len(codes), codes.bits, n_compared, codes.n_functions)
        functions = np.random.default_rng(seed).permutation(codes.n_functions)[:width]
        return cls.of_functions(codes, functions, moments)

    @classmethod
    def of_functions(cls, codes: Codes, functions: NDArray[np.int64], moments: Moments | None = None) -> Self:
        """Build a table keyed by these functions, which must have at most 24 bits together."""
        offsets = np.empty(2 ** (codes.bits * len(functions)) + 1, dtype=np.uint32)
        rows = np.empty(len(codes), dtype=np.uint32)
        sort_into_buckets(keys_of_rows(codes.packed, functions, codes.bits), offsets, rows)
        sorted_codes = Codes(codes.packed[rows], codes.n_functions, codes.bits)
        key = moments.reconstruction(_bits_of(functions, codes.bits)) if moments else None
        return cls(functions, offsets, rows, sorted_codes, key)

    def bucket(self, query: QueryCode) -> Rows:
        """Return the rows in the bucket with the key of the query, ascending.

        Raises InputError as `found` does.
        """
        self._check(query)
        key = int(self._key(query))
        return self.rows_[self.offsets_[key] : self.offsets_[key + 1]].astype(np.int64)

    def probed(self, query: QueryCode, n_rows: int, *, measure: Measure = "weights") -> tuple[Rows, Rows]:
        """Return the likeliest buckets that together have `n_rows` rows, as (starts, stops) of positions.

        The last bucket is cut to the number of rows needed. The result is in ascending order of bucket
        numbers, except for a few buckets at the end.

        A bucket is likely if the estimate from its key is small: the absolute score of its points, or their
        dissimilarity if the query is a point (see the module). There is one exception. If functions have
        several bits, the measure is "disagreements" and the family is not H-Hash, a bucket is likely if its
        key differs from the key of the query in few functions.
        """
        n_rows = min(n_rows, len(self.codes_))
        if measure == "disagreements" and query.bits > 1 and not query.signed:
            width = len(self.functions_)
            return nearest_buckets(self._key(query), query.bits, width, self.offsets_, n_rows)
        weights, offset = self._key_weights(query)
        return likeliest_buckets(weights, offset, query.signed, self.offsets_, n_rows)

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`; compares the rows in the likeliest buckets."""
        self._check(query)
        starts, stops = self.probed(query, max(n, n_compared), measure=measure)
        found = closest(self.codes_, starts, stops, comparison(query, measure), n)
        return Found(self.rows_[found].astype(np.int64), int((stops - starts).sum()))

    def codes_by_row(self) -> Codes:
        """See `SearchStructure.codes_by_row`."""
        packed = np.empty_like(self.codes_.packed)
        packed[self.rows_] = self.codes_.packed
        return Codes(packed, self.codes_.n_functions, self.codes_.bits)

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        named: Arrays = {"functions": self.functions_, "offsets": self.offsets_, "rows": self.rows_}
        if self.key_ is not None:
            named["key"] = self.key_.parts
        return packed_arrays(self.codes_) | named

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        key = Reconstruction(arrays["key"]) if "key" in arrays else None
        return cls(arrays["functions"], arrays["offsets"], arrays["rows"], packed_codes(arrays), key)

    def _key(self, query: QueryCode) -> np.uint64:
        return np.uint64(keys_of_rows(query.code.packed, self.functions_, query.bits)[0])

    def _key_weights(self, query: QueryCode) -> tuple[NDArray[np.float32], float]:
        if self.key_ is not None and query.embedded is not None:
            return self.key_.weights(query.embedded)
        return query.weights[_bits_of(self.functions_, self.codes_.bits)], query.offset


def _bits_of(functions: NDArray[np.int64], bits: int) -> NDArray[np.int64]:
    """Return the indices of the bits of these functions, in the order of `functions`."""
    return np.add.outer(functions * bits, np.arange(bits)).ravel()
