"""Find labels that the model contradicts, in the background. Pages wait briefly for a new result."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.training import known_labels
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.linear.leave_one_out import leave_one_out
from closecall.core.pool.pool import Pool
from closecall.storage import ConceptRecord, Concepts, ExampleRecord, Labels

CLEARLY = 1.0
"""A label is doubtful if its contradiction is at least this number; see `Judgement`.

A model trained on the other labels then puts the item on the wrong side of the hyperplane, on or beyond the
margin. The number is high, so that most doubtful labels are mistakes. It was tested in sessions of 600
answers near the hyperplane, 11 of which were wrong. For digits, 6 labels were doubtful, and 4 of these were
mistakes. For photographs, 5 labels were doubtful, and 4 of these were mistakes. The other mistakes had a
lower contradiction. If the features separate a class badly, as GIST does on CIFAR-10, more labels are
doubtful: 36, of which only 4 were mistakes. All counts are means over 3 to 5 sessions.
"""

WAIT_SECONDS = 0.25
"""Seconds that a page waits for a new judgement before it shows the previous one."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """The score of each labeled item under a model trained on the other labels.

    The scores are computed by `core.linear.leave_one_out`.

    Parameters
    ----------
    hyperplane : Hyperplane or None
        Trained on all labels; None until there is a yes and a no.
    items : array of shape (n_labels,), int64
        The labeled items, ascending.
    scores : array of shape (n_labels,), float64
        wᵀx + b of each item, under the hyperplane trained on the other labels. 0 without a hyperplane.
    contradiction : array of shape (n_labels,), float64
        The scores, negated for yes labels: positive if the item is on the wrong side of the hyperplane.
    """

    hyperplane: Hyperplane | None
    items: NDArray[np.int64]
    scores: NDArray[np.float64]
    contradiction: NDArray[np.float64]

    def about(self, items: NDArray[np.int64]) -> Judgement:
        """Return a copy in which `contradiction` is 0 for all labeled items that are not in `items`."""
        return replace(self, contradiction=np.where(np.isin(self.items, items), self.contradiction, 0.0))

    def contradicted(self) -> NDArray[np.int64]:
        """Return the items whose label the hyperplane contradicts, highest contradiction first."""
        order = np.argsort(-self.contradiction, kind="stable")
        return self.items[order[: np.count_nonzero(self.contradiction > 0)]]

    @property
    def n_doubted(self) -> int:
        """Return the number of doubtful labels."""
        return int(np.count_nonzero(self.contradiction >= CLEARLY))

    def scores_of(self, pool: Pool, items: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the scores of `items`, of shape (n_items,); NaN without a hyperplane.

        A labeled item is scored by the hyperplane that was trained without its label.
        """
        if self.hyperplane is None:
            return np.full(len(items), np.nan)
        found = self.hyperplane.scores(pool.rows_of(items))
        place = np.searchsorted(self.items, items)
        is_label = place < len(self.items)
        is_label[is_label] = self.items[place[is_label]] == items[is_label]
        found[is_label] = self.scores[place[is_label]]
        return found


class Judge:
    """The background computation of a `Judgement` of one concept's labels. Thread-safe.

    Parameters
    ----------
    store : Concepts
        The store that has the concept's example images.
    concept : ConceptRecord
        The concept that the labels are about.
    """

    def __init__(self, store: Concepts, concept: ConceptRecord) -> None:
        self._store = store
        self._concept = concept
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="judge")
        self._asked: tuple[bytes, bytes, int] | None = None
        self._job: Future[Judgement] | None = None
        self._newest: Judgement | None = None
        self._examples: tuple[int, list[ExampleRecord]] = (-1, [])

    def judge(self, pool: Pool, labels: Labels) -> tuple[Judgement | None, bool]:
        """Return the newest judgement, or None if there is none yet, and whether it is about these labels.

        Raises
        ------
        InputError
            If the labels can't be trained on.
        """
        with self._lock:
            through = self._store.examples_position(self._concept.id)
            asked = (labels.items.tobytes(), labels.yes.tobytes(), through)
            if asked != self._asked or self._job is None:
                if self._job is not None:
                    self._job.cancel()
                self._asked = asked
                self._job = self._worker.submit(self._judgement, pool, labels, through)
            job = self._job
        try:
            newest = job.result(timeout=WAIT_SECONDS)
        except (TimeoutError, CancelledError):
            return self._newest, False
        with self._lock:
            if job is self._job:
                self._newest = newest
        return newest, True

    def _judgement(self, pool: Pool, labels: Labels, through: int) -> Judgement:
        if self._examples[0] != through:
            self._examples = (through, self._store.examples(self._concept.id, through))
        known = known_labels(pool, labels, self._examples[1])
        n = len(labels)
        if known.y.all() or not known.y.any():
            return Judgement(None, labels.items, np.zeros(n), np.zeros(n))
        order = np.argsort(known.ids)
        found = leave_one_out(
            known.X[order], known.y[order], C=self._concept.c, class_weight=self._concept.class_weight
        )
        scores = np.empty(len(known))
        scores[order] = found.scores
        contradiction = np.where(labels.yes, -scores[:n], scores[:n])
        return Judgement(found.hyperplane, labels.items, scores[:n], contradiction)
