"""The grid: many items that are answered at once.

Each submission of a grid ends a round: the SVM is trained once, and the next items are selected together. The
grid shows items near the hyperplane that are not too similar to each other. Items that the annotator leaves
unmarked stay unanswered and may be selected again. The previous grid can be corrected. In an overlap round
(`core.audit.turns`), all items are drawn from the items that need a further annotator.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar

from closecall.app.engine.selection import Chosen, select_items
from closecall.app.engine.selection_parameters import BATCH, is_of_many
from closecall.app.sessions.answers import Outcome, parse_answers, store_presses
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted, SearchIncomplete
from closecall.storage import AnswerRecord, AppendResult, SelectionRecord, StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

SIZES = (12, 20, 28, 40, 60)
"""Grid sizes that the page offers."""

LEAST, USUAL, MOST = SIZES[0], 28, SIZES[-1]

DIVERSITY = 0.7
"""Minimum distance between items of a grid, as a share of the median angle; see `core.selection.diversity`.

On CIFAR-10 with 20 variants of each image, 6 of the 28 items nearest to a hyperplane are variants of other
items among the 28. With a share of 0.5, the grid has three such variants; with 0.7, one or two. In
simulations of twelve grids, the SVM learns as much with shares of up to 0.7 as from the nearest items. With
0.9, the SVM learns less (digits and CIFAR-10, 20,000 items each).
"""

Batch = tuple[SelectionRecord, ...]
"""Records of items selected together, in the order of choice."""


class BatchSession(ABC):
    """A view of a labeling session that shows many items at once. Each batch is a round of the session.

    The session shows either one item or a batch, and selects again when the view changes. But if a batch was
    not answered, the item that was in view before it is shown again, so that a look at other items doesn't
    replace a question, nor draw again whether this question is for the audit.

    Parameters
    ----------
    session : LabelingSession
        The session whose concept, strategy, log and lock the view uses.

    Attributes
    ----------
    shown : tuple of SelectionRecord
        The batch in view; empty if there is none.
    last : tuple of SelectionRecord
        The previous batch, which can still be corrected.
    """

    MARK: ClassVar[str]
    """Name of a selection parameter that all selections of this view have, and no other selections."""

    def __init__(self, session: LabelingSession) -> None:
        self.session = session
        self.id = session.id
        self.shown: Batch = ()
        self.last: Batch = ()
        self._resume()
        session.view = self

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers together.

        If an answer is about the batch in view or the previous batch, or if it is an undo, the batch in view
        is no longer shown, and `attend` selects the next batch. The same is true if an answer is refused
        because the person has answered the item in another session. An answer that is sent again is
        acknowledged again, but stored only once.
        """
        with self.session.lock:
            result, outcome = self._stored(answers)
            if result.accepted:
                self.session.left = None
            if _are_about(self.shown, [*result.accepted, *result.known]):
                self.last, self.shown = self.shown, ()
            elif (
                _are_about(self.last, result.accepted)
                or any(answer.undoes for answer in result.accepted)
                or (outcome.refused and any(map(self.session.is_answered_elsewhere, self.shown)))
            ):
                self.shown = ()
        return outcome

    def _stored(self, answers: Sequence[Mapping[str, Any]]) -> tuple[AppendResult, Outcome]:
        """Store the answers. If another server has taken over the session, take the session back first."""
        try:
            return store_presses(*parse_answers(answers, session=self.session), self.session)
        except StorageError as error:
            if error.kind != "moved":
                raise
        self.session.take_back()
        return store_presses(*parse_answers(answers, session=self.session), self.session)

    def reopen(self) -> None:
        """Show the session's newest batch in the log, because another server has continued the session."""
        self.shown = self.last = ()
        self._resume()
        if self.shown or self.last:
            self.session.view = self

    def attend(self) -> None:
        """Record activity, and select a batch if none is in view."""
        with self.session.lock:
            self.session.touch()
            if self.session.view is not self:
                self.shown, self.last, self.session.view = (), (), self
            if self.shown and all(map(self.session.is_answered_elsewhere, self.shown)):
                self.shown = ()
            if not self.shown:
                self._choose()

    def standing_of(self, items: Iterable[int]) -> dict[int, str]:
        """Return each item's status; for items without answers, "held" if leased to other people, else ""."""
        leased = set(self.session.project.leases.held(but_for=self.session.own_sessions()))
        concept = self.session.concept
        with concept.lock:
            state = concept.catch_up()
            return {item: state.status(item) or ("held" if item in leased else "") for item in items}

    @abstractmethod
    def _select(self, pool: Pool) -> Chosen | None:
        """Select the items to show next, without logging them; return None if none of them can be answered.

        Raises
        ------
        PoolExhausted
            If the query strategy has no item left to select.
        """

    @abstractmethod
    def _take_up(self, batch: Batch) -> None:
        """Restore the view's settings from a batch in the log."""

    def _choose(self) -> None:
        """Select a batch. If the selection can't be stored, nothing is shown and `trouble` says why.

        If another server has taken the session over meanwhile, the session is taken back, and the batch that
        the other server shows stays.
        """
        try:
            self._choose_batch()
        except StorageError as error:
            if error.kind != "moved":
                raise
            self.session.take_back()
            if not self.shown:
                self._choose_batch()

    def _choose_batch(self) -> None:
        session, pool = self.session, self.session.project.pool
        if session.trouble is not None:
            session.recall_rounds()
        session.left = session.shown or session.left
        self.shown, session.shown, session.trouble = (), None, None
        if pool is None:
            return
        try:
            with session.project.store.load.serving(session.id):
                chosen = self._select(pool)
            if chosen is None:
                session.project.leases.keep(session.id, ())
            else:
                self.shown = tuple(session.project.log.record_selections(chosen.records))
                session.begin_round(self.shown[0], chosen)
                session.project.leases.keep(session.id, {record.item for record in self.shown})
        except PoolExhausted:
            session.exhausted = True
            session.project.leases.keep(session.id, ())
        except SearchIncomplete as error:
            session.trouble = str(error)
        except StorageError as error:
            if error.kind == "moved":
                raise
            session.trouble = str(error)

    def _resume(self) -> None:
        """Show the last batch again, unless it was answered or the session has shown something else since."""
        recent = self.session.project.log.recent_selections(self.session.id, 2 * MOST)
        # A selection sent to the browser in advance keeps its round's number, which a batch may get, too.
        batches = groupby(recent, key=lambda record: (record.round, is_of_many(record)))
        rounds: list[Batch] = [tuple(batch) for _, batch in batches]
        before, newest = [(), (), *rounds][-2:]
        if not self._is_own(newest):
            return
        self._take_up(newest)
        if self._was_answered(newest):
            self.last = newest
        elif self.session.may_show(*newest):
            self.shown = newest
            self.last = before if self._is_own(before) and self._was_answered(before) else ()

    def _is_own(self, batch: Batch) -> bool:
        return bool(batch) and is_of_many(batch[0]) and self.MARK in batch[0].parameters

    def _was_answered(self, batch: Batch) -> bool:
        return any(self.session.project.log.is_answered(record.id) for record in batch)


