"""The most likely positive items: those farthest on the positive side of the hyperplane.

Selecting the largest wᵀx + b is the greedy "one-step" search for positives of [1] and the "most positive"
selection of relevance feedback [2]. If many items lie on the positive side, it finds positives that the
nearest items miss, but teaches less about the boundary, because the classifier is most certain of these
items. If hardly any items lie there, as for a class of 0.5 % with few labels, the top items are also the
nearest to the hyperplane, and a search for the nearest selects the same (`closecall bench positives`).

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
    """Query strategy that finds the n items with the largest wᵀx + b exactly, by one scan of the pool.

    The largest comes first. `Selection.margins` is |wᵀx + b|, as for any strategy, so it ascends where all
    scores are negative.
    """

    name = "likely-positive"

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`."""
        return scan(self.pool_, self.reader_, queries, np.negative)
