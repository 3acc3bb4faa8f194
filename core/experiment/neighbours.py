"""k-nn accuracy by a learned and by the original metric, of a scan and of hashing: after Kulis et al. 2009.

A held-out item is taken to be of the class that most of its k nearest pool items have, among equal numbers
the nearest one's. The metric is learned from the classes of a few of the pool's items [1]_, and hashed search
is held against the scan of all rows by the same metric: how accurate it is, and which share it searches.

**Choosing how it is learned.** On queries of their own, of which none is used to measure: how much slack the
constraints have, and how many there are of them, more than the 20 c² of the paper included. Many constraints
that must be met closely bend the metric to the few labels: on CIFAR-10's photographs with 5,000 labels γ = 1
has 54 to 56 of 100 right, no learning 59.6, and γ = 0.01 or 0.1 60 to 60.5. Texts are the other way about:
nearly all pairs are nearly at right angles, so that a percentile of their distances asks for next to nothing,
and bounds by which similar pairs really come near are tried, too.

**Sets.** A pool of sparse rows is also searched as one of sets, by Min-Hash, and of weighted sets, each held
against the scan by its own overlap. Its codes have as many bits as the others', of fewer functions.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.similarity import timed
from closecall.core.hashing import MetricLSH, MinHash, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.metric import ITML, Constraints, ExplicitMetric, Metric
from closecall.core.metric.metrics import gram
from closecall.core.numerics.rows import Rows, cut, is_sparse
from closecall.core.pool.pool import Pool
from closecall.core.similar import ExactSearch, HashedSimilarity, Neighbours
from closecall.core.similar.index import StructureName

Classes = NDArray[np.int64]

GAMMAS = (0.001, 0.01, 0.1, 1.0)
PAIRS = (2_000, 10_000)
"""What is tried, what bends the metric least first: of equally accurate ones it is chosen."""

UPPERS = (None, 1.0, 0.5)
"""Of sparse rows, see `Setting`; two rows of unit norm without a common feature are at 2."""

_QUERIES_AT_ONCE = 500

_TIMED = 25
"""So many queries are put to a scan one by one."""


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
    upper : float or None
        Within which squared distance similar pairs are to come; None: the percentile, as usual.
    """

    gamma: float
    n_pairs: int
    upper: float | None = None

    def learned(self, examples: Labeled, *, seed: int = 0) -> Metric:
        """The metric that the classes of these examples teach."""
        constraints = Constraints.from_labels(examples.X, examples.y, n_pairs=self.n_pairs, random_state=seed)
        if self.upper is not None:
            constraints = replace(constraints, upper=self.upper)
        return ITML(gamma=self.gamma, random_state=seed).fit(examples.X, constraints).metric_


SETTINGS = tuple(Setting(gamma, n_pairs) for gamma in GAMMAS for n_pairs in PAIRS)

