"""Selection without a hyperplane: the pool items most similar to a few examples."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import numpy as np

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.selection.base import PoolExhausted, Selection
from closecall.core.selection.reader import PoolRows


def most_similar(pool: PoolRows, examples: Rows, n: int = 1, *, exclude: Iterable[int] = ()) -> Selection:
    """Select the items with the largest mean inner product with the examples; ties go to the lower id.

    Parameters
    ----------
    pool : Pool
        N unit rows.
    examples : array of shape (n_examples, n_features), or csr_array
        Features of the examples, unit rows.
    n : int
        Number of items to select. Fewer are returned if fewer are left.
    exclude : iterable of int
        Ids that must not be selected.

    Returns
    -------
    Selection
        The most similar item first; margins are NaN, since there is no hyperplane.

    Raises
    ------
    PoolExhausted
        If every item is excluded.
    """
    start = perf_counter()
    wide = examples.astype(np.float64) if is_sparse(examples) else np.asarray(examples, dtype=np.float64)
    scores = pool.scores(Hyperplane(wide.mean(axis=0), 0.0))
    free = np.flatnonzero(~np.isin(pool.ids, np.fromiter(exclude, dtype=np.int64)))
    if not len(free):
        raise PoolExhausted(f"Pool exhausted: 0 available, {n} requested")
    unlike = -scores[free]
    n = min(n, len(free))
    enough = np.flatnonzero(unlike <= np.partition(unlike, n - 1)[n - 1])
    best = free[enough[np.argsort(unlike[enough], kind="stable")][:n]]
    return Selection(
        ids=pool.ids[best].astype(np.int64),
        margins=np.full(n, np.nan),
        seconds=perf_counter() - start,
        scored=len(pool),
        items=len(pool),
    )
