"""The most likely positive items: those farthest on the positive side of the hyperplane.

Selecting the largest wᵀx + b is the greedy "one-step" search for positives of [1]_ and the "most positive"
selection of relevance feedback [2]_. If many items lie on the positive side, this selection finds positives
that a search for the nearest items misses. The labels of these positives teach less about the boundary,
because the classifier is most certain of them. If hardly any items lie on the positive side, the top items
are also the nearest to the hyperplane, so both searches select the same items. `closecall bench positives`
shows this for few labels and a class with 0.5 % of the items.

References
----------
.. [1] R. Garnett, Y. Krishnamurthy, X. Xiong, J. Schneider, R. Mann: Bayesian optimal active search and
       surveying, ICML 2012.
.. [2] S. Tong, E. Chang: Support vector machine active learning for image retrieval, ACM Multimedia 2001.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from closecall.core.selection.base import QueryStrategy
from closecall.core.selection.requests import Choice, Query
from closecall.core.selection.scan import scan


class LikelyPositive(QueryStrategy):
    """Query strategy that selects the n items with the largest wᵀx + b. It scans the whole pool.

    The item with the largest wᵀx + b comes first. `Selection.margins` has |wᵀx + b|, as for every strategy.
    """

    name = "likely-positive"
    about = "The item that is most likely a yes, to find more of a rare class."

    def choose(self, query: Query) -> Choice:
        """See `QueryStrategy.choose`."""
        return self.choose_many([query])[0]

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`."""
        return scan(self.pool_, self.reader_, queries, np.negative)
