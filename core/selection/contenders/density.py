"""Density-weighted margin: of the items near the hyperplane, the one with the nearest neighbours.

The label of an item in a dense region says something about many other items, that of an outlier about none
[1]_. Here, density decides alone, because all items of the shortlist are about equally near the hyperplane.

References
----------
.. [1] B. Settles, M. Craven: An analysis of active learning strategies for sequence labeling tasks,
       EMNLP 2008.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.contenders.cosines import inner_products
from closecall.core.selection.contenders.shortlist import Shortlisting
from closecall.core.selection.reader import Ids
from closecall.core.selection.requests import Query

_NEIGHBOURS = 20
"""Number of nearest neighbours among the sampled items, as in typicality (`typiclust.py`)."""


class DensityWeighted(Shortlisting):
    """Query strategy that selects the densest of the items near the hyperplane; see `Shortlisting`.

    The density of an item is its mean cosine to its 20 nearest neighbours among the sampled items.
    """

    name = "density"
    about = "Near the boundary, the item in the densest region."

    def values(self, query: Query, X: Features, ids: Ids) -> NDArray[np.floating]:  # noqa: ARG002
        """See `Shortlisting.values`."""
        cosines = inner_products(X, self.sample_)
        n = min(_NEIGHBOURS, cosines.shape[1])
        return np.asarray(np.partition(cosines, -n, axis=1)[:, -n:].mean(axis=1))  # sums are exact
