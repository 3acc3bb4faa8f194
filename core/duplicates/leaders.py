"""Near-duplicates by leader clustering, exact for any number of rows.

Rows are visited in order. A row joins the nearest leader within the given angle. If there is no such leader,
the row becomes a leader. This is Hartigan's leader algorithm [1]_, with the nearest leader instead of the
first. It has four properties that single linkage lacks:

- Groups don't chain. Each member is within the angle of its leader, so any two members are within twice the
  angle of each other.
- Leaders are farther apart than the angle, so no two leaders are near-duplicates.
- A later row never changes the group of an earlier one. When a pool has grown, only its new rows are visited.
- The work does not grow with the number of near pairs. If thousands of rows are alike, there are millions of
  such pairs.

Members of different groups may be within the angle of each other, because only distances to leaders count.

Every leader within the angle is found. A leader is skipped only if its coordinates (module `coordinates`), or
the box of similar leaders that it is in (module `boxes`), prove that it is too far away. The distances to all
other leaders are computed from the features in float64. The search is fastest if the angle is much smaller
than the usual angle between two rows, because most boxes are skipped then.

References
----------
.. [1] J. A. Hartigan, "Clustering algorithms", Wiley 1975, chapter 3.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from closecall.core.duplicates.boxes import BoxTree
from closecall.core.duplicates.coordinates import SLACK, RowBlocks, coordinates
from closecall.core.duplicates.groups import Groups
from closecall.core.duplicates.kernels import near_each_other, near_leaders, settle
from closecall.core.errors import InputError
from closecall.core.numerics.rows import is_sparse, squared_norms

RowNumbers = NDArray[np.int64]
Floats64 = NDArray[np.float64]
Progress = Callable[[int, int], None]

_FIRST_BATCH, _BATCH = 64, 1024
"""Number of rows in the first batch, and the limit up to which the size of batches doubles. The first batch
is small, because all its pairs are compared if its rows are alike.
"""

_ROOM = 1 << 18
_COMPARED_AT_ONCE = 8192


def near_duplicates(
    pool: RowBlocks, angle: float, *, earlier: Groups | None = None, progress: Progress | None = None
) -> Groups:
    """Return the groups of near-duplicates among the rows of a pool.

    Parameters
    ----------
    pool : Pool or ArrayPool
        N rows of unit norm, dense or sparse.
    angle : float
        Largest angle between a row and its leader, in radians.
    earlier : Groups, optional
        The result for the first rows of the pool, at the same angle. Only later rows are visited.
    progress : callable, optional
        Called with the number of rows done and N.

    Raises
    ------
    InputError
        If the angle is not from 0 to π, or `earlier` has more rows than the pool.
    """
    if not 0 <= angle <= np.pi:
        raise InputError(f"angle must be from 0 to π, got {angle}")
    n_before = 0 if earlier is None else len(earlier)
    if n_before > len(pool):
        raise InputError(f"earlier has {n_before} rows, but the pool has only {len(pool)}")
    leaders, squares = np.arange(len(pool)), np.zeros(len(pool))
    if earlier is not None:
        leaders[:n_before] = earlier.leaders
    if n_before < len(pool):
        search = _Search(pool, 2 * np.sin(angle / 2))
        search.lead(np.flatnonzero(leaders[:n_before] == np.arange(n_before)))
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            done, size = n_before, _FIRST_BATCH
            while done < len(pool):
                rows = np.arange(done, min(done + size, len(pool)))
                leaders[rows], squares[rows] = search.joined(rows, threads)
                search.lead(rows[leaders[rows] == rows])
                done, size = done + len(rows), min(2 * size, _BATCH)
                if progress is not None:
                    progress(done, len(pool))
    angles = angles_of(squares)
    if earlier is not None:
        angles[:n_before] = earlier.angles
    return Groups(leaders, angles)


def angles_of(squares: Floats64) -> NDArray[np.float32]:
    """Return the angles between unit rows, in radians, given their squared distances."""
    return np.asarray(2 * np.arcsin(np.minimum(np.sqrt(squares) / 2, 1)), dtype=np.float32)


def squared_distances(pool: RowBlocks, some: RowNumbers, others: RowNumbers) -> Floats64:
    """For each i, return the squared distance between the rows some[i] and others[i], in float64."""
    out = np.empty(len(some))
    for first in range(0, len(some), _COMPARED_AT_ONCE):
        here = slice(first, first + _COMPARED_AT_ONCE)
        X, Y = pool.rows(some[here]), pool.rows(others[here])
        if is_sparse(X):
            out[here] = squared_norms(X - Y)
        else:
            difference = np.subtract(X, Y, dtype=np.float64)
            out[here] = np.einsum("ij,ij->i", difference, difference)
    return out


class _Search:
    """Exact search for the nearest leader within the distance `radius`."""

    def __init__(self, pool: RowBlocks, radius: float) -> None:
        self._pool = pool
        self._tree = BoxTree.of(coordinates(pool))
        self._leads = np.zeros(len(pool), dtype=np.bool_)
        self._square = radius**2
        self._rough = (radius + SLACK) ** 2

    def lead(self, rows: RowNumbers) -> None:
        """Make these rows leaders."""
        self._leads[self._tree.slots[rows]] = True

    def joined(self, rows: RowNumbers, threads: ThreadPoolExecutor) -> tuple[RowNumbers, Floats64]:
        """For each row of the next batch, return its leader, and its squared distance from the leader.

        A row that becomes a leader is its own leader.
        """
        order = np.argsort(self._tree.slots[rows])  # rows near each other meet the same boxes
        found = list(threads.map(self._nearest_leaders, np.array_split(rows[order], os.cpu_count() or 1)))
        leaders, squares = np.empty(len(rows), dtype=np.int64), np.empty(len(rows))
        leaders[order] = np.concatenate([part for part, _ in found])
        squares[order] = np.concatenate([part for _, part in found])
        pairs = self._near_each_other(rows, leaders < 0)
        apart = squared_distances(self._pool, rows[pairs[:, 0]], rows[pairs[:, 1]])
        near = apart <= self._square
        settle(pairs[near], apart[near], squares, leaders, rows)
        own = leaders < 0
        leaders[own], squares[own] = rows[own], 0
        return leaders, squares

    def _nearest_leaders(self, rows: RowNumbers) -> tuple[RowNumbers, Floats64]:
        """For each row, return the nearest leader and its squared distance, or −1 and ∞ if none is near."""
        leaders, squares = np.full(len(rows), -1), np.full(len(rows), np.inf)
        tree, done, room = self._tree, 0, _ROOM
        while done < len(rows):
            places, slots = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
            rough = np.empty(room, dtype=np.float32)
            n_pairs, n_done = near_leaders(
                tree.points,
                tree.starts,
                tree.lower,
                tree.upper,
                self._leads,
                tree.slots[rows[done:]],
                self._rough,
                places,
                slots,
                rough,
            )
            self._compare(
                rows, done + places[:n_pairs], tree.order[slots[:n_pairs]], rough[:n_pairs], leaders, squares
            )
            done += n_done
            room = room if n_done else 2 * room
        return leaders, squares

    def _compare(
        self,
        rows: RowNumbers,
        places: RowNumbers,
        candidates: RowNumbers,
        rough: NDArray[np.float32],
        leaders: RowNumbers,
        squares: Floats64,
    ) -> None:
        """Write the nearest candidate of each row to `leaders`, and its squared distance to `squares`.

        The exact distance of the candidate with the nearest coordinates is computed first. A candidate whose
        coordinates are already farther away than this distance is skipped.
        """
        order = np.lexsort((rough, places))
        places, candidates, rough = places[order], candidates[order], rough[order]
        first = np.diff(places, prepend=-1) > 0
        apart = np.full(len(places), np.inf)
        apart[first] = squared_distances(self._pool, rows[places[first]], candidates[first])
        limits = np.full(len(rows), self._square)
        limits[places[first]] = np.minimum(apart[first], self._square)
        others = ~first & (np.sqrt(rough) <= np.sqrt(limits[places]) + SLACK)
        apart[others] = squared_distances(self._pool, rows[places[others]], candidates[others])
        near = np.flatnonzero(apart <= self._square)
        near = near[np.lexsort((candidates[near], apart[near], places[near]))]
        near = near[np.diff(places[near], prepend=-1) > 0]
        leaders[places[near]], squares[places[near]] = candidates[near], apart[near]

    def _near_each_other(self, rows: RowNumbers, leaderless: NDArray[np.bool_]) -> RowNumbers:
        pairs = np.empty((_ROOM, 2), dtype=np.int64)
        queries = self._tree.slots[rows]
        while (n := near_each_other(self._tree.points, queries, leaderless, self._rough, pairs)) > len(pairs):
            pairs = np.empty((n, 2), dtype=np.int64)
        return pairs[:n]
