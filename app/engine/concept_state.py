"""The labels of a concept, computed from the log, and the models trained on them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from closecall.app.engine.directions import PAGE, Direction
from closecall.app.engine.selection_parameters import DIRECTION, description_of
from closecall.app.engine.training import Trained, train_concept, wait_until_trainable
from closecall.app.runtime.cores import a_core
from closecall.core.errors import InputError
from closecall.core.linear.svm import Dual
from closecall.core.pool.pool import Pool
from closecall.storage import (
    AnswerRecord,
    ConceptRecord,
    Concepts,
    Counts,
    LabelLog,
    Labels,
    LabelState,
    Standing,
)
from closecall.storage.repeats import ItemGroups

MODELS = 8
"""Number of recent models kept per concept: the current model, and models trained for look-aheads."""

COMPARED = 4
"""Maximum number of recent models whose labels are compared with the new labels.

Training starts from the model with the most similar labels.
"""


@dataclass(frozen=True, eq=False)
class _Model:
    """A model and the labels it was trained on."""

    pool: Pool
    labels: Labels
    trained: Trained

    def is_of(self, pool: Pool, labels: Labels, examples_through: int) -> bool:
        """Return whether the model was trained on exactly this pool, `labels`, and these example images."""
        is_of_place = self.pool is pool and self.trained.examples_through == examples_through
        return is_of_place and self.labels.teach_the_same_as(labels)

    def changes_to(self, labels: Labels) -> int:
        """Return how many removals and additions turn the model's labels into `labels`.

        A flipped label counts twice.
        """
        if not len(self.labels) or not len(labels):
            return len(self.labels) + len(labels)
        places = np.minimum(np.searchsorted(labels.items, self.labels.items), len(labels) - 1)
        same = (labels.items[places] == self.labels.items) & (labels.yes[places] == self.labels.yes)
        return len(self.labels) + len(labels) - 2 * int(np.count_nonzero(same))


def no_other_description(description: str) -> Pool:
    """Raise an InputError. This is the default `pool_under`, for items with only one set of features."""
    raise InputError(f"There is no description {description!r} here")


class ConceptState:
    """The labels of a concept, computed from the whole log, and the models trained on them.

    Parameters
    ----------
    record : ConceptRecord
    log : LabelLog
    store : Concepts
        The store that has the concept's example images, with the same kind of features as in the pool.
    pool : callable
        Returns the newest snapshot of the pool, or None while the pool has no items.
    groups : callable
        Returns the groups of near-duplicates, or None if there are none; see `asks_once`.
    pool_under : callable
        Takes the name of a description, which is a set of features of all items, and returns the pool with
        these features. Raises an InputError if the pool can't be read.
    """

    def __init__(
        self,
        record: ConceptRecord,
        log: LabelLog,
        store: Concepts,
        pool: Callable[[], Pool | None],
        groups: Callable[[], ItemGroups | None] = lambda: None,
        pool_under: Callable[[str], Pool] = no_other_description,
    ) -> None:
        self.record = record
        self.log = log
        self.store = store
        self.lock = threading.RLock()
        self.asks_once = True
        """Whether selections ask about only one item of each group of near-duplicates."""
        self._newest_pool = pool
        self._newest_groups = groups
        self.pool_under = pool_under
        self._pool = pool()
        self._state = LabelState(record.id, self.has_row)
        self._folded: tuple[LabelState, object] | None = None  # last state; `log.newest` before its update
        self._models: list[_Model] = []  # most recently used first
        self._direction: tuple[Direction | None] | None = None  # None before the log was read
        self._withdrawn = store.withdrawn(record.id)
        self.refresh_examples()

    def catch_up(self) -> LabelState:
        """Apply the answers appended since the last call, and return the state of the labels.

        Hold `lock` while you read the state. The database is queried only if answers have been appended
        (`LabelLog.newest`), by this process or by another server of the project.
        """
        with self.lock:
            self._follow_pool()
            self._state.regroup(self.groups)
            newest = self.log.newest
            if self._folded != (self._state, newest):
                for answer in self.log.answers_after(self.record.id, self._state.seq):
                    self._apply(answer)
                self._folded = self._state, newest
            return self._state

    @property
    def groups(self) -> ItemGroups | None:
        """The groups of near-duplicates; None if there are none, or if `asks_once` is false."""
        return self._newest_groups() if self.asks_once else None

    def _apply(self, answer: AnswerRecord) -> None:
        self._state.apply(answer)

    def has_row(self, item: int) -> bool:
        """Return whether the item is in the pool, or true if there is no pool yet.

        A damaged log may have answers about items that are not in the pool. Such answers are ignored.
        """
        return self._pool is None or self._pool.has_row(item)

    def _follow_pool(self) -> None:
        """Read the log again from its beginning if a new snapshot of the pool changes which answers count."""
        pool, before = self._newest_pool(), self._pool
        if pool is before:
            return
        self._pool = pool
        if before is None or any(map(self.has_row, self._state.left_out)):
            self._state = LabelState(self.record.id, self.has_row)

    @property
    def description(self) -> str:
        """Name of the description that gives the pool's features; "" is the project's first description."""
        return self.store.description

    def can_read(self, description: str) -> bool:
        """Return whether the pool with the features named `description` can be read."""
        try:
            return description == self.description or bool(self.pool_under(description))
        except InputError:
            return False

    def counts(self) -> Counts:
        """Return the number of items in each status, after all answers in the log."""
        with self.lock:
            return self.catch_up().counts

    @property
    def n_examples(self) -> int:
        """Return how many example images the SVM is trained on; see `training.known_labels`."""
        return sum(example.feature is not None for example in self.examples)

    def is_audited(self, item: int, *, without: Container[str | None] = ()) -> bool:
        """Return whether the item belongs to the audit; see `LabelState.is_audited`."""
        with self.lock:
            return self.catch_up().is_audited(item, without=without)

    def standing(self, annotator: str = "", persons: int = 1) -> Standing:
        """Return the labels after all answers in the log; see `LabelState.standing`."""
        with self.lock:
            return self.catch_up().standing(annotator, persons)

    def refresh_examples(self) -> None:
        """Read the example images again, including those added since the last call."""
        with self.lock:
            self._examples_through = self.store.examples_position(self.record.id)
            self.examples = self.store.examples(self.record.id, self._examples_through)

    def trained(self, pool: Pool, annotator: str = "", persons: int = 1) -> tuple[Standing, Trained]:
        """Return the labels after all answers in the log, as `standing` does, and the model trained on them.

        The labels are read only when a core is free. A thread that waits for a core therefore needs no memory
        for labels.
        """
        self.wait_until_trainable(pool)
        with a_core():
            standing = self.standing(annotator, persons)
            return standing, self.train(pool, standing)

    def wait_until_trainable(self, pool: Pool) -> None:
        """Wait until the solver is compiled, if the labels can be trained on."""
        wait_until_trainable(pool, lambda: self.standing().labels, self.examples)

    def train(self, pool: Pool, standing: Standing) -> Trained:
        """Train on these labels, or return a recent model that was trained on the same labels."""
        labels = standing.labels
        with self.lock:
            examples, through = self.examples, self._examples_through
            models = list(self._models)
        known = next((model for model in models if model.is_of(pool, labels, through)), None)
        if known is None:
            start = _nearest_dual(models, pool, labels)
            trained = train_concept(
                pool, labels, examples, self.record, examples_through=through, start=start
            )
            model = _Model(pool, labels, trained)
        else:
            trained, model = replace(known.trained, through=labels.through), known
        with self.lock:
            others = (other for other in self._models if other is not model)
            self._models = [model, *others][:MODELS]
        return trained if trained.hyperplane is not None else trained.towards(self.direction())

    def leans_to_yes(self, pool: Pool, item: int) -> bool:
        """Return whether the newest hyperplane scores the item above 0; False if there is no hyperplane."""
        with self.lock:
            models = list(self._models)
        planes = (model.trained.hyperplane for model in models if model.pool is pool)
        plane = next((plane for plane in planes if plane is not None), None)
        return plane is not None and bool(plane.scores(pool.rows_of([item]))[0] > 0)

    def refresh_direction(self) -> None:
        """Forget the cached `last_direction`. Call this when a search by words has been added to the log."""
        with self.lock:
            self._direction = None

    def refresh_descriptions(self) -> None:
        """Forget the cached `last_direction`, and read again which directions are withdrawn."""
        with self.lock:
            self._direction, self._withdrawn = None, self.store.withdrawn(self.record.id)

    def last_direction(self) -> Direction | None:
        """Return the direction of the last search by words that was made with the pool's current features.

        The direction may have been withdrawn. Return None if there was no such search.
        """
        with self.lock:
            if self._direction is None:
                self._direction = (self._read_last_direction(),)
            return self._direction[0]

    def direction(self) -> Direction | None:
        """Return `last_direction`, or None if it was withdrawn.

        Until there is a yes and a no, the items most similar to this direction, or to a positive example
        image, are selected.
        """
        with self.lock:
            direction = self.last_direction()
            return None if direction is None or direction.digest in self._withdrawn else direction

    def set_withdrawn(self, direction: Direction, is_withdrawn: bool, *, annotator: str) -> None:
        """Withdraw a direction, or use it again if `is_withdrawn` is false. The log does not change."""
        with self.lock:
            if is_withdrawn != (direction.digest in self._withdrawn):
                self.store.set_withdrawn(self.record.id, direction.digest, is_withdrawn, annotator=annotator)
                self._withdrawn = self.store.withdrawn(self.record.id)

    def _read_last_direction(self) -> Direction | None:
        for record in self.log.last_because(self.record.id, "words", PAGE):
            params = record.parameters.get(DIRECTION)
            if params and description_of(record) == self.description:
                with suppress(InputError):  # a damaged log
                    return Direction.of(params)
        return None


def _nearest_dual(models: Sequence[_Model], pool: Pool, labels: Labels) -> Dual | None:
    """Return the dual variables of the recent model whose labels are most similar to `labels`.

    At most `COMPARED` models are compared. The comparison stops at a model that differs by at most one label.
    Return None if no recent model can be used.
    """
    nearest, fewest = None, None
    usable = (model for model in models if model.pool is pool and model.trained.dual is not None)
    for model in islice(usable, COMPARED):
        changes = model.changes_to(labels)
        if fewest is None or changes < fewest:
            nearest, fewest = model.trained.dual, changes
        if changes <= 1:
            break
    return nearest
