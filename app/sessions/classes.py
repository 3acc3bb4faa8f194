"""Several concepts at once: one key press is a yes to one concept and a no to the others.

The concepts take turns in a fixed order, and each selects an item by its own hyperplane. The next turn does
not depend on the answer, so the look-ahead needs only three futures: the class is that concept's, or it
isn't, or the item is skipped. Since each press trains all concepts alike, no concept falls behind.

Another concept may select an item that was already answered for one concept alone. The new answer then counts
for all of them and replaces the annotator's earlier one. There are no audit rounds in this mode, and answers
to audited items still never train. An overlap round draws an item that the concept whose turn it is wants a
further answer to; that answer counts for all concepts.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from closecall.app.display.phrases import of_class
from closecall.app.engine.lookahead import Lookahead
from closecall.app.engine.selection import Chosen, Occasion, select_items
from closecall.app.engine.training import is_of_many
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.labeling import AHEAD_SECONDS, LabelingSession
from closecall.app.sessions.presses import Press, read_presses, settled
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted
from closecall.storage import SelectionRecord, StorageError

if TYPE_CHECKING:
    from closecall.storage import ConceptRecord

MOST = 9
"""Maximum number of concepts with a key."""


class ClassSession:
    """A labeling session that asks for the class of an item. It leads one session of each other concept.

    The session shows its card, grid or classes, and chooses again when the view changes. Rounds are counted
    over all concepts.

    Parameters
    ----------
    session : LabelingSession
        The others share its strategy, lock and pool, and their ids derive from its id.
    """

    def __init__(self, session: LabelingSession) -> None:
        self.session = session
        self.id = session.id
        self.project = session.project
        self.ahead: Lookahead | None = None
        self._opened: dict[int, LabelingSession] = {session.concept.record.id: session}
        self._chooser: LabelingSession | None = None
        self._last: int | None = None
        self._changes = 0

    @property
    def shown(self) -> SelectionRecord | None:
        """The selection in view."""
        return self._chooser.shown if self._chooser else None

    @property
    def chooser(self) -> LabelingSession:
        """The session that selected the item in view, or the leading one if there is none."""
        return self._chooser or self.session

    @property
    def concepts(self) -> list[ConceptRecord]:
        """Return the concepts to choose from, in key order, the session's own among them."""
        own, found = self.session.concept.record, offered(self.session)
        return found if any(concept.id == own.id for concept in found) else [*found, own]

    def member(self, concept_id: int) -> LabelingSession:
        """Return the session of one of the concepts; start it if necessary."""
        if concept_id not in self._opened:
            log, main = self.project.log, self.session
            name = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}, concept {concept_id}"))
            if log.session(name) is None:
                log.start_session(concept_id, main.annotator, main.strategy, seed=main.seed, id=name)
            self._opened[concept_id] = self.session.sessions.session(name)
        return self._opened[concept_id]

    def session_of(self, selection_id: str) -> LabelingSession:
        """Return the session that the selection belongs to, or the leading one for a foreign selection."""
        record = self.project.log.selection(selection_id)
        return self._opened.get(record.concept_id, self.session) if record else self.session

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the presses, each with all of its answers; each retrains and selects as any answer does.

        Presses are idempotent by id: a press that is sent again is acknowledged again and stored once.
        """
        with self.alone():
            presses, malformed = read_presses(answers, session=self)
            self.session.hold_undone(record for press in presses for record in press.records)
            result = self.project.intake.store(
                [record for press in presses for record in press.records],
                shown=[press.following for press in presses if press.following],
            )
            for press in presses:
                if press.is_in(result.accepted) or (press.is_in(result.known) and self._is_left(press)):
                    self._take(press)
            acked, refused = settled(presses, result)
        return Outcome.of(self.id, acked, [*malformed, *refused])

    @contextmanager
    def alone(self) -> Iterator[list[LabelingSession]]:
        """Lock the sessions of the concepts and yield them."""
        with ExitStack() as held:
            held.enter_context(self.session.lock)
            members = [self.member(concept.id) for concept in self.concepts]
            for member in members:
                held.enter_context(member.lock)
            yield members

    def _is_left(self, press: Press) -> bool:
        """Return whether nothing was shown after the press: the server was lost right after storing it."""
        if press.records[0].undoes is not None:
            return any(self.member(undo.concept_id).is_to_come_back(undo) for undo in press.records)
        return self.shown is not None and any(r.selection_id == self.shown.id for r in press.records)

    def _take(self, press: Press) -> None:
        """Take up a stored press: what follows it is already in view or is chosen now."""
        if press.records[0].undoes is not None:
            self._show_again(press)
        elif any(record.corrects is not None for record in press.records):
            self._changes += 1
        elif not (press.following and self._go_on_to(press.following)) and (
            self.shown is None or any(record.selection_id == self.shown.id for record in press.records)
        ):
            self._choose()

    def _go_on_to(self, selection_id: str) -> bool:
        """Show what the browser shows since the press; return False for a foreign selection."""
        record = self.project.log.selection(selection_id)
        if record is None or self.member(record.concept_id).id != record.session_id:
            return False
        future = self.ahead.future(selection_id) if self.ahead else None
        self._begin_round(self.member(record.concept_id), record, future.chosen if future else None)
        return True

    def _show_again(self, press: Press) -> None:
        """Bring back the item of an undone press, for the concept that had selected it."""
        for undo in press.records:
            undone = self.project.log.answer(undo.undoes or "")
            if undone is not None and undone.selection_id is not None:
                chooser = self.member(undo.concept_id)
                chooser.show_again(undo, round=self._next_round)
                self._put_in_view(chooser)

    def _choose(self) -> None:
        """Let the concept whose turn it is select, or the next one if it has nothing left.

        If the selection can't be stored, nothing is shown and the card says why.
        """
        main, pool = self.session, self.project.pool
        if main.trouble is not None:
            for member in self._opened.values():
                member.recall_rounds()
        self._chooser, main.shown, main.trouble = None, None, None
        if pool is None:
            return
        members = self.in_turn()
        owing = next((member for member in members if member.owed is not None), None)
        if owing is not None and owing.owed is not None:
            owing.show_again(owing.owed, round=self._next_round)
            self._put_in_view(owing)
            return
        for member in members:
            occasion = self._occasion(member, pool)
            standing = member.concept.standing(member.annotator, occasion.persons)
            try:
                chosen = select_items(occasion, member.concept.train(pool, standing), standing)
                self._begin_round(member, self.project.log.record_selection(chosen.record), chosen)
            except PoolExhausted:
                continue
            except StorageError as error:
                main.trouble = str(error)
            return
        main.exhausted = True
        self.project.leases.keep(self.id, ())

    def in_turn(self) -> list[LabelingSession]:
        """Return the sessions in turn order, beginning with the one after the selection in view."""
        members = [self.member(concept.id) for concept in self.concepts]
        ids = [member.concept.record.id for member in members]
        first = ids.index(self._last) + 1 if self._last in ids else ids.index(self.session.concept.record.id)
        return members[first:] + members[:first]

    @property
    def _next_round(self) -> int:
        return 1 + max(member.last_round for member in self._opened.values())

    def _occasion(self, member: LabelingSession, pool: Pool) -> Occasion:
        """Return what a concept's next selection depends on besides its labels."""
        return replace(
            member.occasion(pool),
            others=self.project.leases.others(self.id),
            include_skipped=self.session.include_skipped,
            round=self._next_round,
            audit_share=0.0,
            persons=self.project.persons(self._next_round, self.session.seed),
        )

    def _begin_round(self, member: LabelingSession, record: SelectionRecord, chosen: Chosen | None) -> None:
        member.begin_round([record], chosen)
        self._put_in_view(member)

    def _put_in_view(self, chooser: LabelingSession) -> None:
        """Show the chooser's selection and drop what the other sessions had in view."""
        self.project.leases.keep(self.id, () if chooser.shown is None else {chooser.shown.item})
        for member in self._opened.values():
            if member is not chooser:
                member.shown = None
            if member is not self.session:
                self.project.leases.keep(member.id, ())
        self._chooser, self._last = chooser, chooser.concept.record.id
        self.session.exhausted = False

    def _take_over(self, members: Sequence[LabelingSession]) -> None:
        """Resume what the log shows last, after another view or at the start."""
        log, main = self.project.log, self.session
        for member in members:
            if member.strategy != main.strategy:
                member.use_strategy(main.strategy)
        main.view, self._chooser = self, None  # only now, so that a press that was not stored is tried again
        shown = [record for member in members if (record := log.last_selection(member.id))]
        last = max(shown, key=lambda record: record.seq, default=None)
        if last is None:
            return
        self._last = last.concept_id
        chooser = self.member(last.concept_id)
        if not is_of_many(last) and chooser.may_show(last, beside=[member.id for member in members]):
            chooser.shown = last
            self._put_in_view(chooser)

    def _look_ahead(self) -> Lookahead | None:
        """Start the look-ahead if it is not running."""
        shown, pool = self.shown, self.project.pool
        if shown is None or pool is None:
            return None
        follower = self.in_turn()[0]
        reason = (
            shown.id,
            follower.id,
            follower.strategy,
            self.session.include_skipped,
            self._changes,
        )
        if self.ahead is None or self.ahead.reason != reason:
            if self.ahead is not None:
                self.ahead.cancel()
            occasion = self._occasion(follower, pool)
            self.ahead = Lookahead(shown, occasion, follower.concept, follower.annotator, reason)
            self.ahead.start(self.project.executor)
        return self.ahead

    def attend(self) -> None:
        """Record that someone is looking: show an item, and wait briefly for the look-ahead."""
        with self.alone() as members:
            for member in members:
                member.touch()
            if self.session.view is not self:
                self._take_over(members)
            if self._chooser not in members:
                self._chooser = None
            if self.shown is None or not self.project.leases.has(self.id, self.shown.item):
                self._choose()
            for member in members:
                member.concept.watch(self.project.pool)
            ahead = self._look_ahead()
        if ahead is not None:
            ahead.wait(AHEAD_SECONDS)


