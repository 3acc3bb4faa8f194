"""Learn a metric from a concept's labels (`core.similar.answers`) in the background.

Learning starts when there are `LEAST` yes and `LEAST` no labels, and again whenever labels change. Only one
run takes place at a time, always with the newest labels. The metric records the log position up to which
labels were used, so that ``closecall verify`` can learn the metric again. Uploaded example images are not
used, because they are not in the pool.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.runtime import kernels
from closecall.app.runtime.background import Fitting, Workers
from closecall.core.errors import InputError
from closecall.core.similar.answers import (
    LEAST,
    MAX_PASSES,
    PAIRS,
    SEED,
    AnswersMetric,
    GoOn,
    learn_from_answers,
)

if TYPE_CHECKING:
    from closecall.core.pool.pool import Pool
    from closecall.storage import Labels


class LearnedMetric(AnswersMetric):
    """A metric learned from labels, with the norms of a pool's rows under this metric.

    Parameters
    ----------
    learned : AnswersMetric
        The metric and the norms.
    through : int
        Log position of the last answer used.
    n_labels : int
        Number of labels used.
    seconds : float
        Wall-clock time that learning took.
    how : dict
        The parameters of learning, as returned by `parameters`.
    """

    def __init__(
        self, learned: AnswersMetric, *, through: int, n_labels: int, seconds: float, how: dict[str, Any]
    ) -> None:
        super().__init__(learned.metric, learned.pool, learned.row_norms, learned.gamma)
        self._how = {**how, "gamma": learned.gamma}
        self.through = through
        self.n_labels = n_labels
        self.seconds = seconds
        self.finished = time.time()

    def state(self) -> dict[str, Any]:
        """Return numbers for the page: labels, slack parameter γ, the metric's age and learning time in s."""
        age = time.time() - self.finished
        return {"labels": self.n_labels, "gamma": self.gamma, "age": age, "seconds": self.seconds}

    def params(self) -> dict[str, Any]:
        """Return the values for the log, from which the metric can be learned again."""
        return {"through": self.through, "labels": self.n_labels, **self._how}


def parameters() -> dict[str, Any]:
    """Return the parameters of learning.

    The slack parameter γ is None, which means that cross-validation chooses its value. The log records the
    chosen value. In earlier versions, γ was always 1.
    """
    return {"name": "itml", "pairs": PAIRS, "gamma": None, "max_passes": MAX_PASSES, "seed": SEED}


def what_is_missing(labels: Labels) -> str | None:
    """Return a sentence that says how many labels a metric still needs, or None if there are enough."""
    yes = int(np.count_nonzero(labels.yes))
    have = {"yes": yes, "no": len(labels) - yes}
    missing = [f"{LEAST - n} {word}" for word, n in have.items() if n < LEAST]
    if not missing:
        return None
    are = "is" if len(missing) == 1 and missing[0].startswith("1 ") else "are"
    lack = f"{' and '.join(missing)} {are} missing"
    return f"A metric needs at least {LEAST} yes and {LEAST} no answers: {lack}"


def learn(pool: Pool, labels: Labels, how: dict[str, Any], go_on: GoOn = lambda: None) -> LearnedMetric:
    """Learn a metric from labels, and compute the norms of the pool's rows under this metric.

    Parameters
    ----------
    pool : Pool
        The pool with the labeled items.
    labels : Labels
        A concept's labels.
    how : dict
        Parameters of learning, in the form in which the function `parameters` returns them.
    go_on : callable
        Called at intervals; if it raises, learning ends.

    Raises
    ------
    InputError
        If there are too few labels, if the labels contradict each other so that no metric satisfies them, or
        if `how` names an unknown method.
    """
    if problem := what_is_missing(labels):
        raise InputError(problem)
    if how.get("name") != "itml":
        raise InputError(f"metrics are learned by itml, got {how.get('name')!r:.80}")
    started = time.perf_counter()
    learned = learn_from_answers(
        pool,
        labels,
        n_pairs=how["pairs"],
        gamma=how["gamma"],
        max_passes=how["max_passes"],
        seed=how["seed"],
        go_on=go_on,
    )
    seconds = time.perf_counter() - started
    own = {name: how[name] for name in parameters()}
    return LearnedMetric(learned, through=labels.through, n_labels=len(labels), seconds=seconds, how=own)


class Learning(Fitting):
    """The metric of one concept, learned in the background from the newest labels. Thread-safe."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self._workers = workers
        self._newest: LearnedMetric | None = None
        self._missing: str | None = None
        self._problem: str | None = None

    def want(self, pool: Pool, labels: Labels) -> None:
        """Request a metric for these labels, unless it was already requested or there are too few labels."""
        key = len(pool), labels.items.tobytes(), labels.yes.tobytes()
        with self._changed:
            self._missing = what_is_missing(labels)
            if self._missing is not None or key == self._tried:
                self._waiting = None
            else:
                what = "The metric can't be learned"
                self.request(self._workers, what, key, self._learn, pool, labels)

    def newest(self, pool: Pool) -> LearnedMetric | None:
        """Return the newest metric, or None if the pool has no metric yet or there are too few labels now."""
        with self._changed:
            newest = self._newest if self._missing is None else None
        return newest if newest is not None and newest.n_items <= len(pool) else None

    def state(self) -> dict[str, Any]:
        """Return the newest metric's state, a sentence about missing labels, and the current problem."""
        with self._changed:
            newest = self._newest if self._missing is None else None
            said = (
                newest.state() if newest is not None else dict.fromkeys(("labels", "gamma", "age", "seconds"))
            )
            problem = None if self._missing else self.failure or self._problem
            return said | {"missing": self._missing, "problem": problem, "is_coming": self.is_under_way}

    def _learn(self, pool: Pool, labels: Labels) -> None:
        kernels.wait_for("everything")
        try:
            self._newest, self._problem = learn(pool, labels, parameters(), self._workers.go_on), None
        except InputError as error:
            # Contradictory labels are not logged as a failure: only the annotator can correct them.
            self._problem = str(error)
