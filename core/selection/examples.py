"""Selection without a hyperplane: the pool items most similar to a few examples."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.selection.exhaustive import ExhaustiveSearch
from closecall.core.selection.reader import PoolRows
from closecall.core.selection.requests import Selection


def most_similar(pool: PoolRows, examples: Rows, n: int = 1, *, exclude: Iterable[int] = ()) -> Selection:
    """Select the items with the largest mean inner product with the examples; ties go to the lower id.

    Parameters
    ----------
    pool : Pool
        N unit rows.
    examples : array of shape (n_examples, n_features), or csr_array
        Features of the examples, unit rows. The vector of a description in words can be among the examples.
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
    wide = examples.astype(np.float64) if is_sparse(examples) else np.asarray(examples, dtype=np.float64)
    mean = Hyperplane(wide.mean(axis=0), 0.0)
    found = _LargestScores().fit(pool).select(mean, n, exclude=exclude)
    return replace(found, margins=np.full(len(found.ids), np.nan))


class _LargestScores(ExhaustiveSearch):
    """The n items with the largest wᵀx + b of all items."""

    key = np.negative
