"""A project that is open for labeling, with its sessions and their views."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Self, TypeVar

from closecall.app.engine.leases import Leases
from closecall.app.projects.project import Project
from closecall.app.projects.roles import SOMEBODY, Person, Roles
from closecall.app.runtime.helpers import ALONE, Helpers
from closecall.app.sessions.adjudication import Decisions
from closecall.app.sessions.blind.comparison import BlindComparison
from closecall.app.sessions.classes import ClassSession
from closecall.app.sessions.grid import GridSession
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.lasso import LassoSession
from closecall.app.sessions.name_search import FoundSession
from closecall.app.sessions.open_sessions import OpenSessions
from closecall.app.sessions.predicted import PredictedSession
from closecall.app.sessions.session_state import ATTENDED_SECONDS, BROWSER, NAMELESS
from closecall.app.sessions.similar.session import SimilarSession
from closecall.app.sessions.word_search import WordSession
from closecall.storage import SessionRecord

V = TypeVar("V")


class OpenProject(Project):
    """A project with the sessions that are open in this process.

    Parameters
    ----------
    folder, roles, former, shared, helpers
        See `Project`.
    """

    def __init__(
        self,
        folder: Path,
        roles: Roles | None = None,
        *,
        former: Self | None = None,
        shared: bool = False,
        helpers: Helpers = ALONE,
    ) -> None:
        self._deciding: dict[int, Leases] = {}  # by concept
        self._sessions = OpenSessions()
        super().__init__(folder, roles, former=former, shared=shared, helpers=helpers)

    def session_of(
        self,
        person: Person,
        session_id: str | None = None,
        concept_id: int | None = None,
        browser: str | None = None,
    ) -> LabelingSession:
        """Return the session with this id or, if it belongs to somebody else, a session of this person.

        The method `session` defines which of the person's sessions that is.
        """
        with self._lock:
            annotator = self._annotator_of(session_id) if session_id else None
            is_theirs = annotator is None or person.owns(annotator)
            return self.session(session_id if is_theirs else None, concept_id, person.name, browser)

    def session(
        self,
        session_id: str | None = None,
        concept_id: int | None = None,
        annotator: str = SOMEBODY,
        browser: str | None = None,
    ) -> LabelingSession:
        """Return the session with this id or, without an id, a session that the annotator has left.

        Without an id, return the session with the annotator's last answer. If this session is in use, return
        the annotator's newest session. If both are in use, or if there is no session, start a new session. A
        session is in use if it is attended (`SessionState.is_attended`) and its page is open. If the session
        with this id has another concept, start a new session, too. People without a name are told apart by
        the id of their `browser`: sessions of other browsers are not theirs. A session that is opened again
        continues after its last round in the log. This method does not check whose session it returns;
        `session_of` does.
        """
        with self._lock:
            opened = self._sessions.get(session_id)
            if opened is not None and concept_id in (None, opened.concept.record.id):
                return opened
            wanted = concept_id if concept_id is not None else self.concepts()[0].id
            record = self.log.session(session_id) if session_id else self._left(wanted, annotator, browser)
            if record is None or (concept_id is not None and record.concept_id != concept_id):
                record = self.log.start_session(
                    wanted, annotator, LabelingSession.DEFAULT, seed=secrets.randbelow(2**31)
                )
            return self._sessions.get(record.id) or self._open(record)

    def _open(self, record: SessionRecord) -> LabelingSession:
        session = LabelingSession(self, record, self)
        self._sessions.add(session)
        self.leases.forget(self._sessions)
        return session

    def grid(self, session: LabelingSession) -> GridSession:
        """Return the session's grid view."""
        return self._view(session, GridSession)

    def classes(self, session: LabelingSession) -> ClassSession:
        """Return the session's class view."""
        return self._view(session, ClassSession)

    def found(self, session: LabelingSession) -> FoundSession:
        """Return the session's view of items found by name."""
        return self._view(session, FoundSession)

    def described(self, session: LabelingSession) -> WordSession:
        """Return the session's view of items found by words."""
        return self._view(session, WordSession)

    def enclosed(self, session: LabelingSession) -> LassoSession:
        """Return the session's view of items in a lasso on the map."""
        return self._view(session, LassoSession)

    def predicted(self, session: LabelingSession) -> PredictedSession:
        """Return the session's view of items chosen by another model's predictions."""
        return self._view(session, PredictedSession)

    def similar_to(self, session: LabelingSession) -> SimilarSession:
        """Return the session's Find similar view."""
        return self._view(session, SimilarSession)

    def decisions(self, session: LabelingSession) -> Decisions:
        """Return the view in which the session's annotator adjudicates."""
        with self._lock:
            concept = session.concept.record.id
            if concept not in self._deciding:
                self._deciding[concept] = self.store.new_leases(f"decide {concept}")
            leases = self._deciding[concept]
            leases.forget(self._sessions)
            return self._view(session, Decisions, leases)

    def blind(self, leader_id: str) -> BlindComparison:
        """Return the blind comparison whose leader is the session with this id."""
        return BlindComparison.of(self.session(leader_id))

    def _view(self, session: LabelingSession, kind: Callable[..., V], *others: object) -> V:
        """Return the session's view of this kind; each session object creates it only once."""
        with self._lock:
            if kind not in session.views:
                session.views[kind] = kind(session, *others)
            view: V = session.views[kind]
            return view

    def _left(self, concept_id: int, annotator: str, browser: str | None) -> SessionRecord | None:
        """Return the annotator's session with the last answer or, if it is in use, the newest session.

        A session is in use if it is attended, here or on another server, and its page is open. The result is
        None if both are in use, or if the annotator has no session with the concept.
        """
        own = [record for record in self.sittings(concept_id) if record.annotator == annotator]
        if annotator in NAMELESS:
            own = [record for record in own if record.parameters.get(BROWSER) == browser]
        if not own:
            return None
        last = self.log.last_answers(record.id for record in own)
        answered = max(own, key=lambda record: last.get(record.id, 0))
        candidates = (answered, own[-1]) if last else (own[-1],)
        return next((record for record in candidates if not self._is_in_use(record.id)), None)

    def _is_in_use(self, session_id: str) -> bool:
        if self.claims is not None and self.claims.is_attended(session_id, ATTENDED_SECONDS):
            return True
        opened = self._sessions.get(session_id)
        return opened is not None and opened.is_attended() and not opened.is_left

    def close_page(self, session: LabelingSession) -> None:
        """Note that the page with this session is closed. The leases of its views expire."""
        with self._lock:
            opened = [self._sessions.get(name) for name in session.side_by_side]
            leases = list(self._deciding.values())
        for one in opened:
            if one is not None:
                one.leave()
        for each in leases:
            each.leave(session.id)

    def leave_session(self, session_id: str) -> None:
        """Drop a session that another server continues.

        A page may still refer to the session's object. The object then takes the session back when it is
        used (`SessionState.hold`).
        """
        with self._lock:
            session = self._sessions.drop(session_id)
        ahead = session.item_view.ahead if session is not None else None
        if ahead is not None:
            ahead.cancel()

    def known_session(self, session_id: str, person: Person) -> LabelingSession | None:
        """Return the session with this id, or None if it is unknown or belongs to another person."""
        with self._lock:
            annotator = self._annotator_of(session_id)
            is_theirs = annotator is not None and person.owns(annotator)
            return self.session(session_id) if is_theirs else None

    def _annotator_of(self, session_id: str) -> str | None:
        opened = self._sessions.get(session_id)
        if opened is not None:
            return opened.annotator
        record = self.log.session(session_id)
        return record.annotator if record else None
