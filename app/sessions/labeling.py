"""Labeling sessions: answers go into the log, the SVM is retrained, a query strategy selects the next item.

A session combines core and storage through `app.engine.concept`. It does not depend on Streamlit; cards are
built in `app.api.cards`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.item_view import ItemView
from closecall.app.sessions.session_state import SessionState
from closecall.storage import AnswerRecord, SelectionRecord, SessionRecord

if TYPE_CHECKING:
    from closecall.app.projects.project import Project
    from closecall.core.sources.base import Source


class Sessions(Protocol):
    """The sessions of a project, by their ids."""

    def session(self, session_id: str, /) -> LabelingSession:
        """Return the session with this id."""

    def known_session(self, session_id: str, person: Person, /) -> LabelingSession | None:
        """Return the session with this id, or None if it is another person's or unknown."""


class LabelingSession(SessionState):
    """The session of one annotator and one concept, with one item in view. Thread-safe: calls take turns.

    Parameters
    ----------
    project : Project
        The project that the session belongs to.
    record : SessionRecord
        The session's record. A reopened session resumes where its log ends.
    sessions : Sessions
        The project's sessions.
    """

    DEFAULT: ClassVar[str] = "margin-index"
    """Strategy of new sessions."""

    def __init__(self, project: Project, record: SessionRecord, sessions: Sessions) -> None:
        super().__init__(project, record)
        self.sessions = sessions
        self.item_view = ItemView(self)
        self.item_view.resume()

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers; see `ItemView.store`."""
        return self.item_view.store(answers)

    def in_view(self) -> SelectionRecord | None:
        """Return the selection in view; see `ItemView.in_view`."""
        return self.item_view.in_view()

    def attend(self) -> None:
        """Record activity; see `ItemView.attend`."""
        self.item_view.attend()

    def take_over(self, answers: Sequence[AnswerRecord]) -> None:
        """Store answers about items that this view did not show, and select again."""
        with self.lock:
            self.project.intake.store(answers)
            self.item_view.choose()

    def set_strategy(self, name: str) -> None:
        """Select with the strategy `name` from now on; replace the item in view if it is another strategy.

        Raises
        ------
        InputError
            If there is no such strategy.
        """
        with self.lock:
            if name != self.strategy:
                self.use_strategy(name)
                self.item_view.choose()

    def add_examples(
        self,
        images: Sequence[bytes],
        *,
        positive: bool = True,
        source: Source | None = None,
        by: Person = OPERATOR,
    ) -> None:
        """Add example images, which train the SVM like labels.

        `source` is that of the pool, and is needed until the pool has been begun.

        Raises
        ------
        InputError
            If a file is not an image or too large, if the pool has texts or the user's own embeddings or has
            not been begun, or if the person is not an owner.
        """
        from closecall.app.projects.uploaded_images import describing_source, read_upload

        by.require_owner("add examples")

        with self.lock:
            source = source or describing_source(self.project.pool)
            prepared = [read_upload(raw, "An example image", source) for raw in images]
            for image, feature in prepared:
                self.project.concept_store.add_example(self.concept.record.id, image, positive, feature)
            self.concept.refresh_examples()
            self.item_view.choose()
