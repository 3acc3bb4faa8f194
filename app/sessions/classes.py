"""Several concepts at once: one press gives an item its class, a yes for one concept and a no for the others.

The concepts take turns in their fixed order, each choosing an item by its own hyperplane. Whose turn is next
is known before an answer, and does not depend on it, so that looking ahead needs no more than three futures:
the chosen class is that concept's, or it isn't, or the item is skipped. That each press teaches all of them
alike is why no other order is needed: none falls behind.

An item that one of them was asked about alone may still come from another's turn: what is said then is said
for all, and stands in the place of what the annotator said before. Audits rest in this mode: no round is
theirs. What belongs to a concept's audit all the same never trains that concept. A round of overlap's draws
what the concept whose turn it is wants a further answer of; it is given for all of them.
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
from closecall.app.sessions.presses import Press, read_presses, settled
from closecall.core.pool.pool import Pool
from closecall.core.selection import PoolExhausted
from closecall.storage import SelectionRecord, StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.storage import ConceptRecord

MOST = 9
"""Concepts that have a key."""

AHEAD_SECONDS = 0.25
"""A card waits so long for what would follow; later the browser asks for it."""


class ClassSession:
    """A labeling session that asks for the class of an item; it leads one session of each other concept.

    The session has card, grid or classes in view: where they take turns, each chooses anew. Rounds are
    counted over all concepts.

    Parameters
    ----------
    session : LabelingSession
        Whose strategy, lock and pool the others share; the ids of theirs are made from its.
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
        """What is in view."""
        return self._chooser.shown if self._chooser else None

    @property
    def chooser(self) -> LabelingSession:
        """The session that chose what is in view; the leading one, where nothing is."""
        return self._chooser or self.session

    @property
    def concepts(self) -> list[ConceptRecord]:
        """What there is to choose from, in the order of the keys; the session's own concept is among them."""
        own, found = self.session.concept.record, offered(self.session)
        return found if any(concept.id == own.id for concept in found) else [*found, own]

    def member(self, concept_id: int) -> LabelingSession:
        """The session of one of the concepts, begun where it is needed first."""
        if concept_id not in self._opened:
            log, main = self.project.log, self.session
            name = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}, concept {concept_id}"))
            if log.session(name) is None:
                log.start_session(concept_id, main.annotator, main.strategy, seed=main.seed, id=name)
            self._opened[concept_id] = self.session.sessions.session(name)
        return self._opened[concept_id]

    def session_of(self, selection_id: str) -> LabelingSession:
        """The session that a selection belongs to; the leading one, where it is none of theirs."""
        record = self.project.log.selection(selection_id)
        return self._opened.get(record.concept_id, self.session) if record else self.session

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the presses, each one's answers together; each retrains and queries, as any answer does.

        Presses are idempotent by their id: sent again they are acknowledged again, and stored once.
        """
        with self.alone():
            presses, malformed = read_presses(answers, session=self)
            self.session.hold_undone(record for press in presses for record in press.records)
            result = self.project.intake.store(
                [record for press in presses for record in press.records],
                shown=[press.following for press in presses if press.following],
            )
            for press in presses:
                if press.is_in(result.accepted) or self._is_left(press):
                    self._take(press)
            acked, refused = settled(presses, result)
        return Outcome.of(self.id, acked, [*malformed, *refused])

    @contextmanager
    def alone(self) -> Iterator[list[LabelingSession]]:
        """The sessions of the concepts, while nobody else uses them."""
        with ExitStack() as held:
            held.enter_context(self.session.lock)
            members = [self.member(concept.id) for concept in self.concepts]
            for member in members:
                held.enter_context(member.lock)
            yield members

    def _is_left(self, press: Press) -> bool:
        """Whether nobody went on from a stored press: so where a server was lost after it had stored it."""
        if press.records[0].undoes is not None:
            return any(self.member(undo.concept_id).is_to_come_back(undo) for undo in press.records)
        return self.shown is not None and any(r.selection_id == self.shown.id for r in press.records)

    def _take(self, press: Press) -> None:
        """One more press is in the log: what follows it is in view already, or has to be chosen."""
        if press.records[0].undoes is not None:
            self._show_again(press)
        elif any(record.corrects is not None for record in press.records):
            self._changes += 1
        elif not (press.following and self._go_on_to(press.following)) and (
            self.shown is None or any(record.selection_id == self.shown.id for record in press.records)
        ):
            self._choose()

    def _go_on_to(self, selection_id: str) -> bool:
        """Show what the browser shows since the press; False where it is none of these sessions'."""
        record = self.project.log.selection(selection_id)
        if record is None or self.member(record.concept_id).id != record.session_id:
            return False
        future = self.ahead.future(selection_id) if self.ahead else None
        self._begin_round(self.member(record.concept_id), record, future.chosen if future else None)
        return True

    def _show_again(self, press: Press) -> None:
        """Bring back the item whose press was undone, for the concept that had chosen it."""
        for undo in press.records:
            undone = self.project.log.answer(undo.undoes or "")
            if undone is not None and undone.selection_id is not None:
                chooser = self.member(undo.concept_id)
                chooser.show_again(undo, round=self._next_round)
                self._put_in_view(chooser)

    def _choose(self) -> None:
        """Let the concept choose whose turn it is; where it has nothing left to ask, the next one.

        Where the choice can't be written down nothing is shown, and the card says why.
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
        """The sessions, that of the concept first whose turn comes after the one in view."""
        members = [self.member(concept.id) for concept in self.concepts]
        ids = [member.concept.record.id for member in members]
        first = ids.index(self._last) + 1 if self._last in ids else ids.index(self.session.concept.record.id)
        return members[first:] + members[:first]

    @property
    def _next_round(self) -> int:
        return 1 + max(member.last_round for member in self._opened.values())

    def _occasion(self, member: LabelingSession, pool: Pool) -> Occasion:
        """What a concept's next selection depends on beside its labels."""
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
        """What it shows is in view, and nothing else is of any of these sessions."""
        self.project.leases.keep(self.id, () if chooser.shown is None else {chooser.shown.item})
        for member in self._opened.values():
            if member is not chooser:
                member.shown = None
            if member is not self.session:
                self.project.leases.keep(member.id, ())
        self._chooser, self._last = chooser, chooser.concept.record.id
        self.session.exhausted = False

    def _take_over(self, members: Sequence[LabelingSession]) -> None:
        """Something else was in view, or nothing yet: go on with what the log says was shown last."""
        log, main = self.project.log, self.session
        for member in members:
            if member.strategy != main.strategy:
                member.use_strategy(main.strategy)
        main.view, self._chooser = self, None  # only now: what could not be stored is tried again
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
        """See to it that what would follow each press is being computed."""
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
        """Somebody looks: see to it that something is in view, and wait a moment for what would follow it."""
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
    """The concepts whose classes there are to choose from, in the order of the keys: the first nine."""
    return session.project.concepts()[:MOST]


def can_choose(session: LabelingSession) -> bool:
    """Whether there are classes to offer: two concepts at least, and the session's among them."""
    concepts = offered(session)
    return len(concepts) > 1 and any(concept.id == session.concept.record.id for concept in concepts)


def labels_of(concepts: Sequence[ConceptRecord]) -> list[dict[str, Any]]:
    """The choices as the card shows them, in the order of their keys: what each concept's class is called.

    Digits are their own keys: nobody who sees a 7 should have to press another number. Otherwise the concepts
    are numbered in their order.
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