def offered(session: LabelingSession) -> list[ConceptRecord]:
    """Return the concepts whose classes can be chosen, in key order: the first nine."""
    return session.project.concepts()[:MOST]


def can_choose(session: LabelingSession) -> bool:
    """Return whether at least two concepts have keys, the session's own among them."""
    concepts = offered(session)
    return len(concepts) > 1 and any(concept.id == session.concept.record.id for concept in concepts)


def labels_of(concepts: Sequence[ConceptRecord]) -> list[dict[str, Any]]:
    """Return the choices of the card in key order, with the display name of each positive class.

    A digit class is its own key, so that nobody has to press another number for a 7. Other concepts are
    numbered.
    """
    called = [concept.positive_class or of_class(concept.question, concept.name) for concept in concepts]
    names = [
        name if called.count(name) == 1 else concept.name
        for name, concept in zip(called, concepts, strict=True)
    ]
    are_digits = all(re.fullmatch("[0-9]", name) for name in names)
    keys = names if are_digits else [str(number) for number in range(1, len(names) + 1)]
    choices = [
        {"key": key, "concept": concept.id, "name": name}
        for key, concept, name in zip(keys, concepts, names, strict=True)
    ]
    return sorted(choices, key=lambda choice: choice["key"]) if are_digits else choices
