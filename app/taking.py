"""The browser's answers, handed to whoever had asked: another view or session than the one in view, maybe."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from app.classes import ClassSession
from app.decisions import Decisions, is_decision
from app.presses import is_press
from app.service import BLIND
from core.errors import InputError
from storage.errors import StorageError

if TYPE_CHECKING:
    from app.grid import BatchSession
    from app.live.blind import BlindComparison
    from app.people import Person
    from app.project import Project
    from app.service import LabelingSession

    View = LabelingSession | BatchSession | ClassSession | BlindComparison | Decisions
    """One item at a time, many, one for several concepts, one to decide: each takes answers, gives a card."""


def take(project: Project, view: View, answers: list[dict[str, Any]], person: Person) -> dict[str, Any]:
    """Store a person's `answers` and return the card.

    What can't be stored stays in the browser, the reason in sight; so does what another person said in the
    same browser, until they sign in again.
    """
    settled: dict[str, Any] = {"acked": [], "refused": []}
    shown = None
    try:
        for taker, some in groupby(answers, lambda answer: taker_of(project, view, answer, person)):
            if taker is not None:
                given = list(some)
                card = taker.submit(given, person) if isinstance(taker, Decisions) else taker.submit(given)
                settled = {part: [*settled[part], *card[part]] for part in settled}
                shown = card if taker is view else None
        shown = shown or view.card()
    except (InputError, StorageError) as error:
        shown = {**view.card(), "message": str(error)}
    return {**shown, **settled}


def taker_of(project: Project, view: View, answer: dict[str, Any], person: Person) -> View | None:
    """Whom an answer was given to, be it in another session or view; None where that isn't the person's."""
    session = project.known_session(str(answer.get("session")), person)
    if session is None:
        return None
    if BLIND in session.parameters:
        return project.blind(session.parameters[BLIND]["sides"][0])
    if is_press(answer):
        return project.classes(session)
    if is_decision(answer):
        return project.decisions(session)
    return view if session.id == view.id and not isinstance(view, ClassSession) else session
