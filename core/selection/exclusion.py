"""Which rows of a pool may not be selected, and how to draw evenly from the others."""

from __future__ import annotations

import numpy as np

from closecall.core.selection.base import Query
from closecall.core.selection.reader import Ids, PoolRows, Rows


def excluded_rows(pool: PoolRows, query: Query) -> Rows:
    """The rows of the excluded items, ascending. Ids without a row in this pool do no harm."""
    return rows_among(pool, query.exclude)


def rows_among(pool: PoolRows, ids: Ids) -> Rows:
    """The rows, ascending, of those among the ascending `ids` that this pool has."""
    if not len(ids) or not len(pool):
        return np.empty(0, dtype=np.int64)
    rows = np.minimum(np.searchsorted(pool.ids, ids), len(pool) - 1)
    return np.asarray(rows[pool.ids[rows] == ids])


def drawn_rows(rng: np.random.Generator, n: int, n_rows: int, excluded: Rows) -> Rows:
    """Different rows, `n` of `n_rows`, none in the ascending `excluded`; all such sets equally likely."""
    return nth_free(rng.choice(n_rows - len(excluded), n, replace=False), excluded)


def nth_free(ranks: Rows, excluded: Rows) -> Rows:
    """The rows that stand at these places among the rows that are not in the ascending `excluded`."""
    # The j-th free row is j + (how many excluded rows lie before it).
    return ranks + np.searchsorted(excluded - np.arange(len(excluded)), ranks, side="right")
