"""k-nn accuracy by a learned and by the original metric, of a scan and of hashing: after Kulis et al. 2009.

A held-out item is taken to be of the class that most of its k nearest pool items have, among equal numbers
the nearest one's. The metric is learned from the classes of a few of the pool's items [1]_, and hashed search
is held against the scan of all rows by the same metric: how accurate it is, and which share it searches.

**Choosing how it is learned.** On queries of their own, of which none is used to measure: how much slack the
constraints have, and how many there are of them, more than the 20 c² of the paper included. Many constraints
that must be met closely bend the metric to the few labels: on CIFAR-10's photographs with 5,000 labels γ = 1
has 54 to 56 of 100 right, no learning 59.6, and γ = 0.01 or 0.1 60 to 60.5.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009, section 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.hashing import MetricLSH, RandomHyperplaneLSH, SimilarityHasher
from core.metric import ITML, Constraints, ExplicitMetric, Metric
from core.metric.metrics import gram
from core.pool import Pool
from core.rows import Rows, cut
from core.similar import ExactSearch, HashedSimilarity, Neighbours

Classes = NDArray[np.int64]

GAMMAS = (0.001, 0.01, 0.1, 1.0)
PAIRS = (2_000, 10_000)
"""What is tried, what bends the metric least first: of equally accurate ones it is chosen."""

_QUERIES_AT_ONCE = 500


class Labeled(NamedTuple):
    """Items with their classes: features of shape (n, n_features), and `y` of shape (n,), int64."""

    X: Rows
    y: Classes


@dataclass(frozen=True)
class Setting:
    """How a metric is learned.

    Parameters
    ----------
    gamma : float
        See `core.metric.ITML`.
    n_pairs : int
        See `core.metric.Constraints.from_labels`.
    """

    gamma: float
    n_pairs: int

    def learned(self, examples: Labeled, *, seed: int = 0) -> Metric:
        """The metric that the classes of these examples teach."""
        constraints = Constraints.from_labels(examples.X, examples.y, n_pairs=self.n_pairs, random_state=seed)
        return ITML(gamma=self.gamma, random_state=seed).fit(examples.X, constraints).metric_


SETTINGS = tuple(Setting(gamma, n_pairs) for gamma in GAMMAS for n_pairs in PAIRS)


def labeled_queries(pool: Pool, n_queries: int, n_choosing: int, *, seed: int = 0) -> tuple[Labeled, Labeled]:
    """Held-out items of known class, drawn at random: to measure with, and others to choose by.

    Raises
    ------
    InputError
        If the pool holds out fewer.
    """
    held_out = pool.held_out
    truth = pool.truth(held_out.ids).astype(np.int64)
    known, needed = np.flatnonzero(truth >= 0), n_queries + n_choosing
    if len(known) < needed:
        raise InputError(
            f"{needed:,} held-out items of known class are needed as queries, {n_queries:,} to measure and "
            f"{n_choosing:,} to choose by, and the pool {pool.path} holds out {len(known):,}"
        )
    drawn = np.random.default_rng([seed, 3]).permutation(known)[:needed]
    measuring, choosing = (np.sort(part) for part in (drawn[:n_queries], drawn[n_queries:]))
    return (
        Labeled(held_out.X[measuring], truth[measuring]),
        Labeled(held_out.X[choosing], truth[choosing]),
    )


def drawn_examples(pool: Pool, n: int, *, seed: int = 0) -> Labeled:
    """`n` items of the pool whose class is known, or all such items, drawn at random."""
    truth = pool.truth(pool.ids).astype(np.int64)
    known = np.flatnonzero(truth >= 0)
    rows = np.sort(np.random.default_rng([seed, 4]).permutation(known)[:n])
    return Labeled(pool.rows(rows), truth[rows])


def voted(classes: Classes) -> int:
    """The class that most neighbours have, nearest first; among equal numbers the nearest one's; −1 of none.

    Parameters
    ----------
    classes : array of shape (k,), int64
        Negative where unknown, which is no vote.
    """
    votes = classes[classes >= 0]
    if not len(votes):
        return -1
    return int(votes[(votes[:, None] == votes).sum(axis=1).argmax()])


def accuracy(pool: Pool, found: Sequence[Neighbours], y: Classes) -> float:
    """The share of queries that their neighbours' votes class rightly."""
    guessed = [voted(pool.truth(one.ids).astype(np.int64)) for one in found]
    return float(np.mean(np.array(guessed) == y))


def accuracy_among(metric: Metric | None, rows: Labeled, queries: Labeled, k: int) -> float:
    """The same by a scan of some rows, in memory; without a metric by Euclidean distance."""
    if metric is None:
        metric = ExplicitMetric(np.eye(rows.X.shape[1]))
    squares, right = metric.squared_norms(rows.X), 0
    for first in range(0, len(queries.y), _QUERIES_AT_ONCE):
        Q, y = (cut(part, first, first + _QUERIES_AT_ONCE) for part in queries)
        for far, true in zip(squares - 2 * gram(metric.directions(Q), rows.X), y, strict=True):
            near = np.argpartition(far, min(k, len(far)) - 1)[:k]
            right += voted(rows.y[near[np.argsort(far[near], kind="stable")]]) == true
    return float(right / len(queries.y))


