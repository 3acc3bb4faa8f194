"""A concept that is labeled in this process: its state, its audit and its learning curve."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

from closecall.app.display.thumbnails import data_url_of
from closecall.app.engine.audit import Audit
from closecall.app.engine.concept_state import ConceptState
from closecall.app.engine.learning_curve import Milestones
from closecall.core.pool.pool import Pool
from closecall.storage import ConceptRecord, Concepts, LabelLog


class LiveConcept(ConceptState):
    """A concept's state, and what is computed about it in the background.

    Parameters
    ----------
    record, log, store, pool
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
    ) -> None:
        super().__init__(record, log, store, pool)
        self.views: dict[type, Any] = {}
        """What its sessions share, by kind: made once, and freed with it."""
        self.audit = Audit(self, background)
        self.milestones = Milestones(self, background)

    def watch(self, pool: Pool | None) -> None:
        """Look, in the background, how far it is, where there are enough labels for another look."""
        if self.milestones.is_due(self.counts().labels):
            self.milestones.catch_up(pool)

    def refresh_examples(self) -> None:
        """Take up examples that were added."""
        with self.lock:
            super().refresh_examples()
            self._example_pictures = [data_url_of(example.image) for example in self.examples]

    def example_pictures(self) -> list[str]:
        """The examples as data URLs."""
        return self._example_pictures
