"""A concept (a question) that is being labeled, with its state, its audit and its learning curve."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from closecall.app.display.thumbnails import data_url_of
from closecall.app.engine.audit import Audit
from closecall.app.engine.concept_state import ConceptState, no_other_description
from closecall.app.engine.learning_curve import Milestones
from closecall.app.engine.model_predictions import ConceptPredictions
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import AnswerRecord, Archive, ConceptRecord, Concepts, LabelLog
from closecall.storage.predictions import Predictions
from closecall.storage.repeats import ItemGroups


class LiveConcept(ConceptState):
    """A concept's state, with its audit and its learning curve, which are computed in the background.

    Parameters
    ----------
    record, log, store, pool, groups, pool_under
        See `ConceptState`.
    background : Executor
        Runs the audit and the learning curve.
    """

    def __init__(
        self,
        record: ConceptRecord,
        log: LabelLog,
        store: Concepts,
        pool: Callable[[], Pool | None],
        background: Executor,
        groups: Callable[[], ItemGroups | None] = lambda: None,
        pool_under: Callable[[str], Pool] = no_other_description,
    ) -> None:
        super().__init__(record, log, store, pool, groups, pool_under)
        self.views: dict[type, Any] = {}
        """Views that all sessions of the concept share, by class."""
        self.predictions = ConceptPredictions(Predictions(log.database), record.id)
        """The predictions of other models for this concept."""
        self._background = background
        self.audit = Audit(self, background)
        self.audit_share = store.audit_share(record.id)
        """Share of the rounds that draw an item for the audit, 0 … 1; it applies to all sessions."""
        self.milestones = Milestones(self, background)
        self.is_replaced = Archive(log.database).is_replaced(record.id)
        """Whether another concept has replaced this concept."""

    def set_audit_share(self, share: float) -> None:
        """Set the share of future rounds that draw an item for the audit, 0 … 1.

        Raises
        ------
        InputError
            If the share is not in this range.
        """
        if not 0 <= share <= 1:
            raise InputError(f"The audit's share must be from 0 to 1, got {share}")
        if share == self.audit_share:
            return
        with self.lock:
            self.store.set_audit_share(self.record.id, share)
            self.audit_share = share
        if share and (pool := self._newest_pool()) is not None:
            self._background.submit(self.audit.frame, pool)

    def watch(self, pool: Pool | None) -> None:
        """Extend the learning curve in the background if a milestone is due."""
        self.milestones.catch_up(pool)

    def _apply(self, answer: AnswerRecord) -> None:
        super()._apply(answer)
        if self._pool is not None:  # when the pool appears, the log is read again from its start
            self.milestones.follow(answer, self._state)

    def refresh(self) -> None:
        """Read everything except the answers from the database again. Call this if any of it has changed."""
        with self.lock:
            self.refresh_examples()
            self.refresh_descriptions()
            self.audit_share = self.store.audit_share(self.record.id)
            self.is_replaced = Archive(self.log.database).is_replaced(self.record.id)

    def refresh_examples(self) -> None:
        """Read the example images again, including those added since the last call."""
        with self.lock:
            super().refresh_examples()
            self._example_pictures = [data_url_of(example.image) for example in self.examples]

    def example_pictures(self) -> list[str]:
        """Return the example images as data URLs, oldest first."""
        return self._example_pictures
