"""Bucket tables for similarity: in each table, rows with the same values of k functions share a bucket.

Near rows often share a bucket and far rows seldom do. With l tables, near rows have l chances to share one
[1]_. A function of random hyperplanes agrees for two rows at the angle r with probability p₁ = 1 − r/π, and
at the angle (1 + ε)r with probability p₂ = 1 − (1 + ε)r/π.

**The (r, ε) rule.** k = ⌈ln N / ln(1/p₂)⌉ functions leave at most about one row farther than (1 + ε)r in the
query's bucket, where N is the number of rows. l = ⌈p₁⁻ᵏ⌉ tables find a row within r with probability at least
1 − 1/e. Here, l is at most about N^ρ / p₁, where ρ = ln p₁ / ln p₂. A key has at most 32 bits, and the number
of tables is limited by memory. Without r and ε, a key has ⌊log₂ N⌋ bits, which would give about one row per
bucket if rows were spread evenly. If 32 bits hold only w < k functions, l = ⌈p₁⁻ʷ⌉: near rows are found as
often, but more far rows are read.

**Independent tables.** The probability 1 − (1 − p₁ᵏ)ˡ that l tables find a row holds if no function is in two
tables, which takes k l functions. `Guarantee.fitting` gives the l for which functions, codes and tables fit
into memory. If codes have fewer functions than that, tables share some. Tables that share functions find the
same rows more often than independent ones would, so `BucketTables.guarantee` counts only tables that share
none (`n_independent`). The other tables find additional rows that are not guaranteed.

**Multi-probe.** Most rows that further tables would find are in buckets next to the query's own [2]_. After
every table's own bucket, the search therefore reads buckets that flip the bits of which the query is least
certain. A function compares a projection of a row with a threshold. For a near row, the projection is about
the query's own value v plus noise, so flipping the bit costs v² in likelihood. The search reads the cheapest
unread bucket of all tables next, until there are enough rows to compare. This compensates for tables that do
not fit into memory. For a function with several bits, the other values are equally likely: after the query's
own buckets come all buckets that differ in one function, then in two, and so on. If functions have more than
`MOST_BITS` bits, there are too many such buckets. If the key is a single function, no other bucket is worth
reading. In both cases, only the own buckets are read.

**Cost.** A table takes 8 bytes per row for key and row number and 2 to 4 for addresses, and building it sorts
the entries. A query takes about 100 ns per bucket, and reads a cache line for each row that it compares.

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
from closecall.core.search.kernels import fill_starts, from_tables
from closecall.core.search.orders import PREFIX_BITS, dealt, prefixes, sorted_orders
from closecall.core.search.ranking import Measure, closest, comparison

MOST_TABLES = 64
LEAST_PROBES = 10_000
MOST_BITS = 8
_BYTES_A_ROW = 12


@dataclass(frozen=True)
class Guarantee:
    """Probability that l tables, with k functions in each key, find a near row [1]_.

    It follows from the collision probabilities of one function.

    Parameters
    ----------
    n_rows : int
        Number N of rows.
    near, far : float
        p₁ and p₂: the probabilities that a function agrees for a row at distance r, and at (1 + ε)r.
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
        """Return the rule's k = ⌈ln N / ln(1/p₂)⌉ and l = ⌈p₁⁻ᵏ⌉, without regard to memory.

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
        """Return the rule for similarity by random hyperplanes, with p = 1 − r/π.

        Parameters
        ----------
        n_rows : int
            Number N of rows.
        radius : float
            r, an angle in radians.
        epsilon : float
            ε. Rows farther than (1 + ε) r are not near.

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
        """Return this guarantee with other k and l."""
        return replace(self, width=width, n_tables=n_tables)

    def of_width(self, most: int) -> Guarantee:
        """Return this guarantee with at most `most` functions per key, and the tables that it then needs."""
        return self if self.width <= most else self.of_tables(most, ceil(self.near**-most))

    def fitting(self, bits: int, n_bytes: int, *, bytes_a_function: float = 0.0) -> Guarantee:
        """Return this guarantee with as many independent tables as fit into memory, at least one.

        A table takes 12 bytes per row, k functions of its own, and their bits in every code.

        Parameters
        ----------
        bits : int
            Bits of a function.
        n_bytes : int
            Memory for tables, codes and functions, in bytes.
        bytes_a_function : float
            Memory of a function, in bytes.
        """
        rule = self.of_width(PREFIX_BITS // bits)
        a_table = (_BYTES_A_ROW + rule.width * bits / 8) * self.n_rows + rule.width * bytes_a_function
        return rule.of_tables(rule.width, max(1, min(rule.n_tables, int(n_bytes / max(a_table, 1.0)))))

    @property
    def n_functions(self) -> int:
        """Number of functions that independent tables take: k l."""
        return self.width * self.n_tables

    @property
    def rho(self) -> float:
        """Exponent ρ = ln p₁ / ln p₂: the rule needs about N^ρ tables."""
        return log(self.near) / log(self.far)

    @property
    def success(self) -> float:
        """Minimum probability that a row within r shares a bucket with the query: 1 − (1 − p₁ᵏ)ˡ."""
        return float(self.success_at(self.near))

    def success_at(self, agrees: ArrayLike) -> NDArray[np.float64]:
        """Return the probability that a row shares a bucket, given the probability that one function agrees.

        This is exact for independent tables; `success` is its value at the radius.
        """
        together = np.asarray(agrees, dtype=np.float64) ** self.width
        with np.errstate(divide="ignore"):  # a row that always agrees is always found
            return np.asarray(-np.expm1(self.n_tables * np.log1p(-together)))

    @property
    def far_rows(self) -> float:
        """Upper bound of the expected number of rows beyond (1 + ε)r in the query's buckets: l N p₂ᵏ."""
        return self.n_tables * self.n_rows * self.far**self.width


def table_rule(n_rows: int, radius: float, epsilon: float) -> tuple[int, int]:
    """Return the number k of functions and l of tables by the (r, ε) rule, without regard to memory.

    Parameters
    ----------
    n_rows : int
        Number N of rows.
    radius : float
        r, an angle in radians.
    epsilon : float
        ε. Rows farther than (1 + ε) r are not near.

    Raises
    ------
    InputError
        Unless 0 < r < (1 + ε) r < π.
    """
    rule = Guarantee.for_angles(n_rows, radius, epsilon)
    return rule.width, rule.n_tables


class BucketTables(SearchStructure):
    """l tables, each of all rows sorted by a key of k functions.

    Attributes
    ----------
    functions_ : array of shape (n_tables, width), int64
        The functions of each table's key.
    entries_ : array of shape (n_tables, n_rows), uint64
        Sorted entries of key and row; see `core.search.orders.sorted_orders`.
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
        """Build tables by the (r, ε) rule, as far as memory permits."""
        return cls.of_rule(
            codes, Guarantee.for_angles(len(codes), radius, epsilon), n_bytes=n_bytes, seed=seed
        )

    @classmethod
    def of_rule(cls, codes: Codes, rule: Guarantee, *, n_bytes: int, seed: int) -> Self:
        """Build the rule's tables, as far as memory permits; see `Guarantee.of_width` for long keys."""
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
        """Number of tables, counted from the first, before one shares a function with an earlier one."""
        seen: set[int] = set()
        for place, functions in enumerate(self.functions_.tolist()):
            if not seen.isdisjoint(functions):
                return place
            seen.update(functions)
        return len(self.functions_)

    def guarantee(self, rule: Guarantee) -> Guarantee:
        """Return the guarantee of these tables for the probabilities of a rule.

        Only tables without a common function are counted. If memory or the number of functions allows fewer
        tables than the rule needs, `success` is lower accordingly.
        """
        return rule.of_tables(self.functions_.shape[1], self.n_independent)

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`; compares the `probed` rows."""
        self._check(query)
        rows, _ = self.probed(query, max(n, n_compared))
        return Found(closest(self.codes_, rows, rows + 1, comparison(query, measure), n), len(rows))

    def probed(self, query: QueryCode, n: int, *, most_probes: int | None = None) -> tuple[Rows, int]:
        """Return up to n rows of the likeliest buckets, and the number of buckets read.

        The search ends after `most_probes` buckets; if that is the number of tables, only each table's own
        bucket is read. The default is two buckets per requested row in addition to the own buckets, but at
        least `LEAST_PROBES`: if all of these are empty, no row is near.
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
    """Return the masks that change one function of a key to any other value; `prefixes` places keys."""
    if width == 1 or bits > MOST_BITS:
        return np.empty(0, dtype=np.uint64)
    values = np.arange(1, 1 << bits, dtype=np.uint64)
    shifts = np.uint64(64) - np.uint64(bits) * np.arange(1, width + 1, dtype=np.uint64)
    return np.asarray(values << shifts[:, None], dtype=np.uint64).ravel()
