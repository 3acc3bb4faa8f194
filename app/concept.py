"""A concept as it stands in this process."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from app.audits import Audit
from app.card import example_urls
from app.milestones import Milestones
from app.training import Trained, train_concept
from core.pool import Pool
from storage import ConceptRecord, Concepts, Counts, LabelLog, Labels, LabelState, Standing

if TYPE_CHECKING:
    from app.project import Project
    from storage.records import AnswerWord

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


class LiveConcept:
    """A concept in this process: its labels folded from the log, and what was last trained on them.

    Parameters
    ----------
    project : Project
        Whose pool and log it uses.
    record : ConceptRecord
        The concept.
    """

    def __init__(self, project: Project, record: ConceptRecord) -> None:
        self.record = record
        self._project = project
        self.views: dict[type, Any] = {}
        """What its sessions share, by kind: made once, and freed with it."""
        self.lock = threading.RLock()
        self._pool = project.pool
        self._state = LabelState(record.id, self.has_row)
        self._models: list[_Model] = []  # the one used last is the first
        self.audit = Audit(self, project.background)
        self.milestones = Milestones(self, project.background)
        self.refresh_examples()
        self.catch_up()

    @property
    def log(self) -> LabelLog:
        """The log that it follows."""
        return self._project.log

    @property
    def concepts(self) -> Concepts:
        """Where its examples are."""
        return self._project.concept_store

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
        pool, before = self._project.pool, self._pool
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

    def watch(self, pool: Pool | None) -> None:
        """Look, in the background, how far it is, where there are enough labels for another look."""
        if self.milestones.is_due(self.counts().labels):
            self.milestones.catch_up(pool)

    def refresh_examples(self) -> None:
        """Take up examples that were added."""
        with self.lock:
            self._examples_through = self._project.concept_store.examples_position(self.record.id)
            self._examples = self._project.concept_store.examples(self.record.id, self._examples_through)
            self._example_pictures = example_urls([example.image for example in self._examples])

    def example_pictures(self) -> list[str]:
        """The examples as data URLs."""
        return self._example_pictures

    def train(self, pool: Pool, standing: Standing) -> Trained:
        """Train on these labels; what was trained on the very same ones a moment ago serves again."""
        labels = standing.labels
        with self.lock:
            examples, through = self._examples, self._examples_through
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
