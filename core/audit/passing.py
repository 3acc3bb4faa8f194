"""Selecting beside an audit: audited items are passed over, and noted.

An audited item must not train. But leaving it out of the selection alone would spoil the audit: where the
strategy asks for the hardest items, those around it are trained on and leave the population that the audit
is about, while the hard items that happen to be audited stay in it and stand for others of their kind, which
are no longer there. Precision and recall come out too low; with 200 of 20,000 items audited while 200 are
trained on, one interval in ten misses the truth instead of one in twenty.

So the strategy may choose among audited items as among any others. If it comes to one, that one is passed
over, from then on for good, and counts as asked for, like an item that was trained on. Then who is in the
population does not depend on who was audited. The next item is asked about instead, so an annotator notices
nothing; with a handful of items passed over in a session, neither does the classifier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from closecall.core.selection import Selection


def pass_over(
    select: Callable[[NDArray[np.int64]], Selection], audited: Iterable[int]
) -> tuple[Selection, NDArray[np.int64]]:
    """A selection without audited items, and those that it came to.

    Parameters
    ----------
    select : callable
        Takes ids that must not be selected beside those that never can, ascending, and gives a selection;
        called once, and once more each time there are audited items in it.
    audited : iterable of int
        Ids of the audited items that no selection has come to yet.

    Returns
    -------
    Selection
        None of its items is audited.
    array of int64, ascending
        The audited items that it came to: from now on they are excluded, and count as asked for.
    """
    waiting = np.fromiter(audited, dtype=np.int64)
    passed = np.empty(0, dtype=np.int64)
    while True:
        selection = select(passed)
        reached = np.intersect1d(selection.ids, waiting)
        if not len(reached):
            return selection, passed
        passed = np.union1d(passed, reached)
