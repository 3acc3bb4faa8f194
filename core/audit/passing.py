"""Selection of training items during an audit: audited items are passed over and recorded.

An audited item is drawn at random to estimate the quality of the classifier, so it must not be used for
training. But if query strategies could not select audited items, the audit would be biased. The audit
describes the items that are not used for training. Suppose that the strategy selects the hardest items for
training, except audited items. The remaining hard items are then mostly audited items. In the estimates, each
audited item still represents many hard items, although most hard items have been used for training. Precision
and recall are underestimated. With 200 of 20,000 items audited and 200 used for training, one interval in ten
misses the true value instead of one in twenty.

The strategy may therefore select any item. If it selects an audited item, the item is passed over: the
annotator gets the next item instead. From then on, the audit leaves out the item that was passed over, as if
it had been used for training. The set of items that the audit describes is then independent of which items
were audited. A session passes over only a few items, so the classifier hardly changes.

The same holds for items that annotators find by themselves, for example by a search. There, audited items can
be answered again. The items that were answered again count as passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from closecall.core.selection import Selection


def pass_over(
    select: Callable[[NDArray[np.int64]], Selection], audited: Iterable[int]
) -> tuple[Selection, NDArray[np.int64]]:
    """Select items that are not audited. Return them and the audited items that were passed over.

    Parameters
    ----------
    select : callable
        Function that takes an ascending array of additional ids to exclude, and returns a `Selection`. The
        function is called again whenever its selection contains audited items.
    audited : iterable of int
        Ids of the audited items, except items that earlier selections have passed over.

    Returns
    -------
    selection : Selection
        A selection without audited items.
    passed : array of int64, ascending
        Ids of the audited items that were passed over. The caller excludes them from all later selections.
    """
    waiting = np.fromiter(audited, dtype=np.int64)
    passed = np.empty(0, dtype=np.int64)
    while True:
        selection = select(passed)
        reached = np.intersect1d(selection.ids, waiting)
        if not len(reached):
            return selection, passed
        passed = np.union1d(passed, reached)
