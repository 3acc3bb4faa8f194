"""Selection during an audit: audited items are passed over and recorded.

An audited item must not be used for training. Excluding it from selection, however, would bias the audit.
Suppose the strategy selects the hardest items. The unaudited ones are trained on and leave the population
that the audit describes, but the audited ones stay and represent hard items that are no longer there.
Precision and recall are then underestimated: with 200 of 20,000 items audited and 200 trained on, one
interval in ten misses the truth instead of one in twenty.

The strategy may therefore select audited items like any others. A selected audited item is passed over for
good, and the audit leaves it out, like an item that was trained on. Membership in the population then does
not depend on which items were audited. The annotator gets the next item instead and notices nothing. A
session passes over only a handful of items, so the classifier hardly changes either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from closecall.core.selection import Selection


def pass_over(
    select: Callable[[NDArray[np.int64]], Selection], audited: Iterable[int]
) -> tuple[Selection, NDArray[np.int64]]:
    """Select items that are not audited, and return the audited items passed over.

    Parameters
    ----------
    select : callable
        Takes an ascending array of further ids to exclude, and returns a `Selection`. It is called once, and
        again each time the selection contains audited items.
    audited : iterable of int
        Ids of the audited items that no selection has passed over yet.

    Returns
    -------
    selection : Selection
        Contains no audited item.
    passed : array of int64, ascending
        The audited items passed over. The caller excludes them from all later selections.
    """
    waiting = np.fromiter(audited, dtype=np.int64)
    passed = np.empty(0, dtype=np.int64)
    while True:
        selection = select(passed)
        reached = np.intersect1d(selection.ids, waiting)
        if not len(reached):
            return selection, passed
        passed = np.union1d(passed, reached)
