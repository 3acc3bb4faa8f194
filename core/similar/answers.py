"""A metric learned from yes and no answers, under which positive items are near each other.

Items answered "yes" should be near each other, and far from items answered "no". Two items answered "no" need
not be near each other. The metric is therefore learned from similar pairs (yes, yes) and dissimilar pairs
(yes, no), drawn uniformly, by information-theoretic metric learning (`core.metric`).

The cost γ of slack (`core.metric.itml`) is chosen by cross-validation over the answers. In each fold, a
metric is learned from the training answers and scored on the test answers (`core.metric.validation`). The
test items are ordered by their angle to the nearest training item answered yes, as on the page Find similar.
The score is the area under the ROC curve: the probability that a test item answered yes comes before a test
item answered no. A fold uses half as many pairs as the final metric. γ of a learned kernel
(`core.hashing.ksh_learned`) is chosen in the same way, by cosines under the kernel.

For a metric with 384 features, choosing γ takes 0.3 s for 100 answers, and 3 s for 1,000 answers or more.
This is about four times as long as learning a metric with γ = 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.evaluation.auroc import auroc
from closecall.core.hashing import LearnedKernelHash
from closecall.core.hashing.ksh_learned import kernel_alone
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.metric.validation import Places, Validated, choose_gamma
from closecall.core.numerics.rows import Rows, as_bytes, cut
from closecall.core.pool.pool import Pool
from closecall.core.similar.index import ExactSearch
from closecall.core.similar.nearness import ByAngle
from closecall.core.similar.queries import looked_for

LEAST = 5
"""Minimum number of yes answers, and of no answers, for learning a metric."""

PAIRS = 1000
"""Maximum number of pairs, half similar and half dissimilar if there are enough of both."""

MAX_PASSES = 200

SEED = 0

MOST_JUDGED = 1000
"""Maximum number of test answers on which a metric is scored. They are spread evenly over the fold."""

_ROWS_AT_ONCE = 8192

GoOn = Callable[[], None]

Learned = TypeVar("Learned")
"""Type of a learned metric or of a family with a learned kernel."""


class Answers(Protocol):
    """The known answers: `items` (int64, ascending) and `yes` (bool), both of shape (n_answers,)."""

    @property
    def items(self) -> NDArray[np.int64]:
        """Item ids."""

    @property
    def yes(self) -> NDArray[np.bool_]:
        """Whether each item was answered yes."""


class AnswersMetric:
    """A metric, together with the norms of a pool's rows under it.

    Parameters
    ----------
    metric : core.metric.Metric
        The learned metric.
    pool : Pool
        The pool.
    row_norms : array of shape (n_rows,), float32
        Norm ‖Gx‖ of each row x of the pool under the metric GᵀG.
    gamma : float
        The cost γ of slack with which the metric was learned.
    """

    def __init__(self, metric: Metric, pool: Pool, row_norms: NDArray[np.float32], gamma: float) -> None:
        self.gamma = gamma
        self.metric = metric
        self.pool = pool
        self.row_norms = row_norms
        self.nearness = ByAngle(pool, metric, norms=row_norms)
        self.exact = ExactSearch(self.nearness)

    @property
    def n_items(self) -> int:
        """Number of rows in the pool."""
        return len(self.pool)


def learn_from_answers(
    pool: Pool,
    answers: Answers,
    *,
    n_pairs: int = PAIRS,
    gamma: float | None = None,
    max_passes: int = MAX_PASSES,
    seed: int = SEED,
    go_on: GoOn = lambda: None,
) -> AnswersMetric:
    """Learn a metric from answers, and compute the norms of the pool's rows under it.

    Parameters
    ----------
    pool : Pool
        The pool that contains the answered items.
    answers : Answers
        At least `LEAST` yes answers, and at least `LEAST` no answers.
    n_pairs : int
        See `pairs_of`.
    gamma : float or None
        See `core.metric.ITML`. If it is None, `validated` chooses it by cross-validation.
    max_passes : int
        See `core.metric.ITML`.
    seed : int
        Seed of the pairs, and of the order in which the learning visits them.
    go_on : callable
        Called regularly. An exception that it raises stops the learning.

    Raises
    ------
    InputError
        If two items with the same features have different answers, or no metric can be learned.
    """
    X = pool.rows_of(answers.items)
    check_contradictions(X, answers)
    if gamma is None:
        gamma = validated(
            X, answers.yes, n_pairs=n_pairs, max_passes=max_passes, seed=seed, go_on=go_on
        ).gamma
    metric = _metric(X, answers.yes, n_pairs=n_pairs, gamma=gamma, max_passes=max_passes, seed=seed)
    go_on()
    norms = np.empty(len(pool), dtype=np.float32)
    for first, block in pool.blocks():
        for start in range(0, block.shape[0], _ROWS_AT_ONCE):
            go_on()
            rows = cut(block, start, start + _ROWS_AT_ONCE)
            norms[first + start : first + start + rows.shape[0]] = np.sqrt(metric.squared_norms(rows))
    return AnswersMetric(metric, pool, norms, gamma)


def validated(
    X: Rows,
    yes: NDArray[np.bool_],
    *,
    n_pairs: int = PAIRS,
    max_passes: int = MAX_PASSES,
    seed: int = SEED,
    go_on: GoOn = lambda: None,
) -> Validated:
    """Choose γ by cross-validation over answers.

    The docstring of this module describes how metrics are scored.

    Parameters
    ----------
    X : array or csr_array of shape (n_answers, n_features)
        Rows of the answered items.
    yes : array of shape (n_answers,), bool
        Whether each item was answered yes; at least `LEAST` entries of each value.
    n_pairs, max_passes, seed, go_on
        See `learn_from_answers`. In a fold, a metric is learned from n_pairs / 2 pairs.
    """

    def learn(train: Places, gamma: float) -> Metric:
        go_on()
        return _metric(
            X[train], yes[train], n_pairs=n_pairs // 2, gamma=gamma, max_passes=max_passes, seed=seed
        )

    def cosines(metric: Metric, queries: Rows, others: Rows) -> NDArray[np.floating]:
        norms = [np.sqrt(metric.squared_norms(rows)) for rows in (queries, others)]
        return np.asarray(metric.inner(queries, others) / norms[0][:, None] / norms[1])

    return _validated(X, yes, learn, cosines, seed)


def validated_kernel(X: Rows, yes: NDArray[np.bool_], *, seed: int = SEED, **params: Any) -> Validated:
    """Choose γ of a learned kernel by cross-validation over answers, in the same way as `validated`.

    In each fold, the kernel is learned by `core.hashing.ksh_learned.kernel_alone`.

    Parameters
    ----------
    X, yes
        See `validated`.
    seed : int
        Seed of the folds and of the family.
    **params
        Parameters of the family, among them `n_anchors`.
    """

    def learn(train: Places, gamma: float) -> LearnedKernelHash:
        return kernel_alone(len(train), gamma=gamma, seed=seed, **params).fit(X[train], yes[train])

    return _validated(X, yes, learn, LearnedKernelHash.between, seed)


def _validated(
    X: Rows,
    yes: NDArray[np.bool_],
    learn: Callable[[Places, float], Learned],
    cosines: Callable[[Learned, Rows, Rows], NDArray[np.floating]],
    seed: int,
) -> Validated:
    """Choose γ of a metric or kernel; `cosines` computes the cosines of two sets of rows under it."""

    def score(learned: Learned, train: Places, test: Places) -> float:
        queries = X[looked_for(train[yes[train]])]
        judged = test[np.linspace(0, len(test) - 1, min(len(test), MOST_JUDGED)).astype(np.int64)]
        found = auroc(cosines(learned, queries, X[judged]).max(axis=0), yes[judged])
        assert found is not None
        return found

    return choose_gamma(yes, learn, score, seed=seed)


def _metric(
    X: Rows, yes: NDArray[np.bool_], *, n_pairs: int, gamma: float, max_passes: int, seed: int
) -> Metric:
    """Learn a metric from rows of answered items."""
    near, far = pairs_of(yes, n_pairs, seed)
    constraints = Constraints.from_pairs(X, near, far, random_state=seed)
    return ITML(gamma=gamma, max_passes=max_passes, random_state=seed).fit(X, constraints).metric_


def pairs_of(
    is_yes: NDArray[np.bool_], n_pairs: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw pairs of items that should be near each other, and pairs that should be far apart.

    There are at most n_pairs / 2 pairs of each kind. A pair consists of two indices into `is_yes`.
    """
    rng = np.random.default_rng(seed)
    yes, no = np.flatnonzero(is_yes), np.flatnonzero(~is_yes)
    half = n_pairs // 2
    return _drawn(yes, yes, half, rng), _drawn(yes, no, half, rng)


