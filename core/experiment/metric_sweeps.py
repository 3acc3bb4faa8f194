"""Sweeps of the accuracy of k-nn classification by a learned metric: figures 1 and 2 of the paper [1]_.

A sweep varies one parameter and keeps the others fixed:

==========  ==============================================  ==========================
figure      varied                                          fixed
==========  ==============================================  ==========================
1           bits per code                                   ε, number of labels
2, left     numbers of labels and constraints, together     bits, ε
2, middle   bits per code                                   ε, number of labels
2, right    ε                                               bits, number of labels
==========  ==============================================  ==========================

Accuracy is measured for the original and the learned metric, by a scan and by hashed search as in section 3.3
of the paper. Hashed search builds M = 2N^{1/(1+ε)} sorted orders of the codes of N rows, and a query reads 2M
entries of these orders (`core.search.orders.PermutedOrders.published`). A larger ε > 0 makes the search
faster and less accurate. The distinct rows among the entries are ranked by the metric, and the nearest rows
vote on the class (`core.experiment.neighbours`). The slack parameter γ of the metric and the number of pairs
that it is learned from are chosen for each number of labels, on validation queries that are used for nothing
else.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from closecall.core.errors import InputError
from closecall.core.experiment.neighbours import Setting, Taught, accuracy
from closecall.core.experiment.queries import Items
from closecall.core.experiment.searching import search_each
from closecall.core.hashing import MetricLSH, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.hashing.pool import hash_rows
from closecall.core.metric import Metric
from closecall.core.pool.pool import Pool
from closecall.core.search.orders import PermutedOrders
from closecall.core.similar import ExactSearch, HashedSimilarity
from closecall.core.similar.nearness import nearness_of

BITS = (16, 32, 64, 128, 256)
LABELS = (2_000, 200, 500, 1_000, 5_000)
EPSILONS = (1.5, 0.5, 0.75, 1.0, 2.0, 3.0)
"""Default numbers of bits, numbers of labels and values of ε; the paper uses ε = 1.5."""

MEGABYTES = 400
"""Maximum memory of the sorted orders, in addition to the codes, in megabytes."""


def check_epsilons(epsilons: Sequence[float]) -> None:
    """Raise InputError if a value of ε is not positive and finite."""
    for epsilon in epsilons:
        if not 0 < epsilon < np.inf:
            raise InputError(f"epsilon must be positive and finite, got {epsilon:g}")


@dataclass(frozen=True)
class MetricSweeps:
    """Values of each parameter. While one parameter varies, each other parameter has one fixed value.

    Parameters
    ----------
    bits : sequence of int
        Numbers of bits per code. The fixed value is the largest number.
    labels : sequence of int
        Numbers of items whose classes the metric is learned from. The fixed value is the first number.
    epsilons : sequence of float
        Values of ε, which the docstring of this module defines. The fixed value is the first one.

    Raises
    ------
    InputError
        If a parameter has no value, or if ε is not positive.
    """

    bits: Sequence[int] = BITS
    labels: Sequence[int] = LABELS
    epsilons: Sequence[float] = EPSILONS

    def __post_init__(self) -> None:
        if not (self.bits and self.labels and self.epsilons):
            raise InputError("a sweep needs at least one number of bits, number of labels and ε, got none")
        check_epsilons(self.epsilons)

    @property
    def kept(self) -> tuple[int, int, float]:
        """The fixed values of the number of bits, the number of labels, and ε."""
        return max(self.bits), self.labels[0], self.epsilons[0]

    def searches(self, n_labels: int) -> list[tuple[int, float]]:
        """Return the pairs of bits and ε that are measured with a metric learned from `n_labels` labels."""
        n_bits, n_kept, epsilon = self.kept
        if n_labels != n_kept:
            return [(n_bits, epsilon)]
        both = [(n, epsilon) for n in sorted(self.bits)] + [(n_bits, own) for own in sorted(self.epsilons)]
        return list(dict.fromkeys(both))

    def measured(
        self,
        pool: Pool,
        queries: Items,
        choosing: Items,
        *,
        k: int = 10,
        settings: Sequence[Setting] | None = None,
        n_sample: int = 50_000,
        seed: int = 0,
    ) -> Iterator[dict[str, Any]]:
        """Measure all sweeps for one draw of labels and hash functions.

        Parameters
        ----------
        pool, queries, choosing, k, settings, n_sample, seed
            See `core.experiment.neighbours.compare_metrics`.

        Yields
        ------
        dict
            For each metric, one dict for a scan and one for each pair that `searches` returns: ``metric``
            ("original" or "learned"); ``labels`` (None for the original metric); ``search`` ("scan" or
            "orders"); ``bits``, ``epsilon`` and ``orders`` (number of orders built), all None for the scan;
            ``accuracy``, ``searched`` and ``recall`` as in `compare_metrics`; ``gamma``, ``n_pairs``,
            ``upper`` and ``accuracy_when_chosen`` (None for the original metric); ``seed``.

        Raises
        ------
        InputError
            If k is less than 1; see also `core.experiment.neighbours.choose`.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, got {k}")
        _, n_kept, _ = self.kept
        for n_labels in dict.fromkeys(self.labels):
            taught = Taught.of(
                pool, choosing, k=k, n_labels=n_labels, settings=settings, n_sample=n_sample, seed=seed
            )
            learned = {"metric": "learned", "labels": n_labels, **taught.told}
            nothing = {"metric": "original", "labels": None, **dict.fromkeys(taught.told)}
            metrics = [(nothing, None), (learned, taught.metric)]
            for about, metric in metrics if n_labels == n_kept else metrics[1:]:
                for found in _searched(
                    pool, metric, taught.sample, queries, k, self.searches(n_labels), seed
                ):
                    yield {**about, **found, "seed": seed}


def _searched(
    pool: Pool,
    metric: Metric | None,
    sample: Items,
    queries: Items,
    k: int,
    searches: Sequence[tuple[int, float]],
    seed: int,
) -> Iterator[dict[str, Any]]:
    """Yield the results of a scan by one metric, and then the results of each hashed search."""
    families = {n: _family(metric, n, seed).fit(sample.X) for n, _ in searches}
    nearness = nearness_of(pool, next(iter(families.values())))
    nearest = ExactSearch(nearness).neighbours_of_many(queries.X, k)
    right = accuracy(pool, nearest, queries.truth)
    nothing = dict.fromkeys(("bits", "epsilon", "orders"))
    yield {"search": "scan", **nothing, "accuracy": right, "searched": 1.0, "recall": 1.0}
    codes = {n: hash_rows(family, pool.blocks(), len(pool), lambda _: None) for n, family in families.items()}
    for n, epsilon in searches:
        orders = PermutedOrders.published(codes[n], epsilon, n_bytes=MEGABYTES * 10**6, seed=seed)
        search = HashedSimilarity(families[n], orders, nearness, n_compared=0, n_candidates=len(pool))
        found = search_each(search, queries.first(len(queries)), [one.ids for one in nearest])
        yield {
            "search": "orders",
            "bits": n,
            "epsilon": epsilon,
            "orders": len(orders.functions_),
            "accuracy": accuracy(pool, found.neighbours, queries.truth),
            "searched": found.searched,
            "recall": found.recall,
        }


def _family(metric: Metric | None, n_functions: int, seed: int) -> SimilarityHasher:
    if metric is None:
        return RandomHyperplaneLSH(n_functions=n_functions, random_state=seed)
    return MetricLSH(metric=metric, n_functions=n_functions, random_state=seed)
