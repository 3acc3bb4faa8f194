"""Learn a metric from a concept's labels (`core.similar.answers`) in the background.

Learning starts once there are `LEAST` labels of each kind, and again whenever labels change: always from the
newest ones, one run after the other. The metric records the place in the log up to which labels were used, so
that it can be learned again. Uploaded examples are not used, since they are not items.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.core.errors import InputError
from closecall.core.similar.answers import (
    GAMMA,
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

log = logging.getLogger(__name__)

Submit = Callable[[Callable[[GoOn], None]], None]


class LearnedMetric(AnswersMetric):
    """A metric learned from labels, with the norms of a pool's rows under it.

    Parameters
    ----------
    learned : AnswersMetric
    through : int
        Place in the log of the last answer used.
    n_labels : int
    seconds : float
        Time that learning took.
    """

    def __init__(self, learned: AnswersMetric, *, through: int, n_labels: int, seconds: float) -> None:
        super().__init__(learned.metric, learned.pool, learned.row_norms)
        self.through = through
        self.n_labels = n_labels
        self.seconds = seconds
        self.finished = time.time()

    def state(self) -> dict[str, Any]:
        """Return for the page the number of labels used, and the metric's age and learning time in s."""
        return {"labels": self.n_labels, "age": time.time() - self.finished, "seconds": self.seconds}

    def params(self) -> dict[str, Any]:
        """Return everything that is needed to learn the metric again."""
        return {"through": self.through, "labels": self.n_labels, **parameters()}


def parameters() -> dict[str, Any]:
    """Return the parameters of learning, for the log."""
    return {"name": "itml", "pairs": PAIRS, "gamma": GAMMA, "max_passes": MAX_PASSES, "seed": SEED}


def what_is_missing(labels: Labels) -> str | None:
    """Return in one sentence which labels are missing for a metric, or None if there are enough."""
    yes = int(np.count_nonzero(labels.yes))
    have = {"yes": yes, "no": len(labels) - yes}
    missing = [f"{LEAST - n} {word}" for word, n in have.items() if n < LEAST]
    if not missing:
        return None
    are = "is" if len(missing) == 1 and missing[0].startswith("1 ") else "are"
    lack = f"{' and '.join(missing)} {are} missing"
    return f"A metric needs at least {LEAST} yes and {LEAST} no answers: {lack}"


def learn(pool: Pool, labels: Labels, how: dict[str, Any], go_on: GoOn = lambda: None) -> LearnedMetric:
    """Learn a metric from labels, with the norms of the pool's rows under it.

    Parameters
    ----------
    pool : Pool
        The pool with the labeled items.
    labels : Labels
        A concept's labels.
    how : dict
        Parameters as from `parameters`.
    go_on : callable
        Called now and then; its exceptions end the learning.

    Raises
    ------
    InputError
        If there are too few labels, or no metric satisfies them because they contradict each other.
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
    return LearnedMetric(learned, through=labels.through, n_labels=len(labels), seconds=seconds)


class Learning:
    """Learns the metric of one concept, always from the newest labels. Safe to use from any thread.

    Parameters
    ----------
    submit : callable
        Runs a job in the background.
    """

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._changed = threading.Condition()
        self._wanted: tuple[Pool, Labels] | None = None
        self._is_running = False
        self._newest: LearnedMetric | None = None
        self._tried: tuple[object, ...] | None = None
        self._missing: str | None = None
        self._problem: str | None = None

    @property
    def is_under_way(self) -> bool:
        """Return whether a newer metric is being learned."""
        return self._is_running

    def want(self, pool: Pool, labels: Labels) -> None:
        """Request a metric of these labels, unless there is one already or there are too few."""
        with self._changed:
            self._missing = what_is_missing(labels)
            if self._missing is not None or _key(pool, labels) == self._tried:
                self._wanted = None
                return
            self._wanted = pool, labels
            if not self._is_running:
                self._is_running = True
                self._submit(self._learn)

    def newest(self, pool: Pool) -> LearnedMetric | None:
        """Return the newest metric; None if this pool has none yet, or there are too few labels again."""
        with self._changed:
            newest = self._newest if self._missing is None else None
        return newest if newest is not None and newest.n_items <= len(pool) else None

    def state(self) -> dict[str, Any]:
        """Return for the page the metric's labels and age, and what is missing or went wrong."""
        with self._changed:
            newest = self._newest if self._missing is None else None
            said = newest.state() if newest is not None else {"labels": None, "age": None, "seconds": None}
            problem = None if self._missing else self._problem
            return said | {"missing": self._missing, "problem": problem, "is_coming": self._is_running}

    def wait(self, seconds: float) -> bool:
        """Wait until no learning is under way, at most `seconds`; return whether this is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, seconds)

    def _learn(self, go_on: GoOn) -> None:
        """Learn the requested metric, and again if a newer one was requested meanwhile."""
        while True:
            with self._changed:
                wanted, self._wanted = self._wanted, None
                if wanted is None:
                    self._is_running = False
                    self._changed.notify_all()
                    return
            learned, problem = None, None
            try:
                learned = learn(*wanted, parameters(), go_on)
            except InputError as error:
                problem = str(error)
            except Exception as error:
                log.exception("The metric can't be learned")
                problem = f"The metric can't be learned: {error or type(error).__name__}"
            with self._changed:
                self._tried, self._problem = _key(*wanted), problem
                self._newest = learned or self._newest


def _key(pool: Pool, labels: Labels) -> tuple[object, ...]:
    return len(pool), labels.items.tobytes(), labels.yes.tobytes()
