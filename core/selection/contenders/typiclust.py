"""TypiClust: the most typical items of clusters without a label [1]_.

The sampled items are divided into more clusters than there are labels, so at least one cluster has none. The
most typical item of the largest such cluster is selected. An item is typical if the mean cosine to its 20
nearest neighbours is large.

The paper clusters the pool again for every selection. Here, the sample is divided once into 2, 4, …, 128
clusters, and the smallest number that exceeds the number of labels is used.

References
----------
.. [1] G. Hacohen, A. Dekel, D. Weinshall: Active learning on a budget: opposite strategies suit high and low
       budgets, ICML 2022.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.numerics.rows import Rows as Features
from closecall.core.selection.base import Arrays
from closecall.core.selection.contenders.cosines import inner_products
from closecall.core.selection.contenders.sampled import Sampled
from closecall.core.selection.reader import Rows

_NEIGHBOURS = 20
_NUMBERS = (2, 4, 8, 16, 32, 64, 128)
"""Numbers of clusters."""


class TypiClust(Sampled):
    """Query strategy that selects the most typical sampled item of the largest cluster without a label.

    See `Sampled`. With 128 labels or more, items are selected at random.
    """

    name = "typiclust"
    about = "The most typical item of a cluster without an answer, for the first answers."

    def described(self, X: Features) -> Arrays:
        """See `Sampled.described`."""
        from sklearn.cluster import KMeans  # a slow import, which other strategies don't need

        cosines = inner_products(X, X)
        n = min(_NEIGHBOURS + 1, len(cosines))
        nearest = np.sort(np.partition(cosines, -n, axis=1)[:, -n:], axis=1)  # the last one is itself
        n_distinct = len({row.tobytes() for row in cosines})
        clusters = [
            KMeans(k, n_init=1, random_state=self.random_state).fit_predict(X)
            for k in _NUMBERS
            if k <= n_distinct
        ]
        return {
            "typicality": nearest[:, :-1].mean(axis=1) if n > 1 else np.zeros(len(cosines)),
            "clusters": np.array(clusters, dtype=np.int32).reshape(-1, len(cosines)),
        }

    def marks(self, cosines: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the place of the sampled item that is nearest to each labeled one; see `Sampled.marks`."""
        return np.asarray(cosines.argmax(axis=1))

    def representatives(self, n: int, marks: NDArray[np.int64], allowed: NDArray[np.bool_]) -> Rows:
        """See `Sampled.representatives`. Labeled items belong to the cluster of the nearest sampled item."""
        level = int(np.searchsorted(_NUMBERS, len(marks), side="right"))
        divisions, typicality = self.sample_["clusters"], self.sample_["typicality"]
        if level >= len(divisions):
            return np.empty(0, dtype=np.int64)
        cluster = divisions[level]
        sizes = np.bincount(cluster)
        is_covered = np.zeros(len(sizes), dtype=np.bool_)
        is_covered[cluster[marks]] = True
        best = np.lexsort((np.arange(len(cluster)), -typicality))
        best = best[allowed[best] & ~is_covered[cluster[best]]]
        _, first = np.unique(cluster[best], return_index=True)  # the most typical item of each cluster
        found = best[np.sort(first)]
        return np.asarray(found[np.argsort(-sizes[cluster[found]], kind="stable")][:n])
