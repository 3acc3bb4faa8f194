"""Labeling sessions: answers go into the log, the SVM is retrained, a query strategy selects the next item.

This module joins core and storage with the help of `app.engine.concept`. It knows nothing of Streamlit; cards
are built in `app.api.cards`.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from closecall.app.engine.lookahead import Lookahead
from closecall.app.engine.selection import Chosen, Occasion, select_items
from closecall.app.engine.training import AUDIT, OVERLAP, PASSED, is_of_many
from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.sessions.answers import Outcome, parse_answers
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted, QueryStrategy, make_strategy
from closecall.storage import (
    AnswerRecord,
    SelectionRecord,
    SessionRecord,
    StorageError,
)

if TYPE_CHECKING:
    from closecall.app.projects.project import Project

HISTORY = 60
"""Number of rounds in the history of each number on the card."""

ATTENDED_SECONDS = 600
"""A person who opens a project resumes the last session, unless it was used within this many seconds."""

AHEAD_SECONDS = 0.25
"""How long a card waits for the look-ahead; after that the browser asks for it."""

AUDIT_SHARE = "audit_share"
"""Session parameter: share of the rounds given to the audit, 0 … 1."""

BLIND = "blind"
"""Session parameter: the blind comparison that the session is a side of (`app.sessions.blind`)."""

SLOW_MS = 500.0
"""Rounds whose training and selection take longer than this are written to the event log."""

_events = logging.getLogger("closecall.selection")


def _tell_if_slow(session_id: str, record: SelectionRecord) -> None:
    taken = (record.retrain_ms or 0.0) + (record.selection_ms or 0.0)
    if taken > SLOW_MS:
        fields = {
            "session": session_id,
            "strategy": record.strategy,
            "labels": record.n_labels,
            "scored": record.items_scored,
            "retrain_ms": record.retrain_ms,
            "selection_ms": record.selection_ms,
        }
        _events.warning("slow selection", extra={"fields": fields})


class Sessions(Protocol):
    """The sessions of a project, by their ids."""

    def session(self, session_id: str, /) -> LabelingSession:
        """Return the session of this id."""

    def known_session(self, session_id: str, person: Person, /) -> LabelingSession | None:
        """Return the session of this id, or None where it is another person's or unknown."""


