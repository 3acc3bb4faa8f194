"""Permuted sorted orders: all codes sorted, again and again, each time with their functions in another order.

Near codes share many leading functions in some of the orders, so a query is placed in each, and the rows
around its place are taken, those first that share the longest prefix with it (Charikar 2002; used with
M = 2N^{1/(1+ε)} orders by the paper's companions). It is a hash table whose key is as long as it can be,
row by row: there are never too few candidates, nor too many.

H-Hash's two bits move together, and only whole pairs count as shared.

**The rule.** An order takes 8 bytes a row, a prefix of 32 bits (16 pairs) and the row's number; rows that
share the whole prefix stand by number. There are as many orders as fit into `n_bytes`, and at most
`MOST_ORDERS`: each more gives a share of the candidates that is nearer its own front, at log₂ of the number
of orders in bits, and costs another binary search.

For similarity queries, Charikar's guarantee is a neighbour within (1 + ε) times the nearest one's distance
among the 2M rows next to the query in M = 2N^{1/(1+ε)} orders (ε = 1.5 in the companions): of a million rows
503 orders, 4 GB. `order_rule` gives M for an ε, as far as there is memory; from fewer orders as many rows are
taken as are asked for.

**Cost.** Building sorts every order: 8 bytes a row and order beside the code. A query takes a binary search
in each order and one step a row that it looks at.
"""

from __future__ import annotations

from math import ceil
from typing import Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.hashing.base import Arrays, Codes, QueryCode
from closecall.core.hashing.reconstruction import Moments
from closecall.core.search.base import Found, Rows, SearchStructure, packed_arrays, packed_codes
from closecall.core.search.kernels import from_orders, keys_of_hands, keys_of_rows
from closecall.core.search.ranking import Measure, comparison, likest

MOST_ORDERS = 32
PREFIX_BITS = 32


def order_rule(n_rows: int, n_bytes: int, epsilon: float | None = None) -> int:
    """The number of orders by the rule above, at least one; with `epsilon`, M instead of `MOST_ORDERS`."""
    if epsilon is not None and not epsilon > 0:
        raise InputError(f"epsilon must be positive, got {epsilon:g}")
    most = MOST_ORDERS if epsilon is None else ceil(2 * n_rows ** (1 / (1 + epsilon)))
    return max(1, min(most, n_bytes // (8 * n_rows)))


class PermutedOrders(SearchStructure):
    """Sorted arrays of (code prefix, row), each with the functions in an order of its own."""

    name = "orders"

    def __init__(self, functions: NDArray[np.int64], orders: NDArray[np.uint64], codes: Codes) -> None:
        self.functions_ = functions
        self.orders_ = orders
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
        """See `SearchStructure.build`; the number of orders by `order_rule`."""
        return cls.of_orders(codes, order_rule(len(codes), n_bytes), seed)

    @classmethod
    def of_orders(cls, codes: Codes, n_orders: int, seed: int) -> Self:
        """So many orders over `codes`."""
        functions = dealt(codes.n_functions, n_orders, PREFIX_BITS // codes.bits, seed)
        return cls(functions, sorted_orders(codes, functions), codes)

    def found(self, query: QueryCode, n: int, *, n_compared: int, measure: Measure) -> Found:
        """See `SearchStructure.found`: of `proposed` rows."""
        self._check(query)
        rows = self.proposed(query, max(n, n_compared))
        return Found(likest(self.codes_, rows, rows + 1, comparison(query, measure), n), len(rows))

    def proposed(self, query: QueryCode, n: int) -> Rows:
        """Up to n rows by the longest prefix shared in any order, the orders in turn."""
        bits = self.codes_.bits
        keys = prefixes(query.code, self.functions_)
        return np.asarray(from_orders(self.orders_, keys, bits, self.functions_.shape[1], n))

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        return {**packed_arrays(self.codes_), "functions": self.functions_, "orders": self.orders_}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        return cls(arrays["functions"], arrays["orders"], packed_codes(arrays))


def sorted_orders(codes: Codes, functions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """A sorted array of (code prefix, row) for each hand of `functions`, of shape (n_hands, n_rows).

    The prefix fills the upper 32 bits of an entry, from the top, the row the lower ones.
    """
    orders = np.empty((len(functions), len(codes)), dtype=np.uint64)
    rows = np.arange(len(codes), dtype=np.uint64)
    shift = _shift(functions, codes.bits)
    for order, hand in zip(orders, functions, strict=True):
        np.bitwise_or(keys_of_rows(codes.packed, hand, codes.bits) << shift, rows, out=order)
        order.sort()
    return orders


def prefixes(code: Codes, functions: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The prefix of one code for each hand of `functions`, placed as in `sorted_orders`."""
    return keys_of_hands(code.packed[0], functions, code.bits) << _shift(functions, code.bits)


def dealt(n_functions: int, n_hands: int, size: int, seed: int) -> NDArray[np.int64]:
    """Functions for each of `n_hands` orders, of shape (n_hands, min(size, n_functions)).

    They are dealt from a shuffled deck, shuffled again when it runs out, so that all functions are used
    equally often, none twice in one hand, and no function by two hands as long as there are enough.
    """
    rng = np.random.default_rng(seed)
    size = min(size, n_functions)
    hands = np.empty((n_hands, size), dtype=np.int64)
    deck = rng.permutation(n_functions)
    for hand in hands:
        if len(deck) < size:
            fresh = rng.permutation(n_functions)
            # A hand that takes the old deck's last cards must not get one of them again.
            deck = np.concatenate([deck, fresh[~np.isin(fresh, deck)], fresh[np.isin(fresh, deck)]])
        hand[:], deck = deck[:size], deck[size:]
    return hands


def _shift(functions: NDArray[np.int64], bits: int) -> np.uint64:
    """Moves a prefix to the top of 64 bits, however short it is."""
    return np.uint64(64 - functions.shape[1] * bits)
