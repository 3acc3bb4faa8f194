"""The most likely positive items: the furthest on the positive side of the hyperplane.

Asking about the greatest wᵀx + b is the greedy "one-step" search for positives of [1], and the "most
positive" selection of relevance feedback [2]. Where many items lie on the positive side, it finds positives
that the nearest items are not, and teaches less about the boundary: it asks about those of which the
classifier is most certain. Where hardly any does, as with a class of 0.5 % and few labels, the items on top
are the nearest ones too, and it asks what a search for the margin would (`closecall bench positives`).

References
----------
.. [1] R. Garnett, Y. Krishnamurthy, X. Xiong, J. Schneider, R. Mann: Bayesian optimal active search and
       surveying, ICML 2012.
.. [2] S. Tong, E. Chang: Support vector machine active learning for image retrieval, ACM Multimedia 2001.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from closecall.core.selection.base import Choice, Query, QueryStrategy
from closecall.core.selection.scan import scan


class LikelyPositive(QueryStrategy):
    """The n items of the greatest wᵀx + b, the greatest first, exactly: one scan of the pool.

    `Selection.margins` is |wᵀx + b| as of any strategy; where all scores are negative, it ascends.
    """

    name = "likely-positive"

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`."""
        return scan(self.pool_, self.reader_, queries, np.negative)
