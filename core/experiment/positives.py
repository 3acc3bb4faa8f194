"""The number of labels needed to find positives of a rare class, with a simulated annotator."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.simulation import FIRST_NO, FIRST_YES
from closecall.core.learning.round import Labels, learn
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Request
from closecall.core.simulation.drawing import ItemsByClass
from closecall.core.simulation.oracle import Oracle

Progress = Callable[[int, int], None]
"""Callback for progress: takes the number of finished searches and the total number of searches.

Exceptions of the callback are propagated.
"""


@dataclass(frozen=True, eq=False)
class Search:
    """Result of one search for positives.

    Parameters
    ----------
    positive : int
        The class that was searched for.
    found_at : array of shape (n_found,), int64, ascending
        Entry i is the number of answers until i + 1 positive items were found. The answers for a batch of
        items are counted one by one, in the order of the items.
    n_answers : int
        Number of answers.
    n_items, n_positive : int
        Number of items that could be selected at the beginning, and number of positives among them.
    """

    positive: int
    found_at: NDArray[np.int64]
    n_answers: int
    n_items: int
    n_positive: int

    def labels_needed(self, wanted: int) -> float:
        """Return the number of answers it takes to find `wanted` positives.

        If the search ended with fewer positives, the annotator is assumed to continue with random items. If k
        of the n remaining items are positive, each positive takes (n + 1) / (k + 1) answers on average.
        """
        missing = wanted - len(self.found_at)
        if missing <= 0:
            return float(self.found_at[wanted - 1])
        n_left, k_left = self.n_items - self.n_answers, self.n_positive - len(self.found_at)
        return self.n_answers + missing * (n_left + 1) / (k_left + 1)

    def labels_needed_at_random(self, wanted: int) -> float:
        """Return the expected number of answers to find `wanted` positives if items are drawn at random."""
        return wanted * (self.n_items + 1) / (self.n_positive + 1)

    def found_after(self, n_answers: int) -> int:
        """Return the number of positives among the first `n_answers` answers."""
        return int(np.searchsorted(self.found_at, n_answers, side="right"))


def classes_to_search(pool: Pool, n: int, wanted: int, most_share: float, *, seed: int = 0) -> list[int]:
    """Draw `n` classes in random order. No class is drawn again before all the others have been drawn.

    Parameters
    ----------
    pool : Pool
        The class of every item must be known.
    n : int
        Number of classes to draw.
    wanted : int
        Minimum number of items in a class, in addition to the positive item that a search begins with.
    most_share : float, 0 … 1
        Maximum share of the pool that a class may have.
    seed : int
        Seed of the order.

    Raises
    ------
    InputError
        If an item's class is unknown, or no class qualifies.
    """
    items = ItemsByClass(pool, wanted + FIRST_YES)
    if len(items) < len(pool):
        raise InputError(
            f"the class of {len(pool) - len(items)} items of the pool {pool.path} is unknown: "
            f"the simulated annotator can't answer for them"
        )
    sizes = np.bincount(pool.truth(pool.ids), minlength=len(pool.classes))
    rare = [c for c in items.classes.tolist() if sizes[c] <= most_share * len(pool)]
    if not rare:
        raise InputError(
            f"no class of the pool {pool.path} with {wanted + FIRST_YES} items or more makes up at most "
            f"{100 * most_share:g} % of it"
        )
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(rare) for _ in range(-(-n // len(rare)))]
    return [int(positive) for order in orders for positive in order][:n]


@dataclass(frozen=True, eq=False)
class Turn:
    """State of a search before its next items are chosen.

    Parameters
    ----------
    number : int
        Number of the search, from 0.
    labels : Labels
        All answers and the initial labels; only the initial labels if the `Way` does not learn.
    answered : array of shape (n_answered,), int64, ascending
        Ids of all answered items.
    most : int
        Number of answers that may still be given.
    seed : int
        Seed of all random choices in this turn.
    """

    number: int
    labels: Labels
    answered: NDArray[np.int64]
    most: int
    seed: int


class Way(ABC):
    """A method to choose the items that the annotator answers in a search, round by round."""

    learns: bool
    """Whether the choice depends on the answers."""

    @abstractmethod
    def choose(self, turns: Sequence[Turn]) -> list[NDArray[np.int64]]:
        """Return the ids of the next items of each search, in the order in which they will be answered.

        If all items of the pool have been answered, no ids are returned.
        """


class ByStrategy(Way):
    """Choice of items by a query strategy, for an SVM with the default parameters of new projects.

    Parameters
    ----------
    strategy : QueryStrategy
        Fitted to the pool.
    batch : int
        Number of items to select for each hyperplane.
    """

    def __init__(self, strategy: QueryStrategy, batch: int = 1) -> None:
        self.learns = strategy.needs_hyperplane
        self._strategy = strategy
        self._batch = batch

    def choose(self, turns: Sequence[Turn]) -> list[NDArray[np.int64]]:
        """See `Way.choose`."""
        requests = [
            Request(
                learn(turn.labels).hyperplane if self.learns else None,
                min(self._batch, turn.most),
                exclude=turn.answered,
                seed=turn.seed,
                labels=turn.labels.items,
            )
            for turn in turns
        ]
        selections = self._strategy.select_many(requests)
        return [np.empty(0, dtype=np.int64) if one is None else one.ids for one in selections]


def search_positives(
    pool: Pool,
    way: Way,
    positives: Sequence[int],
    *,
    wanted: int = 50,
    most: int = 3_000,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Search]:
    """Search for the positives of several classes, all searches side by side.

    A search begins with the labels of one item of the class and of five other items, drawn at random. These
    labels do not count as answers. In each round, items are chosen based on all answers so far, and the
    annotator answers them correctly. A search ends when `wanted` positives are found, or after `most`
    answers. If `way` does not learn, the number of answers is not limited.

    Parameters
    ----------
    pool : Pool
        The pool to search.
    way : Way
        How items are chosen: `ByStrategy`, or `core.experiment.similar.FindSimilar`.
    positives : sequence of int
        The positive class of each search; see `classes_to_search`.
    wanted, most : int
        Number of positives, and number of answers, after which a search ends.
    seed : int
        Seed of all random choices; not negative. The initial items are the same for every `way`.
    progress : callable or None
        See `Progress`.

    Raises
    ------
    InputError
        If a search would need more items than the pool has, or fewer than two classes have items.
    """
    items = ItemsByClass(pool)
    running = [
        _Running(pool, items, positive, number, way.learns, seed) for number, positive in enumerate(positives)
    ]
    limit = most if way.learns else len(pool)

    def unfinished(searches: Sequence[_Running]) -> list[_Running]:
        return [one for one in searches if len(one.found_at) < wanted and one.n_answers < limit]

    going = unfinished(running)
    while going:
        for one, ids in zip(going, way.choose([one.turn(limit) for one in going]), strict=True):
            if not len(ids):
                raise InputError(f"the pool {pool.path} has fewer items than the search needs")
            one.answer(ids)
        going = unfinished(going)
        if progress:
            progress(len(running) - len(going), len(running))
    return [one.search() for one in running]


class _Running:
    """A running search."""

    def __init__(
        self, pool: Pool, items: ItemsByClass, positive: int, number: int, learns: bool, seed: int
    ) -> None:
        self._pool = pool
        self._number = number
        self._learns = learns
        self._oracle = Oracle(pool.truth, positive)
        self._rng = np.random.default_rng([seed, number])
        yes = items.of(self._rng, positive, FIRST_YES)
        no = items.others(self._rng, positive, FIRST_NO)
        self._first = np.append(yes, no)
        self._labels = Labels.of(pool, self._first, [True] * FIRST_YES + [False] * FIRST_NO)
        self._n_positive = int(np.count_nonzero(pool.truth(pool.ids) == positive)) - FIRST_YES
        self._answered = np.sort(self._first)
        self.found_at: list[int] = []
        self.n_answers = 0

    def turn(self, limit: int) -> Turn:
        seed = int(self._rng.integers(2**63))
        return Turn(self._number, self._labels, self._answered, limit - self.n_answers, seed)

    def answer(self, ids: NDArray[np.int64]) -> None:
        yes = self._oracle(ids)
        self.found_at += (self.n_answers + 1 + np.flatnonzero(yes)).tolist()
        self.n_answers += len(ids)
        self._answered = np.union1d(self._answered, ids)
        if self._learns:
            self._labels += Labels.of(self._pool, ids, yes)

    def search(self) -> Search:
        found_at = np.array(self.found_at, dtype=np.int64)
        n_items = len(self._pool) - len(self._first)
        return Search(self._oracle.positive, found_at, self.n_answers, n_items, self._n_positive)
