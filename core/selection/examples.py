"""Before there is a hyperplane: the pool items most similar to a few example images."""

from __future__ import annotations

from collections.abc import Iterable
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from core.geometry import Hyperplane
from core.selection.base import PoolExhausted, Selection
from core.selection.reader import PoolRows


def most_similar(pool: PoolRows, examples: ArrayLike, *, exclude: Iterable[int] = ()) -> Selection:
    """The item of the greatest mean inner product with the examples; ties go to the lowest id.

    Parameters
    ----------
    pool : Pool
        N unit rows.
    examples : array of shape (n_examples, n_features)
        Features of the example images, unit rows.
    exclude : iterable of int
        Ids that must not be selected.

    Returns
    -------
    Selection
        One item; its margin is NaN, since there is no hyperplane.

    Raises
    ------
    PoolExhausted
        If every item is excluded.
    """
    start = perf_counter()
    scores = pool.scores(Hyperplane(np.mean(np.asarray(examples, dtype=np.float64), axis=0), 0.0))
    free = ~np.isin(pool.ids, np.fromiter(exclude, dtype=np.int64))
    if not free.any():
        raise PoolExhausted("Pool exhausted: 0 available, 1 requested")
    best = int(np.argmax(np.where(free, scores, -np.inf)))
    return Selection(
        ids=pool.ids[best : best + 1].astype(np.int64),
        margins=np.array([np.nan]),
        seconds=perf_counter() - start,
        scored=len(pool),
        items=len(pool),
    )
