"""Hyperplanes to measure query strategies with: one class against the rest, with labels drawn at random."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.learning.round import Labels, is_positive, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.svm import ClassWeight
from closecall.core.pool.pool import Pool
from closecall.core.simulation.drawing import ItemsByClass, least_of

Progress = Callable[[int, int], None]
"""Callback for progress: takes the number of hyperplanes trained so far and the number to train in total.

Exceptions of the callback are propagated.
"""


@dataclass(frozen=True, eq=False)
class Plane:
    """A trained hyperplane, and the items that a selection must exclude.

    Parameters
    ----------
    hyperplane : Hyperplane
    labeled : array of shape (n_labels,), int64
        Ids of the items that the hyperplane was trained on, ascending.
    positive : int
        The positive class.
    setting : str
        How the hyperplane was trained: for example, ``"C=1, balanced, 50 labels"`` for random labels,
        and ``"sessions: C=10, unweighted"`` for a hyperplane of a simulated session.
    session, round : int
        Number of the session, and number of answers in the session before this hyperplane; both −1 if the
        hyperplane does not belong to a session.
    """

    hyperplane: Hyperplane
    labeled: NDArray[np.int64]
    positive: int
    setting: str
    session: int = -1
    round: int = -1


@dataclass(frozen=True)
class Setting:
    """Training parameters of hyperplanes that do not belong to a simulated session.

    Parameters
    ----------
    C, class_weight
        See `core.linear.svm.train`.
    n_labels : int
        Number of labels: of each class if `per_class` is true, otherwise of all classes together.
    per_class : bool
        Whether to draw labels with `ItemsByClass.per_class` or with `ItemsByClass.at_random`.
    """

    C: float
    class_weight: ClassWeight
    n_labels: int
    per_class: bool = False

    def __str__(self) -> str:
        labels = "a class" if self.per_class else "labels"
        return f"{svm_in_words(self.C, self.class_weight)}, {self.n_labels} {labels}"


PAPER = Setting(C=1, class_weight=None, n_labels=5, per_class=True)
"""Setting for the initial hyperplane in the experiments of Jain et al. (NIPS 2010, section 4)."""

SINGLE_SETTINGS = (
    PAPER,
    *(
        Setting(C, class_weight, n_labels)
        for class_weight in (None, "balanced")
        for C in (0.1, 1, 10)
        for n_labels in (50, 200, 400)
    ),
)


def svm_in_words(C: float, class_weight: ClassWeight) -> str:
    """Return a description such as ``"C=1, unweighted"``."""
    return f"C={C:g}, {class_weight or 'unweighted'}"


def single_planes(pool: Pool, n: int, *, seed: int = 0, progress: Progress | None = None) -> list[Plane]:
    """Train `n` hyperplanes for each of `SINGLE_SETTINGS`, each on its own labels.

    Positive classes come in random order. All classes are used equally often, up to a difference of one. If
    most classes are rare, most positive classes are therefore rare, too.

    Parameters
    ----------
    pool : Pool
        The pool to draw labels from. For each setting, classes with too few items to be the positive class
        are skipped.
    n : int
        Number of hyperplanes per setting.
    seed : int
        Seed of classes and items; not negative.
    progress : callable or None
        See `Progress`.

    Raises
    ------
    InputError
        If fewer than two classes have enough items.
    """
    planes: list[Plane] = []
    for setting in SINGLE_SETTINGS:
        planes += _planes(pool, setting, n, seed)
        if progress:
            progress(len(planes), n * len(SINGLE_SETTINGS))
    return planes


def one_vs_all(
    pool: Pool,
    n: int,
    *,
    labels_per_class: int = 5,
    C: float = 1.0,
    class_weight: ClassWeight = None,
    seed: int = 0,
) -> list[Plane]:
    """Train `n` hyperplanes on `labels_per_class` items of each class; see `single_planes` and `Setting`."""
    return _planes(pool, Setting(C, class_weight, labels_per_class, per_class=True), n, seed)


def _planes(pool: Pool, setting: Setting, n: int, seed: int) -> list[Plane]:
    items = ItemsByClass(pool, setting.n_labels if setting.per_class else least_of(setting.n_labels))
    if not setting.per_class and setting.n_labels > len(items):
        raise InputError(
            f"the pool {pool.path} needs {setting.n_labels} items of known truth, it has {len(items)}"
        )
    draw = items.per_class if setting.per_class else items.at_random
    key = [seed, *str(setting).encode()]
    return [
        _train(
            pool, setting, positive, draw(np.random.default_rng([*key, number]), positive, setting.n_labels)
        )
        for number, positive in enumerate(items.positives(np.random.default_rng(key), n))
    ]


def _train(pool: Pool, setting: Setting, positive: int, ids: NDArray[np.int64]) -> Plane:
    ids = np.sort(ids)
    labels = Labels.of(pool, ids, is_positive(pool.truth(ids), positive))
    hyperplane = learn(labels, C=setting.C, class_weight=setting.class_weight).hyperplane
    assert hyperplane is not None
    return Plane(hyperplane, ids, positive, str(setting))
