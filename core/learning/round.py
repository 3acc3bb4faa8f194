"""One round of active learning, and the accuracy of its classifier, as pure functions.

    labels so far → linear SVM → hyperplane → query strategy over the pool → next item to label

No state is kept between rounds. A round can therefore be computed on any thread, in advance for each possible
answer, or recomputed from the log years later. The result is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike, NDArray

from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import DEFAULT_C, DEFAULT_CLASS_WEIGHT, ClassWeight, Dual, train_with_dual
from closecall.core.numerics.rows import PlacedRows, Rows, as_sparse, is_sparse, joined, product
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Selection, make_strategy
from closecall.core.selection.examples import most_similar
from closecall.core.selection.requests import NO_LABELS, LabeledItems


@dataclass(frozen=True, eq=False)
class Labels:
    """Training labels: items, each with the answer yes or no, in any order.

    Parameters
    ----------
    ids : array of shape (n,), int64
        Distinct ids: for an item of the pool, its item id; for an example that is not in the pool, a negative
        number.
    X : array of shape (n, n_features), float32, or csr_array
        Features of the labeled items and examples.
    y : array of shape (n,), bool
        True for yes.
    """

    ids: NDArray[np.int64]
    X: Rows
    y: NDArray[np.bool_]

    @classmethod
    def of(cls, pool: Pool, ids: ArrayLike, y: ArrayLike) -> Labels:
        """Make labels from answers about items of the pool; unknown ids raise the error of `Pool.row_of`."""
        ids = np.asarray(ids, dtype=np.int64)
        return cls(ids, pool.rows_of(ids), np.asarray(y, dtype=np.bool_))

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def items(self) -> LabeledItems:
        """The labels without features."""
        return LabeledItems(self.ids, self.y)

    def __add__(self, other: Labels) -> Labels:
        return Labels(
            np.concatenate([self.ids, other.ids]),
            joined([part.X for part in (self, other) if len(part)] or [self.X]),
            np.concatenate([self.y, other.y]),
        )


@dataclass(frozen=True, eq=False)
class Trained:
    """Result of training.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None if the labels lack positives or negatives.
    seconds : float or None
        Wall-clock time of training; None without a hyperplane.
    dual : Dual or None
        Dual variables from which a later training may start; None without a hyperplane.
    """

    hyperplane: Hyperplane | None
    seconds: float | None
    dual: Dual | None = None


def learn(
    labels: Labels, *, C: float = DEFAULT_C, class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT
) -> Trained:
    """Train the SVM on the labels; see `core.linear.svm.train` for the parameters and errors."""
    return learn_rows(labels.X, labels.y, labels.ids, C=C, class_weight=class_weight)


def learn_rows(
    X: Rows | PlacedRows,
    y: NDArray[np.bool_],
    ids: NDArray[np.int64],
    *,
    C: float = DEFAULT_C,
    class_weight: ClassWeight = DEFAULT_CLASS_WEIGHT,
    start: Dual | None = None,
) -> Trained:
    """Train the SVM. If the labels lack positives or negatives, return a `Trained` without a hyperplane.

    See `core.linear.svm.train` for the parameters.
    """
    if y.all() or not y.any():
        return Trained(None, None)
    began = perf_counter()
    hyperplane, dual = train_with_dual(X, y, ids, C=C, class_weight=class_weight, start=start)
    return Trained(hyperplane, perf_counter() - began, dual)


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
    labels: LabeledItems = NO_LABELS,
) -> Selection:
    """Select the next items to label.

    If there is a hyperplane, or the strategy does not need a hyperplane, the strategy selects the items.
    Otherwise, the items most similar to the examples are selected, or random items if there are no examples.

    Parameters
    ----------
    pool : Pool
        Pool to select from.
    strategy : QueryStrategy
        Fitted to the pool.
    hyperplane : Hyperplane or None
        The current classifier, if there is one.
    n : int
        Number of items to select.
    examples : array of shape (n_examples, n_features), float32, or csr_array, or None
        Features of positive examples.
    exclude : iterable of int
        Ids that must not be selected.
    seed : int
        Seed of random choices in this selection.
    memory : object
        State that the strategy keeps from an earlier hyperplane; see `core.selection.QueryStrategy.remember`.
    diversity : float, 0 to 1
        Minimum angle between the selected items, as a fraction of the median angle between two items of the
        pool; see `core.selection.QueryStrategy.select`. Ignored in a selection by similarity to examples.
    labels : LabeledItems
        The labels that the hyperplane was trained on.

    Raises
    ------
    PoolExhausted
        If every item is excluded.
    InputError
        See `core.selection.QueryStrategy.select`.
    """
    if hyperplane is not None or not strategy.needs_hyperplane:
        return strategy.select(
            hyperplane,
            n,
            exclude=exclude,
            seed=seed,
            memory=memory,
            diversity=diversity,
            labels=labels,
        )
    if examples is not None and examples.shape[0]:
        return most_similar(pool, examples, n, exclude=exclude)
    return make_strategy("random").fit(pool).select(None, n, exclude=exclude, seed=seed, diversity=diversity)


def is_positive(truth: ArrayLike, positive: int) -> NDArray[np.bool_]:
    """Return whether each item belongs to the class `positive`, of shape (n,)."""
    return np.asarray(np.equal(truth, positive))


def accuracy(hyperplane: Hyperplane, X: Rows, truth: ArrayLike, positive: int) -> float | None:
    """Compute the share of items on the correct side of the hyperplane, one class against the rest.

    Parameters
    ----------
    hyperplane : Hyperplane
        The classifier.
    X : array of shape (n, n_features), or csr_array
        Features of items that the classifier was not trained on.
    truth : array of shape (n,), int
        Class index of each item; items of unknown class (−1) are ignored.
    positive : int
        Index of the positive class.

    Returns
    -------
    float or None
        0 to 1; None if no item is of known class.
    """
    truth = np.asarray(truth)
    known = truth >= 0
    if not known.any():
        return None
    normal = hyperplane.normal.astype(np.float32)
    products = product(as_sparse(X), normal) if is_sparse(X) else np.asarray(X, dtype=np.float32) @ normal
    side = products + np.float32(hyperplane.bias) > 0
    return float(np.mean((side == is_positive(truth, positive))[known]))
