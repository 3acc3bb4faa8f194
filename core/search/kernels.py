"""Inner loops of the search structures, compiled by Numba; they release the GIL and start no threads."""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel, ones, prefetch

MOST_BITS = 64
"""Number of bits in a word, and the largest radius of a Hamming ball."""

_LEVELS = 1024
_WORDS_A_LINE = 8
_BUCKETS_AHEAD = 32


@kernel
def _key(code: NDArray[np.uint8], functions: NDArray[np.int64], bits: int) -> np.uint64:
    """Return the values of `functions` for a code as one number, the first function in the highest bits."""
    key = np.uint64(0)
    for f in functions:
        for bit in range(f * bits, f * bits + bits):
            key = (key << np.uint64(1)) | np.uint64((code[bit >> 3] >> (bit & 7)) & 1)
    return key


@kernel
def keys_of_rows(packed: NDArray[np.uint8], functions: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """Return the key of each code in `packed`, of shape (len(packed),).

    A key consists of the values of the hash functions listed in `functions`.
    """
    keys = np.empty(packed.shape[0], dtype=np.uint64)
    for row in range(packed.shape[0]):
        keys[row] = _key(packed[row], functions, bits)
    return keys


@kernel
def keys_of_hands(code: NDArray[np.uint8], hands: NDArray[np.int64], bits: int) -> NDArray[np.uint64]:
    """Return one key of a code for each row of `hands`, which lists the functions whose values form the key.

    The result has shape (len(hands),).
    """
    keys = np.empty(hands.shape[0], dtype=np.uint64)
    for hand in range(hands.shape[0]):
        keys[hand] = _key(code, hands[hand], bits)
    return keys


@kernel
def sort_into_buckets(
    keys: NDArray[np.uint64], offsets: NDArray[np.uint32], rows: NDArray[np.uint32]
) -> None:
    """Sort rows into buckets by their keys.

    Bucket b becomes rows[offsets[b] : offsets[b + 1]], ascending. The function fills `offsets`, of shape
    (n_buckets + 1,), and `rows`, of shape (len(keys),).
    """
    offsets[:] = 0
    for key in keys:
        offsets[key + np.uint64(1)] += np.uint32(1)
    for b in range(1, offsets.shape[0]):
        offsets[b] += offsets[b - 1]
    place = offsets[:-1].copy()
    for row in range(keys.shape[0]):
        key = keys[row]
        rows[place[key]] = np.uint32(row)
        place[key] += np.uint32(1)


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
def _sums(weights: NDArray[np.float32], offset: float) -> NDArray[np.float32]:
    """Return offset + Σ weights · β for every vector β of signs ±1.

    The index of a sum is the number whose bits are 1 where β is positive. The first weight belongs to the
    highest bit.
    """
    sums = np.empty(1 << weights.shape[0], dtype=np.float32)
    sums[0] = offset
    n = 1
    for weight in weights[::-1]:
        for i in range(n):
            sums[n + i] = sums[i] + weight
            sums[i] -= weight
        n *= 2
    return sums


@kernel
def likeliest_buckets(
    weights: NDArray[np.float32], offset: float, signed: bool, offsets: NDArray[np.uint32], wanted: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and stops of the buckets with the smallest estimates.

    The buckets have `wanted` rows in total; the last bucket may be cut. The estimate of a bucket is
    offset + Σ weights · β, where β are the bits of the bucket's number as ±1, beginning with the highest bit.
    If `signed`, the absolute value of the sum is used. Of buckets with equal estimates, those with lower
    numbers are chosen. To avoid sorting all buckets, estimates are quantised to levels. Only the buckets of
    the last level that is needed are sorted; those of lower levels are all taken.
    """
    n_buckets = offsets.shape[0] - 1
    half = weights.shape[0] // 2
    low, high = _sums(weights[half:], 0.0), _sums(weights[:half], offset)
    estimates = np.empty(n_buckets, dtype=np.float32)
    for h in range(high.shape[0]):
        for i in range(low.shape[0]):
            estimate = high[h] + low[i]
            estimates[h * low.shape[0] + i] = abs(estimate) if signed else estimate
    least, greatest = estimates.min(), estimates.max()
    levels = np.float32(_LEVELS) / max(greatest - least, np.float32(1e-30))
    held = np.zeros(_LEVELS + 1, dtype=np.int64)
    for b in range(n_buckets):
        held[int((estimates[b] - least) * levels)] += np.int64(offsets[b + 1]) - np.int64(offsets[b])
    last, before = 0, 0
    while before + held[last] < wanted:
        before += held[last]
        last += 1
    starts = np.empty(n_buckets, dtype=np.int64)
    stops = np.empty(n_buckets, dtype=np.int64)
    on_last = np.empty(n_buckets, dtype=np.int64)
    n_taken, n_on_last = 0, 0
    for b in range(n_buckets):
        level = int((estimates[b] - least) * levels)
        if level > last or offsets[b] == offsets[b + 1]:
            continue
        if level == last:
            on_last[n_on_last] = b
            n_on_last += 1
        else:
            starts[n_taken], stops[n_taken] = offsets[b], offsets[b + 1]
            n_taken += 1
    on_last = on_last[:n_on_last]
    missing = wanted - before
    for place in np.argsort(estimates[on_last], kind="mergesort"):
        if missing <= 0:
            break
        b = on_last[place]
        start = np.int64(offsets[b])
        starts[n_taken], stops[n_taken] = start, min(np.int64(offsets[b + 1]), start + missing)
        missing -= stops[n_taken] - start
        n_taken += 1
    return starts[:n_taken], stops[:n_taken]


@kernel
def nearest_buckets(
    key: np.uint64, bits: int, width: int, offsets: NDArray[np.uint32], wanted: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the starts and stops of the buckets that differ from `key` in the fewest functions.

    The buckets have `wanted` rows in total; the last bucket may be cut. The number of a bucket consists of
    the values of `width` functions, of `bits` bits each. Of buckets with equally many differences, those with
    lower numbers are chosen. The buckets are returned in ascending order of their numbers.
    """
    n_buckets = offsets.shape[0] - 1
    group = np.uint64((1 << bits) - 1)
    differing = np.empty(n_buckets, dtype=np.uint8)
    held = np.zeros(width + 1, dtype=np.int64)
    for b in range(n_buckets):
        difference, n = np.uint64(b) ^ key, 0
        while difference != 0:
            n += (difference & group) != 0
            difference >>= np.uint64(bits)
        differing[b] = n
        held[n] += np.int64(offsets[b + 1]) - np.int64(offsets[b])
    last, before = 0, 0
    while before + held[last] < wanted:
        before += held[last]
        last += 1
    starts = np.empty(n_buckets, dtype=np.int64)
    stops = np.empty(n_buckets, dtype=np.int64)
    n_taken, missing = 0, wanted - before
    for b in range(n_buckets):
        start, stop = np.int64(offsets[b]), np.int64(offsets[b + 1])
        if differing[b] == last:
            stop = min(stop, np.int64(start + missing))
            missing -= int(stop - start)
        if differing[b] > last or start == stop:
            continue
        starts[n_taken], stops[n_taken] = start, stop
        n_taken += 1
    return starts[:n_taken], stops[:n_taken]


@kernel
def _agreeing(entry: np.uint64, key: np.uint64, bits: int, length: int) -> int:
    """Return how many functions, from the first on, have the same value in `entry` and `key`.

    The values of the functions are in the upper 32 bits, beginning with the highest bit.
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
    """Return up to `wanted` distinct rows, beginning with the longest prefixes in common with the query.

    An order is a sorted array of code prefixes with their rows. Each order has its own permutation of the
    hash functions. In each order, one pointer starts just below the position of the query and moves down, and
    another starts just above it and moves up. In turn, the pointers first read the rows whose whole prefix
    equals that of the query, then the rows whose common prefix is one function shorter, and so on.

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
        Maximum number of entries to read. A row has an entry in each order, so fewer rows may be found.
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
    ball is therefore complete once all addresses within its radius have been read.

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
    """Return the next larger number with equally many bits set, or `last` if `number` is 0."""
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
        Maximum numbers of rows and of buckets.
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
