"""Training on the labels at a log position, for labeling and for ``closecall verify``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.directions import Direction
from closecall.app.runtime import kernels
from closecall.app.runtime.cores import a_core
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.learning import round as learner
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import Dual
from closecall.core.numerics.rows import PlacedRows, Rows
from closecall.core.pool.pool import Pool
from closecall.core.selection.requests import LabeledItems
from closecall.storage import ConceptRecord, ExampleRecord, Labels


@dataclass(frozen=True, eq=False)
class Trained:
    """The model of a concept at a log position.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        None until there is a yes and a no.
    retrain_ms : float or None
        Duration of the training, in milliseconds.
    labels : LabeledItems
        The labels that the model was trained on. The concept's example images have negative ids.
    through : int
        Log position of the last answer.
    likes : array of shape (n_likes, n_features), or csr_array
        Features of the positive example images, followed by the direction if there is one, float32.
    examples_through : int
        Position up to which the log of example images was read.
    direction : Direction or None
        The direction of a description in words, if labeling starts with items that match it.
    dual : Dual or None
        Dual variables from which a later training may start; None without a hyperplane.
    """

    hyperplane: Hyperplane | None
    retrain_ms: float | None
    labels: LabeledItems
    through: int
    likes: Rows
    examples_through: int
    direction: Direction | None = None
    dual: Dual | None = None

    @property
    def n_labels(self) -> int:
        """Number of labels that the model was trained on, including the concept's example images."""
        return len(self.labels.ids)

    def towards(self, direction: Direction | None) -> Trained:
        """Return a copy with the direction added to `likes`, so that labeling starts with similar items.

        Return the model itself if it has a hyperplane, if `direction` is None, or if the direction has
        another number of features.
        """
        if direction is None or self.hyperplane is not None or len(direction.vector) != self.likes.shape[1]:
            return self
        likes = np.concatenate([self.likes, direction.vector[None]])
        return replace(self, likes=likes, direction=direction)


def train_concept(
    pool: Pool,
    labels: Labels,
    examples: Sequence[ExampleRecord],
    concept: ConceptRecord,
    *,
    examples_through: int,
    start: Dual | None = None,
) -> Trained:
    """Train the SVM of a concept on labels and example images.

    The example image with id n counts as a label with id −1 − n. Training waits for the compiled solver and
    for a free core. `examples_through` is the position up to which the log of example images was read.
    Training that starts from the dual variables of similar labels (`start`) takes less time, and gives the
    same hyperplane.
    """
    wait_until_trainable(pool, lambda: labels, examples)
    shown = _of_examples(examples, pool.n_features)
    with a_core():
        ids, y = np.concatenate([labels.items, shown.ids]), np.concatenate([labels.yes, shown.y])
        X = known_labels(pool, labels, examples).X if pool.is_sparse else _placed(pool, labels.items, shown.X)
        trained = learner.learn_rows(X, y, ids, C=concept.c, class_weight=concept.class_weight, start=start)
    return Trained(
        hyperplane=trained.hyperplane,
        retrain_ms=None if trained.seconds is None else 1000 * trained.seconds,
        labels=LabeledItems(ids, y),
        through=labels.through,
        likes=shown.X[shown.y],
        examples_through=examples_through,
        dual=trained.dual,
    )


def wait_until_trainable(pool: Pool, labels: Callable[[], Labels], examples: Sequence[ExampleRecord]) -> None:
    """Wait until the solver is compiled, unless the labels and example images can't be trained on.

    `labels` is a function that returns the labels. It is called only if the solver may be needed and is not
    compiled yet.
    """
    if pool.is_sparse or kernels.is_ready("training"):
        return
    if is_trainable(labels(), examples):
        kernels.wait_for("training")


def is_trainable(labels: Labels, examples: Sequence[ExampleRecord]) -> bool:
    """Return whether there is a yes and a no among the labels and example images."""
    usable = (example.is_positive for example in examples if example.feature is not None)
    return {*labels.yes.tolist(), *usable} == {False, True}


def _placed(pool: Pool, items: NDArray[np.int64], of_examples: Rows) -> PlacedRows:
    """Return the feature rows of the items, followed by the feature rows of the example images."""
    return pool.placed_rows_of(items) + PlacedRows.of(of_examples)


def known_labels(pool: Pool, labels: Labels, examples: Sequence[ExampleRecord]) -> learner.Labels:
    """Return the labels that the SVM is trained on: first those of the pool, then the example images."""
    return learner.Labels.of(pool, labels.items, labels.yes) + _of_examples(examples, pool.n_features)


def _of_examples(examples: Sequence[ExampleRecord], n_features: int) -> learner.Labels:
    usable = [(e.id, e.feature, e.is_positive) for e in examples if e.feature is not None]
    return learner.Labels(
        np.array([-1 - number for number, _, _ in usable], dtype=np.int64),
        np.array([feature for _, feature, _ in usable], dtype=np.float32).reshape(-1, n_features),
        np.array([is_positive for _, _, is_positive in usable], dtype=np.bool_),
    )


def accuracy(pool: Pool, hyperplane: Hyperplane | None, positive_class: str | None) -> float | None:
    """Return the hyperplane's accuracy on held-out items, 0 … 1, or None if it is unknown.

    Held-out items that are near-duplicates of pool items are left out (`unrepeated_held_out`).
    """
    if hyperplane is None or positive_class not in pool.classes:
        return None
    held_out, positive = unrepeated_held_out(pool), pool.classes.index(positive_class)
    return learner.accuracy(hyperplane, held_out.X, held_out.truth, positive)


def accuracy_of_always_no(pool: Pool, positive_class: str | None) -> float | None:
    """Return the accuracy of always answering no on the same items, 0 … 1, or None if it is unknown."""
    truth = unrepeated_held_out(pool).truth
    if positive_class not in pool.classes or not (truth >= 0).any():
        return None
    return float(np.mean(~learner.is_positive(truth[truth >= 0], pool.classes.index(positive_class))))
