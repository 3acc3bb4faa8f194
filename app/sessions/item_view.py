"""The view that shows one item: it selects items, prepares the next ones, and stores answers.

Usually one session selects all items. When several concepts are labeled at once (`app.sessions.classes`),
each concept has its own session, and the sessions select in turn. While the annotator looks at an item, the
look-ahead (`app.engine.lookahead`) prepares the selections that may follow it, one for each possible answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from closecall.app.engine.lookahead import Lookahead
from closecall.app.engine.occasion import Occasion
from closecall.app.engine.selection import Chosen, select_items
from closecall.app.engine.selection_parameters import is_of_many
from closecall.app.runtime.cores import a_core
from closecall.app.sessions.answers import Outcome, Press, parse_answers, store_presses
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted, SearchIncomplete
from closecall.storage import AnswerRecord, AppendResult, Refusal, SelectionRecord, StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.session_state import SessionState

AHEAD_SECONDS = 0.25
"""Maximum time in seconds that a card waits for the look-ahead; after that, the browser asks for it."""

QUICK_SECONDS = 0.3
"""An annotator outruns the look-ahead by answering within this many seconds, before a next item is ready."""


class ItemView:
    """The item that an annotator sees, and the items prepared to follow it. Thread-safe: calls take turns.

    A session has several views, such as this one and a grid, but shows only one at a time. When the view
    changes, the new view selects again; but see `app.sessions.grid.BatchSession`.

    Parameters
    ----------
    session : SessionState
        The leading session, to which items are leased. If there is no item in view, the `trouble` or
        `exhausted` of this session gives the reason.
    """

    def __init__(self, session: SessionState) -> None:
        self.session = session
        self.id = session.id
        self.project = session.project
        self.ahead: Lookahead | None = None
        self._opened: dict[int, SessionState] = {session.concept.record.id: session}  # by concept
        self._last: SessionState | None = None  # the session that selected the item in view, or the last item
        self._changes = 0  # number of corrections; each of them makes the look-ahead outdated
        self._is_outrun = False  # whether the annotator outruns the look-ahead

    @property
    def shown(self) -> SelectionRecord | None:
        """The selection in view, or None."""
        return self._last.shown if self._last else None

    def members(self) -> Sequence[SessionState]:
        """Return the sessions that select in turn, in a fixed order, including the leading session."""
        return [self.session]

    def member(self, concept_id: int) -> SessionState:
        """Return the session that selects for a concept. If no session does, return the leading session."""
        return self._opened.get(concept_id, self.session)

    def occasion(self, member: SessionState, pool: Pool) -> Occasion:
        """Return the conditions of a session's next selection."""
        return replace(member.occasion(pool), is_hurried=self.hurries())

    def hurries(self) -> bool:
        """Return whether selections are hurried.

        They are if the server is short of processor time, or if the annotator outruns the look-ahead.
        """
        is_short = self._is_outrun or self.project.store.load.is_short(self.id)
        return is_short and self.session.may_hurry

    def read(self, answers: Sequence[Mapping[str, Any]]) -> tuple[list[Press], list[Refusal]]:
        """Parse the browser's answers; return the presses, and the refusals of malformed answers."""
        return parse_answers(answers, session=self.session)

    def in_turn(self) -> list[SessionState]:
        """Return the sessions in the order of their turns, beginning with the session that selects next."""
        members = list(self.members())
        first = members.index(self._last) + 1 if self._last in members else members.index(self.session)
        return members[first:] + members[:first]

    @property
    def next_round(self) -> int:
        """Return the number of the next round, counted over all sessions."""
        return 1 + max(member.last_round for member in self._opened.values())

    @contextmanager
    def alone(self) -> Iterator[Sequence[SessionState]]:
        """Lock the sessions that select in turn, and yield them."""
        with ExitStack() as held:
            held.enter_context(self.session.lock)
            members = self.members()
            for member in members:
                held.enter_context(member.lock)
            yield members

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers, and show the next item.

        The browser may already show a next item, which it got in advance. Otherwise, an item is selected. An
        answer that is sent again is acknowledged again, but stored only once.
        """
        with self.alone():
            result, presses, outcome = self._stored(answers)
            new, known = ({answer.id for answer in some} for some in (result.accepted, result.known))
            for press in presses:
                if press.is_in(new) or (press.is_in(known) and self._is_left(press)):
                    self._note_pace(press)
                    self._move_on(press)
        return outcome

    def _stored(self, answers: Sequence[Mapping[str, Any]]) -> tuple[AppendResult, Sequence[Press], Outcome]:
        """Store the answers. If another server has taken over the session, take the session back first."""

        def store() -> tuple[AppendResult, Sequence[Press], Outcome]:
            presses, malformed = self.read(answers)
            result, outcome = store_presses(presses, malformed, self.session)
            return result, presses, outcome

        try:
            return store()
        except StorageError as error:
            if error.kind != "moved":
                raise
        self._take_back()
        return store()

    def _take_back(self) -> None:
        for member in list(self._opened.values()):
            with member.lock:
                member.take_back()

    def reopen(self) -> None:
        """Forget the item in view and the look-ahead, because another server has continued the session."""
        if self.ahead is not None:
            self.ahead.cancel()
        self.ahead, self._last = None, None
        self._opened = {self.session.concept.record.id: self.session}

    def attend(self, wait: float = AHEAD_SECONDS) -> None:
        """Record activity, show an item, and wait at most `wait` seconds for the look-ahead."""
        with self.alone() as members:
            self._show_item(members)
            for member in members:
                member.concept.watch(self.project.pool)
            ahead = self._look_ahead()
        if ahead is not None:
            ahead.wait(wait)

    def in_view(self) -> SelectionRecord | None:
        """Return the selection in view, or None if no item can be shown.

        Select an item if no item is in view, if this session's lease of the item in view has expired and
        another session has leased the item, or if the person has answered the item in another session.
        """
        with self.alone() as members:
            self._show_item(members)
            return self.shown

    def _show_item(self, members: Sequence[SessionState]) -> None:
        for member in members:
            member.touch()
        self.session.view = self
        if self.shown is None and self._shows_left(members):
            return
        if self.shown is None or not self._may_be_answered(self.shown):
            self.choose()

    def _shows_left(self, members: Sequence[SessionState]) -> bool:
        """Show the item that was in view before a view of many items; return False if it can't be shown."""
        main, left = self.session, self.session.left
        main.left = None
        if left is None or main.trouble is not None:
            return False
        chooser = self.member(left.concept_id)
        if chooser.id != left.session_id or not chooser.may_show(left, beside=[one.id for one in members]):
            return False
        if self.ahead is not None:
            self.ahead.cancel()  # the items that it leased may be leased to others by now
        self._go_to(chooser, left)
        return True

    def resume(self) -> None:
        """Show the last selection again if it was not answered.

        Items that were sent to the browser in advance stay leased, because the browser may still show them.
        """
        members = self.members()
        shown = [record for member in members if (record := self.project.log.last_selection(member.id))]
        last = max(shown, key=lambda record: record.seq, default=None)
        self._last = None
        if last is None:
            return
        self._last = chooser = self.member(last.concept_id)
        chooser.shown = None
        if not is_of_many(last) and chooser.may_show(last, beside=[member.id for member in members]):
            self.project.leases.add(self.id, {last.item})
            self._put_in_view(chooser, last)

    def choose_in_view(self) -> None:
        """Call `choose`, unless the session shows another view, such as a grid; that view then stays.

        If an item is still in view, the other view has not selected anything yet.
        """
        if self.shown is not None or self.session.view in (None, self):
            self.choose()

    def choose(self) -> None:
        """Let the session whose turn it is select an item; if it has no items left, let the next session.

        If the selection can't be stored, no item is shown, and the leading session's `trouble` gives the
        reason. The next request for a card retries the selection. If another server has taken the session
        over meanwhile, the session is taken back, and the item that the other server shows stays.
        """
        try:
            self._choose()
        except StorageError as error:
            if error.kind != "moved":
                raise
            self._take_back()
            if self.shown is None:
                self._choose()

    def _choose(self) -> None:
        main, pool = self.session, self.project.pool
        if main.trouble is not None:
            for member in self._opened.values():
                member.recall_rounds()
        main.view, main.left = self, None
        self._show_nothing(trouble=None)
        if self.ahead is not None:
            self.ahead.cancel()  # it competes for the processor, and its results are no longer needed
        if pool is None:
            return
        members = self.in_turn()
        for member in members:
            if member.owed is not None:
                self._show_again(member, member.owed)
                return
        with self.project.store.load.serving(self.id):
            is_chosen = self._choose_of(members, pool)
        if not is_chosen:
            main.exhausted = True
            self.project.leases.keep(self.id, ())

    def _choose_of(self, members: Sequence[SessionState], pool: Pool) -> bool:
        """Show the selection of the first session that has an item left; return False if there is none."""
        for member in members:
            try:
                chosen = self._select(member, pool)
                self._begin_round(member, self.project.log.record_selection(chosen.record), chosen)
            except PoolExhausted:
                continue
            except SearchIncomplete as error:
                self.session.trouble = str(error)
            except StorageError as error:
                if error.kind == "moved":
                    raise
                self.session.trouble = str(error)
            return True
        return False

    def _select(self, member: SessionState, pool: Pool) -> Chosen:
        """Train and select on one core, so that no other training runs in between; see `select_items`."""
        member.concept.wait_until_trainable(pool)
        with a_core():
            occasion = self.occasion(member, pool)
            standing, trained = member.concept.trained(pool, member.annotator, occasion.persons)
            return select_items(occasion, trained, standing)

    def _may_be_answered(self, shown: SelectionRecord) -> bool:
        """Return whether the item is still leased and unanswered.

        After an error, an answer may be in the log although the browser got no acknowledgement.
        """
        if not self.project.leases.has(self.id, shown.item):
            return False
        if self._last is not None and self._last.is_answered_elsewhere(shown):
            return False
        return not (self.project.intake.is_in_doubt and self.project.log.is_answered(shown.id))

    def _is_left(self, press: Press) -> bool:
        """Return whether the server stopped after it stored the press and before it showed another item."""
        if press.is_undo:
            log = self.project.log
            return any(log.selection(_again(undo)) is None for undo in press.records if self._undone(undo))
        return self.shown is not None and press.answers(self.shown)

    def _note_pace(self, press: Press) -> None:
        """Note whether the annotator outruns the look-ahead.

        An annotator begins to outrun the look-ahead with a quick answer for which no next item was ready, and
        stops with a slow answer.
        """
        seconds = press.seconds
        is_quick = seconds is not None and seconds < QUICK_SECONDS
        self._is_outrun = is_quick and (self._is_outrun or press.following is None)

    def _move_on(self, press: Press) -> None:
        """Show the item that follows a stored press; the browser may already show this item."""
        if press.is_undo:
            for undo in press.records:
                self._show_again(self.member(undo.concept_id), undo)
        elif press.is_correction:
            self._changes += 1
        elif not (press.following and self._go_on_to(press.following)) and (
            self.shown is None or press.answers_item_of(self.shown)
        ):
            self.choose_in_view()

    def _go_on_to(self, selection_id: str) -> bool:
        """Show the selection that the browser already shows; return False if this view has not made it."""
        record = self.project.log.selection(selection_id)
        if record is None or is_of_many(record):
            return False
        member = self.member(record.concept_id)
        if member.id != record.session_id:
            return False
        future = self.ahead.future(selection_id) if self.ahead else None
        self._begin_round(member, record, future.chosen if future else None)
        return True

    def _undone(self, undo: AnswerRecord) -> SelectionRecord | None:
        """Return the selection that the undone answer was given to; None if the answer named no selection."""
        undone = self.project.log.answer(undo.undoes or "")
        return self.project.log.selection(undone.selection_id) if undone and undone.selection_id else None

    def _show_again(self, member: SessionState, undo: AnswerRecord) -> None:
        """Show the item of an undone answer again, by a copy of the selection that was answered."""
        before, log = self._undone(undo), self.project.log
        if before is None or not member.concept.has_row(before.item):
            return
        name = _again(undo)

        def show() -> None:
            again = replace(before, id=name, round=self.next_round, why="undo", session_id=member.id)
            member.owed = undo
            self._go_to(member, log.selection(name) or log.record_selection(again))
            member.owed = None

        try:
            try:
                show()
            except StorageError as error:
                if error.kind != "moved":
                    raise
                self._take_back()
                show()
        except StorageError as error:
            self._show_nothing(trouble=str(error))

    def _begin_round(self, member: SessionState, record: SelectionRecord, chosen: Chosen | None) -> None:
        self._go_to(member, record)
        member.begin_round(record, chosen)

    def _go_to(self, chooser: SessionState, selection: SelectionRecord) -> None:
        """Show a selection, and end the leases of all other items."""
        self.project.leases.keep(self.id, {selection.item})
        self._put_in_view(chooser, selection)

    def _put_in_view(self, chooser: SessionState, selection: SelectionRecord) -> None:
        """Show a selection of one session; the other sessions then show nothing."""
        for member in self._opened.values():
            member.shown = selection if member is chooser else None
            if member is not self.session:
                self.project.leases.keep(member.id, ())
        self.session.exhausted, self._last = False, chooser

    def _show_nothing(self, *, trouble: str | None) -> None:
        if self._last is not None:
            self._last.shown = None
        self.session.shown, self.session.trouble = None, trouble

    def _look_ahead(self) -> Lookahead | None:
        """Return the look-ahead, which prepares the items that may follow; start a new one if necessary."""
        shown, pool, main = self.shown, self.project.pool, self.session
        if shown is None or pool is None:
            return None
        member = self.in_turn()[0]
        chooser = member.id, member.strategy
        settings = main.include_skipped, main.concept.audit_share, self.project.groups()
        start = member.concept.direction()
        reason = (shown.id, *chooser, *settings, start, self._changes)
        if self.ahead is None or self.ahead.is_cancelled or self.ahead.reason != reason:
            if self.ahead is not None:
                self.ahead.cancel()
            occasion = self.occasion(member, pool)
            self.ahead = Lookahead(
                shown,
                occasion,
                member.concept,
                member.annotator,
                reason,
                self.project.store.load,
                self.id,
                hurries=self.hurries,
            )
            self.ahead.start(self.project.executor, partial(self._tell_of_ahead, shown.id))
        return self.ahead

    def _tell_of_ahead(self, selection: str) -> None:
        self.project.news.publish("ahead", session=self.id, selection=selection)


def _again(undo: AnswerRecord) -> str:
    """Return the id of the selection that shows an item again after an undo; the same for every retry."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{undo.id} brings back"))
