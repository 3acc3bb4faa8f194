"""Candidates from permuted orders; see `core.search.kernels`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel


@kernel
def _mixed(x: np.uint64) -> np.uint64:
    """Return a number that looks random, the result of SplitMix64's finaliser for x."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@kernel
def _is_new(row: int, seen: NDArray[np.int64]) -> bool:
    """Add `row` to the hash set `seen` unless the set contains it; return whether it was added.

    The size of `seen` is a power of two, and free slots are −1.
    """
    mask = np.uint64(seen.shape[0] - 1)
    place = _mixed(np.uint64(row)) & mask
    while seen[place] != -1:
        if seen[place] == row:
            return False
        place = (place + np.uint64(1)) & mask
    seen[place] = row
    return True


@kernel
def _empty_set(n: int) -> NDArray[np.int64]:
    size = 16
    while size < 2 * n:
        size *= 2
    return np.full(size, -1, dtype=np.int64)


@kernel
def _agreeing(entry: np.uint64, key: np.uint64, bits: int, length: int) -> int:
    """Return the length of the common prefix of `entry` and `key`, in functions.

    A prefix is in the upper 32 bits, from the highest bit on. It consists of the values of `length`
    functions, of `bits` bits each.
    """
    difference = (entry ^ key) >> np.uint64(32)
    agree = 0
    while agree < length and difference >> np.uint64(32 - (agree + 1) * bits) == 0:
        agree += 1
    return agree


@kernel
def from_orders(
    orders: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    bits: int,
    length: int,
    wanted: int,
    readable: int,
) -> NDArray[np.int64]:
    """Return up to `wanted` distinct rows; rows that share a longer prefix with the query come first.

    An order is a sorted array of code prefixes with their rows. Each order has its own permutation of the
    hash functions. In each order, one pointer starts just below the position of the query and moves down, and
    another starts just above it and moves up. The pointers take turns. They first read the rows whose whole
    prefix equals that of the query, then the rows whose common prefix is one function shorter, and so on.

    Parameters
    ----------
    orders : shape (n_orders, n)
        The sorted arrays. An entry has a code prefix in the upper 32 bits, from the highest bit on, and a row
        number in the lower 32 bits.
    keys : shape (n_orders,)
        Prefixes of the query in the upper 32 bits; the lower 32 bits are zero.
    bits, length :
        A prefix consists of the values of `length` functions, of `bits` bits each.
    wanted :
        Maximum number of rows.
    readable :
        Maximum number of entries to read. Several entries may belong to the same row.
    """
    n_orders, n = orders.shape
    wanted = min(wanted, n)
    n_read = 0
    found = np.empty(wanted, dtype=np.int64)
    seen = _empty_set(wanted)
    n_found = 0
    # Pointer 2o moves down order o from the query's position, pointer 2o + 1 moves up.
    place = np.empty(2 * n_orders, dtype=np.int64)
    agrees = np.full(2 * n_orders, -1, dtype=np.int64)
    for p in range(2 * n_orders):
        place[p] = np.searchsorted(orders[p // 2], keys[p // 2]) - 1 + p % 2
        if 0 <= place[p] < n:
            agrees[p] = _agreeing(orders[p // 2, place[p]], keys[p // 2], bits, length)
    for level in range(length, -1, -1):
        moved = True
        while moved:
            moved = False
            for p in range(2 * n_orders):
                if agrees[p] != level:
                    continue
                if n_found == wanted or n_read == readable:
                    return found[:n_found]
                moved = True
                n_read += 1
                row = int(orders[p // 2, place[p]] & np.uint64(0xFFFFFFFF))
                if _is_new(row, seen):
                    found[n_found] = row
                    n_found += 1
                place[p] += 2 * (p % 2) - 1
                agrees[p] = -1
                if 0 <= place[p] < n:
                    agrees[p] = _agreeing(orders[p // 2, place[p]], keys[p // 2], bits, length)
    return found[:n_found]
