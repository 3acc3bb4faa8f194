"""Permuted sorted orders: all codes sorted, again and again, each time with their functions in another order.

Near codes share many leading functions in some of the orders, so a query is placed in each, and the rows
around its place are taken, those first that share the longest prefix with it (Charikar 2002; used with
M = 2N^{1/(1+ε)} orders by the paper's companions). It is a bucket table whose key is as long as it can be,
row by row: there are never too few candidates, nor too many.

H-Hash's two bits move together, and only whole pairs count as shared.

**The rule.** An order takes 8 bytes a row, a prefix of 32 bits (16 pairs) and the row's number; rows that
share the whole prefix stand by number. There are as many orders as fit into `n_bytes`, and at most
`MOST_ORDERS`: each more gives a share of the candidates that is nearer its own front, at log₂ of the number
of orders in bits, and costs another binary search.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import NDArray

from core.hashing.base import Codes
from core.search.base import Arrays, Rows, SearchStructure, dealt
from core.search.kernels import from_orders, keys_of_hands, keys_of_rows

MOST_ORDERS = 32
_PREFIX_BITS = 32


def order_rule(n_rows: int, n_bytes: int) -> int:
    """The number of orders by the rule above, at least one."""
    return max(1, min(MOST_ORDERS, n_bytes // (8 * n_rows)))


class PermutedOrders(SearchStructure):
    """Sorted arrays of (code prefix, row), each with the functions in an order of its own."""

    name = "orders"

    functions_: NDArray[np.int64]
    orders_: NDArray[np.uint64]

    def __init__(
        self, functions: NDArray[np.int64], orders: NDArray[np.uint64], *, n_functions: int, bits: int
    ) -> None:
        self.functions_ = functions
        self.orders_ = orders
        self.n_functions = n_functions
        self.bits = bits
        self.n_rows = orders.shape[1]

    @classmethod
    def build(cls, codes: Codes, *, n_candidates: int, n_bytes: int, seed: int) -> Self:  # noqa: ARG003
        """See `SearchStructure.build`; the number of orders by `order_rule`."""
        n_orders = order_rule(len(codes), n_bytes)
        functions = dealt(codes.n_functions, n_orders, _PREFIX_BITS // codes.bits, seed)
        orders = np.empty((n_orders, len(codes)), dtype=np.uint64)
        rows = np.arange(len(codes), dtype=np.uint64)
        shift = _shift(functions, codes.bits)
        for order, hand in zip(orders, functions, strict=True):
            np.bitwise_or(keys_of_rows(codes.packed, hand, codes.bits) << shift, rows, out=order)
            order.sort()
        return cls(functions, orders, n_functions=codes.n_functions, bits=codes.bits)

    def candidates(self, query: Codes, n_candidates: int, seed: int = 0) -> Rows:  # noqa: ARG002
        """See `SearchStructure.candidates`: by the longest shared prefix in any order, the orders in turn."""
        self._check(query)
        keys = keys_of_hands(query.packed[0], self.functions_, self.bits) << _shift(
            self.functions_, self.bits
        )
        length = self.functions_.shape[1]
        return np.asarray(from_orders(self.orders_, keys, self.bits, length, n_candidates))

    def arrays(self) -> Arrays:
        """See `SearchStructure.arrays`."""
        sizes = np.array([self.n_functions, self.bits], dtype=np.int64)
        return {"functions": self.functions_, "orders": self.orders_, "sizes": sizes}

    @classmethod
    def from_arrays(cls, arrays: Arrays) -> Self:
        """See `SearchStructure.from_arrays`."""
        n_functions, bits = arrays["sizes"].tolist()
        return cls(arrays["functions"], arrays["orders"], n_functions=n_functions, bits=bits)


def _shift(functions: NDArray[np.int64], bits: int) -> np.uint64:
    """Moves a prefix to the top of 64 bits, however short it is."""
    return np.uint64(64 - functions.shape[1] * bits)
