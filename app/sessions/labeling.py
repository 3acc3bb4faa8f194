"""Labeling sessions, which store answers, retrain the SVM, and let a query strategy select the next item.

Sessions don't depend on Streamlit. They use the packages `core` and `storage` through `app.engine.concept`.
The cards that pages show are built in `app.api.cards`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.group import Group
from closecall.app.sessions.item_view import AHEAD_SECONDS, ItemView
from closecall.app.sessions.session_state import SessionState
from closecall.core.errors import InputError
from closecall.storage import AnswerRecord, SelectionRecord, SessionRecord

if TYPE_CHECKING:
    from closecall.app.engine.directions import Direction
    from closecall.app.projects.project import Project
    from closecall.core.sources.base import Source


class Sessions(Protocol):
    """The sessions of a project, by their ids."""

    def session(self, session_id: str, /) -> LabelingSession:
        """Return the session with this id."""

    def known_session(self, session_id: str, person: Person, /) -> LabelingSession | None:
        """Return the session with this id, or None if it is unknown or belongs to another person."""


class LabelingSession(SessionState):
    """The session of one annotator and one concept, with one item in view. Thread-safe: calls take turns.

    Parameters
    ----------
    project : Project
        The project that the session belongs to.
    record : SessionRecord
        The session's record. If the log already has rounds of the session, the session continues after them.
    sessions : Sessions
        The project's sessions.
    """

    DEFAULT: ClassVar[str] = "auto"
    """Strategy of new sessions."""

    def __init__(self, project: Project, record: SessionRecord, sessions: Sessions) -> None:
        super().__init__(project, record)
        self.sessions = sessions
        self.item_view = ItemView(self)
        self.group = Group(self)
        self.item_view.resume()

    def reopen(self) -> None:
        """See `SessionState.reopen`."""
        super().reopen()
        self.item_view.reopen()
        self.item_view.resume()

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store the browser's answers; see `ItemView.store`."""
        return self.item_view.store(answers)

    def in_view(self) -> SelectionRecord | None:
        """Return the selection in view; see `ItemView.in_view`."""
        return self.item_view.in_view()

    def attend(self, wait: float = AHEAD_SECONDS) -> None:
        """Record activity; see `ItemView.attend`."""
        self.item_view.attend(wait)

    def leave(self) -> None:
        """See `SessionState.leave`. The look-ahead is cancelled, because it leases items."""
        if self.item_view.ahead is not None:
            self.item_view.ahead.cancel()
        super().leave()

    def take_over(self, answers: Sequence[AnswerRecord]) -> None:
        """Store answers about items that this session did not show, and select again.

        If the session shows a view of many items, this view stays, and the next item is selected after it.
        """
        with self.lock:
            self.project.intake.store(answers)
            self.left = None
            self.item_view.choose_in_view()

    def set_strategy(self, name: str) -> None:
        """Select with the strategy `name` from now on. If the strategy changes, replace the item in view.

        Raises
        ------
        InputError
            If there is no such strategy.
        """
        with self.lock:
            if name != self.strategy:
                self.use_strategy(name)
                self.item_view.choose()

    def withdraw_description(self, direction: Direction, withdrawn: bool = True, *, by: Person) -> None:
        """Withdraw a description in words, with which labeling starts; if not `withdrawn`, use it again.

        This applies to everybody who labels the question. Answers about items that the description selected
        stay.

        Raises
        ------
        InputError
            If the person is not an owner.
        """
        by.require_owner("withdraw a description")
        with self.lock:
            before = self.concept.direction()
            self.concept.set_withdrawn(direction, withdrawn, annotator=by.name)
            if self.concept.direction() is not before:
                self.item_view.choose()

    def add_examples(
        self,
        images: Sequence[bytes],
        *,
        names: Sequence[str] = (),
        positive: bool = True,
        source: Source | None = None,
        by: Person = OPERATOR,
    ) -> None:
        """Add example images, which train the SVM like labels.

        `names` are the names of the files, for messages. `source` is the pool's source. It must be given if
        the pool has no items yet.

        Raises
        ------
        InputError
            If a file is not an image or too large; all other files are added. If the pool's features can't be
            computed from images, if the pool has no items yet and `source` is None, if another description of
            the items has just been put to use, or if the person is not an owner; nothing is added.
        """
        from closecall.app.projects.uploaded_images import describing_source, read_upload

        by.require_owner("add examples")

        with self.lock:
            source = source or describing_source(self.project.pool)
            prepared, problems = [], []
            for place, raw in enumerate(images):
                what = f"The example “{names[place]}”" if names else "An example image"
                try:
                    prepared.append(read_upload(raw, what, source))
                except InputError as error:
                    problems.append(str(error))
            with self.project.kept_in_use():
                for image, feature in prepared:
                    self.project.concept_store.add_example(self.concept.record.id, image, positive, feature)
            self.concept.refresh_examples()
            self.item_view.choose()
            if problems:
                n = len(prepared)
                others = f"{n:,} examples are" if n > 1 else "example is"
                raise InputError(". ".join([*problems, *([f"The other {others} added"] if n else [])]))
