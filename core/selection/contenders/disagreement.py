"""Disagreement along the regularization path: SVMs with a small and a large C.

Both SVMs are trained on the same labels. Where their scores differ most, the choice of C matters most, and so
does the answer. This is query by committee [1]_ with a committee that needs no resampling.

References
----------
.. [1] H. S. Seung, M. Opper, H. Sompolinsky: Query by committee, COLT 1992.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import train
from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.contenders.shortlist import Shortlisting
from closecall.core.selection.reader import Ids, Rows
from closecall.core.selection.requests import Query

_COSTS = (0.1, 10.0)
"""C of the two SVMs."""


class Disagreement(Shortlisting):
    """Query strategy that selects the item about which two SVMs disagree most; see `Shortlisting`.

    Scores are divided by the norm of the SVM's weights. Without a positive and a negative label in the pool,
    the nearest item is selected.
    """

    name = "disagreement"
    about = "Near the boundary, the item about which a cautious and a bold SVM disagree most."

    def values(self, query: Query, X: Features, ids: Ids) -> NDArray[np.floating]:  # noqa: ARG002
        """See `Shortlisting.values`."""
        rows = np.searchsorted(self.pool_.ids, ids)
        known, labeled, y = self.labeled(query)
        if y.all() or not y.any():
            return -self.reader_.margins(rows, query.plane())
        one, other = (self._distances(train(known, y, labeled, C=cost), rows) for cost in _COSTS)
        return np.abs(one - other)

    def _distances(self, hyperplane: Hyperplane, rows: Rows) -> NDArray[np.float64]:
        return self.reader_.scores(rows, hyperplane) / float(np.linalg.norm(hyperplane.normal))
