"""Which rows of a pool may not be selected, and how to draw evenly from the others."""

from __future__ import annotations

import numpy as np

from core.selection.base import Query
from core.selection.reader import PoolRows, Rows


def excluded_rows(pool: PoolRows, query: Query) -> Rows:
    """The rows of the excluded items, ascending. Ids without a row in this pool do no harm."""
    if not len(query.exclude):
        return query.exclude
    rows = np.minimum(np.searchsorted(pool.ids, query.exclude), len(pool) - 1)
    return np.asarray(rows[pool.ids[rows] == query.exclude])


def drawn_rows(rng: np.random.Generator, n: int, n_rows: int, excluded: Rows) -> Rows:
    """Different rows, `n` of `n_rows`, none in the ascending `excluded`; all such sets equally likely."""
    return nth_free(rng.choice(n_rows - len(excluded), n, replace=False), excluded)


def nth_free(ranks: Rows, excluded: Rows) -> Rows:
    """The rows that stand at these places among the rows that are not in the ascending `excluded`."""
    # The j-th free row is j + (how many excluded rows lie before it).
    return ranks + np.searchsorted(excluded - np.arange(len(excluded)), ranks, side="right")
