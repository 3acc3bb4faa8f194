"""The metric that is learned from a concept's labels (`core.similar.answers`), in the background.

**When.** As soon as there are `LEAST` of each, and again whenever the labels are others: always from the
newest, one after the other. Which labels it was says their place in the log, so that the same metric can be
learned again. Examples that were uploaded do not count: they are no items.
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
    """A metric learned from labels, with the norms of the rows of a pool under it.

    Parameters
    ----------
    learned : AnswersMetric
    through : int
        The place in the log of the last answer that it was learned from.
    n_labels : int
    seconds : float
        What learning took.
    """

    def __init__(self, learned: AnswersMetric, *, through: int, n_labels: int, seconds: float) -> None:
        super().__init__(learned.metric, learned.pool, learned.row_norms)
        self.through = through
        self.n_labels = n_labels
        self.seconds = seconds
        self.finished = time.time()

    def said(self) -> dict[str, Any]:
        """For the page: from how many labels it was learned, how long ago, and what that took, in seconds."""
        return {"labels": self.n_labels, "age": time.time() - self.finished, "seconds": self.seconds}

    def params(self) -> dict[str, Any]:
        """All that must be known to learn it again."""
        return {"through": self.through, "labels": self.n_labels, **parameters()}


def parameters() -> dict[str, Any]:
    """How metrics are learned today, as the log says it."""
    return {"name": "itml", "pairs": PAIRS, "gamma": GAMMA, "max_passes": MAX_PASSES, "seed": SEED}


def what_is_missing(labels: Labels) -> str | None:
    """What a metric needs beyond these labels, in one sentence; None where they are enough."""
    yes = int(np.count_nonzero(labels.yes))
    have = {"yes": yes, "no": len(labels) - yes}
    missing = [f"{LEAST - n} {word}" for word, n in have.items() if n < LEAST]
    if not missing:
        return None
    are = "is" if len(missing) == 1 and missing[0].startswith("1 ") else "are"
    lack = f"{' and '.join(missing)} {are} missing"
    return f"A metric is learned from {LEAST} yes and {LEAST} no answers on: {lack}"


def learn(pool: Pool, labels: Labels, how: dict[str, Any], go_on: GoOn = lambda: None) -> LearnedMetric:
    """Learn a metric from labels, and the norms of the pool's rows under it.

    Parameters
    ----------
    pool : Pool
        Whose items the labels are about.
    labels : Labels
        Of a concept.
    how : dict
        As of `parameters`.
    go_on : callable
        Called now and then; what it raises ends the learning.

    Raises
    ------
    InputError
        If there are too few labels, or they contradict each other so that no metric meets them.
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
    """Learns the metric of one concept, always from the newest labels. Any thread may ask.

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
        """Whether a newer metric will come without anybody's doing."""
        return self._is_running

    def want(self, pool: Pool, labels: Labels) -> None:
        """Have a metric learned from these labels, unless that is so or there are too few."""
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
        """The newest metric; None where there is none of this pool so far, or labels are too few again."""
        with self._changed:
            newest = self._newest if self._missing is None else None
        return newest if newest is not None and newest.n_items <= len(pool) else None

    def said(self) -> dict[str, Any]:
        """For the page: from how many labels it was learned, how long ago, and what is missing or hinders."""
        with self._changed:
            newest = self._newest if self._missing is None else None
            said = newest.said() if newest is not None else {"labels": None, "age": None, "seconds": None}
            problem = None if self._missing else self._problem
            return said | {"missing": self._missing, "problem": problem, "is_coming": self._is_running}

    def wait(self, seconds: float) -> bool:
        """Until nothing is under way, but no longer; returns whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._is_running, seconds)

    def _learn(self, go_on: GoOn) -> None:
        """Learn what is wanted, until nothing newer is."""
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