def _drawn(
    first: NDArray[np.int64], second: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw n distinct pairs of an entry of `first` and an entry of `second`, or all pairs if there are fewer.

    If `first` and `second` are the same array, each pair has two different entries, whose order does not
    count.
    """
    alike = first is second
    total = len(first) * (len(first) - 1) // 2 if alike else len(first) * len(second)
    if total <= 4 * n:
        if alike:
            places = np.column_stack(np.triu_indices(len(first), 1))
        else:
            places = np.indices((len(first), len(second))).reshape(2, -1).T
    else:
        places = np.column_stack([rng.integers(0, len(first), 2 * n), rng.integers(0, len(second), 2 * n)])
        if alike:
            places = np.sort(places[places[:, 0] != places[:, 1]], axis=1)
        places = np.unique(places, axis=0)
    places = rng.permutation(places)[:n]
    return np.column_stack([first[places[:, 0]], second[places[:, 1]]])


def check_contradictions(X: Rows, answers: Answers) -> None:
    """Raise InputError if two items with the same features have different answers."""
    first: dict[bytes, int] = {}
    for place, is_yes in enumerate(answers.yes):
        other = first.setdefault(as_bytes(cut(X, place, place + 1)), place)
        if answers.yes[other] != is_yes:
            one, two = answers.items[[other, place]].tolist()
            raise InputError(
                f"Items {one} and {two} have the same features, but one was answered yes and the other no: "
                f"correct one of them in Review"
            )
