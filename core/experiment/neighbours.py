"""Accuracy of k-nn classification by the original and a learned metric, with a scan and with hashing [1]_.

A held-out item is assigned the most frequent class among its k nearest pool items. In a tie, the class of the
nearest item among the tied classes wins. The metric is learned from the classes of a few items of the pool.
Hashed search is compared with a scan of all rows by the same metric. The results are the accuracy, and the
share of the rows for which the exact distance from the query is computed.

**Choosing how to learn.** The slack parameter γ and the number of constraints are chosen on validation
queries, which are used for nothing else. Davis et al. 2007 use 20 c² constraints for c classes. A larger γ
enforces the constraints more strictly, and many strict constraints overfit the few labels. On CIFAR-10 with
5,000 labels, the accuracy is 59.6 % without learning, 54 to 56 % with γ = 1, and 60 to 60.5 % with γ = 0.01
or γ = 0.1. Texts have the opposite problem. Nearly all pairs of texts are nearly orthogonal, so constraints
at percentiles of their distances hardly change the metric. For sparse rows, smaller maximum distances of
similar pairs are therefore tried as well.

**Sets.** Sparse rows are also searched by Min-Hash, as sets and as weighted sets. Each search is compared
with a scan by the same measure of overlap. Min-Hash codes have as many bits as other codes but fewer
functions, because each function has several bits.

References
----------
.. [1] B. Kulis, P. Jain, K. Grauman, "Fast similarity search for learned metrics", PAMI 2009, section 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.queries import Items
from closecall.core.experiment.searching import search_each, timed
from closecall.core.hashing import MetricLSH, MinHash, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.metric import ITML, Constraints, ExplicitMetric, Metric
from closecall.core.metric.metrics import gram
from closecall.core.numerics.rows import cut, is_sparse
from closecall.core.pool.pool import Pool
from closecall.core.similar import ExactSearch, HashedSimilarity, Neighbours
from closecall.core.similar.index import StructureName

Classes = NDArray[np.integer]

GAMMAS = (0.001, 0.01, 0.1, 1.0)
PAIRS = (2_000, 10_000)
"""Values of `Setting.gamma` and `Setting.n_pairs` to try, in increasing order of their effect on the metric.

