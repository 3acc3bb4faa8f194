"""Search by kernelized LSH (KLSH), compared with a scan by the kernel: figure 16 of the survey [1]_.

For N rows, a search reads 2M entries in M = 2N^{1/(1+ε)} sorted orders of the codes, and ranks the distinct
rows among these entries by the kernel itself (`core.search.orders.PermutedOrders.published`). A larger ε > 0
makes the search faster and less accurate. The search is compared in two ways with a scan, which ranks all
rows by the kernel:

- **Coverage**, on the left of the figure, is the share of the first k items of the search that are among the
  first n items of the scan. Coverage is at most min(n/k, 1). For n = k, it equals recall@k. If the search
  finds fewer than k items, the missing items count as not covered.
- **Accuracy**, on the right, is the share of queries whose k nearest items vote for the right class
  (`core.experiment.neighbours.voted`). The figure shows the accuracy as a function of ε.

Coverage and accuracy are measured for two forms of KLSH. The published form has all components of the kernel.
The other form has the low rank and the transformed kernel that are best on separate validation queries
(`core.experiment.kernelized`).

References
----------
.. [1] K. Grauman, R. Fergus, "Learning binary hash codes for large-scale image search", 2013, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.families import Draw
from closecall.core.experiment.kernelized import codes_of
from closecall.core.experiment.metric_sweeps import EPSILONS, MEGABYTES, check_epsilons
from closecall.core.experiment.neighbours import voted
from closecall.core.experiment.queries import Items
from closecall.core.experiment.searching import search_each
from closecall.core.pool.pool import Pool
from closecall.core.search.orders import PermutedOrders
from closecall.core.similar import ExactSearch, HashedSimilarity, nearness_of

Ids = NDArray[np.int64]

FIRST = (10, 20, 30)
"""Default values of k, as published; see `covered`."""

WITHIN = (10, 20, 30, 50, 100, 200, 500, 1_000)
"""Default values of n; see `covered`."""


@dataclass(frozen=True)
class CoverageSweep:
    """Values of ε, k and n to measure; the docstring of this module explains them.

    Parameters
    ----------
    epsilons : sequence of float
        Values of ε. The left side of figure 16 shows the coverage for the first value.
    first : sequence of int
        Values of k. Coverage considers the first k items of the search.
    within : sequence of int
        Values of n. Coverage considers the first n items of the scan. Values above the size of the pool are
        replaced by the size of the pool.

    Raises
    ------
    InputError
        If a sequence is empty, if ε is not positive and finite, or if k or n is less than 1.
    """

    epsilons: Sequence[float] = EPSILONS
    first: Sequence[int] = FIRST
    within: Sequence[int] = WITHIN

    def __post_init__(self) -> None:
        if not (self.epsilons and self.first and self.within):
            raise InputError("coverage needs at least one ε, one k and one n, got none")
        check_epsilons(self.epsilons)
        for k in (*self.first, *self.within):
            if k < 1:
                raise InputError(f"k and n of coverage must be at least 1, got {k}")

    def measured(
        self, pool: Pool, draw: Draw, queries: Items, *, k: int = 10, n_functions: int = 256
    ) -> Iterator[dict[str, Any]]:
        """Measure a scan, and then each form of kernelized LSH for each ε in ascending order.

        Parameters
        ----------
        pool : Pool
            The rows to search.
        draw : Draw
            Kernel, landmarks, sample, seed, and validation queries for the choice of rank and scale.
        queries : Items
            Queries to measure with.
        k : int
            Number of neighbours that vote.
        n_functions : int
            Bits per code.

        Yields
        ------
        dict
            ``search`` ("scan" or "orders"); ``form`` (a name in `core.hashing.forms`), ``rank``, ``scale``,
            ``epsilon`` and ``orders`` (number of orders built), all None for the scan; ``searched`` (mean
            share of the rows that were ranked by the kernel); ``accuracy`` (None if the class of a query is
            unknown or `has_classes` is false); ``first`` and ``within``, the values of k and n, ascending;
            ``covered``, the coverage for each k and n; ``seed``.

        Raises
        ------
        InputError
            If k is less than 1, or if kernelized LSH does not apply to the rows.
        """
        if k < 1:
            raise InputError(f"k must be at least 1, got {k}")
        choice = draw.chosen(centred=False, n_functions=n_functions)
        forms = {"original": choice.plain, "low rank, transformed": choice.transformed}
        hashers = [
            form.hasher(**draw.landmarks, n_functions=n_functions).fit(draw.sample) for form in forms.values()
        ]
        nearness = nearness_of(pool, hashers[0])
        first, within = sorted(set(self.first)), sorted({min(n, len(pool)) for n in self.within})
        n_found = max(k, first[-1])
        found = ExactSearch(nearness).neighbours_of_many(queries.X, max(within[-1], n_found))
        scanned = [one.ids for one in found]

        def row(ids: Sequence[Ids], **about: Any) -> dict[str, Any]:
            values = [covered(own, whole, first, within) for own, whole in zip(ids, scanned, strict=True)]
            return {
                **about,
                "accuracy": _accuracy(pool, [own[:k] for own in ids], queries.truth),
                "first": first,
                "within": within,
                "covered": np.mean(values, axis=0).tolist(),
                "seed": draw.seed,
            }

        nothing = dict.fromkeys(("form", "rank", "scale", "epsilon", "orders"))
        yield row(scanned, search="scan", **nothing, searched=1.0)
        codes = codes_of(hashers, pool.blocks(), len(pool))
        for (name, form), hasher, own in zip(forms.items(), hashers, codes, strict=True):
            for epsilon in sorted(set(self.epsilons)):
                orders = PermutedOrders.published(own, epsilon, n_bytes=MEGABYTES * 10**6, seed=draw.seed)
                search = HashedSimilarity(hasher, orders, nearness, n_compared=0, n_candidates=len(pool))
                each = search_each(search, queries.first(len(queries)), [ids[:n_found] for ids in scanned])
                yield row(
                    [one.ids for one in each.neighbours],
                    search="orders",
                    form=name,
                    rank=form.rank,
                    scale=form.scale,
                    epsilon=epsilon,
                    orders=len(orders.functions_),
                    searched=each.searched,
                )


def covered(found: Ids, scanned: Ids, first: Sequence[int], within: Sequence[int]) -> NDArray[np.float64]:
    """For each k and n, return the share of the first k found items that are among the first n scanned items.

    Parameters
    ----------
    found, scanned : arrays of shape (n_found,) and (n_scanned,), int64
        Ids found by the search and by the scan, the nearest first.
    first, within : sequence of int
        Values of k and of n. No n is larger than `n_scanned`.

    Returns
    -------
    array of shape (n_first, n_within), float64
        If the search found fewer than k items, the missing items count as not covered.
    """
    same = found[:, None] == scanned
    hits = np.array([same[:k].any(axis=0) for k in first]).cumsum(axis=1)
    return np.asarray(hits[:, np.asarray(within) - 1] / np.asarray(first)[:, None])


def has_classes(pool: Pool) -> bool:
    """Return whether the classes of at least one item and at least one held-out item are known."""
    return bool((pool.truth(pool.ids) >= 0).any() and (pool.held_out.truth >= 0).any())


def _accuracy(pool: Pool, ids: Sequence[Ids], truth: NDArray[np.integer]) -> float | None:
    if (truth < 0).any() or not has_classes(pool):
        return None
    return float(np.mean([voted(pool.truth(own)) for own in ids] == truth))