SPARSE_SETTINGS = tuple(Setting(gamma, 4_000, upper) for upper in UPPERS for gamma in (1.0, 10.0))


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
        sparse = is_sparse(rows.X)
        inner = metric.inner(Q, rows.X) if sparse else gram(metric.directions(Q), rows.X)
        for far, true in zip(squares - 2 * inner, y, strict=True):
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
    settings: Sequence[Setting] | None = None,
    structures: Sequence[StructureName] = ("tables",),
    n_sample: int = 50_000,
    n_functions: int = 256,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """The paper's four ways, for one draw of labels and vectors: either metric, by scan and by hashing.

    Hashed search goes through a structure, and ranks all items that it gives by the metric. Of sparse rows
    there are two metrics more, the overlaps of sets and of weighted sets.

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
    settings : sequence of Setting, optional
        What is tried on `choosing`; left out, `SETTINGS`, or `SPARSE_SETTINGS`.
    structures : sequence of str
        Names of `core.search.SIMILARITY_STRUCTURES`.
    n_sample : int
        So many rows of the pool it is tried on, and the hash families are fitted to; all, if there are fewer.
    n_functions : int
        Bits a code.
    seed : int
        Draws labels, constraints, sample and vectors.

    Returns
    -------
    list of dict
        For each metric a row of the scan, and one of each structure and share: ``metric``, ``search``
        ("scan", or the structure; "hamming" is the scan of codes), ``share`` (what was asked for),
        ``searched`` (the mean share of the rows that were compared in full), ``recall`` (the share of the k
        exact neighbours by this metric that were found), ``accuracy``, ``seconds`` (processor time, the
        median of a query), ``bytes`` (an item, of the features or of codes and structure), ``gamma``,
        ``n_pairs``, ``upper`` and ``accuracy_when_chosen``, None but of the learned metric, and ``seed``.

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
    if settings is None:
        settings = SPARSE_SETTINGS if pool.is_sparse else SETTINGS
    sample = drawn_examples(pool, n_sample, seed=seed)
    examples = drawn_examples(pool, n_labels, seed=seed + 1)
    setting, metric, when_chosen = choose(examples, sample, choosing, k, settings, seed=seed)
    params: dict[str, Any] = {"n_functions": n_functions, "random_state": seed}
    families: dict[str, SimilarityHasher] = {
        "original": RandomHyperplaneLSH(**params),
        "learned": MetricLSH(metric=metric, **params),
    }
    if pool.is_sparse:
        params["n_functions"] = max(1, n_functions // MinHash().bits)
        families |= {"overlap": MinHash(**params), "weighted overlap": MinHash(weighted=True, **params)}
    rows = []
    for name, family in families.items():
        how: dict[str, Any] = dict.fromkeys(("gamma", "n_pairs", "upper", "accuracy_when_chosen"))
        if name == "learned":
            how = {**asdict(setting), "accuracy_when_chosen": when_chosen}
        for found in _searched(pool, family.fit(sample.X), queries.X, k, shares, structures, seed):
            right = accuracy(pool, found.neighbours, queries.y)
            rows.append({"metric": name, **found.told, "accuracy": right, **how, "seed": seed})
    return rows


class _Found(NamedTuple):
    neighbours: list[Neighbours]
    told: dict[str, Any]


def _searched(
    pool: Pool,
    family: SimilarityHasher,
    queries: Rows,
    k: int,
    shares: Sequence[float],
    structures: Sequence[StructureName],
    seed: int,
) -> Iterator[_Found]:
    """What a scan finds, and then hashing by each structure for each share; and at what cost."""
    one_by_one = [cut(queries, i, i + 1) for i in range(queries.shape[0])]
    exact: ExactSearch | None = None
    for structure in structures:
        hashed = HashedSimilarity.built(pool, family, structure=structure, random_state=seed)
        if exact is None:
            exact = ExactSearch(hashed.nearness)
            nearest = exact.neighbours_of_many(queries, k)
            taken = [timed(exact.neighbours, query, k)[1] for query in one_by_one[:_TIMED]]
            yield _Found(
                nearest,
                {
                    "search": "scan",
                    "share": 1.0,
                    "searched": 1.0,
                    "recall": 1.0,
                    "seconds": float(np.median(taken)),
                    "bytes": _bytes_a_row(pool),
                },
            )
        for share in shares:
            n = round(share * len(pool))
            search = HashedSimilarity(
                family, hashed.structure, hashed.nearness, n_compared=n, n_candidates=max(n, 1)
            )
            search.neighbours(one_by_one[0], k)  # the first one loads compiled code
            found, seconds = zip(*(timed(search.neighbours, query, k) for query in one_by_one), strict=True)
            hits = [np.isin(one.ids, own.ids).mean() for one, own in zip(nearest, found, strict=True)]
            yield _Found(
                list(found),
                {
                    "search": "hamming" if structure == "scan" else structure,
                    "share": share,
                    "searched": float(np.mean([one.searched for one in found])),
                    "recall": float(np.mean(hits)),
                    "seconds": float(np.median(seconds)),
                    "bytes": search.bytes_an_item,
                },
            )


def _bytes_a_row(pool: Pool) -> float:
    """What a row's features take in memory, on average."""
    if not pool.is_sparse:
        return float(pool.n_features * np.dtype(pool.dtype).itemsize)
    total = sum(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes for _, X in pool.blocks())
    return float(total / len(pool))
