"""A random sample of a pool, with the correct answers, and a simulated annotator who labels the sample."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.audit import pass_over
from closecall.core.experiment.simulation import FIRST_NO, FIRST_YES
from closecall.core.learning.round import Labels, is_positive, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import ArrayPool, QueryStrategy, Selection, make_strategy
from closecall.core.simulation.drawing import ItemsByClass

Rows = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SampledConcept:
    """Items in memory, and the correct answer for each item.

    Parameters
    ----------
    pool : ArrayPool
        N items; the id of an item is its row number.
    y : array of shape (N,), bool
        Whether each item is positive.
    items : array of shape (N,), int64
        Ids of the items in the pool from which they were drawn.
    """

    pool: ArrayPool
    y: NDArray[np.bool_]
    items: Rows

    @classmethod
    def draw(
        cls,
        pool: Pool,
        items: ItemsByClass,
        positive: int,
        n_items: int,
        rng: np.random.Generator,
        *,
        prevalence: float | None = None,
    ) -> Self:
        """Draw `n_items` items of known class at random.

        Parameters
        ----------
        pool : Pool
            Pool to draw from.
        items : ItemsByClass
            Items of this pool.
        positive : int
            The positive class.
        n_items : int
            Number of items to draw; at most the number of items of known class.
        rng : numpy Generator
            Random generator for the draw.
        prevalence : float or None
            Share of positives among the drawn items; by default, items are drawn regardless of class.
        """
        if prevalence is None:
            ids = np.sort(items.any(rng, n_items))
        else:
            n_yes = max(round(prevalence * n_items), 1)
            yes = items.of(rng, positive, n_yes)
            ids = np.sort(np.concatenate([yes, items.others(rng, positive, n_items - n_yes)]))
        return cls(ArrayPool(pool.rows_of(ids)), is_positive(pool.truth(ids), positive), ids)


class Annotator:
    """A simulated annotator who repeatedly answers the items nearest to the hyperplane, without errors.

    One positive and five negative items, drawn at random, are labeled at the beginning.

    Parameters
    ----------
    concept : SampledConcept
        The concept to label.
    rng : numpy Generator
        Random generator for the initial labels.
    strategy : QueryStrategy or None
        Fitted to the pool of the concept; the exhaustive scan by default.

    Attributes
    ----------
    rows : array of shape (n_labels,), int64
        Rows of the labeled items, in the order of labeling.
    passed : array of int64, ascending
        Audited items that the strategy selected. They are skipped, and not labeled.
    hyperplane : Hyperplane
        Trained on all answers so far.
    """

    def __init__(
        self, concept: SampledConcept, rng: np.random.Generator, strategy: QueryStrategy | None = None
    ) -> None:
        self._concept = concept
        self._strategy = strategy or make_strategy("exhaustive").fit(concept.pool)
        yes, no = np.flatnonzero(concept.y), np.flatnonzero(~concept.y)
        first = [rng.choice(yes, FIRST_YES, replace=False), rng.choice(no, FIRST_NO, replace=False)]
        self.rows: Rows = np.concatenate(first)
        self.passed: Rows = np.empty(0, dtype=np.int64)
        self._learn()

    @property
    def n_yes(self) -> int:
        """Number of positive answers."""
        return int(np.count_nonzero(self._concept.y[self.rows]))

    def go_on(self, n: int = 1, *, audited: Rows | None = None) -> None:
        """Answer the next n items that are not in `audited`, and then train on all answers."""
        waiting = np.empty(0, dtype=np.int64) if audited is None else np.setdiff1d(audited, self.passed)
        selection, passed = pass_over(lambda reached: self._select(n, reached), waiting)
        self.passed = np.union1d(self.passed, passed)
        self.rows = np.concatenate([self.rows, selection.ids])
        self._learn()

    def _select(self, n: int, reached: Rows) -> Selection:
        never = np.concatenate([self.rows, self.passed, reached])
        return self._strategy.select(self.hyperplane, n, exclude=np.sort(never))

    def _learn(self) -> None:
        X, y = self._concept.pool.rows(self.rows), self._concept.y[self.rows]
        hyperplane = learn(Labels(self.rows, X, y)).hyperplane
        assert hyperplane is not None
        self.hyperplane: Hyperplane = hyperplane
