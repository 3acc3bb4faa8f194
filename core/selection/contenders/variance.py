"""Expected variance reduction: the answer that makes the scores of all items surest.

The scores of a linear model with a Gaussian prior on its weights have a covariance k(x, z) after the labels
that there are (ridge regression; a Gaussian process with a linear kernel). An answer about x reduces the
variance of the score of z by k(x, z)² / (λ + k(x, x)), whatever the answer is. The value of x is the mean
reduction over the sampled items [1]_.

References
----------
.. [1] D. A. Cohn, Z. Ghahramani, M. I. Jordan: Active learning with statistical models, JAIR 4, 1996.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.contenders.cosines import inner_products, rounded, squared_norms
from closecall.core.selection.contenders.shortlist import Shortlisting
from closecall.core.selection.reader import Ids
from closecall.core.selection.requests import Query

_NOISE = 0.1
"""λ, the variance of an answer, as a share of the prior variance of a score without bias."""

_MOST_LABELS = 500
"""Largest number of labels that are used, those with the highest ids; more would take longer than a scan."""


class VarianceReduction(Shortlisting):
    """Query strategy that selects the item whose answer makes all scores surest; see `Shortlisting`."""

    name = "variance-reduction"
    about = "Near the boundary, the item whose answer makes all scores surest."

    def values(self, query: Query, X: Features, ids: Ids) -> NDArray[np.floating]:  # noqa: ARG002
        """See `Shortlisting.values`."""
        labeled = rounded(self.labeled(query)[0][-_MOST_LABELS:])
        own, others = inner_products(X, labeled) + 1, inner_products(self.sample_, labeled) + 1
        known = inner_products(labeled, labeled) + 1 + _NOISE * np.eye(labeled.shape[0])
        explained = np.linalg.solve(known, own.T)
        covariance = inner_products(X, self.sample_) + 1 - (others @ explained).T
        prior = squared_norms(X) + 1
        variance = prior - (own.T * explained).sum(axis=0)
        return np.asarray((covariance**2).mean(axis=1) / (_NOISE + variance))
