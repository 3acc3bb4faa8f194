"""From a log position to a hyperplane and from there to an item: what labeling does and `verify` repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from core.geometry import Hyperplane
from core.pool import Pool
from core.selection import QueryStrategy, Selection, make_strategy
from core.selection.examples import most_similar
from core.svm import train
from storage import ConceptRecord, ExampleRecord, Labels, LabelState
from storage.records import Why


@dataclass(frozen=True, eq=False)
class Trained:
    """A concept as the labels up to a log position teach it.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None until there is a yes and a no.
    retrain_ms : float or None
        What training took, in milliseconds.
    n_labels : int
        Labels it was trained on, examples included.
    through : int
        The last answer's place in the log.
    examples : sequence of ExampleRecord
        The examples it was trained on.
    examples_through : int
        The place up to which the log of examples was read.
    """

    hyperplane: Hyperplane | None
    retrain_ms: float | None
    n_labels: int
    through: int
    examples: Sequence[ExampleRecord]
    examples_through: int


def train_concept(
    pool: Pool,
    labels: Labels,
    examples: Sequence[ExampleRecord],
    concept: ConceptRecord,
    *,
    examples_through: int,
) -> Trained:
    """Train the SVM of a concept. Examples count as labels, with negative ids of their own."""
    start = perf_counter()
    usable = [example for example in examples if example.feature is not None]
    X = pool.rows_of(labels.items)
    if usable:
        X = np.concatenate([X, np.stack([example.feature for example in usable])])
    ids = np.concatenate([labels.items, np.array([-1 - e.id for e in usable], dtype=np.int64)])
    yes = np.concatenate([labels.yes, np.array([e.is_positive for e in usable], dtype=np.bool_)])
    if yes.all() or not yes.any():
        return Trained(None, None, len(yes), labels.through, usable, examples_through)
    hyperplane = train(X, yes, ids, C=concept.c, class_weight=concept.class_weight)
    retrain_ms = 1000 * (perf_counter() - start)
    return Trained(hyperplane, retrain_ms, len(yes), labels.through, usable, examples_through)


SKIPPED_TOO = "skipped_too"
"""Says, among a selection's parameters, that skipped items could be chosen again."""


def excluded_items(state: LabelState, leased: Sequence[int], *, include_skipped: bool) -> NDArray[np.int64]:
    """Items that may not be selected, ascending: the answered ones, and those that others have in view."""
    answered = state.answered_items()
    if include_skipped:
        answered = np.setdiff1d(answered, state.skipped_items())
    return np.union1d(answered, np.array(leased, dtype=np.int64))


def accuracy(pool: Pool, hyperplane: Hyperplane | None, positive_class: str | None) -> float | None:
    """The share of held-out items on their true side, 0 … 1; None where truth is unknown."""
    held_out = pool.held_out
    if hyperplane is None or positive_class not in pool.classes or not len(held_out.ids):
        return None
    known = held_out.truth >= 0
    if not known.any():
        return None
    scores = held_out.X @ hyperplane.normal.astype(np.float32) + np.float32(hyperplane.bias)
    positive = held_out.truth == pool.classes.index(positive_class)
    return float(np.mean(((scores > 0) == positive)[known]))


@dataclass(frozen=True, eq=False)
class Chosen:
    """An item to show, and who chose it."""

    selection: Selection
    why: Why
    strategy: str


def choose(
    pool: Pool, strategy: QueryStrategy, trained: Trained, *, exclude: NDArray[np.int64], seed: int
) -> Chosen:
    """The next item: nearest to the hyperplane; before there is one, like the examples, else at random.

    Raises
    ------
    PoolExhausted
        If every item of the pool is excluded.
    """
    if trained.hyperplane is not None:
        found = strategy.select(trained.hyperplane, exclude=exclude, seed=seed)
        return Chosen(found, "strategy", strategy.name)
    positive = [example.feature for example in trained.examples if example.is_positive]
    if positive:
        return Chosen(most_similar(pool, np.stack(positive), exclude=exclude), "example", "example")
    at_random = make_strategy("random").fit(pool)
    return Chosen(at_random.select(None, exclude=exclude, seed=seed), "random-start", "random")
