"""Expected output change: the answer that changes the most predictions.

An answer moves the hyperplane. If it is trained until the item is on the right side with a margin of 1, and
no other label resists, the scores of other items z change by ±(xᵀz + 1) / 2 for rows of unit norm. The value
of an item x is the expected number of sampled items whose predicted side changes. On the hyperplane, yes and
no are equally likely. Freytag et al. [1]_ propose to maximize the expected change of all outputs; here, only
changes of the predicted side count.

References
----------
.. [1] A. Freytag, E. Rodner, J. Denzler: Selecting influential examples: active learning with expected model
       output changes, ECCV 2014.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.contenders.cosines import inner_products
from closecall.core.selection.contenders.shortlist import Shortlisting
from closecall.core.selection.reader import Ids
from closecall.core.selection.requests import Query


class OutputChange(Shortlisting):
    """Query strategy that selects the item whose answer changes the most predictions; see `Shortlisting`."""

    name = "output-change"
    about = "Near the boundary, the item whose answer changes the most predictions."

    def values(self, query: Query, X: Features, ids: Ids) -> NDArray[np.floating]:  # noqa: ARG002
        """See `Shortlisting.values`."""
        scores = self.reader_.scores(self.sample_rows_, query.plane())
        change = (inner_products(X, self.sample_) + 1) / 2
        to_yes = np.count_nonzero((scores <= 0) & (scores + change > 0), axis=1)
        to_no = np.count_nonzero((scores > 0) & (scores - change <= 0), axis=1)
        return np.asarray((to_yes + to_no) / 2)
