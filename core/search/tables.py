"""Bucket tables for similarity search: in a table, rows with the same values of k functions share a bucket.

The k functions form the key of a table. Near rows often share a bucket, and far rows seldom do. With l
tables, near rows have l chances to share a bucket [1]_. If each function says on which side of a random
hyperplane a row is, it has the same value for two rows at the angle r with probability p₁ = 1 − r/π, and for
two rows at the angle (1 + ε)r with probability p₂ = 1 − (1 + ε)r/π.

**The (r, ε) rule.** Let N be the number of rows. With k = ⌈ln N / ln(1/p₂)⌉ functions, the bucket of a query
has on average at most one row farther than (1 + ε)r. With l = ⌈p₁⁻ᵏ⌉ tables, a row within r is found with
probability at least 1 − 1/e. l is at most about N^ρ / p₁, where ρ = ln p₁ / ln p₂. A key has at most 32 bits.
If 32 bits are enough for only w < k functions, l = ⌈p₁⁻ʷ⌉. Near rows are then found with the same
probability, but more far rows are read. Memory limits the number of tables. Without r and ε, a key has
⌊log₂ N⌋ bits, which would give about one row per bucket if rows were spread evenly.

**Independent tables.** The probability 1 − (1 − p₁ᵏ)ˡ that l tables find a row is exact if no function is in
two tables, which takes k·l functions. `Guarantee.fitting` finds the largest l for which functions, codes
and tables fit into memory. If codes have fewer functions, some functions are in several tables. Such tables
often find the same rows. `BucketTables.guarantee` therefore only counts tables without a common function
(`n_independent`). The other tables find additional rows that are not guaranteed.

**Multi-probe.** Most of the near rows that l tables miss are in buckets whose keys differ from the key of the
query in a few bits [2]_. After the query's own bucket in each table, the search therefore reads buckets whose
keys differ in the least certain bits. A function compares a projection of a row with a threshold. Let v be
the difference of projection and threshold for the query. For a near row, the difference is v plus noise. A
flipped bit therefore costs v² in log-likelihood. The search always reads the cheapest unread bucket of all
tables, until there are enough rows to compare. This compensates for the tables that are left out for lack of
memory. If a function has several bits, all its wrong values are equally likely. In this case, the search
first reads all buckets whose keys differ in one function, then all buckets whose keys differ in two
functions, and so on. With more than `MOST_BITS` bits per function, there would be too many such buckets. With
a single function in the key, the other buckets would be no better than random buckets. In both cases, the
search only reads the query's own buckets.

**Cost.** A table takes 8 bytes per row for the key and the row number, and 2 to 4 bytes per row for
addresses. Building a table sorts its entries. A query takes about 100 ns per bucket, and reads a cache line
for each row that it compares.

References
----------
.. [1] A. Gionis, P. Indyk, R. Motwani, "Similarity search in high dimensions via hashing", VLDB 1999.
.. [2] Q. Lv, W. Josephson, Z. Wang, M. Charikar, K. Li, "Multi-probe LSH", VLDB 2007.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, log
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search.ball import address_bits
from closecall.core.search.base import Found, Rows, SearchStructure, packed_arrays, packed_codes
from closecall.core.search.kernels.tables import fill_starts, from_tables
from closecall.core.search.orders import PREFIX_BITS, dealt, prefixes, sorted_orders
from closecall.core.search.ranking import Measure, closest, comparison

MOST_TABLES = 64
LEAST_PROBES = 10_000
MOST_BITS = 8
_BYTES_A_ROW = 12


@dataclass(frozen=True)
class Guarantee:
    """Number of hash tables and functions, and the resulting probability that a query finds a near row.

    A row is near if its distance from the query is at most r, and far if it is more than (1 + ε)r.

    Parameters
    ----------
    n_rows : int
        Number N of rows.
    near, far : float
        Probabilities p₁ and p₂ that a function has the same value for the query and for a row, if the row is
        at the distance r (p₁) or (1 + ε)r (p₂).
    width : int
        Number k of functions in a key.
    n_tables : int
        Number l of tables.
    """

    n_rows: int
    near: float
    far: float
    width: int
    n_tables: int

    @classmethod
    def by_rule(cls, n_rows: int, near: float, far: float) -> Guarantee:
        """Return the guarantee with k = ⌈ln N / ln(1/p₂)⌉ and l = ⌈p₁⁻ᵏ⌉, without regard to memory.

        k is the number of functions in a key, l is the number of tables, and N is `n_rows`. p₁ (`near`) and
        p₂ (`far`) are the probabilities that a function agrees for near rows and for far rows.

        Raises
        ------
        InputError
            Unless 0 < p₂ < p₁ < 1.
        """
        if not 0 < far < near < 1:
            raise InputError(f"the probabilities must satisfy 0 < far < near < 1, got {far:g} and {near:g}")
        k = max(1, ceil(log(max(n_rows, 2)) / log(1 / far)))
        return cls(n_rows, near, far, k, ceil(near**-k))

    @classmethod
    def for_angles(cls, n_rows: int, radius: float, epsilon: float) -> Guarantee:
        """Return the result of `by_rule` for random hyperplanes: a bit agrees with probability 1 − angle/π.

        Parameters
        ----------
        n_rows : int
            Number of rows.
        radius : float
            Angle r in radians, up to which rows are near.
        epsilon : float
            Parameter ε > 0. Rows at an angle of more than (1 + ε)r are far.

        Raises
        ------
        InputError
            Unless 0 < r < (1 + ε) r < π.
        """
        if not 0 < radius < (1 + epsilon) * radius < np.pi:
            raise InputError(
                f"radius and epsilon must satisfy 0 < radius < (1 + epsilon) radius < π, "
                f"got {radius:g} and {epsilon:g}"
            )
        return cls.by_rule(n_rows, 1 - radius / np.pi, 1 - (1 + epsilon) * radius / np.pi)

    def of_tables(self, width: int, n_tables: int) -> Guarantee:
        """Return this guarantee with another number of functions per key and another number of tables."""
        return replace(self, width=width, n_tables=n_tables)

    def of_width(self, most: int) -> Guarantee:
        """Return the guarantee with keys of at most `most` functions and the tables that these keys need."""
        return self if self.width <= most else self.of_tables(most, ceil(self.near**-most))

    def fitting(self, bits: int, n_bytes: int, *, bytes_a_function: float = 0.0) -> Guarantee:
        """Return this guarantee with only as many tables as fit into memory, but with at least one table.

        All tables are independent, that is, they have no common function. Keys that are longer than 32 bits
        are shortened with `of_width`. A table takes 12 bytes per row. Its functions take memory, too, and so
        do their bits in the codes of all rows.

        Parameters
        ----------
        bits : int
            Number of bits per function.
        n_bytes : int
            Memory for tables, codes and functions, in bytes.
        bytes_a_function : float
            Memory that a function takes, in bytes.
        """
        rule = self.of_width(PREFIX_BITS // bits)
        a_table = (_BYTES_A_ROW + rule.width * bits / 8) * self.n_rows + rule.width * bytes_a_function
        return rule.of_tables(rule.width, max(1, min(rule.n_tables, int(n_bytes / max(a_table, 1.0)))))

    @property
    def n_functions(self) -> int:
        """Number of functions in all keys if no function is in two tables."""
        return self.width * self.n_tables

    @property
    def rho(self) -> float:
        """Exponent ρ = ln p₁ / ln p₂. The rule in `by_rule` gives about N^ρ tables for N rows."""
        return log(self.near) / log(self.far)

    @property
    def success(self) -> float:
        """Minimum probability that a near row shares a bucket with the query in at least one table."""
        return float(self.success_at(self.near))

    def success_at(self, agrees: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that a row shares a bucket with the query in at least one table.

        `agrees` is the probability that one function agrees for the row and the query. The result is exact
        for tables without a common function.
        """
        together = np.asarray(agrees, dtype=np.float64) ** self.width
        with np.errstate(divide="ignore"):  # log1p(−1) is −∞ for a row that always agrees
            return np.asarray(-np.expm1(self.n_tables * np.log1p(-together)))

    @property
    def far_rows(self) -> float:
        """Upper bound of the expected number of far rows in the buckets of the query in all tables."""
        return self.n_tables * self.n_rows * self.far**self.width


