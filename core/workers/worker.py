"""The work of a worker: it opens pools by their paths, and searches the segments that it is asked for.

A worker keeps nothing but the pools that it has mapped into memory. Each call names the snapshot that it is
about, and a worker whose pool differs refuses to search it.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy
from closecall.core.selection.reader import Part, RowReader, Search

MOST_SNAPSHOTS = 16
"""Number of snapshots that a worker keeps open. Snapshots of one pool share the mapped files."""

CLOSECALL = version("closecall")


class Snapshot(NamedTuple):
    """The snapshot of a pool that is to be searched.

    Parameters
    ----------
    path : str
        Absolute path of the pool, the same on all machines.
    n_rows : int
    digest : str
        `Pool.digest` of the snapshot.
    closecall : str
        Version of Closecall that searches it.
    """

    path: str
    n_rows: int
    digest: str
    closecall: str

    @classmethod
    def of(cls, pool: Pool) -> Snapshot:
        """Return the description of this snapshot."""
        return cls(str(pool.path.resolve()), len(pool), pool.digest, CLOSECALL)


_newest: dict[str, Pool] = {}  # by path


@lru_cache(maxsize=MOST_SNAPSHOTS)
def opened(snapshot: Snapshot) -> tuple[Pool, RowReader]:
    """Return the snapshot, mapped into memory.

    Raises
    ------
    InputError
        If this machine has no such pool, another pool or fewer rows at this path, or another Closecall.
    """
    if snapshot.closecall != CLOSECALL:
        raise InputError(f"it has Closecall {CLOSECALL} instead of {snapshot.closecall}")
    try:
        pool = _newest[snapshot.path].refreshed()
    except (KeyError, InputError):  # not open yet, or replaced by another pool
        pool = Pool.open(Path(snapshot.path))
    _newest[snapshot.path] = pool
    if len(pool) < snapshot.n_rows:
        raise InputError(f"its pool at {snapshot.path} has only {len(pool):,} of {snapshot.n_rows:,} rows")
    pool = pool.prefix(snapshot.n_rows)
    if pool.digest != snapshot.digest:
        raise InputError(f"it has another pool at {snapshot.path}")
    return pool, RowReader(pool)


def searched_here(snapshot: Snapshot, search: Search[Part], segments: list[int]) -> Part:
    """Search these segments of the snapshot.

    Raises
    ------
    InputError
        See `opened`.
    """
    pool, reader = opened(snapshot)
    return search.run(pool, reader, segments)


def prepare(snapshot: Snapshot) -> None:
    """Open the snapshot, and load the compiled functions that searches need, by searching a few rows.

    Raises
    ------
    InputError
        See `opened`.
    """
    pool, _ = opened(snapshot)
    few = pool.prefix(min(len(pool), 2000))
    plane = Hyperplane(np.full(pool.n_features, pool.n_features**-0.5), 0.0)
    for name in ("exhaustive", "subsample", *(["margin-index"] if pool.byte_segments else [])):
        make_strategy(name).fit(few).select(plane)