If several values are equally accurate, the first is chosen.
"""

UPPERS = (None, 1.0, 0.5)
"""Values of `Setting.upper` for sparse rows. Unit rows without a common feature have squared distance 2."""

_QUERIES_AT_ONCE = 500

_TIMED = 25
"""Number of queries used to time a scan, one by one."""


@dataclass(frozen=True)
class Setting:
    """Parameters for learning a metric.

    Parameters
    ----------
    gamma : float
        See `core.metric.ITML`.
    n_pairs : int
        See `core.metric.Constraints.from_labels`.
    upper : float or None
        Maximum squared distance of similar pairs; None for the percentile that `Constraints.from_labels`
        uses.
    """

    gamma: float
    n_pairs: int
    upper: float | None = None

    def learned(self, examples: Items, *, seed: int = 0) -> Metric:
        """Learn the metric from the classes of some examples."""
        constraints = Constraints.from_labels(
            examples.X, examples.truth, n_pairs=self.n_pairs, random_state=seed
        )
        if self.upper is not None:
            constraints = replace(constraints, upper=self.upper)
        return ITML(gamma=self.gamma, random_state=seed).fit(examples.X, constraints).metric_


SETTINGS = tuple(Setting(gamma, n_pairs) for gamma in GAMMAS for n_pairs in PAIRS)

SPARSE_SETTINGS = tuple(Setting(gamma, 4_000, upper) for upper in UPPERS for gamma in (1.0, 10.0))


def drawn_examples(pool: Pool, n: int, *, seed: int = 0) -> Items:
    """Draw `n` items of known class from the pool, or all such items if there are fewer."""
    truth = pool.truth(pool.ids)
    known = np.flatnonzero(truth >= 0)
    rows = np.sort(np.random.default_rng([seed, 4]).permutation(known)[:n])
    return Items(pool.rows(rows), truth[rows])


def voted(classes: Classes) -> int:
    """Return the most frequent class; −1 if no class is known.

    In a tie, the class of the nearest neighbour among the tied classes is returned.

    Parameters
    ----------
    classes : array of shape (k,), integer
        Classes of the neighbours, the nearest first. Neighbours of unknown class (negative) don't vote.
    """
    votes = classes[classes >= 0]
    if not len(votes):
        return -1
    return int(votes[(votes[:, None] == votes).sum(axis=1).argmax()])


def accuracy(pool: Pool, found: Sequence[Neighbours], truth: Classes) -> float:
    """Return the share of queries whose neighbours vote for the right class."""
    guessed = [voted(pool.truth(one.ids)) for one in found]
    return float(np.mean(np.array(guessed) == truth))


def accuracy_among(metric: Metric | None, rows: Items, queries: Items, k: int) -> float:
    """Return the accuracy of k-nn classification with a scan of `rows`.

    Without a metric, the distance is Euclidean.
    """
    if metric is None:
        metric = ExplicitMetric(np.eye(rows.X.shape[1]))
    squares, right = metric.squared_norms(rows.X), 0
    for first in range(0, len(queries), _QUERIES_AT_ONCE):
        Q, truth = (cut(part, first, first + _QUERIES_AT_ONCE) for part in (queries.X, queries.truth))
        sparse = is_sparse(rows.X)
        inner = metric.inner(Q, rows.X) if sparse else gram(metric.directions(Q), rows.X)
        for far, true in zip(squares - 2 * inner, truth, strict=True):
            near = np.argpartition(far, min(k, len(far)) - 1)[:k]
            right += voted(rows.truth[near[np.argsort(far[near], kind="stable")]]) == true
    return float(right / len(queries))


def choose(
    examples: Items, rows: Items, queries: Items, k: int, settings: Sequence[Setting], *, seed: int = 0
) -> tuple[Setting, Metric, float]:
    """Choose the setting whose metric is the most accurate; in a tie, the first setting is chosen.

    Parameters
    ----------
    examples : Items
        Items to learn metrics from.
    rows : Items
        Items among which neighbours are searched.
    queries : Items
        Held-out items that are used for nothing else.
    k : int
        Number of neighbours that vote.
    settings : sequence of Setting
        At least one.
    seed : int
        Seed of the constraints.

    Returns
    -------
    setting : Setting
    metric : Metric
    accuracy : float

    Raises
    ------
    InputError
        If there is no setting; see also `core.metric.Constraints.from_labels`.
    """
    if not settings:
        raise InputError("a metric is chosen from settings: at least one must be given, got none")
    tried = []
    for setting in settings:
        metric = setting.learned(examples, seed=seed)
        tried.append((setting, metric, accuracy_among(metric, rows, queries, k)))
    return max(tried, key=lambda one: one[2])


@dataclass(frozen=True, eq=False)
class Taught:
    """A metric learned from one draw of labels, with the setting that is best on the validation queries.

    Parameters
    ----------
    sample : Items
        Rows that settings are tried on and hash families are fitted to.
    setting : Setting
    metric : Metric
    when_chosen : float
        Accuracy on the validation queries.
    """

    sample: Items
    setting: Setting
    metric: Metric
    when_chosen: float

    @classmethod
    def of(
        cls,
        pool: Pool,
        choosing: Items,
        *,
        k: int,
        n_labels: int,
        settings: Sequence[Setting] | None = None,
        n_sample: int = 50_000,
        seed: int = 0,
    ) -> Self:
        """Draw labels and learn the metric; see `compare_metrics` for parameters and errors.

        With the same seed, a smaller set of labels is a subset of a larger set.
        """
        if settings is None:
            settings = SPARSE_SETTINGS if pool.is_sparse else SETTINGS
        sample = drawn_examples(pool, n_sample, seed=seed)
        examples = drawn_examples(pool, n_labels, seed=seed + 1)
        return cls(sample, *choose(examples, sample, choosing, k, settings, seed=seed))

    @property
    def told(self) -> dict[str, Any]:
        """The parameters of the setting, and the accuracy on the validation queries, by name."""
        return {**asdict(self.setting), "accuracy_when_chosen": self.when_chosen}


def compare_metrics(
    pool: Pool,
    queries: Items,
    choosing: Items,
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
    """Measure k-nn accuracy by each metric, with a scan and with hashing, for one random draw of labels.

    Hashed search finds candidates with a search structure and ranks all of them by the metric. For sparse
    rows, two more measures are compared with the metrics: the overlaps of sets and of weighted sets.

    Parameters
    ----------
    pool : Pool
        The pool to search.
    queries, choosing : Items
        Held-out items of known class: `queries` to measure accuracy, and `choosing` to choose the setting.
    k : int
        Number of neighbours that vote.
    n_labels : int
        Number of items of the pool whose classes the metric is learned from.
    shares : sequence of float
        Shares of the rows that hashed search ranks, 0 … 1. At least 10 · k rows are ranked.
    settings : sequence of Setting, optional
        Settings to try on `choosing`; by default `SETTINGS`, or `SPARSE_SETTINGS` for sparse rows.
    structures : sequence of str
        Names in `core.search.SIMILARITY_STRUCTURES`.
    n_sample : int
        Number of labeled rows that hash families are fitted to, and that are searched while settings are
        tried; all labeled rows, if there are fewer.
    n_functions : int
        Bits per code.
    seed : int
        Seed of labels, constraints, sample and hash functions.

    Returns
    -------
    list of dict
        For each metric, one dict for the scan and one for each pair of structure and share: ``metric``;
        ``search`` ("scan", or the structure; "hamming" is the scan of codes); ``share`` (as requested);
        ``searched`` (mean share of the rows that were ranked by the metric); ``recall`` (share of the k exact
        neighbours by this metric that were found); ``accuracy``; ``seconds`` (median processor time of a
        query); ``bytes`` (per item, of the features or of codes and structure); ``gamma``, ``n_pairs``,
        ``upper`` and ``accuracy_when_chosen`` (None except for the learned metric); ``seed``.

    Raises
    ------
    InputError
        If a share is not above 0 and at most 1, or if k is less than 1; see also `choose`.
    """
    if k < 1 or not all(0 < share <= 1 for share in shares):
        raise InputError(
            f"k must be at least 1 and shares above 0 and at most 1, got {k} and "
            f"{', '.join(f'{share:g}' for share in shares)}"
        )
    taught = Taught.of(
        pool, choosing, k=k, n_labels=n_labels, settings=settings, n_sample=n_sample, seed=seed
    )
    sample = taught.sample
    params: dict[str, Any] = {"n_functions": n_functions, "random_state": seed}
    families: dict[str, SimilarityHasher] = {
        "original": RandomHyperplaneLSH(**params),
        "learned": MetricLSH(metric=taught.metric, **params),
    }
    if pool.is_sparse:
        params["n_functions"] = max(1, n_functions // MinHash().bits)
        families |= {"overlap": MinHash(**params), "weighted overlap": MinHash(weighted=True, **params)}
    rows = []
    for name, family in families.items():
        how: dict[str, Any] = dict.fromkeys(("gamma", "n_pairs", "upper", "accuracy_when_chosen"))
        if name == "learned":
            how = taught.told
        for found in _searched(pool, family.fit(sample.X), queries, k, shares, structures, seed):
            right = accuracy(pool, found.neighbours, queries.truth)
            rows.append({"metric": name, **found.told, "accuracy": right, **how, "seed": seed})
    return rows


class _Found(NamedTuple):
    neighbours: list[Neighbours]
    told: dict[str, Any]


def _searched(
    pool: Pool,
    family: SimilarityHasher,
    queries: Items,
    k: int,
    shares: Sequence[float],
    structures: Sequence[StructureName],
    seed: int,
) -> Iterator[_Found]:
    """Yield results and cost of a scan, and then of a hashed search by each structure for each share."""
    one_by_one = queries.first(len(queries))
    nearest: list[Neighbours] = []
    for structure in structures:
        hashed = HashedSimilarity.built(pool, family, structure=structure, random_state=seed)
        if not nearest:
            exact = ExactSearch(hashed.nearness)
            nearest = exact.neighbours_of_many(queries.X, k)
            seconds = float(np.median([timed(exact.neighbours, one, k)[1] for one in one_by_one[:_TIMED]]))
            scan = {"search": "scan", "share": 1.0, "searched": 1.0, "recall": 1.0, "seconds": seconds}
            yield _Found(nearest, {**scan, "bytes": _bytes_a_row(pool)})
        for share in shares:
            n = round(share * len(pool))
            search = HashedSimilarity(
                family, hashed.structure, hashed.nearness, n_compared=n, n_candidates=max(n, 1)
            )
            found = search_each(search, one_by_one, [one.ids for one in nearest])
            yield _Found(
                found.neighbours,
                {
                    "search": "hamming" if structure == "scan" else structure,
                    "share": share,
                    "searched": found.searched,
                    "recall": found.recall,
                    "seconds": found.seconds,
                    "bytes": search.bytes_an_item,
                },
            )


def _bytes_a_row(pool: Pool) -> float:
    """Return the mean memory of the features of a row, in bytes."""
    if not pool.is_sparse:
        return float(pool.n_features * np.dtype(pool.dtype).itemsize)
    total = sum(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes for _, X in pool.blocks())
    return float(total / len(pool))