class GridSession(BatchSession):
    """A grid of the items that the session's strategy selects, usually those nearest to the hyperplane."""

    MARK = BATCH

    def __init__(self, session: LabelingSession) -> None:
        self._size = USUAL
        super().__init__(session)

    @property
    def size(self) -> int:
        """Number of items in the grid."""
        return self._size

    def resize(self, size: int) -> None:
        """Set the number of items. If the number changes, a new grid replaces the grid in view.

        Raises
        ------
        InputError
            If the number is not from `LEAST` to `MOST`.
        """
        if not LEAST <= size <= MOST:
            raise InputError(f"a grid must have from {LEAST} to {MOST} items, got {size}")
        with self.session.lock:
            if size != self._size:
                self._size, self.shown = size, ()

    def _select(self, pool: Pool) -> Chosen:
        occasion = self.session.occasion(pool)
        standing, trained = self.session.concept.trained(pool, self.session.annotator, occasion.persons)
        return select_items(occasion, trained, standing, n=self._size, diversity=DIVERSITY)

    def _take_up(self, batch: Batch) -> None:
        self._size = batch[0].parameters[BATCH]["n"]


def _are_about(batch: Batch, answers: Sequence[AnswerRecord]) -> bool:
    return not {record.id for record in batch}.isdisjoint({answer.selection_id for answer in answers})
