"""The inner loops of the margin index.

A row's score is never computed whole: its bytes are read block by block, and it is dropped as soon as its
partial score is farther from zero than the cut of that block. Integers are summed exactly, so which rows
remain doesn't depend on the machine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from core.kernels import fast_kernel, kernel, prefetch, strict_kernel
from core.selection.margin.quantizer import BLOCK

Codes = NDArray[np.int8]
Floats32 = NDArray[np.float32]
Ints16 = NDArray[np.int16]
Ints32 = NDArray[np.int32]
Ints64 = NDArray[np.int64]

_BATCH = 256
_AHEAD = 64
_AHEAD_SCATTERED = 8


@strict_kernel
def _product(codes: Codes, weights: Ints16) -> np.int32:
    """The inner product of one block of bytes with its weights."""
    total = np.int32(0)
    for j in range(BLOCK):
        # Left alone, Numba would make int64 of all this; 512 products of 7 and 15 bits need 31 bits.
        total = np.int32(total + np.int32(np.int32(weights[j]) * np.int32(codes[j])))
    return total


@strict_kernel
def _left(
    codes: Codes, weights: Ints16, unit: np.float32, cut: np.float32, start: int, end: int,
    places: Ints32, scores: Floats32,
) -> int:  # fmt: skip
    """Add a block to the scores of places[start:end]; those within the cut move up. Returns their end."""
    kept = start
    for candidate in range(start, end):
        prefetch(codes, places[min(candidate + _AHEAD_SCATTERED, end - 1)], 0)
        place = np.uint32(places[candidate])  # unsigned: no check for places counted from the end
        score = scores[candidate] + unit * np.float32(_product(codes[place], weights))
        places[kept] = place
        scores[kept] = score
        kept += abs(score) <= cut
    return kept


@strict_kernel
def _contains(ids: Ints64, wanted: int) -> bool:
    """Whether the ascending `ids` have this one."""
    low, high = 0, ids.shape[0]
    while low < high:
        middle = (low + high) // 2
        if ids[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < ids.shape[0] and bool(ids[low] == wanted)


@strict_kernel
def search(  # noqa: D417
    codes: Codes, weights: Ints16, units: Floats32, errors: Floats32,
    begins: Ints64, ends: Ints64, offsets: Floats32,
    old: Floats32, slope: np.float32, shifts: Floats32, reaches: Floats32,
    order: Ints32, ids: Ints64, excluded: Ints64, best: Floats32, places: Ints32, scores: Floats32,
) -> tuple[int, int]:  # fmt: skip
    """Read ranges of rows one after another and keep those that may be among the nearest.

    Parameters
    ----------
    codes : array of shape (n_blocks, N, BLOCK), int8
    weights : array of shape (n_blocks, BLOCK), int16
    units : array of shape (n_blocks,), float32
        What a product of a byte and a weight is worth.
    errors : array of shape (n_blocks,), float32
        How wrong a score may be after each block.
    begins, ends : arrays of shape (n_ranges,), int64
        Ranges of places, one cluster each.
    offsets : array of shape (n_ranges,), float32
        The score of a row of zeros in each cluster.
    old : array of shape (N,), or (0,) for none, float32
        Scores under an earlier hyperplane; slope · old is part of the score.
    slope : float32
    shifts, reaches : arrays of shape (n_ranges,), float32
        By the old score alone a row's score is slope · old + shift, wrong by at most the reach.
    order : array of shape (N,), int32
        The row at each place.
    ids : array of shape (N,), int64
        Of the rows.
    excluded : array of shape (n_excluded,), int64, ascending
        Ids that do not count.
    best : array of shape (n,), float32
        Infinite at first; in the end the n smallest approximate distances from zero, ascending.
    places, scores : arrays of at least (places in all ranges) + 1
        Filled with the places and approximate scores that are left; excluded ones may be among them.

    Returns
    -------
    tuple of int
        How many are left, and of how many the bytes were read.
    """
    n_blocks, n = codes.shape[0], best.shape[0]
    first_codes, first_weights, first_unit = codes[0], weights[0], units[0]
    flags = np.empty(_BATCH, dtype=np.bool_)
    reach = np.float32(np.inf)
    found = 0
    looked = 0
    for c in range(begins.shape[0]):
        for begin in range(begins[c], ends[c], _BATCH):
            size = min(_BATCH, ends[c] - begin)
            end = found
            if old.shape[0] == 0:
                looked += size
                offset, cut = offsets[c], reach + errors[0]
                for place in range(begin, begin + size):
                    prefetch(first_codes, place + _AHEAD, 0)
                    score = offset + first_unit * np.float32(_product(first_codes[place], first_weights))
                    places[end] = place
                    scores[end] = score
                    end += abs(score) <= cut
            else:
                shift, cut = shifts[c], reach + reaches[c]
                for i in range(size):
                    flags[i] = abs(slope * old[begin + i] + shift) <= cut
                for i in range(size):
                    places[end] = begin + i
                    scores[end] = slope * old[begin + i] + offsets[c]
                    end += flags[i]
                looked += end - found
                cut = reach + errors[0]
                end = _left(first_codes, first_weights, first_unit, cut, found, end, places, scores)
            for block in range(1, n_blocks):
                cut = reach + errors[block]
                end = _left(codes[block], weights[block], units[block], cut, found, end, places, scores)
            for candidate in range(found, end):
                distance = abs(scores[candidate])
                if distance < best[n - 1] and not _contains(excluded, ids[order[places[candidate]]]):
                    at = n - 1
                    while at > 0 and best[at - 1] > distance:
                        best[at] = best[at - 1]
                        at -= 1
                    best[at] = distance
            reach = best[n - 1] + errors[n_blocks - 1]
            found = end
    return found, looked


@fast_kernel
def outlook(  # noqa: D417
    normal: Floats32, at_centre: np.float32,
    steps: Floats32, second_moments: Floats32, centroids: Floats32, means: Floats32, variances: Floats32,
    weights: Ints16, units: Floats32, unread: Floats32,
    offsets: Floats32, expected: Floats32, spread: Floats32,
) -> None:  # fmt: skip
    """What an affine function looks like from the clusters and through the bytes.

    Parameters
    ----------
    normal : array of shape (d,), float32
        Along the principal directions.
    at_centre : float32
        The function's value at the centre.
    steps : array of shape (d,), float32
    second_moments : array of shape (n_blocks, BLOCK), float32
        Of the bytes, over all rows.
    centroids : array of shape (n_clusters, n_clustered), float32
    means, variances : arrays of shape (n_clusters, n_leading), float32
        Of the leading coordinates in each cluster.
    weights, units, unread, offsets, expected, spread : arrays
        Filled: see `core.selection.margin.search.Affine`; the last two are its means and variances.
    """
    n_blocks, d = weights.shape[0], normal.shape[0]
    rest = np.float32(0)
    for block in range(n_blocks - 1, -1, -1):
        first, end = block * BLOCK, min(block * BLOCK + BLOCK, d)
        largest = np.float32(0)
        energy = np.float32(0)
        rounding = np.float32(0)
        for j in range(first, end):
            step = normal[j] * steps[j]
            largest = max(largest, abs(step))
            energy += step * step * second_moments[block, j - first]
            rounding += step * step
        units[block] = largest / np.float32(32767) if largest > 0 else np.float32(1)
        for j in range(first, end):
            weights[block, j - first] = np.int16(np.rint(normal[j] * steps[j] / units[block]))
        for j in range(end - first, BLOCK):
            weights[block, j] = 0
        unread[block] = rest
        # The roundings of this block and of those before it add up in all that follow.
        for later in range(block, n_blocks):
            unread[later] += rounding / np.float32(12)
        if block > 0:
            rest += energy
    for block in range(n_blocks):
        unread[block] = np.sqrt(unread[block])
    for c in range(centroids.shape[0]):
        offset = at_centre
        for j in range(centroids.shape[1]):
            offset += normal[j] * centroids[c, j]
        offsets[c] = offset
        mean = at_centre
        variance = rest
        for j in range(means.shape[1]):
            mean += normal[j] * means[c, j]
            variance += normal[j] * normal[j] * variances[c, j]
        expected[c] = mean
        spread[c] = variance


@kernel
def add_moments(  # noqa: D417
    codes: Codes, labels: NDArray[np.uint16], sums: Ints64, squares: Ints64, strayed: NDArray[np.bool_]
) -> None:
    """Add each row's bytes, and their squares, to its cluster's, and mark rows with bytes at the limit.

    Parameters
    ----------
    codes : array of shape (n, BLOCK), int8
    labels : array of shape (n,), uint16
    sums, squares : arrays of shape (n_clusters, BLOCK), int64
    strayed : array of shape (n,), bool
    """
    for i in range(codes.shape[0]):
        c = labels[i]
        for j in range(codes.shape[1]):
            q = np.int64(codes[i, j])
            sums[c, j] += q
            squares[c, j] += q * q
            strayed[i] |= abs(q) == 127