class LabelingSession:
    """The session of one annotator and one concept. Thread-safe: calls take turns.

    Parameters
    ----------
    project : Project
        The project that the session belongs to.
    record : SessionRecord
        The session's record. A reopened session resumes where its log ends.
    sessions : Sessions
        The project's other sessions.
    """

    DEFAULT: ClassVar[str] = "margin-index"
    """Strategy of new sessions."""

    def __init__(self, project: Project, record: SessionRecord, sessions: Sessions) -> None:
        self.id = record.id
        self.annotator = record.annotator
        self.strategy = record.strategy
        self.project = project
        self.sessions = sessions
        self.concept = project.live_concept(record.concept_id)
        self.include_skipped = False
        self.parameters = dict(record.parameters)
        self.audit_share = float(self.parameters.get(AUDIT_SHARE, 0))
        self.seed = record.seed
        self.lock = threading.RLock()
        self.history: deque[SelectionRecord] = deque(maxlen=HISTORY)
        """The first selections of the last rounds, oldest first, without what others had `leased`."""
        self.recall_rounds()
        self.shown: SelectionRecord | None = None
        self.ahead: Lookahead | None = None
        self.view: object = None
        """The view that selected what is shown: the session, its grid or its classes. Others choose again.
        """
        self.views: dict[object, Any] = {}
        """Other views of the session, by kind; see `Project.grid`."""
        self.owed: AnswerRecord | None = None
        """An undo whose item could not be shown again yet."""
        self._changes = 0
        self.exhausted = False
        self.trouble: str | None = None
        self._touched = time.monotonic()
        self._resume()

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers, retrain after each, and select after those to the item in view.

        Answers are idempotent by id: an answer that is sent again is acknowledged again and stored once.
        """
        with self.lock:
            parsed = parse_answers(answers, session=self)
            self.hold_undone(parsed.records)
            result = self.project.intake.store(parsed.records, shown=list(parsed.following.values()))
            new = {answer.id for answer in result.accepted}
            for answer in sorted((*result.accepted, *result.known), key=lambda stored: stored.seq):
                if answer.id in new or self._is_left(answer):
                    self._take(answer, parsed.following.get(answer.id))
        return Outcome.of(self.id, result.acknowledged, [*parsed.refused, *result.refused])

    def hold_undone(self, answers: Iterable[AnswerRecord]) -> None:
        """Lease the items of undone answers, since they return to this session."""
        undone = [self.project.log.answer(answer.undoes) for answer in answers if answer.undoes]
        own = {answer.item for answer in undone if answer is not None and answer.session_id == self.id}
        if own:
            self.project.leases.add(self.id, own)

    def take_over(self, answers: Sequence[AnswerRecord]) -> None:
        """Store answers about items that this view did not show, and select again."""
        with self.lock:
            self.project.intake.store(answers)
            self._choose_next()

    def in_view(self) -> SelectionRecord | None:
        """Return the selection in view; select one if there is none or another session took it meanwhile.

        Return None if nothing can be shown.
        """
        with self.lock:
            self.touch()
            self.view = self
            if self.shown is not None and not self._may_be_answered(self.shown):
                self.shown = None
            if self.shown is None and self.project.pool is not None:
                self._choose_next()
            return self.shown

    def _may_be_answered(self, shown: SelectionRecord) -> bool:
        """Return whether the item is still leased, and no answer to it was stored without acknowledgement."""
        if not self.project.leases.has(self.id, shown.item):
            return False
        return not (self.project.intake.is_in_doubt and self.project.log.is_answered(shown.id))

    def touch(self) -> None:
        """Record activity."""
        self._touched = time.monotonic()
        self.project.leases.renew(self.id)

    def is_attended(self) -> bool:
        """Return whether there was activity within the last minutes."""
        return time.monotonic() - self._touched < ATTENDED_SECONDS

    def attend(self) -> None:
        """Record that someone is looking: show an item, and wait briefly for the look-ahead."""
        with self.lock:
            self.in_view()
            self.concept.watch(self.project.pool)
            ahead = self._look_ahead()
        if ahead is not None:
            ahead.wait(AHEAD_SECONDS)

    def set_strategy(self, name: str) -> None:
        """Select with the strategy `name` from now on, and replace the item in view.

        Raises
        ------
        InputError
            If there is no such strategy.
        """
        with self.lock:
            if name != self.strategy:
                self.use_strategy(name)
                self._choose_next()

    def use_strategy(self, name: str) -> None:
        """Select with the strategy `name` from the next item on."""
        self.project.indexes.want(name)
        self.project.log.update_session(self.id, strategy=name)
        self.strategy = name  # only now: if it can't be stored, the next attempt stores it

    def set_audit_share(self, share: float, *, by: Person = OPERATOR) -> None:
        """Set the share of the coming rounds that draw an item for the audit.

        Raises
        ------
        InputError
            If the share is not in 0 … 1, or the person is not an owner.
        """
        by.require_owner("set the audit's share")
        if not 0 <= share <= 1:
            raise InputError(f"The audit's share must be from 0 to 1, got {share}")
        with self.lock:
            if share == self.audit_share:
                return
            self.set_parameters({AUDIT_SHARE: share})
            self.audit_share = share
        if share and self.project.pool is not None:
            self.project.background.submit(self.concept.audit.frame, self.project.pool)

    def set_parameters(self, changes: Mapping[str, Any]) -> None:
        """Change parameters of the session in the database; the others stay."""
        with self.lock:
            changed = {**self.parameters, **changes}
            self.project.log.update_session(self.id, parameters=changed)
            self.parameters = changed

    @property
    def side_by_side(self) -> frozenset[str]:
        """Return the sessions that may show the same item: this one and the sides of its blind comparison."""
        return frozenset({self.id, *self.parameters.get(BLIND, {}).get("sides", ())})

    def revisit_skipped(self, include: bool = True) -> None:
        """Set whether skipped items may come again."""
        with self.lock:
            self.include_skipped = include
            if self.shown is None:
                self.exhausted = False

    def add_examples(self, images: Sequence[bytes], *, positive: bool = True, by: Person = OPERATOR) -> None:
        """Add example images, which train the SVM like labels.

        Raises
        ------
        InputError
            If a file is not an image, if the pool has embeddings of the user's own, or if the person is not
            an owner.
        """
        from closecall.app.projects.uploaded_images import read_example

        by.require_owner("add examples")

        with self.lock:
            prepared = [read_example(raw, self.project.pool) for raw in images]
            for image, feature in prepared:
                self.project.concept_store.add_example(self.concept.record.id, image, positive, feature)
            self.concept.refresh_examples()
            self._choose_next()

    def _resume(self) -> None:
        """Show the last selection again if it was not answered."""
        self.project.indexes.want(self.strategy)
        last = self.project.log.last_selection(self.id)
        if last is not None and not is_of_many(last) and self.may_show(last):
            self.shown = last

    def may_show(self, *records: SelectionRecord, beside: Iterable[str] = ()) -> bool:
        """Lease and return whether the records may be shown again: unanswered, and leased to nobody else.

        Items without a row in the pool, which a damaged log may name, can't be answered.
        """
        pool = self.project.pool
        if pool is None or not all(pool.has_row(record.item) for record in records):
            return False
        log, leases = self.project.log, self.project.leases
        others = leases.others(self.id, beside={*self.side_by_side, *beside})
        if any(log.is_answered(record.id) or self._has_been_said(record) for record in records):
            return False
        return not others.take([record.item for record in records])

    def _has_been_said(self, record: SelectionRecord) -> bool:
        """Return whether others answered the item during a long inactivity of this session."""
        with self.concept.lock:
            state = self.concept.catch_up()
            status, votes = state.status(record.item), state.votes(record.item)
        if OVERLAP in record.parameters:
            return self.annotator in votes or len(votes) >= record.parameters[OVERLAP]["persons"]
        return status not in (None, "skip")

    def _take(self, answer: AnswerRecord, following: str | None) -> None:
        """Take up a stored answer: what follows it is already in view or is chosen now."""
        if answer.answer == "undo":
            self.show_again(answer, round=self._next_round)
        elif answer.corrects is not None:
            self._changes += 1
        elif not (following and self._go_on_to(following)) and (
            self.shown is None or answer.selection_id == self.shown.id
        ):
            self._choose_next()

    def _is_left(self, answer: AnswerRecord) -> bool:
        """Return whether nothing was shown after the answer: the server was lost right after storing it."""
        if answer.answer == "undo":
            return self.is_to_come_back(answer)
        return self.shown is not None and answer.selection_id == self.shown.id

    def is_to_come_back(self, undo: AnswerRecord) -> bool:
        """Return whether the item of an undone answer still has to be shown again."""
        return self.project.log.selection(_again(undo)) is None

    def _go_on_to(self, selection_id: str) -> bool:
        """Show what the browser shows since the answer; return False for a foreign selection."""
        record = self.project.log.selection(selection_id)
        if record is None or record.session_id != self.id:
            return False
        future = self.ahead.future(selection_id) if self.ahead else None
        self.begin_round([record], future.chosen if future else None)
        return True

    def is_audits(self, selection_id: str) -> bool:
        """Return whether the selection, shown or sent ahead, was drawn for the audit."""
        if self.shown is not None and self.shown.id == selection_id:
            return AUDIT in self.shown.parameters
        future = self.ahead.future(selection_id) if self.ahead else None
        log = self.project.log
        record = future.chosen.record if future else log.selection(selection_id) or log.foreseen(selection_id)
        return record is not None and AUDIT in record.parameters

    def _strategy(self, pool: Pool) -> QueryStrategy:
        """Return the session's strategy, or an exhaustive scan while its index is being built."""
        ready = self.project.indexes.get(self.strategy)
        return ready if ready is not None else make_strategy("exhaustive").fit(pool)

    def _choose_next(self) -> None:
        """Choose what to show. If the selection can't be stored, nothing is shown and the card says why.

        All earlier answers are on disk by then, and the next card tries again.
        """
        if self.trouble is not None:
            self.recall_rounds()
        self.shown, self.trouble, self.view = None, None, self
        pool = self.project.pool
        if pool is None:
            return
        if self.owed is not None:
            self.show_again(self.owed, round=self._next_round)
            return
        occasion = self.occasion(pool)
        standing = self.concept.standing(self.annotator, occasion.persons)
        try:
            chosen = select_items(occasion, self.concept.train(pool, standing), standing)
            self.begin_round([self.project.log.record_selection(chosen.record)], chosen)
        except PoolExhausted:
            self.exhausted = True
            self.project.leases.keep(self.id, ())
        except StorageError as error:
            self.trouble = str(error)

    def occasion(self, pool: Pool) -> Occasion:
        """Return what the next selection depends on besides the labels; call it before reading them."""
        strategy = self._strategy(pool)
        return Occasion(
            session_id=self.id,
            concept=self.concept.record,
            pool=pool,
            strategy=strategy,
            others=self.project.leases.others(self.id, beside=self.side_by_side),
            include_skipped=self.include_skipped,
            session_seed=self.seed,
            round=self._next_round,
            remembered=self.project.memories.newest(self.id, strategy),
            audit=self.concept.audit,
            audit_share=self.audit_share,
            passed=self.concept.audit.passed(),
            persons=self.project.persons(self._next_round, self.seed),
        )

    @property
    def last_round(self) -> int:
        """Return the highest number of the session's last rounds, or 0 before the first.

        The newest round need not have it: a selection sent ahead keeps its number even if other rounds began
        since.
        """
        return max((record.round for record in self.history), default=0)

    @property
    def _next_round(self) -> int:
        return self.last_round + 1

    def recall_rounds(self) -> None:
        """Read the rounds from the log again if the last one could not be stored, or seemed not to be.

        Only its acknowledgement may have been lost, and two rounds with one number would be taken for one.
        """
        rounds = self.project.log.recent_rounds(self.id, HISTORY)
        self.history.clear()
        for record in rounds:
            self._remember(record)

    def _remember(self, record: SelectionRecord) -> None:
        # With 50 people, each record has 250 leased items, and the sessions' histories have 3,000 records.
        self.history.append(replace(record, leased=()))

    def begin_round(self, records: Sequence[SelectionRecord], chosen: Chosen | None) -> None:
        """Begin a round with one item in view, or with the items of a grid."""
        self._remember(records[0])
        _tell_if_slow(self.id, records[0])
        self.shown = None if is_of_many(records[0]) else records[0]
        self.exhausted, self.trouble = False, None
        self.project.leases.keep(self.id, {record.item for record in records})
        self.concept.audit.pass_over(records[0].parameters.get(PASSED, ()))
        if chosen is not None and chosen.trained.hyperplane is not None:
            hyperplane, seconds = chosen.trained.hyperplane, chosen.computed_seconds
            self.project.memories.offer(self.id, chosen.strategy, hyperplane, seconds)

    def show_again(self, undo: AnswerRecord, *, round: int) -> None:  # noqa: A002 (it is the selection's)
        """Show the item of an undone answer again, with the numbers of its own selection."""
        undone = self.project.log.answer(undo.undoes or "")
        before = self.project.log.selection(undone.selection_id) if undone and undone.selection_id else None
        if before is None or not self.concept.has_row(before.item):
            return
        name = _again(undo)
        again = replace(before, id=name, round=round, why="undo", session_id=self.id)
        self.owed = undo
        try:
            self._show(self.project.log.selection(name) or self.project.log.record_selection(again))
        except StorageError as error:
            self.shown, self.trouble = None, str(error)
        else:
            self.owed = None

    def _show(self, selection: SelectionRecord) -> None:
        self.shown, self.exhausted = selection, False
        self.project.leases.keep(self.id, {selection.item})

    def _look_ahead(self) -> Lookahead | None:
        """Start the look-ahead if it is not running."""
        shown, pool = self.shown, self.project.pool
        if shown is None or pool is None:
            return None
        reason = (shown.id, self.strategy, self.include_skipped, self.audit_share, self._changes)
        if self.ahead is None or self.ahead.reason != reason:
            if self.ahead is not None:
                self.ahead.cancel()
            self.ahead = Lookahead(shown, self.occasion(pool), self.concept, self.annotator, reason)
            self.ahead.start(self.project.executor)
        return self.ahead


def _again(undo: AnswerRecord) -> str:
    """Return the id of the selection that shows an undone item again; it is the same at every attempt."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{undo.id} brings back"))
