"""Look-ahead: while the annotator looks at an item, select the next item for each possible answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.selection import Chosen, Occasion, select_items
from closecall.app.engine.selection_parameters import AUDIT
from closecall.core.selection import PoolExhausted
from closecall.storage import Counts, SelectionRecord, Standing, StorageError

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept
    from closecall.storage.records import AnswerWord

WORDS: tuple[AnswerWord, ...] = ("no", "yes", "skip", "unsure")
"""Possible answers, in the order in which the next items are selected for them."""


@dataclass(frozen=True, eq=False)
class Future:
    """The next selection after one of the possible answers.

    Parameters
    ----------
    chosen : Chosen
    counts : Counts
        Numbers of items by status after the answer.
    """

    chosen: Chosen
    counts: Counts


class Lookahead:
    """The next selections after each possible answer to the item that the annotator sees.

    One thread computes them. Any thread may wait for them or cancel them.

    Parameters
    ----------
    shown : SelectionRecord
        The selection of the item that the annotator sees.
    occasion : Occasion
        Conditions of the next selections.
    concept : LiveConcept
        The concept for which the next items are selected; it may differ from the concept of `shown`.
    annotator : str
        The annotator who is about to answer.
    reason : object
        A value for everything else that the selections depend on. If it changes, they are no longer valid.
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

    def start(self, executor: ThreadPoolExecutor, tell: Callable[[], None] = lambda: None) -> None:
        """Start the computation on the executor, which reports errors. After an error, `futures` is empty.

        Once `futures` is complete, `tell` is called.
        """
        self._tell = tell
        executor.submit(self._compute)

    def cancel(self) -> None:
        """Skip the selections that have not started. `futures` stays empty, unless it was complete before."""
        self._cancelled = True

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the selections; return whether the computation has ended."""
        return self._done.wait(seconds)

    @property
    def is_done(self) -> bool:
        """Return whether the computation has ended: it is complete, was cancelled, or failed."""
        return self._done.is_set()

    def future(self, selection_id: str) -> Future | None:
        """Return the entry of `futures` whose selection has this id, or None."""
        found = (f for f in self.futures.values() if f.chosen.record.id == selection_id)
        return next(found, None)

    @property
    def items(self) -> set[int]:
        """Return the items that may come next."""
        return {future.chosen.record.item for future in self.futures.values()}

    def _compute(self) -> None:
        try:
            futures = self._each()
            if futures and not self._cancelled:
                self._concept.log.foresee([future.chosen.record for future in futures.values()])
                self.futures = futures
        except StorageError as error:
            if error.kind != "moved":  # another server continues the session, and looks ahead itself
                raise
        finally:
            del self._occasion  # so that its memory of a hyperplane is freed once it is replaced
            self._done.set()
        if self.futures:
            self._tell()

    def _each(self) -> dict[AnswerWord, Future]:
        futures: dict[AnswerWord, Future] = {}
        known: list[tuple[Standing, Chosen]] = []
        trains, standings = self._standings()
        for word, standing in standings.items():
            if self._cancelled:
                return {}
            supposed = {"selection": self.shown.id, "item": self.shown.item, "answer": word, "trains": trains}
            same = next((chosen for other, chosen in known if self._are_alike(other, standing)), None)
            try:
                chosen = same.supposing(supposed) if same else self._chosen(standing, supposed)
            except PoolExhausted:
                continue
            known.append((standing, chosen))
            futures[word] = Future(chosen, standing.counts)
        return futures

    def _standings(self) -> tuple[bool, dict[AnswerWord, Standing]]:
        """Return whether an answer would be used for training, and the labels after each possible answer.

        Answers about audited items are not used for training. All labels are those of the same log position.
        """
        item, persons = self.shown.item, self._occasion.persons
        is_drawn = AUDIT in self.shown.parameters and self.shown.concept_id == self._concept.record.id
        with self._concept.lock:
            state = self._concept.catch_up()
            trains = not (is_drawn or state.is_audited(item))
            return trains, {
                word: state.supposing(item, self._annotator, word, trains=trains, persons=persons)
                for word in WORDS
            }

    def _chosen(self, standing: Standing, supposed: Mapping[str, Any]) -> Chosen:
        trained = self._concept.train(self._occasion.pool, standing)
        return select_items(self._occasion, trained, standing, supposed=supposed)

    def _are_alike(self, one: Standing, other: Standing) -> bool:
        """Return whether both states of the labels would lead to the same training and selection."""
        return (
            one.labels.teach_the_same_as(other.labels)
            and np.array_equal(self._occasion.excluded(one), self._occasion.excluded(other))
            and np.array_equal(one.wanted, other.wanted)
        )
