"""The learning curve of a concept: how good its classifier was at each milestone.

A milestone is reached each time the number of labels has grown by a quarter, and by at least 20
(`core.evaluation.stopping.is_checkpoint`). Milestones can be computed from the log, so they are not stored.
After a restart they are computed again in the background.

All milestones are measured on the same snapshot of the pool, the newest. If the pool has grown, the
classifiers of the former milestones are measured again on its items. The milestones thus depend only on the
labels and the pool, and a restart doesn't change them. The agreements change with a pool as far as its stop
set changes (`core.evaluation.stability.stop_set`). While a pool is being prepared, it is only measured again
each time it has grown by a quarter, and when it is complete.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.training import accuracy, is_trainable, known_labels, train_concept
from closecall.app.runtime.cores import a_gap, in_gaps
from closecall.core.evaluation.stability import agreement, cross_validated_accuracy, stop_set, within_margin
from closecall.core.evaluation.stopping import FIRST, GROWTH, Advice, Checkpoint, advise, is_checkpoint
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.rows import Rows
from closecall.core.pool.pool import Pool
from closecall.storage import AnswerRecord, Counts, ExampleRecord, LabelState, Standing

if TYPE_CHECKING:
    from closecall.app.engine.concept_state import ConceptState

LEAST_STOP_SET = int(1 / FIRST)
"""Milestones need a pool of at least this many items, so that a share of `FIRST` is at least one item."""

_NUMBERS = attrgetter(*(field.name for field in fields(Counts)))
_COLUMNS = 1 + len(fields(Counts))


@dataclass(frozen=True, eq=False)
class Milestone:
    """The quality of a concept's classifier at one log position.

    Parameters
    ----------
    when : int
        Time of the last answer, in milliseconds since 1970-01-01 UTC.
    checkpoint : Checkpoint
        The classifier's top-scored items of a fixed random set, and the numbers of positive and negative
        labels that the classifier was trained on.
    cross_validated : float or None
        See `core.evaluation.stability.cross_validated_accuracy`.
    held_out : float or None
        Accuracy on the held-out items, 0 … 1; None if the truth is unknown.
    within_margin : int
        Number of unanswered items with |wᵀx + b| < 1.
    agreement : float or None
        Cohen's κ between this and the previous `checkpoint`; None at the first milestone.
    hyperplane : Hyperplane
        The classifier.
    answered : array of shape (n_answered,), int64
        Ids of the items that had an answer.
    """

    when: int
    checkpoint: Checkpoint
    cross_validated: float | None
    held_out: float | None
    within_margin: int
    agreement: float | None
    hyperplane: Hyperplane
    answered: NDArray[np.int64]


class _Due(NamedTuple):
    """A milestone to be computed: the time of its last answer, its labels and its example images."""

    when: int
    standing: Standing
    examples: Sequence[ExampleRecord]


class Milestones:
    """The milestones of a concept. One thread computes them; any thread may read them.

    Parameters
    ----------
    concept : ConceptState
    executor : Executor
        Computes the milestones, and reports errors.
    """

    def __init__(self, concept: ConceptState, executor: Executor) -> None:
        self._concept = concept
        self._executor = executor
        self._seq = 0
        self._course = array("q")  # per answer: its time, then the counts
        self._due: deque[_Due] = deque()
        self._newest = 0  # number of labels at the last milestone that was reached or is due
        self._reached: list[Milestone] = []
        self._advice = advise([])
        self._stable_since: Milestone | None = None
        self._measured: Pool | None = None  # the snapshot on which all of `_reached` were measured
        self._stop_set: Rows | None = None  # of this snapshot
        self._former: deque[Milestone] = deque()  # milestones to be measured again on this snapshot
        self._again: list[Milestone] = []  # milestones that were measured again
        self._lock = threading.Lock()
        self._is_computing = False

    @property
    def reached(self) -> Sequence[Milestone]:
        """Return the milestones known so far, oldest first."""
        return tuple(self._reached)

    @property
    def advice(self) -> Advice:
        """Return whether labeling may stop, and why."""
        return self._advice

    @property
    def stable_since(self) -> Milestone | None:
        """Return the milestone since which the advice has been to stop; None if the advice is to go on.

        While milestones are being computed, the advice may still change.
        """
        return self._stable_since

    @property
    def is_computing(self) -> bool:
        """Return whether a milestone is still being computed."""
        return self._is_computing

    def course(self, n: int) -> list[tuple[int, Counts]]:
        """Return the number of items of each status, at up to `n` moments, oldest first.

        Each element is a tuple of the moment, in milliseconds since 1970-01-01 UTC, and the numbers.
        """
        known = len(self._course) // _COLUMNS
        places = np.unique(np.linspace(0, max(0, known - 1), min(n, known)).astype(int)).tolist()
        rows = (self._course[place * _COLUMNS : (place + 1) * _COLUMNS] for place in places)
        return [(time, Counts(*counts)) for time, *counts in rows]

    def follow(self, answer: AnswerRecord, state: LabelState) -> None:
        """Record the numbers of items by status after an answer; queue a milestone if the answer reaches one.

        `state` has the labels up to and including this answer. If the answer has been recorded before, do
        nothing.
        """
        if answer.seq <= self._seq:
            return
        self._seq, counts = answer.seq, state.counts
        self._course.extend((answer.server_time, *_NUMBERS(counts)))
        if is_checkpoint(self._newest, counts.labels):
            examples = [one for one in self._concept.examples if one.created <= answer.server_time]
            standing = state.standing()
            if is_trainable(standing.labels, examples):
                self._due.append(_Due(answer.server_time, standing, examples))
                self._newest = counts.labels

    def catch_up(self, pool: Pool | None) -> None:
        """Compute the milestones that are due in the background; if the pool has grown, measure all again."""
        self._concept.catch_up()
        with self._lock:
            if pool is None or len(pool) < LEAST_STOP_SET or self._is_computing:
                return
            if not (self._due or self._former or (self._reached and self._has_grown(pool))):
                return
            self._is_computing = True
        self._executor.submit(self._go_on, pool)

    def _go_on(self, pool: Pool) -> None:
        """Compute one milestone. The next one is a new task, so that other tasks can run in between."""
        goes_on = False
        try:
            if self._has_grown(pool):
                self._measured, self._stop_set = pool, stop_set(pool)
                self._former, self._again = deque(self._reached), []
            if self._former:
                self._again.append(self._measured_again(self._former[0]))
                self._former.popleft()
                if not self._former:
                    self._publish(self._again)
            elif self._due:
                self._publish([*self._reached, self._milestone(self._due.popleft(), pool)])
            goes_on = True
        finally:
            if not goes_on and not self._former:
                self._newest = self._reached[-1].checkpoint.n_labels if self._reached else 0
            with self._lock:
                self._is_computing = goes_on = goes_on and bool(self._due or self._former)
        if goes_on:
            self._executor.submit(self._go_on, pool)

    def _has_grown(self, pool: Pool) -> bool:
        """Return whether all milestones should be measured on `pool` instead of a former snapshot."""
        before = self._measured
        if before is None:
            return True
        if pool.complete:
            return len(pool) > len(before) or not before.complete
        return len(pool) >= GROWTH * len(before)

    def _publish(self, reached: list[Milestone]) -> None:
        """Replace the milestones, and the advice that follows from them."""
        checkpoints, since, advice = [one.checkpoint for one in reached], None, advise([])
        for n, milestone in enumerate(reached, 1):
            advice = advise(checkpoints[:n])
            since = (since or milestone) if advice.stop else None
        self._reached, self._advice, self._stable_since = reached, advice, since

    def _milestone(self, due: _Due, pool: Pool) -> Milestone:
        concept, standing, examples = self._concept.record, due.standing, due.examples
        through = examples[-1].id if examples else 0
        with a_gap():
            trained = train_concept(pool, standing.labels, examples, concept, examples_through=through)
        assert trained.hyperplane is not None
        n_yes = int(np.count_nonzero(standing.labels.yes))
        labels = known_labels(pool, standing.labels, examples)
        before = self._reached[-1] if self._reached else None
        return Milestone(
            when=due.when,
            cross_validated=cross_validated_accuracy(
                labels, C=concept.c, class_weight=concept.class_weight, pace=in_gaps
            ),
            hyperplane=trained.hyperplane,
            answered=standing.answered,
            **self._measures(
                trained.hyperplane, standing.answered, n_yes, len(standing.labels) - n_yes, before
            ),
        )

    def _measured_again(self, former: Milestone) -> Milestone:
        """Return a former milestone, measured on the current snapshot."""
        then, before = former.checkpoint, self._again[-1] if self._again else None
        measures = self._measures(former.hyperplane, former.answered, then.n_yes, then.n_no, before)
        return replace(former, **measures)

    def _measures(
        self,
        hyperplane: Hyperplane,
        answered: NDArray[np.int64],
        n_yes: int,
        n_no: int,
        before: Milestone | None,
    ) -> dict[str, Any]:
        """Return the fields of a milestone that depend on the pool. `before` is the previous milestone."""
        pool = self._measured
        assert pool is not None
        assert self._stop_set is not None
        checkpoint = Checkpoint.of(hyperplane.scores(self._stop_set), n_yes, n_no)
        return {
            "checkpoint": checkpoint,
            "held_out": accuracy(pool, hyperplane, self._concept.record.positive_class),
            "within_margin": within_margin(pool, hyperplane, exclude=answered, pace=in_gaps),
            "agreement": None if before is None else agreement(before.checkpoint.first, checkpoint.first),
        }
