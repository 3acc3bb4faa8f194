"""Labeling sessions: answers go into the log, the SVM is retrained, a query strategy picks the next item.

This module alone joins core and storage. It knows nothing of Streamlit: the page hands it the browser's
answers and shows the card that it returns.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from app.answers import parse_answers
from app.card import card, example_urls
from app.training import (
    REMEMBERED,
    SKIPPED_TOO,
    Trained,
    accuracy,
    choose,
    excluded_items,
    train_concept,
    why_chosen,
)
from core.pool import Pool
from core.selection import PoolExhausted, QueryStrategy, make_strategy
from storage import (
    AnswerRecord,
    ConceptRecord,
    LabelState,
    Refusal,
    SelectionRecord,
    SessionRecord,
    StorageError,
    new_id,
)

if TYPE_CHECKING:
    from app.project import Project
    from storage.records import Why

HISTORY = 60
"""Rounds that the course of each number shows."""


STAND_INS: dict[Why, str] = {"example": "example", "random-start": "random"}
"""What chooses as long as there is no hyperplane."""


ROUNDS_APART = 1_000_003
"""Sessions with neighbouring seeds share no round's seed before this many rounds."""

ATTENDED_SECONDS = 600
"""Somebody who opens a project afresh goes on with the last session, unless it was used within this time."""


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
        self._lock = threading.RLock()
        self._state = LabelState(record.id)
        self.refresh_examples()
        self.catch_up()

    def catch_up(self) -> LabelState:
        """The state of the labels, with everything that is in the log by now."""
        with self._lock:
            return self._project.log.catch_up(self._state)

    def refresh_examples(self) -> None:
        """Take up examples that were added."""
        with self._lock:
            self._examples_through = self._project.concept_store.examples_position(self.record.id)
            self._examples = self._project.concept_store.examples(self.record.id, self._examples_through)
            self._example_pictures = example_urls([example.image for example in self._examples])

    def example_pictures(self) -> list[str]:
        """The examples as data URLs."""
        return self._example_pictures

    def train(self, pool: Pool) -> Trained:
        """Retrain on the labels as they are now."""
        with self._lock:
            labels, examples, through = self.catch_up().labels(), self._examples, self._examples_through
        return train_concept(pool, labels, examples, self.record, examples_through=through)


