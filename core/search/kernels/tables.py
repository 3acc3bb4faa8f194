"""Candidates from bucket tables; see `core.search.kernels`."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel


@kernel
def fill_starts(entries: NDArray[np.uint64], top: int, starts: NDArray[np.uint32]) -> None:
    """Set starts[v] to the index of the first entry whose highest `top` bits have at least the value v.

    `entries` are sorted. `starts` has the shape (2 ** top + 1,), and its last value is the number of entries.
    """
    starts[:] = 0
    shift = np.uint64(64 - top)
    for entry in entries:
        starts[(entry >> shift) + np.uint64(1)] += np.uint32(1)
    for i in range(1, starts.shape[0]):
        starts[i] += starts[i - 1]


@kernel
def _place(entries: NDArray[np.uint64], starts: NDArray[np.uint32], top: int, key: np.uint64) -> int:
    """Return the index of the first entry that is at least `key`."""
    first = key >> np.uint64(64 - top)
    low, high = np.int64(starts[first]), np.int64(starts[first + np.uint64(1)])
    while low < high:
        middle = (low + high) >> 1
        if entries[middle] < key:
            low = middle + 1
        else:
            high = middle
    return int(low)


@kernel
def from_tables(
    entries: NDArray[np.uint64],
    starts: NDArray[np.uint32],
    top: int,
    keys: NDArray[np.uint64],
    flips: NDArray[np.uint64],
    costs: NDArray[np.float32],
    wanted: int,
    most_probes: int,
) -> tuple[NDArray[np.int64], int]:
    """Return up to `wanted` distinct rows of the likeliest buckets, and the number of buckets that were read.

    The search first reads the bucket with the key of the query in each table. It then repeatedly reads the
    cheapest unread bucket among all tables, as in Lv et al. (2007). The key of such a bucket is the key of
    the query after some of the changes in `flips`. The cost of the bucket is the sum of the costs of these
    changes.

    Parameters
    ----------
    entries : shape (n_tables, n)
        The sorted entries of each table. The upper 32 bits of an entry contain its key, left-aligned. The
        lower 32 bits contain its row.
    starts : shape (n_tables, 2 ** top + 1)
        Index of the first entry for each value of the highest `top` bits.
    top : int
        Number of bits that index `starts`; see `fill_starts`.
    keys : shape (n_tables,)
        Keys of the query in the upper 32 bits; the lower 32 bits are zero.
    flips, costs : shape (n_tables, n_flips)
        Changes of a key, in ascending order of cost, and their costs. A change is the mask of bits to flip.
    wanted, most_probes :
        Maximum number of rows to return, and of buckets to read.
    """
    n_flips = flips.shape[1]
    found = np.empty(min(wanted, entries.shape[1]), dtype=np.int64)
    seen = np.zeros((entries.shape[1] >> 6) + 1, dtype=np.uint64)
    n_found, probes = 0, 0
    # An element of the heap is (cost, table, mask of the flipped bits, index of the last flip).
    waiting = [(np.float32(-1), 0, np.uint64(0), -1)]
    for table in range(1, entries.shape[0]):
        heappush(waiting, (np.float32(-1), table, np.uint64(0), -1))
    while len(waiting) > 0 and probes < most_probes and n_found < found.shape[0]:
        cost, table, mask, last = heappop(waiting)
        probes += 1
        key = keys[table] ^ mask
        place = _place(entries[table], starts[table], top, key)
        while place < entries.shape[1] and (entries[table, place] ^ key) >> np.uint64(32) == 0:
            row = np.int64(entries[table, place] & np.uint64(0xFFFFFFFF))
            place += 1
            bit = np.uint64(1) << np.uint64(row & 63)
            if seen[row >> 6] & bit == 0:
                seen[row >> 6] |= bit
                found[n_found] = row
                n_found += 1
                if n_found == found.shape[0]:
                    break
        if last + 1 == n_flips:
            continue
        following, price = flips[table, last + 1], costs[table, last + 1]
        if last < 0:
            heappush(waiting, (price, table, following, 0))
        else:
            own = flips[table, last]
            heappush(waiting, (cost + price, table, mask ^ following, last + 1))
            heappush(waiting, (cost - costs[table, last] + price, table, mask ^ own ^ following, last + 1))
    return found[:n_found], probes
