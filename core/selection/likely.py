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

from closecall.core.selection.over_margin import OverMarginIndex
from closecall.core.selection.requests import Choice, Query
from closecall.core.selection.scan import scan


class LikelyPositive(OverMarginIndex):
    """Query strategy that selects the n items with the largest wᵀx + b.

    The item with the largest wᵀx + b comes first. `Selection.margins` has |wᵀx + b|, as for every strategy.

    Parameters
    ----------
    scans : bool
        Whether all items are scored. Otherwise, the margin index finds the items, nearly exactly.
    budget : int or None
        Budget of the margin index; see `core.selection.margin.MarginIndex`.
    share : float or None
        Maximum share of the rows that the margin index examines, instead of a budget.
    confidence : float or None
        Confidence of the margin index.
    random_state : int
    """

    name = "likely-positive"
    about = "The item that is most likely a yes, to find more of a rare class."
    query_params = frozenset({"scans", "budget", "share", "confidence"})

    def __init__(
        self,
        *,
        scans: bool = False,
        budget: int | None = None,
        share: float | None = None,
        confidence: float | None = None,
        random_state: int = 0,
    ) -> None:
        super().__init__(budget=budget, share=share, confidence=confidence, random_state=random_state)
        self.scans = scans

    @property
    def uses_index(self) -> bool:
        """See `OverMarginIndex.uses_index`."""
        return not self.scans

    @property
    def uses_budget(self) -> bool:
        """See `OverMarginIndex.uses_budget`; sparse rows are all scored."""
        return self.uses_index and not self.pool_.is_sparse

    def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
        """See `QueryStrategy.choose_many`."""
        if self.scans:
            return scan(self.pool_, self.reader_, queries, np.negative)
        return self.margin_index_.choose_largest(queries)
