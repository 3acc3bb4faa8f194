"""Excluded rows of a pool, and uniform draws from the rows that are not excluded."""

from __future__ import annotations

import numpy as np

from closecall.core.selection.reader import Ids, PoolRows, Rows
from closecall.core.selection.requests import Query


def excluded_rows(pool: PoolRows, query: Query) -> Rows:
    """Return the rows of the excluded items, ascending. Excluded ids that are not in the pool are ignored."""
    return rows_among(pool, query.exclude)


def rows_among(pool: PoolRows, ids: Ids) -> Rows:
    """Return the rows of those `ids` that are in the pool. Both the ids and the rows are ascending."""
    if not len(ids) or not len(pool):
        return np.empty(0, dtype=np.int64)
    rows = np.minimum(np.searchsorted(pool.ids, ids), len(pool) - 1)
    return np.asarray(rows[pool.ids[rows] == ids])


def drawn_rows(rng: np.random.Generator, n: int, n_rows: int, excluded: Rows) -> Rows:
    """Draw `n` different rows from 0 … `n_rows` − 1 uniformly at random, but none of the excluded rows.

    `excluded` must be ascending.
    """
    return nth_free(rng.choice(n_rows - len(excluded), n, replace=False), excluded)


def nth_free(ranks: Rows, excluded: Rows) -> Rows:
    """Return the rows with these ranks among all rows that are not excluded.

    Ranks start at 0. `excluded` must be ascending.
    """
    # The j-th free row is j + the number of excluded rows before it.
    return ranks + np.searchsorted(excluded - np.arange(len(excluded)), ranks, side="right")
