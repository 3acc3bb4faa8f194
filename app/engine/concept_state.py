"""A concept's labels as they stand in the log, and what is trained on them, in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from closecall.app.engine.training import Trained, train_concept
from closecall.core.pool.pool import Pool
from closecall.storage import ConceptRecord, Concepts, Counts, LabelLog, Labels, LabelState, Standing

if TYPE_CHECKING:
    from closecall.storage.records import AnswerWord

MODELS = 8
"""Of a concept's last models, so many are kept: the one in use, and those looked ahead to."""


@dataclass(frozen=True, eq=False)
class _Model:
    """What labels of a pool's items teach."""

    pool: Pool
    labels: Labels
    trained: Trained

    def is_of(self, pool: Pool, labels: Labels, examples_through: int) -> bool:
        """Whether it was trained on these."""
        is_of_place = self.pool is pool and self.trained.examples_through == examples_through
        return is_of_place and self.labels.teach_the_same_as(labels)


class ConceptState:
    """A concept's labels, folded from the log as far as it has grown, and the models trained on them.

    Parameters
    ----------
    record : ConceptRecord
    log : LabelLog
    store : Concepts
        Has the concept's examples.
    pool : callable
        Returns the newest snapshot of the pool, None before its first items.
    """

    def __init__(
        self, record: ConceptRecord, log: LabelLog, store: Concepts, pool: Callable[[], Pool | None]
    ) -> None:
        self.record = record
        self.log = log
        self.store = store
        self.lock = threading.RLock()
        self._newest_pool = pool
        self._pool = pool()
        self._state = LabelState(record.id, self.has_row)
        self._models: list[_Model] = []  # the one used last is the first
        self.refresh_examples()
        self.catch_up()

    def catch_up(self) -> LabelState:
        """The state of the labels, with everything that is in the log by now; to be read under `lock`."""
        with self.lock:
            self._follow_pool()
            return self.log.catch_up(self._state)

    def has_row(self, item: int) -> bool:
        """Whether the item is one of the pool's: what a damaged log says of others counts for nothing."""
        return self._pool is None or self._pool.has_row(item)

    def _follow_pool(self) -> None:
        """Begin the labels again where another snapshot of the pool has other items of the log's."""
        pool, before = self._newest_pool(), self._pool
        if pool is before:
            return
        self._pool = pool
        if before is None or any(map(self.has_row, self._state.left_out)):
            self._state = LabelState(self.record.id, self.has_row)

    def counts(self) -> Counts:
        """Items by status, with everything that is in the log by now."""
        with self.lock:
            return self.catch_up().counts

    def is_audited(self, item: int) -> bool:
        """Whether the item belongs to the audit: then nothing that is said of it trains."""
        with self.lock:
            return self.catch_up().is_audited(item)

    def standing(self, annotator: str = "", persons: int = 1) -> Standing:
        """The labels, with everything that is in the log by now; see `LabelState.standing`."""
        with self.lock:
            return self.catch_up().standing(annotator, persons)

    def supposing(
        self, item: int, annotator: str, answer: AnswerWord, *, trains: bool, persons: int
    ) -> Standing:
        """The labels, if this were the annotator's next answer."""
        with self.lock:
            return self.catch_up().supposing(item, annotator, answer, trains=trains, persons=persons)

    def refresh_examples(self) -> None:
        """Take up examples that were added."""
        with self.lock:
            self._examples_through = self.store.examples_position(self.record.id)
            self.examples = self.store.examples(self.record.id, self._examples_through)

    def train(self, pool: Pool, standing: Standing) -> Trained:
        """Train on these labels; what was trained on the very same ones a moment ago serves again."""
        labels = standing.labels
        with self.lock:
            examples, through = self.examples, self._examples_through
            models = list(self._models)
        known = next((model for model in models if model.is_of(pool, labels, through)), None)
        if known is None:
            trained = train_concept(pool, labels, examples, self.record, examples_through=through)
            model = _Model(pool, labels, trained)
        else:
            trained, model = replace(known.trained, through=labels.through), known
        with self.lock:
            others = (other for other in self._models if other is not model)
            self._models = [model, *others][:MODELS]
        return trained
