"""Hyperplanes to measure query strategies with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.geometry import Hyperplane
from core.learner import Labels, is_positive, learn
from core.pool import Pool
from core.svm import ClassWeight


@dataclass(frozen=True, eq=False)
class Plane:
    """A trained hyperplane, and the items that a selection must leave out.

    Parameters
    ----------
    hyperplane : Hyperplane
    labeled : array of shape (n_labels,), int64
        Ids of the items that it was trained on, ascending.
    positive : int
        The class that is a yes.
    """

    hyperplane: Hyperplane
    labeled: NDArray[np.int64]
    positive: int


def one_vs_all(
    pool: Pool,
    n: int,
    *,
    labels_per_class: int = 5,
    C: float = 1.0,
    class_weight: ClassWeight = None,
    seed: int = 0,
) -> list[Plane]:
    """`n` linear SVMs, one class against the rest, as the paper's experiments begin (Section 5.1).

    A run draws `labels_per_class` items of every class and trains an SVM for each class, in random order; as
    many runs follow as are needed.

    Parameters
    ----------
    pool : Pool
        Its classes with fewer than `labels_per_class` items are left out.
    n : int
        How many.
    labels_per_class : int
        Drawn at random.
    C, class_weight
        See `core.svm.train`.
    seed : int
        Draws the items.

    Raises
    ------
    InputError
        If fewer than two classes have so many items.
    """
    truth = pool.truth(pool.ids)
    members = [pool.ids[truth == c] for c in range(len(pool.classes))]
    if sum(len(ids) >= labels_per_class for ids in members) < 2:
        raise InputError(
            f"the pool {pool.path} needs at least two classes with {labels_per_class} items of known truth"
        )
    return list(islice(_runs(pool, members, labels_per_class, C, class_weight, seed), n))


def _runs(
    pool: Pool,
    members: list[NDArray[np.int64]],
    labels_per_class: int,
    C: float,
    class_weight: ClassWeight,
    seed: int,
) -> Iterator[Plane]:
    classes = [c for c, ids in enumerate(members) if len(ids) >= labels_per_class]
    for run in count():
        rng = np.random.default_rng([seed, run])
        drawn = [rng.choice(members[c], labels_per_class, replace=False) for c in classes]
        ids = np.sort(np.concatenate(drawn))
        X, truth = pool.rows_of(ids), pool.truth(ids)
        for positive in rng.permutation(classes).tolist():
            trained = learn(Labels(ids, X, is_positive(truth, positive)), C=C, class_weight=class_weight)
            assert trained.hyperplane is not None
            yield Plane(trained.hyperplane, ids, positive)
