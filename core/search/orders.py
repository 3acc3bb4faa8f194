"""Permuted sorted orders: all codes are sorted several times, each time with another order of the functions.

In some of the orders, near codes have a long common prefix, that is, their first functions agree. A query is
therefore located in each order, and the rows around its position are read, beginning with the longest common
prefixes (Charikar 2002; section 2.3 of [1]_; section 3.3 of [2]_). This acts like a hash table whose key
length adapts to each query, so that a query never reads too few or too many rows. Two codes agree in a
function of H-Hash if both its bits are equal.

**The number of orders.** An order takes 8 bytes per row: 4 for a prefix of the code (32 functions, or 16 for
H-Hash) and 4 for the number of the row. Rows with the same prefix are sorted by number. There are as many
orders as fit into `n_bytes`, but at most `MOST_ORDERS`. With L orders, a query reads only 1/L of its rows in
each order, namely the rows with the longest common prefixes. These prefixes are log₂ L bits longer than with
one order. But each order costs another binary search.

For similarity queries to N rows, Charikar's rule has M = 2N^{1/(1+ε)} orders [1]_. Among the 2M rows next to
the query in these orders, there is then a row within (1 + ε) times the distance of the nearest row. With
ε = 1.5, as in [2]_, a million rows take 503 orders, or 4 GB. For an ε, `order_rule` returns M, or the number
of orders that fit into memory if this is less. With fewer orders, a query reads more rows in each order.
Usually, a query reads until it has as many distinct rows as it should compare. If the orders were built by
`PermutedOrders.published`, a query reads 2M entries instead. Several entries may belong to the same row.

**Cost.** Building sorts every order. A query takes a binary search in each order and one step per row that it
reads.

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013.
.. [2] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009.
"""

from __future__ import annotations

from math import ceil
from typing import Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.numerics.interruption import go_on
from closecall.core.search.base import Found, Rows, SearchStructure, packed_arrays, packed_codes
from closecall.core.search.kernels.keys import keys_of_hands, keys_of_rows
from closecall.core.search.kernels.orders import from_orders
from closecall.core.search.ranking import Measure, closest, comparison

MOST_ORDERS = 32
PREFIX_BITS = 32