class LabelingSession:
    """One annotator at one concept. All methods may be called from any thread; they take turns.

    Parameters
    ----------
    project : Project
        The project that the session belongs to.
    record : SessionRecord
        The session; reopening it goes on where its log ends.
    """

    DEFAULT: ClassVar[str] = "margin-index"
    """The strategy of new sessions."""

    def __init__(self, project: Project, record: SessionRecord) -> None:
        self.id = record.id
        self.annotator = record.annotator
        self.strategy = record.strategy
        self.project = project
        self.concept = project.live_concept(record.concept_id)
        self.include_skipped = False
        self._seed = record.seed
        self._lock = threading.RLock()
        self.history: deque[SelectionRecord] = deque(
            project.log.recent_selections(record.id, HISTORY), maxlen=HISTORY
        )
        self.shown: SelectionRecord | None = None
        self.exhausted = False
        self.trouble: str | None = None
        self._touched = time.monotonic()
        self._resume()

    def submit(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Store the browser's answers; each retrains the SVM and, if it was the shown item's, picks the next.

        Answers are idempotent by their id: sent again they are acknowledged again, and stored once.

        Returns
        -------
        dict
            The card; `acked` names the answers that are on the disk, `refused` those that never will be.
        """
        with self._lock:
            parsed = parse_answers(answers, session=self)
            result = self.project.log.append_answers(parsed.records)
            for answer in result.accepted:
                self._take(answer)
            refused = [*parsed.refused, *result.refused]
            return self._card(acked=result.acknowledged, refused=refused)

    def is_attended(self) -> bool:
        """Whether somebody was at it within the last minutes."""
        return time.monotonic() - self._touched < ATTENDED_SECONDS

    def card(self) -> dict[str, Any]:
        """What the page shows now."""
        with self._lock:
            return self._card()

    def set_strategy(self, name: str) -> dict[str, Any]:
        """Let the strategy `name` choose from now on, the item in view included.

        Raises
        ------
        InputError
            If there is no such strategy.
        """
        with self._lock:
            if name != self.strategy:
                self.project.indexes.want(name)
                self.strategy = name
                self.project.log.update_session(self.id, strategy=name)
                self._choose_next(self._trained())
            return self._card()

    def revisit_skipped(self, include: bool = True) -> None:
        """Whether skipped items may come again."""
        with self._lock:
            self.include_skipped = include
            if self.shown is None:
                self.exhausted = False

    def add_examples(self, images: Sequence[bytes], *, positive: bool = True) -> None:
        """Images that show what is meant; they train the SVM like labels.

        Raises
        ------
        InputError
            If one of them is no image, or if the pool has embeddings of the user's own.
        """
        from app.examples import read_example

        with self._lock:
            prepared = [read_example(raw, self.project) for raw in images]
            for image, feature in prepared:
                self.project.concept_store.add_example(self.concept.record.id, image, positive, feature)
            self.concept.refresh_examples()
            self._choose_next(self._trained())

    def _resume(self) -> None:
        """Show what was shown last, if it was not answered."""
        self.project.indexes.want(self.strategy)
        last = self.project.log.last_selection(self.id)
        if last is not None and not self.project.log.is_answered(last.id):
            self._show(last)

    def _take(self, answer: AnswerRecord) -> None:
        """One more answer is in the log: retrain, and choose the next item if this one was in view."""
        trained = self._trained()
        if answer.answer == "undo":
            self._show_again(answer)
        elif self.shown is None or answer.selection_id == self.shown.id:
            self._choose_next(trained)

    def _trained(self) -> Trained | None:
        pool = self.project.pool
        return self.concept.train(pool) if pool is not None else None

    def _strategy(self, pool: Pool) -> QueryStrategy:
        """The session's strategy; as long as its index is being built, an exhaustive scan stands in."""
        ready = self.project.indexes.get(self.strategy)
        return ready if ready is not None else make_strategy("exhaustive").fit(pool)

    def _choose_next(self, trained: Trained | None) -> None:
        """Choose what to show; where that can't be written down nothing is shown, and the card says why.

        The answers before are on the disk by then, and the next card tries again.
        """
        self.shown, self.trouble = None, None
        pool = self.project.pool
        if pool is None or trained is None:
            return
        try:
            self._select(pool, trained)
        except StorageError as error:
            self.trouble = str(error)

    def _select(self, pool: Pool, trained: Trained) -> None:
        leased = sorted(item for session, item in self.project.shown.items() if session != self.id)
        state = self.concept.catch_up()
        exclude = excluded_items(state, leased, include_skipped=self.include_skipped)
        number = self.history[-1].round + 1 if self.history else 1
        seed = self._seed * ROUNDS_APART + number
        strategy = self._strategy(pool)
        remembered = self.project.memories.newest(self.id, strategy)
        memory = remembered.memory if remembered else None
        started = time.thread_time()
        try:
            selection = choose(pool, strategy, trained, exclude=exclude, seed=seed, memory=memory)
        except PoolExhausted:
            self.shown, self.exhausted = None, True
            self.project.shown.pop(self.id, None)
            return
        computed_seconds = time.thread_time() - started
        why = why_chosen(trained)
        margin = float(selection.margins[0])
        item = int(selection.ids[0])
        parameters = strategy.params() if why == "strategy" else {}
        if self.include_skipped:
            parameters[SKIPPED_TOO] = True
        if remembered and why == "strategy":
            parameters[REMEMBERED] = remembered.digest
        record = self.project.log.record_selection(
            SelectionRecord(
                session_id=self.id,
                concept_id=self.concept.record.id,
                round=number,
                item=item,
                why="skipped-again" if state.status(item) == "skip" else why,
                strategy=strategy.name if why == "strategy" else STAND_INS[why],
                parameters=parameters,
                seed=seed,
                pool_version=pool.version,
                items_total=selection.items,
                probability=selection.probability,
                margin=None if np.isnan(margin) else margin,
                selection_ms=1000 * selection.seconds,
                items_scored=selection.scored,
                retrain_ms=trained.retrain_ms,
                n_labels=trained.n_labels,
                hyperplane_digest=trained.hyperplane.digest if trained.hyperplane else None,
                trained_through=trained.through,
                examples_through=trained.examples_through,
                c=self.concept.record.c,
                class_weight=self.concept.record.class_weight,
                leased=tuple(leased),
                accuracy=accuracy(pool, trained.hyperplane, self.concept.record.positive_class),
            )
        )
        self.history.append(record)
        self._show(record)
        if trained.hyperplane is not None:
            self.project.memories.offer(self.id, strategy, trained.hyperplane, computed_seconds)

    def _show_again(self, undo: AnswerRecord) -> None:
        """Bring back the item whose answer was undone, with the numbers of its own selection."""
        undone = self.project.log.answer(undo.undoes or "")
        before = self.project.log.selection(undone.selection_id) if undone and undone.selection_id else None
        if before is None:
            return
        number = self.history[-1].round + 1 if self.history else 1
        again = replace(before, id=new_id(), round=number, why="undo", session_id=self.id)
        try:
            self._show(self.project.log.record_selection(again))
        except StorageError as error:
            self.shown, self.trouble = None, str(error)

    def _show(self, selection: SelectionRecord) -> None:
        self.shown, self.exhausted = selection, False
        self.project.shown[self.id] = selection.item

    def _card(self, acked: Sequence[str] = (), refused: Sequence[Refusal] = ()) -> dict[str, Any]:
        self._touched = time.monotonic()
        if self.shown is None and self.project.pool is not None:
            self._choose_next(self._trained())
        return card(self, acked=acked, refused=refused)
