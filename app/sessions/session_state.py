"""The state of a labeling session: its settings, its rounds, and the inputs of its next selection.

The views of a session, such as `app.sessions.item_view` and `app.sessions.grid`, share this state. The views
decide when to select and what to show.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from closecall.app.display.phrases import as_sentence
from closecall.app.engine.occasion import Occasion
from closecall.app.engine.selection import Chosen, kept_apart
from closecall.app.engine.selection_parameters import AUDIT, GROUPS, OVERLAP, PASSED, is_hurried, missing_rows
from closecall.app.projects.roles import AUTOPILOT, OPERATOR, SOMEBODY, Person
from closecall.app.sessions.session_lock import SessionLock
from closecall.core.pool.pool import Pool
from closecall.core.selection import QueryStrategy, make_strategy
from closecall.storage import AnswerRecord, SelectionRecord, SessionRecord, StorageError
from closecall.storage.in_force import in_force

if TYPE_CHECKING:
    from closecall.app.projects.project import Project

HISTORY = 60
"""Number of last rounds whose measurements the card shows."""

ATTENDED_SECONDS = 600
"""A session counts as attended (somebody is using it) for this many seconds after its last activity.

A new page does not resume an attended session.
"""

REVISITS = "revisits"
"""Name of a session parameter: whether skipped items are selected again. Stored only by shared projects."""

BY = "by"
"""Name of the session parameter that stores the credential with which a program started the session."""

BROWSER = "browser"
"""Name of a session parameter, which only nameless sessions have: id of the browser that used it last."""

NAMELESS = (SOMEBODY, AUTOPILOT)
"""Names of annotators that several people may use. A browser's nameless sessions count as one person's."""

BLIND = "blind"
"""Name of a session parameter. It describes the blind comparison that the session is a side of."""

SLOW_MS = 500.0
"""If training and selection take more than this many milliseconds, a warning is logged as an event."""

_events = logging.getLogger("closecall.selection")


def _tell_if_incomplete(session_id: str, record: SelectionRecord) -> None:
    if missing := missing_rows(record):
        fields = {"session": session_id, "strategy": record.strategy, "missing": missing}
        _events.warning("incomplete selection", extra={"fields": fields})


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


class SessionState:
    """The state of one annotator's session with one concept. Hold `lock` while changing it.

    Parameters
    ----------
    project : Project
        The project that the session belongs to.
    record : SessionRecord
        The session's record.
    """

    def __init__(self, project: Project, record: SessionRecord) -> None:
        self.id = record.id
        self._claim = 0
        self.lock: AbstractContextManager[object] = threading.RLock()
        if project.claims is not None:  # claim it before anything is read from the log
            self._claim = project.claims.hold(record.id)
            record = project.log.session(record.id) or record
            self.lock = SessionLock(self.hold)
        self.annotator = record.annotator
        self.strategy = record.strategy
        self.project = project
        self.concept = project.live_concept(record.concept_id)
        self.parameters = dict(record.parameters)
        self.include_skipped = self._revisits()
        if self._is_judge():
            self.concept.asks_once = False  # AUROC is measured on random items, including near-duplicates
        self.seed = record.seed
        self.history: deque[SelectionRecord] = deque(maxlen=HISTORY)
        """The first selection of each of the last rounds, oldest first, with an empty `leased`."""
        self.recall_rounds()
        self.shown: SelectionRecord | None = None
        """The selection in view, if this session made it."""
        self.left: SelectionRecord | None = None
        """The unanswered selection that was in view before a view of many items, or None.

        It is shown again after this view, unless the view changes what is selected: if it has stored answers,
        or if it describes the items that labeling starts with.
        """
        self.view: object = None
        """The view that made the current selection. A view that replaces another view selects again."""
        self.views: dict[object, Any] = {}
        """Other views of the session, by kind; see `OpenProject.grid`."""
        self.check: Any = None
        """The last comparison with a full scan (`app.sessions.full_scan_check`), or None."""
        self.owed: AnswerRecord | None = None
        """An undo whose item could not be shown again because the database failed, or None."""
        self.shown_model: str | None = None
        """The model whose predictions are shown with the items, or None."""
        self.exhausted = False
        self.is_left = False
        """Whether the page with this session was closed after the last activity."""
        self.trouble: str | None = None
        self._touched = time.monotonic()
        project.indexes.want(self.strategy)

    def problem(self) -> str | None:
        """Return a sentence that says why no item is shown, or what is wrong with the project; or None."""
        problem = self.trouble or self.project.problem()
        return None if problem is None else as_sentence(problem)

    def hold(self) -> None:
        """Take the session over if another server has had it since the last call.

        The session then continues from the log, as after a restart. `lock` calls this method whenever a
        thread acquires it. Other callers must hold `lock`.

        Raises
        ------
        StorageError
            If the database fails.
        """
        if self.project.claims is None:
            return
        claim = self.project.claims.hold(self.id)
        if claim != self._claim:
            self.reopen()
            self._claim = claim

    def take_back(self) -> None:
        """Take the session over again, after the log has refused to write because another server has it."""
        if self.project.claims is not None:
            self.project.claims.doubt(self.id)
            self.hold()

    def reopen(self) -> None:
        """Read the session from the log again, with all its views. The caller must hold `lock`."""
        record = self.project.log.session(self.id)
        if record is not None:
            self.strategy, self.parameters = record.strategy, dict(record.parameters)
            self.include_skipped = self._revisits()
            self.project.indexes.want(self.strategy)
        self.recall_rounds()
        self.shown = self.left = self.view = self.owed = self.trouble = None
        self.exhausted = False
        for view in list(self.views.values()):
            view.reopen()

    def _revisits(self) -> bool:
        return self.project.claims is not None and bool(self.parameters.get(REVISITS))

    def touch(self) -> None:
        """Record activity."""
        self._touched = time.monotonic()
        self.is_left = False
        self.project.leases.renew(self.id)

    def leave(self) -> None:
        """Note that the session's page is closed. Its leases expire. The next `touch` cancels this."""
        self.is_left = True
        self.project.leases.leave(self.id)

    def use_in(self, browser: str | None) -> None:
        """Note in which browser the session is used, if this is known; see `own_sessions`."""
        if browser and self.annotator in NAMELESS and self.parameters.get(BROWSER) != browser:
            with suppress(StorageError):  # until the next call, the session counts as another person's
                self.set_parameters({BROWSER: browser})

    def own_sessions(self) -> frozenset[str]:
        """Return the ids of all sessions of the same person, including this session.

        People without a name are told apart by their browsers. If the browser is unknown, only this session
        is the person's. A session of a program is on its own, because the program can't see the others.
        """
        log, browser = self.project.log, self.parameters.get(BROWSER)
        own: frozenset[str] = frozenset()
        if self.annotator in NAMELESS:
            own = log.sessions_of(NAMELESS, **{BROWSER: browser, BY: None}) if browser else own
        elif BY not in self.parameters:
            own = log.sessions_of([self.annotator], **{BY: None})
        return own | {self.id}

    def held_elsewhere(self) -> int:
        """Return the number of items without an answer that are leased to other people's sessions."""
        leased = self.project.leases.held(but_for=self.side_by_side | self.own_sessions())
        with self.concept.lock:
            state = self.concept.catch_up()
            return sum(state.status(item) is None for item in leased)

    def is_attended(self) -> bool:
        """Return whether there was activity within the last `ATTENDED_SECONDS`."""
        return time.monotonic() - self._touched < ATTENDED_SECONDS

    def use_strategy(self, name: str) -> None:
        """Select with the strategy `name` from the next item on."""
        self.project.indexes.want(name)
        self.project.log.update_session(self.id, strategy=name)
        self.strategy = name  # set last, so that a retry after a database error stores it

    def set_audit_share(self, share: float, *, by: Person = OPERATOR) -> None:
        """Set the share of rounds that draw an item for the audit; see `Project.set_audit_share`."""
        self.project.set_audit_share(self.concept, share, by=by)

    def set_parameters(self, changes: Mapping[str, Any]) -> None:
        """Change these parameters of the session, also in the database, and keep all other parameters."""
        with self.lock:
            changed = {**self.parameters, **changes}
            self.project.log.update_session(self.id, parameters=changed)
            self.parameters = changed

    @property
    def side_by_side(self) -> frozenset[str]:
        """Return the ids of the sessions that may show the same item at the same time.

        These are this session and, in a blind comparison, the sessions of all sides.
        """
        return frozenset({self.id, *self.parameters.get(BLIND, {}).get("sides", ())})

    def _is_judge(self) -> bool:
        """Return whether the session is the judge of a blind comparison (`app.sessions.blind`)."""
        comparison = self.parameters.get(BLIND, {})
        return bool(comparison.get("judge")) and self.id == comparison["sides"][-1]

    def revisit_skipped(self, include: bool = True) -> None:
        """Set whether skipped items may be selected again."""
        with self.lock:
            if self.project.claims is not None and include != self.include_skipped:
                self.set_parameters({REVISITS: include})  # another server may continue the session
            self.include_skipped = include
            if self.shown is None:
                self.exhausted = False

    def hold_undone(self, answers: Iterable[AnswerRecord]) -> None:
        """Lease the items whose answers this session undoes, because these items will be shown again."""
        undone = [self.project.log.answer(answer.undoes) for answer in answers if answer.undoes]
        own = {answer.item for answer in undone if answer is not None and answer.session_id == self.id}
        if own:
            self.project.leases.add(self.id, own)

    def may_show(self, *records: SelectionRecord, beside: Iterable[str] = ()) -> bool:
        """Return whether these selections may be shown again; if so, lease their items.

        The selections may be shown if they are unanswered, their items are in the pool, and no other session
        has leased the items. A damaged log may name items that are not in the pool. If annotators are asked
        about near-duplicates only once, no other session may have leased near-duplicates of the items,
        either. Leases of the sessions in `beside` don't matter.
        """
        pool = self.project.pool
        if pool is None or not all(pool.has_row(record.item) for record in records):
            return False
        log, leases = self.project.log, self.project.leases
        others = leases.others(self.id, beside={*self.side_by_side, *beside})
        if any(log.is_answered(record.id) or self._has_been_said(record) for record in records):
            return False
        return not others.take(
            [record.item for record in records], apart=kept_apart(records, self.concept.groups)
        )

    def _has_been_said(self, record: SelectionRecord) -> bool:
        """Return whether the item no longer needs an answer, because it was answered in the meantime.

        If annotators are asked about near-duplicates only once, an answer about a near-duplicate is enough,
        too, unless this item is shown again after an undo.
        """
        with self.concept.lock:
            state = self.concept.catch_up()
            status, votes = state.status(record.item), state.votes(record.item)
            repeats = state.repeats(record.item)
        if OVERLAP in record.parameters:
            return self.annotator in votes or len(votes) >= record.parameters[OVERLAP]["persons"]
        is_of_queue = GROUPS in record.parameters and record.why != "undo"
        if is_of_queue and (repeats or (repeats is not None and status is None)):
            return True
        return status not in (None, "skip")

    def is_answered_elsewhere(self, record: SelectionRecord) -> bool:
        """Return whether the person has answered the item in another session since it was selected."""
        concept, item = self.concept, record.item
        with concept.lock:
            if self.annotator not in concept.catch_up().votes(item):
                return False
        answers = self.answers_elsewhere(item)
        return any(answer.seq > record.trained_through and answer.purpose != "decision" for answer in answers)

    def answers_elsewhere(self, item: int) -> list[AnswerRecord]:
        """Return the answers about the item that the person gave in other sessions and has not undone."""
        own = self.own_sessions() - {self.id}
        given = in_force(self.project.database, self.concept.record.id, [item]).get(item, ())
        return [answer for answer in given if answer.session_id in own]

    def is_audits(self, selection_id: str) -> bool:
        """Return whether the selection was drawn for the audit, even if it has not been shown yet."""
        record, log = self.shown, self.project.log
        if record is None or record.id != selection_id:
            record = log.selection(selection_id) or log.foreseen(selection_id)
        return record is not None and AUDIT in record.parameters

    def occasion(self, pool: Pool) -> Occasion:
        """Return what the next selection depends on, except the labels. Read the labels after this call."""
        strategy, following = self._strategy(pool), self.last_round + 1
        return Occasion(
            session_id=self.id,
            concept=self.concept.record,
            pool=pool,
            strategy=strategy,
            others=self.project.leases.others(self.id, beside=self.side_by_side, own=self.own_sessions),
            include_skipped=self.include_skipped,
            session_seed=self.seed,
            round=following,
            remembered=self.project.memories.newest(self.id, strategy),
            audit=self.concept.audit,
            audit_share=self.concept.audit_share,
            passed=self.concept.audit.passed(),
            persons=self.project.persons(following, self.seed),
            description=self.concept.description,
            is_hurried=self.may_hurry and self.project.store.load.is_short(self.id),
        )

    @property
    def may_hurry(self) -> bool:
        """Return whether selections are hurried while time is short.

        In a blind comparison, selections are not hurried, because the strategies are compared in their full
        form.
        """
        return BLIND not in self.parameters

    def _strategy(self, pool: Pool) -> QueryStrategy:
        """Return the session's strategy; while its index is being built, return the exhaustive scan."""
        ready = self.project.indexes.get(self.strategy)
        return ready if ready is not None else make_strategy("exhaustive").fit(pool)

    @property
    def last_round(self) -> int:
        """Return the highest number among the rounds in `history`, or 0 before the first round.

        The newest round may have a lower number. A selection that is sent to the browser in advance gets the
        number of its round at that time, and other rounds may begin before the selection is shown.
        """
        return max((record.round for record in self.history), default=0)

    def recall_rounds(self) -> None:
        """Read the last rounds from the log. Call this at the start, and after an error in storing a round.

        After such an error, the log may have the round although this process got no acknowledgement. Without
        this call, the next round would get the same number, and both would count as one round.
        """
        rounds = self.project.log.recent_rounds(self.id, HISTORY)
        self.history.clear()
        for record in rounds:
            self._remember(record)

    def _remember(self, record: SelectionRecord) -> None:
        # Drop `leased` to save memory: 50 annotators have 3,000 records, each with 250 leased items.
        self.history.append(replace(record, leased=()))

    def begin_round(self, record: SelectionRecord, chosen: Chosen | None) -> None:
        """Begin a round. `record` is the round's selection or, for a batch, the first selection."""
        self._remember(record)
        _tell_if_slow(self.id, record)
        _tell_if_incomplete(self.id, record)
        self.project.store.load.note_selection(is_hurried=is_hurried(record))
        self.exhausted, self.trouble = False, None
        self._pass_over(record.parameters.get(PASSED, ()))
        if chosen is not None and chosen.trained.hyperplane is not None:
            hyperplane, seconds = chosen.trained.hyperplane, chosen.computed_seconds
            self.project.memories.offer(self.id, chosen.strategy, hyperplane, seconds)

    def _pass_over(self, items: Sequence[int]) -> None:
        """Record audited items that a selection has passed over, and notify other servers of new items."""
        audit = self.concept.audit
        new = set(items).difference(audit.passed()) if self.project.claims is not None and items else ()
        audit.pass_over(items)
        if new:
            self.project.store.tell("passed", concept=self.concept.record.id, items=sorted(new))
