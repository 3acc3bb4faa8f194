"""Bursts: photographs of one folder that were taken one after another and look alike.

The photographs of a folder are ordered by capture time, if it is known for all of them. Otherwise they are
ordered by name, with numbers in names in numerical order. The first photograph of a burst is its leader. A
photograph joins the burst of its predecessor on three conditions: it was taken at most `gap` seconds after
the predecessor, its angle to the predecessor is at most `STEP` times `angle`, and its angle to the leader is
at most `angle`. Otherwise it begins a new burst. A burst therefore ends when the scene changes at once, and
also when it has changed since the beginning of the burst, however slowly.

Each photograph is compared with only two other photographs. Therefore, a larger angle is safe here than in a
search among all pairs of a pool.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from closecall.core.duplicates.coordinates import RowBlocks
from closecall.core.duplicates.groups import Groups
from closecall.core.duplicates.kernels import follow
from closecall.core.duplicates.leaders import angles_of
from closecall.core.errors import InputError

STEP = 0.5
"""Largest angle between successive photographs of a burst, divided by `angle`.

The angle to the leader must be large, or slow changes are cut into many bursts. Measured on objects that turn
before a camera (docs/benchmarks-checks.md), such an angle alone would join different objects.
"""

_ROWS_AT_ONCE = 4096
_NUMBER = re.compile(r"(\d+)")


def find_bursts(
    pool: RowBlocks, names: Sequence[str], times: NDArray[np.float64], *, angle: float, gap: float
) -> Groups:
    """Return the bursts among the rows of a pool.

    New photographs may change earlier bursts, so all bursts must be found again when a pool has grown.

    Parameters
    ----------
    pool : Pool or ArrayPool
        N rows of unit norm.
    names : sequence of str
        Name of each row's photograph: its path, with slashes. All names without a slash belong to the same
        folder.
    times : array of shape (N,), float64
        Capture time of each photograph, in seconds; NaN if unknown.
    angle : float
        Largest angle between a photograph and the leader of its burst, in radians. The largest angle between
        a photograph and its predecessor is `STEP` times as large.
    gap : float
        Longest time between consecutive photographs of a burst, in seconds. It is ignored in folders that are
        ordered by name.

    Raises
    ------
    InputError
        If the angle is not from 0 to π, if the gap is negative, if there are not N names and times, or if the
        rows are sparse.
    """
    if not 0 <= angle <= np.pi:
        raise InputError(f"angle must be from 0 to π, got {angle}")
    if not gap >= 0:
        raise InputError(f"gap must be at least 0, got {gap}")
    if not len(names) == len(times) == len(pool):
        raise InputError(f"{len(pool)} rows need as many names and times, got {len(names)} and {len(times)}")
    if pool.is_sparse:
        raise InputError("bursts are found among photographs, but these items are texts or sets of features")
    order, breaks = in_sequence(names, times, gap)
    leaders, squares = np.arange(len(order)), np.zeros(len(order))
    current, first, before = np.zeros(1, dtype=np.int64), np.zeros(pool.n_features), np.zeros(pool.n_features)
    square, step = ((2 * np.sin(part * angle / 2)) ** 2 for part in (1, STEP))
    for start in range(0, len(order), _ROWS_AT_ONCE):
        here = slice(start, start + _ROWS_AT_ONCE)
        X = pool.rows(order[here])
        follow(X, order[here], breaks[here], square, step, current, first, before, leaders, squares)
    return Groups(leaders, angles_of(squares))


def in_sequence(
    names: Sequence[str], times: NDArray[np.float64], gap: float
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the order of photographs in their folders, and which of them certainly begin a burst.

    Parameters
    ----------
    names, times, gap
        See `find_bursts`.

    Returns
    -------
    order : array of shape (N,), int64
        Rows, folder by folder.
    breaks : array of shape (N,), bool
        Whether each row of `order` is the first of its folder, or was taken more than `gap` seconds after its
        predecessor.
    """
    numbers = {folder: i for i, folder in enumerate(sorted({name.rpartition("/")[0] for name in names}))}
    folders = np.array([numbers[name.rpartition("/")[0]] for name in names], dtype=np.int64)
    untimed = np.bincount(folders, np.isnan(times), minlength=len(numbers)) > 0
    used = np.where(untimed[folders], 0.0, times)
    places = np.empty(len(names), dtype=np.int64)
    places[sorted(range(len(names)), key=lambda row: _natural(names[row]))] = np.arange(len(names))
    order = np.lexsort((places, used, folders))
    breaks = np.ones(len(names), dtype=np.bool_)
    breaks[1:] = (np.diff(folders[order]) != 0) | (np.diff(used[order]) > gap)
    return order, breaks


def _natural(name: str) -> tuple[tuple[str, int], ...]:
    """Return a sort key by which "2.jpg" comes before "10.jpg"."""
    parts = _NUMBER.split(name)
    return tuple(zip(parts[::2], [int(number) for number in parts[1::2]] + [-1], strict=True))