def order_rule(n_rows: int, n_bytes: int, epsilon: float | None = None) -> int:
    """Return the number of orders that fit into `n_bytes`, from 1 to `MOST_ORDERS`.

    If `epsilon` is given, the upper limit is not `MOST_ORDERS`, but the number of Charikar's rule
    (`orders_for`).

    Raises
    ------
    InputError
        If `epsilon` is not positive.
    """
    most = MOST_ORDERS if epsilon is None else orders_for(n_rows, epsilon)
    return max(1, min(most, n_bytes // (8 * max(n_rows, 1))))


def orders_for(n_rows: int, epsilon: float) -> int:
    """Return the number of orders by Charikar's rule, without regard to memory.

    The number is 2N^{1/(1+ε)}, rounded up, for N rows.

    Raises
    ------
    InputError
        If `epsilon` is not positive.
    """
    if not epsilon > 0:
        raise InputError(f"epsilon must be positive, got {epsilon:g}")
    n_orders: int = ceil(2 * n_rows ** (1 / (1 + epsilon)))
    return n_orders


class PermutedOrders(SearchStructure):
    """Sorted arrays of pairs (code prefix, row). Each array has its own order of the functions.

    Attributes
    ----------
    functions_ : array of shape (n_orders, prefix length), int64
        Functions in the prefixes of each order.
    orders_ : array of shape (n_orders, n_rows), uint64
        The sorted arrays; see `sorted_orders`.
    codes_ : Codes
        Codes in the order of the rows.
    n_entries_ : int or None
        Number of entries that every query reads. If None, a query reads until it has enough rows.
    """

    name = "orders"

    def __init__(
        self,
        functions: NDArray[np.int64],
        orders: NDArray[np.uint64],
        codes: Codes,
        n_entries: int | None = None,
    ) -> None:
        self.functions_ = functions
        self.orders_ = orders
        self.codes_ = codes
        self.n_entries_ = n_entries

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
        """See `SearchStructure.build`; `order_rule` gives the number of orders."""
        return cls.of_orders(codes, order_rule(len(codes), n_bytes), seed)

    @classmethod
    def of_orders(cls, codes: Codes, n_orders: int, seed: int) -> Self:
        """Build a structure over `codes` with `n_orders` orders."""
        functions = dealt(codes.n_functions, n_orders, PREFIX_BITS // codes.bits, seed)
        return cls(functions, sorted_orders(codes, functions), codes)

    @classmethod
    def published(cls, codes: Codes, epsilon: float, *, n_bytes: int, seed: int) -> Self:
        """Build the orders of Charikar's rule (`orders_for`), but only as many as fit into `n_bytes`.

        If the rule gives M orders, a query reads 2M entries, even if fewer than M orders fit.

        Raises
        ------
        InputError
            If `epsilon` is not positive.
        """
        made = cls.of_orders(codes, order_rule(len(codes), n_bytes, epsilon), seed)
        return cls(made.functions_, made.orders_, codes, 2 * orders_for(len(codes), epsilon))

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`. The compared rows are those that `proposed` returns."""
        self._check(query)
        rows = self.proposed(query, max(n, n_compared) if self.n_entries_ is None else self.n_entries_)
        return Found(closest(self.codes_, rows, rows + 1, comparison(query, measure), n), len(rows))

    def proposed(self, query: QueryCode, n: int) -> Rows:
        """Return up to n rows. Rows that share a longer prefix with the query come first.

        All orders are read together. If common prefixes are equally long, the orders take turns.
        """
        bits, length = self.codes_.bits, self.functions_.shape[1]
        keys = prefixes(query.code, self.functions_)
        readable = self.orders_.size if self.n_entries_ is None else self.n_entries_
        return np.asarray(from_orders(self.orders_, keys, bits, length, n, readable))

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        entries = {} if self.n_entries_ is None else {"entries": np.array([self.n_entries_])}
        own = {"functions": self.functions_, "orders": self.orders_}
        return {**packed_arrays(self.codes_), **own, **entries}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        n_entries = int(arrays["entries"][0]) if "entries" in arrays else None
        return cls(arrays["functions"], arrays["orders"], packed_codes(arrays), n_entries)


def sorted_orders(codes: Codes, functions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Sort the rows once for each order in `functions`.

    Returns
    -------
    array of shape (n_orders, n_rows), uint64
        One sorted array per order. The upper 32 bits of an entry contain a code prefix, left-aligned. The
        lower 32 bits contain the number of the row.
    """
    orders = np.empty((len(functions), len(codes)), dtype=np.uint64)
    rows = np.arange(len(codes), dtype=np.uint64)
    shift = _shift(functions, codes.bits)
    for order, hand in zip(orders, functions, strict=True):
        go_on()
        np.bitwise_or(keys_of_rows(codes.packed, hand, codes.bits) << shift, rows, out=order)
        order.sort()
    return orders


def prefixes(code: Codes, functions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return, for each row of `functions`, the prefix of a code, left-aligned in 64 bits."""
    return keys_of_hands(code.packed[0], functions, code.bits) << _shift(functions, code.bits)


def dealt(n_functions: int, n_hands: int, size: int, seed: int) -> NDArray[np.int64]:
    """Draw `n_hands` random sets of functions, of shape (n_hands, min(size, n_functions)).

    The sets are dealt like hands of cards from a shuffled deck of all functions. When the deck runs out, a
    new deck is shuffled. All functions are used about equally often. No set has a function twice. If
    there are enough functions, no function is in two sets.
    """
    rng = np.random.default_rng(seed)
    size = min(size, n_functions)
    hands = np.empty((n_hands, size), dtype=np.int64)
    deck = rng.permutation(n_functions)
    for hand in hands:
        if len(deck) < size:
            fresh = rng.permutation(n_functions)
            # A hand that takes the last cards of the old deck must not get the same cards from the new deck.
            deck = np.concatenate([deck, fresh[~np.isin(fresh, deck)], fresh[np.isin(fresh, deck)]])
        hand[:], deck = deck[:size], deck[size:]
    return hands


def _shift(functions: NDArray[np.int64], bits: int) -> np.uint64:
    """Return the shift that left-aligns a prefix of these functions in 64 bits."""
    return np.uint64(64 - functions.shape[1] * bits)
