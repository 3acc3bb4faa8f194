"""Simulated labeling sessions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.experiment.planes import Plane, Progress, svm_in_words
from closecall.core.learning.round import Labels, is_positive, learn
from closecall.core.linear.svm import ClassWeight
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, Request, make_strategy
from closecall.core.simulation.drawing import ItemsByClass
from closecall.core.simulation.oracle import Oracle

FIRST_YES, FIRST_NO = 1, 5
"""Numbers of positive and negative labels that a session begins with."""

_SVMS: tuple[tuple[float, ClassWeight], ...] = ((1, None), (10, "balanced"), (10, None), (1, "balanced"))
_NOISY_TURN = 3


def sessions(
    pool: Pool,
    n_sessions: int,
    n_rounds: int,
    *,
    strategy: QueryStrategy | None = None,
    n_before: int = 0,
    noise: float = 0.05,
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Plane]:
    """Simulate sessions and return their hyperplanes, `n_rounds` per session, ordered by session and round.

    A session has one positive class (see `single_planes`). It begins with correct labels: either one item of
    the class and five other items, drawn at random, or the result of `labels_before`. In each round, the SVM
    is trained on all labels so far, and its hyperplane is recorded. The strategy selects one item for this
    hyperplane, and the answer of the annotator is the next label. If the strategy misses an item near one
    hyperplane, the item stays in the pool and may be found for a later hyperplane. A strategy is therefore
    best measured in sessions in which this strategy selected the items.

    Sessions alternate between four SVMs: C = 1 and C = 10, each unweighted and balanced. If `noise` is
    positive, every third group of four sessions has noisy answers; `Plane.setting` says so. Of twelve
    sessions, each SVM therefore has two without noise and one with noise. The annotator of a noisy session
    s is ``Oracle(pool.truth, positive, noise=noise, seed=seed + s)``. All sessions run side by side, because
    one pass over the pool can select an item for each session. A session does not depend on the number of
    other sessions.

    Parameters
    ----------
    pool : Pool
        The class of every item must be known.
    n_sessions, n_rounds : int
        Number of sessions, and of hyperplanes per session.
    strategy : QueryStrategy or None
        Fitted to the pool; the exhaustive scan by default.
    n_before : int
        Number of labels from `labels_before` to begin with, at least 2; 0 for six random labels.
    noise : float
        Probability of a wrong answer in noisy sessions, 0 … 1; 0 for no noisy sessions.
    seed : int
        Seed of all random choices; not negative.
    progress : callable or None
        See `Progress`.

    Raises
    ------
    InputError
        If noise is not a probability, if `n_before` is neither 0 nor at least 2, if the class of an item is
        unknown, or if there are fewer than two classes or too few items.
    """
    if not 0 <= noise <= 1:
        raise InputError(f"noise must be a probability from 0 to 1, got {noise}")
    if n_before < 2 and n_before != 0:
        raise InputError(f"n_before must be 0, or at least 2 for a yes and a no, got {n_before}")
    items = ItemsByClass(pool)
    if len(items) < len(pool):
        raise InputError(
            f"the class of {len(pool) - len(items)} items of the pool {pool.path} is unknown: "
            f"the simulated annotator can't answer for them"
        )
    least = (n_before or FIRST_YES + FIRST_NO) + n_rounds
    if len(pool) < least:
        raise InputError(f"{n_rounds} rounds need {least} items, the pool {pool.path} has {len(pool)}")
    strategy = strategy or make_strategy("exhaustive").fit(pool)
    positives = items.positives(np.random.default_rng(seed), n_sessions)
    running = [
        _Session(pool, items, number, positive, n_before=n_before, noise=noise, seed=seed)
        for number, positive in enumerate(positives)
    ]
    for done in range(1, n_rounds + 1):
        found = strategy.select_many([session.ask() for session in running])
        for session, selection in zip(running, found, strict=True):
            assert selection is not None
            session.answer(int(selection.ids[0]))
        if progress:
            progress(done * n_sessions, n_rounds * n_sessions)
    return [plane for session in running for plane in session.planes]


def labels_before(pool: Pool, positive: int, n: int, rng: np.random.Generator) -> Labels:
    """Return n correct labels, as if from a long session.

    One fifth of the items are random. The other items are those nearest to the hyperplane that is trained on
    this fifth. If the fifth lacks positives or negatives, all n items are random. If all n random items are
    positive, or all are negative, and n is at least 2, one of them is replaced by a random item of the other
    kind.

    Raises
    ------
    InputError
        If n is at least 2 and the pool lacks positives or negatives.
    """

    def known(ids: NDArray[np.int64]) -> Labels:
        ids = np.sort(ids)
        return Labels.of(pool, ids, is_positive(pool.truth(ids), positive))

    first = known(rng.choice(pool.ids, -(-n // 5), replace=False))
    hyperplane = learn(first).hyperplane if len(first) else None
    rest = n - len(first)
    if hyperplane is None or not rest:
        return known(_of_both_kinds(pool, positive, rng.choice(pool.ids, n, replace=False), rng))
    return first + known(
        make_strategy("exhaustive").fit(pool).select(hyperplane, rest, exclude=first.ids).ids
    )


def _of_both_kinds(
    pool: Pool, positive: int, ids: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return the items; if all are positive or all are negative, replace one by an item of the other kind."""
    is_yes = is_positive(pool.truth(ids), positive)
    if len(ids) < 2 or (is_yes.any() and not is_yes.all()):
        return ids
    others = pool.ids[is_positive(pool.truth(pool.ids), positive) != is_yes[0]]
    if not len(others):
        lacking = "outside" if is_yes[0] else "of"
        raise InputError(f"the pool {pool.path} has no item {lacking} the class {pool.classes[positive]}")
    return np.append(ids[1:], rng.choice(others))


