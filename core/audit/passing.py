"""Selection during an audit: audited items are passed over and recorded.

An audited item must not be used for training. Excluding it from selection, however, would bias the audit.
Suppose that the strategy selects the hardest items, but no audited ones. Unaudited hard items are then used
for training and leave the population that the audit describes. Audited hard items stay, and represent hard
items that are no longer there. Precision and recall are underestimated: with 200 of 20,000 items audited and
200 trained on, one interval in ten misses the truth instead of one in twenty.

The strategy may therefore select audited items like any others. A selected audited item is passed over: the
annotator gets the next item instead, and from then on the audit leaves the audited item out, as if it had
been trained on. Membership in the population then does not depend on which items were audited. A session
passes over only a handful of items, so the classifier hardly changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from closecall.core.selection import Selection


def pass_over(
    select: Callable[[NDArray[np.int64]], Selection], audited: Iterable[int]
) -> tuple[Selection, NDArray[np.int64]]:
    """Select items that are not audited, and return them with the audited items that were passed over.

    Parameters
    ----------
    select : callable
        Takes an ascending array of additional ids to exclude, and returns a `Selection`. It is called again
        whenever its selection contains audited items.
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
