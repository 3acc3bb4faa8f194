"""One round of active learning, and how good the classifier is: pure functions.

    labels so far → linear SVM → hyperplane → query strategy over the pool → the item to ask about next

Nothing is remembered from round to round. So a round can be computed before its answer is given, on any
thread, and computed again from the log years later, with the same result to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import DEFAULT_C, DEFAULT_CLASS_WEIGHT, ClassWeight, train
from closecall.core.numerics.rows import Rows, as_sparse, is_sparse, joined, product
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Selection, make_strategy
from closecall.core.selection.examples import most_similar


@dataclass(frozen=True, eq=False)
class Labels:
    """What the classifier learns from: the answers yes and no, their order without meaning.

    Parameters
    ----------
    ids : array of shape (n,), int64
        Distinct. Pool items have their item ids; examples, which are no items of the pool, negative ones.
    X : array of shape (n, n_features), float32, or csr_array
        Their features.
    y : array of shape (n,), bool
        True for yes.
    """

    ids: NDArray[np.int64]
    X: Rows
    y: NDArray[np.bool_]

    @classmethod
    def of(cls, pool: Pool, ids: ArrayLike, y: ArrayLike) -> Labels:
        """Answers about items of the pool."""
        ids = np.asarray(ids, dtype=np.int64)
        return cls(ids, pool.rows_of(ids), np.asarray(y, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, other: Labels) -> Labels:
        return Labels(
            np.concatenate([self.ids, other.ids]),
            joined([part.X for part in (self, other) if len(part)] or [self.X]),
            np.concatenate([self.y, other.y]),
        )


@dataclass(frozen=True, eq=False)
class Trained:
    """What the labels teach.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None until there is a yes and a no.
    seconds : float or None
        What training took, wall-clock.
    """

    hyperplane: Hyperplane | None
    seconds: float | None


@dataclass(frozen=True, eq=False)
class Round:
    """A retrained classifier and what it asks about next."""

    trained: Trained
    selection: Selection


def learn(
    labels: Labels, *, C: float = DEFAULT_C, class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT
) -> Trained:
    """Train the SVM on the labels; see `core.linear.svm.train` for the parameters."""
    if labels.y.all() or not labels.y.any():
        return Trained(None, None)
    start = perf_counter()
    hyperplane = train(labels.X, labels.y, labels.ids, C=C, class_weight=class_weight)
    return Trained(hyperplane, perf_counter() - start)


def select_next(
    pool: Pool,
    strategy: QueryStrategy,
    hyperplane: Hyperplane | None,
    n: int = 1,
    *,
    examples: Rows | None = None,
    exclude: Iterable[int] = (),
    seed: int = 0,
    memory: object = None,
    diversity: float = 0.0,
) -> Selection:
    """What the strategy picks; where there is no hyperplane yet, what is like the examples, else anything.

    Parameters
    ----------
    pool : Pool
        Where the items are.
    strategy : QueryStrategy
        Fitted to the pool.
    hyperplane : Hyperplane or None
        The classifier, if there is one.
    n : int
        How many items.
    examples : array of shape (n_examples, n_features), float32, or csr_array, or None
        Features of images known to be a yes.
    exclude : iterable of int
        Ids that must not be selected.
    seed : int
        For whatever is random about this one selection.
    memory : object
        What the strategy remembers of an earlier hyperplane; see `core.selection.QueryStrategy.remember`.
    diversity : float, 0 … 1
        How far apart several items must be, unless they are like the examples; see
        `core.selection.QueryStrategy.select`.

    Raises
    ------
    PoolExhausted
        If every item is excluded.
    """
    if hyperplane is not None or not strategy.needs_hyperplane:
        return strategy.select(hyperplane, n, exclude=exclude, seed=seed, memory=memory, diversity=diversity)
    if examples is not None and examples.shape[0]:
        return most_similar(pool, examples, n, exclude=exclude)
    return make_strategy("random").fit(pool).select(None, n, exclude=exclude, seed=seed, diversity=diversity)


def play_round(
    pool: Pool,
    labels: Labels,
    strategy: QueryStrategy,
    *,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    exclude: Iterable[int] = (),
    seed: int = 0,
) -> Round:
    """Retrain and select the next item, which is never a labeled one; see `learn` and `select_next`."""
    trained = learn(labels, C=C, class_weight=class_weight)
    answered = np.union1d(labels.ids, np.fromiter(exclude, dtype=np.int64))
    examples = labels.X[labels.y & (labels.ids < 0)]
    selection = select_next(
        pool, strategy, trained.hyperplane, examples=examples, exclude=answered, seed=seed
    )
    return Round(trained, selection)


def is_positive(truth: ArrayLike, positive: int) -> NDArray[np.bool_]:
    """Multi-class truth as the answers to "is it a `positive`?": one class against the rest, shape (n,)."""
    return np.asarray(np.equal(truth, positive))


def accuracy(hyperplane: Hyperplane, X: Rows, truth: ArrayLike, positive: int) -> float | None:
    """The share of items on their true side, 0 … 1, for one class against the rest.

    Parameters
    ----------
    hyperplane : Hyperplane
        The classifier.
    X : array of shape (n, n_features), or csr_array
        Items that it has not seen.
    truth : array of shape (n,), int
        Index of each item's class; items of unknown truth (−1) do not count.
    positive : int
        The class that is a yes.

    Returns
    -------
    float or None
        None where no truth is known.
    """
    truth = np.asarray(truth)
    known = truth >= 0
    if not known.any():
        return None
    normal = hyperplane.normal.astype(np.float32)
    products = product(as_sparse(X), normal) if is_sparse(X) else np.asarray(X, dtype=np.float32) @ normal
    side = products + np.float32(hyperplane.bias) > 0
    return float(np.mean((side == is_positive(truth, positive))[known]))
