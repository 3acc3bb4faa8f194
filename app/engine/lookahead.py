"""Looking ahead: what would follow each answer to the item in view, computed while a person looks at it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.selection import Chosen, Occasion, select_items
from closecall.app.engine.training import AUDIT
from closecall.core.selection import PoolExhausted
from closecall.storage import Counts, SelectionRecord, Standing

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept
    from closecall.storage.records import AnswerWord

WORDS: tuple[AnswerWord, ...] = ("no", "yes", "skip", "unsure")
"""What may be answered, in the order in which it is looked ahead."""


@dataclass(frozen=True, eq=False)
class Future:
    """What follows one answer.

    Parameters
    ----------
    chosen : Chosen
    counts : Counts
        Of the labels with that answer.
    """

    chosen: Chosen
    counts: Counts


class Lookahead:
    """What would follow each answer to `shown`. Made by one thread, awaited by others, cancelled by any.

    Parameters
    ----------
    shown : SelectionRecord
        What is in view.
    occasion : Occasion
        Of the selections that would follow.
    concept : LiveConcept
        Whose selections they are, be `shown` its own or another's.
    annotator : str
    reason : object
        What else the futures depend on: while it is the same, they hold.
    """

    def __init__(
        self,
        shown: SelectionRecord,
        occasion: Occasion,
        concept: LiveConcept,
        annotator: str,
        reason: object,
    ) -> None:
        self.shown = shown
        self.reason = reason
        self.futures: Mapping[AnswerWord, Future] = {}
        self._occasion = occasion
        self._concept = concept
        self._annotator = annotator
        self._cancelled = False
        self._done = threading.Event()

    def start(self, executor: ThreadPoolExecutor) -> None:
        """Compute on the executor, which tells what goes wrong; then the card waits for the next item."""
        executor.submit(self._compute)

    def cancel(self) -> None:
        """Nobody needs it any more: what has not begun does not begin."""
        self._cancelled = True

    def wait(self, seconds: float) -> bool:
        """Until it is done, but no longer; returns whether it is."""
        return self._done.wait(seconds)

    @property
    def is_done(self) -> bool:
        """Whether the futures are there, or won't come."""
        return self._done.is_set()

    def future(self, selection_id: str) -> Future | None:
        """The one whose selection has this id."""
        found = (f for f in self.futures.values() if f.chosen.record.id == selection_id)
        return next(found, None)

    @property
    def items(self) -> set[int]:
        """The items that may come next."""
        return {future.chosen.record.item for future in self.futures.values()}

    def _compute(self) -> None:
        try:
            futures = self._each()
            if futures and not self._cancelled:
                self._concept.log.foresee([future.chosen.record for future in futures.values()])
                self.futures = futures
        finally:
            self._done.set()

    def _each(self) -> dict[AnswerWord, Future]:
        futures: dict[AnswerWord, Future] = {}
        known: list[tuple[Standing, Chosen]] = []
        item, trains = self.shown.item, self._trains()
        for word in WORDS:
            if self._cancelled:
                return {}
            standing = self._concept.supposing(
                item, self._annotator, word, trains=trains, persons=self._occasion.persons
            )
            supposed = {"selection": self.shown.id, "item": item, "answer": word, "trains": trains}
            same = next((chosen for other, chosen in known if self._are_alike(other, standing)), None)
            try:
                chosen = same.supposing(supposed) if same else self._chosen(standing, supposed)
            except PoolExhausted:
                continue
            known.append((standing, chosen))
            futures[word] = Future(chosen, standing.counts)
        return futures

    def _trains(self) -> bool:
        """Whether an answer to what is in view would train: not where it belongs to the concept's audit."""
        is_drawn = AUDIT in self.shown.parameters and self.shown.concept_id == self._concept.record.id
        return not (is_drawn or self._concept.is_audited(self.shown.item))

    def _chosen(self, standing: Standing, supposed: Mapping[str, Any]) -> Chosen:
        trained = self._concept.train(self._occasion.pool, standing)
        return select_items(self._occasion, trained, standing, supposed=supposed)

    def _are_alike(self, one: Standing, other: Standing) -> bool:
        """Whether the same would be trained and selected."""
        return (
            one.labels.teach_the_same_as(other.labels)
            and np.array_equal(self._occasion.excluded(one), self._occasion.excluded(other))
            and np.array_equal(one.wanted, other.wanted)
        )