def table_rule(n_rows: int, radius: float, epsilon: float) -> tuple[int, int]:
    """Return the number of functions per key and the number of tables for random hyperplanes.

    The numbers follow the (r, ε) rule of the module, without regard to memory.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    radius : float
        Angle r in radians, up to which rows are near.
    epsilon : float
        Parameter ε > 0. Rows at an angle of more than (1 + ε)r are far.

    Raises
    ------
    InputError
        Unless 0 < r < (1 + ε) r < π.
    """
    rule = Guarantee.for_angles(n_rows, radius, epsilon)
    return rule.width, rule.n_tables


class BucketTables(SearchStructure):
    """Hash tables that each contain all rows, sorted by a key of several functions.

    Attributes
    ----------
    functions_ : array of shape (n_tables, width), int64
        Functions in the key of each table.
    entries_ : array of shape (n_tables, n_rows), uint64
        Sorted pairs of a key and a row for each table; see `core.search.orders.sorted_orders`.
    starts_ : array of shape (n_tables, 2**top + 1), uint32
        Index of the first entry for each value of the highest bits of a key.
    codes_ : Codes
        Codes in the order of the rows.
    """

    name = "tables"

    def __init__(
        self,
        functions: NDArray[np.int64],
        entries: NDArray[np.uint64],
        starts: NDArray[np.uint32],
        codes: Codes,
    ) -> None:
        self.functions_ = functions
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
        n_bytes: int,
        seed: int,
    ) -> Self:
        """See `SearchStructure.build`; builds as many tables as fit into memory, at most `MOST_TABLES`."""
        width = max(1, (len(codes).bit_length() - 1) // codes.bits)
        n_tables = min(MOST_TABLES, _fitting(codes, n_bytes))
        return cls.of_width(codes, width, n_tables, seed)

    @classmethod
    def of_radius(cls, codes: Codes, radius: float, epsilon: float, *, n_bytes: int, seed: int) -> Self:
        """Build the tables of `Guarantee.for_angles`, for random hyperplanes, as far as memory permits."""
        return cls.of_rule(
            codes, Guarantee.for_angles(len(codes), radius, epsilon), n_bytes=n_bytes, seed=seed
        )

    @classmethod
    def of_rule(cls, codes: Codes, rule: Guarantee, *, n_bytes: int, seed: int) -> Self:
        """Build the tables of the guarantee `rule`, or as many of them as fit into memory.

        Keys that are longer than 32 bits are shortened with `Guarantee.of_width`.
        """
        rule = rule.of_width(PREFIX_BITS // codes.bits)
        return cls.of_width(codes, rule.width, min(rule.n_tables, _fitting(codes, n_bytes)), seed)

    @classmethod
    def of_width(cls, codes: Codes, width: int, n_tables: int, seed: int) -> Self:
        """Build `n_tables` tables with `width` functions per key.

        The width is limited by the number of functions and by 32 bits.
        """
        width = min(width, codes.n_functions, PREFIX_BITS // codes.bits)
        functions = dealt(codes.n_functions, n_tables, width, seed)
        entries = sorted_orders(codes, functions)
        top = address_bits(len(codes), width * codes.bits)
        starts = np.empty((n_tables, 2**top + 1), dtype=np.uint32)
        for table, own in zip(entries, starts, strict=True):
            fill_starts(table, top, own)
        return cls(functions, entries, starts, codes)

    @property
    def n_independent(self) -> int:
        """Number of tables before the first table that has a function in common with an earlier table."""
        seen: set[int] = set()
        for place, functions in enumerate(self.functions_.tolist()):
            if not seen.isdisjoint(functions):
                return place
            seen.update(functions)
        return len(self.functions_)

    def guarantee(self, rule: Guarantee) -> Guarantee:
        """Return the guarantee of these tables, with the probabilities `near` and `far` of `rule`.

        Only tables without a common function are counted. If `rule` has more tables than are counted,
        `rule.success` is higher than the `success` of the result.
        """
        return rule.of_tables(self.functions_.shape[1], self.n_independent)

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`. The compared rows are those that `probed` returns."""
        self._check(query)
        rows, _ = self.probed(query, max(n, n_compared))
        return Found(closest(self.codes_, rows, rows + 1, comparison(query, measure), n), len(rows))

    def probed(self, query: QueryCode, n: int, *, most_probes: int | None = None) -> tuple[Rows, int]:
        """Return up to n rows, and the number of buckets that were read.

        In each table, the search first reads the bucket with the key of the query. It then reads the buckets
        that are most likely to contain near rows. It ends when it has n rows, or has read `most_probes`
        buckets. By default, `most_probes` is the number of tables plus 2n, but at least `LEAST_PROBES`.
        """
        n_tables = len(self.functions_)
        keys = prefixes(query.code, self.functions_)
        if self.codes_.bits == 1:
            costs = query.weights[self.functions_] ** 2
            order = np.argsort(costs, axis=1, kind="stable")
            flips = np.uint64(1) << (np.uint64(63) - order.astype(np.uint64))
            costs = np.take_along_axis(costs, order, axis=1)
        else:
            one_table = _changes(self.functions_.shape[1], self.codes_.bits)
            flips = np.tile(one_table, (n_tables, 1))
            costs = np.ones(flips.shape, dtype=np.float32)
        top = (self.starts_.shape[1] - 1).bit_length() - 1
        most = max(LEAST_PROBES, n_tables + 2 * n) if most_probes is None else most_probes
        return from_tables(self.entries_, self.starts_, top, keys, flips, costs, n, most)

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        own: Arrays = {"functions": self.functions_, "entries": self.entries_, "starts": self.starts_}
        return packed_arrays(self.codes_) | own

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        return cls(arrays["functions"], arrays["entries"], arrays["starts"], packed_codes(arrays))


def _fitting(codes: Codes, n_bytes: int) -> int:
    return max(1, n_bytes // (_BYTES_A_ROW * max(len(codes), 1)))


def _changes(width: int, bits: int) -> NDArray[np.uint64]:
    """Return the bit masks that change the value of one function in a key, for all functions and values.

    A function has the same place in a mask as in the keys that `prefixes` returns.
    """
    if width == 1 or bits > MOST_BITS:
        return np.empty(0, dtype=np.uint64)
    values = np.arange(1, 1 << bits, dtype=np.uint64)
    shifts = np.uint64(64) - np.uint64(bits) * np.arange(1, width + 1, dtype=np.uint64)
    return np.asarray(values << shifts[:, None], dtype=np.uint64).ravel()
