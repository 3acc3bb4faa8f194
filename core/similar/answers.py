"""A metric learned from yes and no answers, under which positive items are near each other.

Items answered yes should be near each other, and far from those answered no. Nothing is known about two items
answered no: they may be anything else. The pairs are therefore (yes, yes) and (yes, no), drawn uniformly, and
information-theoretic metric learning (`core.metric`) learns from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.metric import ITML, Constraints, Metric
from closecall.core.numerics.rows import Rows, as_bytes, cut
from closecall.core.pool.pool import Pool
from closecall.core.similar.index import ExactSearch
from closecall.core.similar.nearness import ByAngle

LEAST = 5
"""Minimum number of yes answers, and of no answers, for learning a metric."""

PAIRS = 1000
"""Maximum number of pairs, half similar and half dissimilar if there are enough of both."""

GAMMA = 1.0

MAX_PASSES = 200

SEED = 0

_ROWS_AT_ONCE = 8192

GoOn = Callable[[], None]


class Answers(Protocol):
    """The known answers: `items`, int64 and ascending, and `yes`, bool, both of shape (n_answers,)."""

    @property
    def items(self) -> NDArray[np.int64]:
        """Item ids."""

    @property
    def yes(self) -> NDArray[np.bool_]:
        """Which items were answered yes."""


class AnswersMetric:
    """A metric, together with the norms of a pool's rows under it.

    Parameters
    ----------
    metric : core.metric.Metric
    pool : Pool
        The pool whose norms are known.
    row_norms : array of shape (n_rows,), float32
        ‖Gx‖ of each row.
    """

    def __init__(self, metric: Metric, pool: Pool, row_norms: NDArray[np.float32]) -> None:
        self.metric = metric
        self.pool = pool
        self.row_norms = row_norms
        self.nearness = ByAngle(pool, metric, norms=row_norms)
        self.exact = ExactSearch(self.nearness)

    @property
    def n_items(self) -> int:
        """Number of rows in the pool whose norms are known."""
        return len(self.pool)


def learn_from_answers(
    pool: Pool,
    answers: Answers,
    *,
    n_pairs: int = PAIRS,
    gamma: float = GAMMA,
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
        At least `LEAST` of each kind.
    n_pairs : int
        See `pairs_of`.
    gamma, max_passes
        See `core.metric.ITML`.
    seed : int
        Draws the pairs and the order in which the learning visits them.
    go_on : callable
        Called regularly. An exception that it raises stops the learning.

    Raises
    ------
    InputError
        If the answers contradict each other, so that no metric is consistent with them.
    """
    X = pool.rows_of(answers.items)
    near, far = pairs_of(answers, n_pairs, seed)
    check_contradictions(X, answers)
    constraints = Constraints.from_pairs(X, near, far, random_state=seed)
    metric = ITML(gamma=gamma, max_passes=max_passes, random_state=seed).fit(X, constraints).metric_
    go_on()
    norms = np.empty(len(pool), dtype=np.float32)
    for first, block in pool.blocks():
        for start in range(0, block.shape[0], _ROWS_AT_ONCE):
            go_on()
            rows = cut(block, start, start + _ROWS_AT_ONCE)
            norms[first + start : first + start + rows.shape[0]] = np.sqrt(metric.squared_norms(rows))
    return AnswersMetric(metric, pool, norms)


def pairs_of(answers: Answers, n_pairs: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Draw pairs of answers that should be near and pairs that should be far.

    Both arrays have the shape (≤ n_pairs / 2, 2).
    """
    rng = np.random.default_rng(seed)
    yes, no = np.flatnonzero(answers.yes), np.flatnonzero(~answers.yes)
    half = n_pairs // 2
    return _drawn(yes, yes, half, rng), _drawn(yes, no, half, rng)


def _drawn(
    first: NDArray[np.int64], second: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw n distinct pairs of one from each, or take all pairs if there are few.

    If both are the same array, each unordered pair occurs once.
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
    """Raise InputError if items with the same features were answered yes and no."""
    first: dict[bytes, int] = {}
    for place, is_yes in enumerate(answers.yes):
        other = first.setdefault(as_bytes(cut(X, place, place + 1)), place)
        if answers.yes[other] != is_yes:
            one, two = answers.items[[other, place]].tolist()
            raise InputError(
                f"Items {one} and {two} have the same features, but one was answered yes and the other no: "
                f"correct one of them in Review"
            )
