"""Compiled loops that find pairs of rows which may be near each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel, kernel, strict_kernel

Floats32 = NDArray[np.float32]
Numbers = NDArray[np.int64]

_AT_ONCE = 16
"""Number of coordinates that are added before a sum is compared with its limit. Rows have a multiple of this
number of coordinates. With a constant number, the loops are several times faster.
"""


@fast_kernel
def near_leaders(
    points: Floats32,
    starts: Numbers,
    lower: Floats32,
    upper: Floats32,
    leads: NDArray[np.bool_],
    queries: Numbers,
    square: float,
    places: Numbers,
    slots: Numbers,
    squares: Floats32,
) -> tuple[int, int]:
    """For each query, find all leaders whose coordinates are at most √square away.

    Parameters
    ----------
    points, starts, lower, upper : array
        See `BoxTree`.
    leads : array of shape (N,), bool
        Whether the row in each slot is a leader.
    queries : array of shape (n_queries,), int64
        Slots of the queries.
    square : float
        Largest squared distance.
    places, slots, squares : array of shape (n_room,)
        Output. For each pair found: index of the query, slot of the leader, and squared distance.

    Returns
    -------
    n_pairs, n_done : int
        Number of pairs written, and number of queries done. If the output is full, the last queries are not
        done.
    """
    n_leaves = starts.shape[0] - 1
    d = points.shape[1]
    waiting = np.empty(128, dtype=np.int64)
    n_pairs = 0
    for q in range(queries.shape[0]):
        x = points[queries[q]]
        before = n_pairs
        waiting[0] = 1
        n_waiting = 1
        while n_waiting:
            n_waiting -= 1
            node = waiting[n_waiting]
            total = np.float32(0)
            for j in range(_AT_ONCE):
                outside = max(max(lower[node, j] - x[j], x[j] - upper[node, j]), np.float32(0))
                total += outside * outside
            if total > square:
                continue
            if node < n_leaves:
                waiting[n_waiting] = 2 * node
                waiting[n_waiting + 1] = 2 * node + 1
                n_waiting += 2
                continue
            for slot in range(starts[node - n_leaves], starts[node - n_leaves + 1]):
                if not leads[slot]:
                    continue
                far = np.float32(0)
                for first in range(0, d, _AT_ONCE):
                    for j in range(_AT_ONCE):
                        difference = x[first + j] - points[slot, first + j]
                        far += difference * difference
                    if far > square:
                        break
                if far <= square:
                    if n_pairs == places.shape[0]:
                        return before, q
                    places[n_pairs], slots[n_pairs], squares[n_pairs] = q, slot, far
                    n_pairs += 1
    return n_pairs, queries.shape[0]


@fast_kernel
def near_each_other(
    points: Floats32, queries: Numbers, leaderless: NDArray[np.bool_], square: float, pairs: Numbers
) -> int:
    """Find the pairs of queries whose coordinates are at most √square apart, and return their number.

    Pairs whose earlier query already has a leader are left out. Each row of `pairs`, of shape (n_room, 2),
    gets the indices of a pair's queries, the later query first. If there are more than n_room pairs, the
    other pairs are only counted.
    """
    n_pairs, d = 0, points.shape[1]
    for q in range(queries.shape[0]):
        x = points[queries[q]]
        for p in range(q):
            if not leaderless[p]:
                continue
            y = points[queries[p]]
            far = np.float32(0)
            for first in range(0, d, _AT_ONCE):
                for j in range(_AT_ONCE):
                    difference = x[first + j] - y[first + j]
                    far += difference * difference
                if far > square:
                    break
            if far <= square:
                if n_pairs < pairs.shape[0]:
                    pairs[n_pairs, 0], pairs[n_pairs, 1] = q, p
                n_pairs += 1
    return n_pairs


@strict_kernel
def settle(
    pairs: Numbers,
    squares: NDArray[np.float64],
    nearest: NDArray[np.float64],
    leaders: Numbers,
    rows: Numbers,
) -> None:
    """Assign each row of a batch to the nearest leader among the earlier rows.

    Parameters
    ----------
    pairs : array of shape (n_pairs, 2), int64
        Pairs of near rows, in ascending order. Each pair has two positions in the batch, the later one first.
    squares : array of shape (n_pairs,), float64
        Squared distance of each pair.
    nearest, leaders : array of shape (n_rows,)
        On input, for each row, the squared distance and the row number of the nearest leader from earlier
        batches, or ∞ and −1 if there is none. Updated in place. A row that still has −1 in `leaders` is a new
        leader.
    rows : array of shape (n_rows,), int64
        The rows of the batch.
    """
    for k in range(pairs.shape[0]):
        q, p = pairs[k]
        if leaders[p] < 0 and squares[k] < nearest[q]:
            nearest[q], leaders[q] = squares[k], rows[p]


@kernel
def follow(
    X: Floats32,
    rows: Numbers,
    breaks: NDArray[np.bool_],
    square: float,
    step: float,
    current: Numbers,
    first: NDArray[np.float64],
    before: NDArray[np.float64],
    leaders: Numbers,
    squares: NDArray[np.float64],
) -> None:
    """Assign each row of a sequence to the latest leader, or make the row a new leader.

    Parameters
    ----------
    X : array of shape (n, n_features), float32
        Features, in the order of the sequence.
    rows : array of shape (n,), int64
        Row number in the pool of each row of X.
    breaks : array of shape (n,), bool
        Whether a row becomes a leader whatever its distance.
    square : float
        Largest squared distance from the latest leader at which a row is assigned to it.
    step : float
        Largest squared distance from the preceding row at which a row is assigned to the latest leader.
    current, first : array of shape (1,), int64, and of shape (n_features,), float64
        Row number and features of the latest leader. Updated in place.
    before : array of shape (n_features,), float64
        Features of the preceding row. Updated in place.
    leaders, squares : array of shape (N,)
        Output at the indices in `rows`: row number of the leader, and squared distance from it.
    """
    for i in range(rows.shape[0]):
        total, since = 0.0, 0.0
        for j in range(X.shape[1]):
            difference = X[i, j] - first[j]
            total += difference * difference
            difference = X[i, j] - before[j]
            since += difference * difference
            before[j] = X[i, j]
        if breaks[i] or total > square or since > step:
            current[0], total = rows[i], 0.0
            for j in range(X.shape[1]):
                first[j] = X[i, j]
        leaders[rows[i]], squares[rows[i]] = current[0], total
