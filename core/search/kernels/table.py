"""Sorting rows into buckets, and reading the buckets of one table in order; see `core.search.kernels`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import kernel

_LEVELS = 1024


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
    If `signed`, the absolute value of the sum is used. Among buckets with equal estimates, the buckets with
    lower numbers are chosen. To avoid sorting all buckets, estimates are quantised to levels. Only the
    buckets of the last level that is needed are sorted; all buckets of lower levels are taken.
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
    """Return the starts and stops of the buckets whose keys differ from `key` in the fewest functions.

    The buckets have `wanted` rows in total; the one chosen last may be cut. A bucket's key consists of the
    values of `width` functions, and each value has `bits` bits. Of two buckets that differ from `key` in
    equally many functions, that with the lower key is chosen first. The buckets are returned in ascending
    order of their keys.
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
