"""A metric from answers yes and no: what one looks for is to be near, what one doesn't far from it.

Items answered yes are to be near each other, and far from those answered no; of two that were answered no
nothing is known: they are whatever else there is. So the pairs are (yes, yes) and (yes, no), drawn alike from
all of them, and information-theoretic metric learning (`core.metric`) does the rest.
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
"""So many yes answers, and as many no answers, does a metric need."""

PAIRS = 1000
"""Half of them similar, half dissimilar, as far as there are so many."""

GAMMA = 1.0

MAX_PASSES = 200

SEED = 0

_ROWS_AT_ONCE = 8192

GoOn = Callable[[], None]


class Answers(Protocol):
    """What is known: `items` int64 ascending and `yes` bool, both of shape (n_answers,)."""

    @property
    def items(self) -> NDArray[np.int64]:
        """Their ids."""

    @property
    def yes(self) -> NDArray[np.bool_]:
        """Which of them were answered yes."""


class AnswersMetric:
    """A metric, with the norms of the rows of a pool under it.

    Parameters
    ----------
    metric : core.metric.Metric
    pool : Pool
        Whose rows it knows the norms of.
    row_norms : array of shape (n_rows,), float32
        ‖Gx‖ of each.
    """

    def __init__(self, metric: Metric, pool: Pool, row_norms: NDArray[np.float32]) -> None:
        self.metric = metric
        self.pool = pool
        self.row_norms = row_norms
        self.nearness = ByAngle(pool, metric, norms=row_norms)
        self.exact = ExactSearch(self.nearness)

    @property
    def n_items(self) -> int:
        """How many rows of the pool it knows the norms of."""
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
    """Learn a metric from answers, and the norms of the pool's rows under it.

    Parameters
    ----------
    pool : Pool
        Whose items the answers are about.
    answers : Answers
        `LEAST` of each kind, or more.
    n_pairs : int
        See `pairs_of`.
    gamma, max_passes
        See `core.metric.ITML`.
    seed : int
        Draws the pairs, and in which order they are met.
    go_on : callable
        Called now and then; what it raises ends the learning.

    Raises
    ------
    InputError
        If the answers contradict each other so that no metric meets them.
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
    """Pairs of answers that should be near and that should be far, each of shape (≤ n_pairs / 2, 2)."""
    rng = np.random.default_rng(seed)
    yes, no = np.flatnonzero(answers.yes), np.flatnonzero(~answers.yes)
    half = n_pairs // 2
    return _drawn(yes, yes, half, rng), _drawn(yes, no, half, rng)


def _drawn(
    first: NDArray[np.int64], second: NDArray[np.int64], n: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """`n` different pairs of one of each, or all there are; of the same ones each pair once."""
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
    """Raise InputError where items with the same features were answered yes and no: no metric parts them."""
    first: dict[bytes, int] = {}
    for place, is_yes in enumerate(answers.yes):
        other = first.setdefault(as_bytes(cut(X, place, place + 1)), place)
        if answers.yes[other] != is_yes:
            one, two = answers.items[[other, place]].tolist()
            raise InputError(
                f"Items {one} and {two} have the same features, but one was answered yes and the other no: "
                f"no metric tells them apart; correct one of them in Review"
            )
