"""Compiled loops that find pairs of rows which may be near each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.jit import fast_kernel, kernel, strict_kernel

Floats32 = NDArray[np.float32]
Numbers = NDArray[np.int64]

_AT_ONCE = 16
"""Number of coordinates after which a sum that is too large ends. Rows have a multiple of it; a fixed number
makes the loops several times as fast.
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
    """Find the leaders within √square of queries, by their coordinates.

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
        Written: position of the query, slot of the leader, and squared distance, for each pair.

    Returns
    -------
    n_pairs, n_done : int
        Number of pairs written, and of queries done. They are not all done if there is no room for more.
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
    """Find the pairs of a query and an earlier, leaderless query within √square, by their coordinates.

    Writes the positions of both queries to `pairs`, of shape (n_room, 2), and returns the number of pairs,
    even if there was room for fewer.
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
    """Let each row of a batch join the nearest leader among the earlier rows.

    Parameters
    ----------
    pairs : array of shape (n_pairs, 2), int64
        Positions in the batch of near rows, the later one first, in ascending order.
    squares : array of shape (n_pairs,), float64
        Squared distance of each pair.
    nearest, leaders : array of shape (n_rows,)
        The squared distance and the row of each row's nearest leader before the batch, ∞ and −1 if there is
        none. Updated; rows that keep −1 are leaders.
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
    current: Numbers,
    first: NDArray[np.float64],
    leaders: Numbers,
    squares: NDArray[np.float64],
) -> None:
    """Let each row of a sequence join the leader before it, or else become the next leader.

    Parameters
    ----------
    X : array of shape (n, n_features), float32
        Features, in the order of the sequence.
    rows : array of shape (n,), int64
        Their rows in the pool.
    breaks : array of shape (n,), bool
        Whether a row is a leader whatever its distance.
    square : float
        Largest squared distance from the leader.
    current, first : array of shape (1,), int64, and of shape (n_features,), float64
        Row and features of the leader before the sequence. Updated.
    leaders, squares : array of shape (N,)
        Written for these rows: the leader's row, and the squared distance from it.
    """
    for i in range(rows.shape[0]):
        total = 0.0
        for j in range(X.shape[1]):
            difference = X[i, j] - first[j]
            total += difference * difference
        if breaks[i] or total > square:
            current[0], total = rows[i], 0.0
            for j in range(X.shape[1]):
                first[j] = X[i, j]
        leaders[rows[i]], squares[rows[i]] = current[0], total
