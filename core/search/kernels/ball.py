"""Finding the codes in a Hamming ball; see `core.search.kernels`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel, ones, prefetch

_WORDS_A_LINE = 8

_BUCKETS_AHEAD = 32

MOST_BITS = 64
"""Number of bits in a word, and the largest radius of a Hamming ball."""


@kernel
def ball_around(
    words: NDArray[np.uint64],
    offsets: NDArray[np.uint32],
    address: np.uint64,
    code: np.uint64,
    wanted: int,
    farthest: int,
) -> tuple[NDArray[np.int64], int]:
    """Return the positions of the codes in a Hamming ball around the query, the nearest codes first.

    It is the smallest ball that has at least `wanted` codes. The second result is the number of codes
    compared. The address of a code consists of its first bits. Addresses are read in ascending distance from
    the query's address. The distance between two codes is at least the distance between their addresses. The
    ball is therefore complete when all addresses within its radius have been read.

    Parameters
    ----------
    words : shape (n, 1)
        The codes, sorted by address.
    offsets : shape (2 ** width + 1,)
        Position of the first code with each address; the last entry is n.
    address, code :
        Address and code of the query.
    wanted :
        Minimum number of codes. If there are fewer codes, all are returned.
    farthest :
        Maximum radius, at most 64. A ball of this radius may have fewer codes than `wanted`.
    """
    n = words.shape[0]
    wanted = min(wanted, n)
    n_addresses = np.uint64(offsets.shape[0] - 1)
    places, far = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.uint8)
    held = np.zeros(MOST_BITS + 1, dtype=np.int64)
    starts, stops = np.empty(_BUCKETS_AHEAD, dtype=np.int64), np.empty(_BUCKETS_AHEAD, dtype=np.int64)
    n_read, n_kept, n_within, radius, limit = 0, 0, 0, 0, farthest
    while True:
        flips = np.uint64((1 << radius) - 1)
        while flips < n_addresses:
            n_buckets = 0
            while n_buckets < _BUCKETS_AHEAD and flips < n_addresses:
                bucket = address ^ flips
                start, stop = np.int64(offsets[bucket]), np.int64(offsets[bucket + np.uint64(1)])
                for place in range(start, stop, _WORDS_A_LINE):
                    prefetch(words, place, 0)
                starts[n_buckets], stops[n_buckets] = start, stop
                n_buckets += 1
                flips = _as_many_bits(flips, n_addresses)
            for i in range(n_buckets):
                n_read += int(stops[i]) - int(starts[i])
                for place in range(starts[i], stops[i]):
                    distance = np.int64(ones(words[place, 0] ^ code))
                    if distance <= limit:
                        places[n_kept], far[n_kept] = place, distance
                        n_kept += 1
                        held[distance] += 1
        n_within += int(held[radius])
        if n_within >= wanted or radius == farthest:
            break
        limit, reached = radius, n_within
        while reached < wanted and limit < farthest:
            limit += 1
            reached += int(held[limit])
        radius += 1
    return _nearest_first(places[:n_kept], far[:n_kept], held, radius, n_within), n_read


@kernel
def _as_many_bits(number: np.uint64, last: np.uint64) -> np.uint64:
    """Return the next larger number with as many set bits as `number`, or `last` if `number` is 0."""
    if number == 0:
        return last
    lowest = number & (~number + np.uint64(1))
    carried = number + lowest
    return carried | (((number ^ carried) // lowest) >> np.uint64(2))


@kernel
def _nearest_first(
    places: NDArray[np.int64], far: NDArray[np.uint8], held: NDArray[np.int64], radius: int, n_within: int
) -> NDArray[np.int64]:
    """Return the `places` whose distances `far` are at most `radius`, in ascending order of distance.

    `held` has the number of places at each distance, and `n_within` is the number of places to return.
    """
    begin = np.zeros(radius + 1, dtype=np.int64)
    for distance in range(radius):
        begin[distance + 1] = begin[distance] + held[distance]
    ordered = np.empty(n_within, dtype=np.int64)
    for i in range(places.shape[0]):
        if far[i] <= radius:
            ordered[begin[far[i]]] = places[i]
            begin[far[i]] += 1
    return ordered
