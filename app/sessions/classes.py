"""Label several concepts at once: one key press is a yes to one concept and a no to all other concepts.

The concepts take turns in a fixed order. In its turn, a concept selects an item by its own hyperplane. Which
concept comes next does not depend on the answer. The look-ahead (`app.engine.lookahead`) therefore prepares
selections only for the concept that comes next. For this concept, a press can have four meanings: its class,
another class, unsure and skip. Each press gives every concept one answer, so no concept gets fewer labels
than another.

A concept may select an item that the annotator has already answered for another concept. The new answer then
counts for all concepts, and replaces the earlier answer. There are no audit rounds in this view, and answers
about audited items are never used for training. In an overlap round (`core.audit.turns`), the concept whose
turn it is draws an item that needs another annotator for this concept. The annotator's answer counts for all
concepts.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from closecall.app.display.phrases import of_class, told_apart
from closecall.app.engine.occasion import Occasion
from closecall.app.sessions.item_view import ItemView
from closecall.app.sessions.presses import read_presses
from closecall.app.sessions.session_state import BROWSER
from closecall.core.pool.pool import Pool
from closecall.storage import Refusal

if TYPE_CHECKING:
    from closecall.app.sessions.answers import Press
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.session_state import SessionState
    from closecall.storage import ConceptRecord

MOST = 9
"""Maximum number of concepts that have a key."""


class ClassSession(ItemView):
    """The view of one item and the classes to choose from.

    Each concept has its own session. The annotator's session is the leading session. Rounds are counted over
    all sessions.

    Parameters
    ----------
    session : LabelingSession
        The leading session. The other sessions get its strategy, and their ids are derived from its id.
    """

    def __init__(self, session: LabelingSession) -> None:
        super().__init__(session)
        self._sessions = session.sessions
        self._checked: SessionState | None = None

    @property
    def chooser(self) -> SessionState:
        """The session that selected the item in view; if no item is in view, the leading session."""
        return self._last if self._last is not None and self._last.shown is not None else self.session

    @property
    def concepts(self) -> list[ConceptRecord]:
        """Return the concepts to choose from, in key order, including the leading session's concept."""
        own, found = self.session.concept.record, offered(self.session)
        return found if any(concept.id == own.id for concept in found) else [*found, own]

    def members(self) -> list[SessionState]:
        """Return the sessions of all concepts, in key order."""
        return [self.member(concept.id) for concept in self.concepts]

    def member(self, concept_id: int) -> SessionState:
        """Return the session of a concept; start the session if necessary."""
        if concept_id not in self._opened:
            log, main = self.project.log, self.session
            name = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.id}, concept {concept_id}"))
            if log.session(name) is None:
                log.start_session(concept_id, main.annotator, main.strategy, seed=main.seed, id=name)
            self._opened[concept_id] = opened = self._sessions.session(name)
            opened.use_in(self.session.parameters.get(BROWSER))
        return self._opened[concept_id]

    def checked(self, selection_id: str | None) -> SessionState:
        """Return the session of the selection that is to be compared with a full scan.

        If there is no such selection, return the session of the last comparison or, before the first
        comparison, the leading session.
        """
        record = self.project.log.selection(selection_id) if selection_id else None
        if record is not None:
            self._checked = super().member(record.concept_id)
        return self._checked or self.session

    def read(self, answers: Sequence[Mapping[str, Any]]) -> tuple[list[Press], list[Refusal]]:
        """Parse the presses of class keys; return the presses, and the refusals of malformed presses."""
        return read_presses(answers, view=self)

    def occasion(self, member: SessionState, pool: Pool) -> Occasion:
        """Return the conditions of a concept's next selection."""
        return replace(
            super().occasion(member, pool),
            others=self.project.leases.others(self.id, own=self.session.own_sessions),
            include_skipped=self.session.include_skipped,
            round=self.next_round,
            audit_share=0.0,
            persons=self.project.persons(self.next_round, self.session.seed),
        )

    def _show_item(self, members: Sequence[SessionState]) -> None:
        for member in members:
            if member.strategy != self.session.strategy:
                member.use_strategy(self.session.strategy)
        if self.session.view is not self:
            self.resume()
        elif self._last not in members:
            self._last = None
        super()._show_item(members)


def offered(session: SessionState) -> list[ConceptRecord]:
    """Return the concepts that have keys, in key order: the project's first `MOST` concepts."""
    return session.project.concepts()[:MOST]


def can_choose(session: SessionState) -> bool:
    """Return whether the session's concept and at least one other concept have keys."""
    concepts = offered(session)
    return len(concepts) > 1 and any(concept.id == session.concept.record.id for concept in concepts)


def labels_of(concepts: Sequence[ConceptRecord]) -> list[dict[str, Any]]:
    """Return the choices on the card in key order, each with the display name of its positive class.

    Concepts without a class name are named by the words in which their questions differ. If all classes are
    digits, each digit is its own key, so that the key for a 7 is 7. Otherwise the keys are numbers from 1.
    """
    called = [concept.positive_class or of_class(concept.question, concept.name) for concept in concepts]
    stems = [concept.question.strip(" ?") for concept in concepts]
    asked = [place for place, name in enumerate(called) if name == stems[place]]
    for place, name in zip(asked, told_apart([called[place] for place in asked]), strict=True):
        called[place] = name
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