class _Session:
    """A running session."""

    def __init__(
        self,
        pool: Pool,
        items: ItemsByClass,
        number: int,
        positive: int,
        *,
        n_before: int,
        noise: float,
        seed: int,
    ) -> None:
        turn, svm = divmod(number, len(_SVMS))
        noisy = noise > 0 and turn % _NOISY_TURN == _NOISY_TURN - 1
        self._pool = pool
        self._number = number
        self._C, self._class_weight = _SVMS[svm]
        self._setting = f"sessions: {svm_in_words(self._C, self._class_weight)}"
        if noisy:
            self._setting += f", {100 * noise:g} % wrong"
        self._oracle = Oracle(pool.truth, positive, noise=noise if noisy else 0.0, seed=seed + number)
        self._rng = np.random.default_rng([seed, number])
        if n_before:
            self._setting += f", after {n_before:,} labels"
            self._labels = labels_before(pool, positive, n_before, self._rng)
        else:
            yes = items.of(self._rng, positive, FIRST_YES)
            no = items.others(self._rng, positive, FIRST_NO)
            self._labels = Labels.of(pool, np.append(yes, no), [True] * FIRST_YES + [False] * FIRST_NO)
        self.planes: list[Plane] = []

    def ask(self) -> Request:
        """Train on the labels so far, record the hyperplane, and return a request for an item near it."""
        hyperplane = learn(self._labels, C=self._C, class_weight=self._class_weight).hyperplane
        assert hyperplane is not None
        labeled, positive = np.sort(self._labels.ids), self._oracle.positive
        plane = Plane(hyperplane, labeled, positive, self._setting, self._number, len(self.planes))
        self.planes.append(plane)
        seed = int(self._rng.integers(2**63))
        return Request(hyperplane, exclude=labeled, seed=seed, labels=self._labels.items)

    def answer(self, item: int) -> None:
        """Let the annotator answer the selected item."""
        self._labels += Labels.of(self._pool, [item], self._oracle(item))