def choose(
    examples: Labeled, rows: Labeled, queries: Labeled, k: int, settings: Sequence[Setting], *, seed: int = 0
) -> tuple[Setting, Metric, float]:
    """The setting whose metric is the most accurate for these queries, the first of equal ones; and how much.

    Parameters
    ----------
    examples : Labeled
        What metrics are learned from.
    rows : Labeled
        Among which the nearest are looked for.
    queries : Labeled
        Held out, and not to be measured with.
    k : int
        How many neighbours vote.
    settings : sequence of Setting
        At least one.
    seed : int
        Draws the constraints.

    Raises
    ------
    InputError
        If there is no setting; and as `core.metric.Constraints.from_labels`.
    """
    if not settings:
        raise InputError("a metric is chosen from settings: at least one must be given, got none")
    tried = []
    for setting in settings:
        metric = setting.learned(examples, seed=seed)
        tried.append((setting, metric, accuracy_among(metric, rows, queries, k)))
    return max(tried, key=lambda one: one[2])


def compare_metrics(
    pool: Pool,
    queries: Labeled,
    choosing: Labeled,
    *,
    k: int = 10,
    n_labels: int = 2_000,
    shares: Sequence[float] = (0.02, 0.05),
    settings: Sequence[Setting] = SETTINGS,
    n_sample: int = 50_000,
    n_functions: int = 256,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """The paper's four ways, for one draw of labels and vectors: either metric, by scan and by hashing.

    Hashed search goes through bucket tables, and ranks all items of the buckets that it reads by the metric.

    Parameters
    ----------
    pool : Pool
        Its rows are searched.
    queries, choosing : Labeled
        See `labeled_queries`.
    k : int
        How many neighbours vote.
    n_labels : int
        Items of the pool whose classes the metric is learned from.
    shares : sequence of float
        Of the rows, so many are searched by hashing, 0 … 1, but no fewer than ten a neighbour.
    settings : sequence of Setting
        What is tried on `choosing`.
    n_sample : int
        So many rows of the pool it is tried on, and the hash families are fitted to; all, if there are fewer.
    n_functions : int
        Bits a code.
    seed : int
        Draws labels, constraints, sample and vectors.

    Returns
    -------
    list of dict
        For each metric a row of the scan, and one of each share: ``metric``, ``search``, ``share`` (what was
        asked for), ``searched`` (the mean share of the rows that were compared in full), ``accuracy``,
        ``gamma``, ``n_pairs`` and ``accuracy_when_chosen``, None of the original metric, and ``seed``.

    Raises
    ------
    InputError
        If a share is not from 0 to 1, k is less than 1, or as `choose`.
    """
    if k < 1 or not all(0 < share <= 1 for share in shares):
        raise InputError(
            f"k must be at least 1 and shares above 0 and at most 1, got {k} and "
            f"{', '.join(f'{share:g}' for share in shares)}"
        )
    sample = drawn_examples(pool, n_sample, seed=seed)
    examples = drawn_examples(pool, n_labels, seed=seed + 1)
    setting, metric, when_chosen = choose(examples, sample, choosing, k, settings, seed=seed)
    params: dict[str, Any] = {"n_functions": n_functions, "random_state": seed}
    families: dict[str, SimilarityHasher] = {
        "original": RandomHyperplaneLSH(**params),
        "learned": MetricLSH(metric=metric, **params),
    }
    rows = []
    for name, family in families.items():
        how: dict[str, Any] = {"gamma": None, "n_pairs": None, "accuracy_when_chosen": None}
        if name == "learned":
            how = {"gamma": setting.gamma, "n_pairs": setting.n_pairs, "accuracy_when_chosen": when_chosen}
        hashed = HashedSimilarity.built(pool, family.fit(sample.X), structure="tables", random_state=seed)
        found = {("scan", 1.0): ExactSearch(hashed.nearness).neighbours_of_many(queries.X, k)}
        for share in shares:
            n = round(share * len(pool))
            search = HashedSimilarity(
                family, hashed.structure, hashed.nearness, n_compared=n, n_candidates=max(n, 1)
            )
            found["tables", share] = [
                search.neighbours(cut(queries.X, i, i + 1), k) for i in range(len(queries.y))
            ]
        rows += [
            {
                "metric": name,
                "search": word,
                "share": share,
                "searched": float(np.mean([one.searched for one in neighbours])),
                "accuracy": accuracy(pool, neighbours, queries.y),
                **how,
                "seed": seed,
            }
            for (word, share), neighbours in found.items()
        ]
    return rows
