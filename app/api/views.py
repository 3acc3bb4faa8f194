"""The views of a session by name, as a page or a program requests them over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

from closecall.app.api.cards import View, coming_of
from closecall.app.api.submit import take
from closecall.app.sessions import autopilot
from closecall.app.sessions.adjudication import Decisions
from closecall.app.sessions.classes import ClassSession, can_choose
from closecall.app.sessions.full_scan_check import Check
from closecall.app.sessions.grid import USUAL, BatchSession, GridSession
from closecall.app.sessions.item_view import AHEAD_SECONDS
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.lasso import LassoSession
from closecall.app.sessions.name_search import FoundSession
from closecall.app.sessions.predicted import PredictedSession
from closecall.app.sessions.session_state import BLIND
from closecall.app.sessions.word_search import WordSession
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.registry import OpenProject
    from closecall.app.sessions.session_state import SessionState

ViewName = Literal["one", "grid", "classes", "decide", "found", "words", "lasso", "predicted"]

VIEWS: tuple[ViewName, ...] = get_args(ViewName)

_NAMES: dict[type, ViewName] = {
    LabelingSession: "one",
    GridSession: "grid",
    ClassSession: "classes",
    Decisions: "decide",
    FoundSession: "found",
    WordSession: "words",
    LassoSession: "lasso",
    PredictedSession: "predicted",
}


def name_of(view: View) -> ViewName | None:
    """Return the view's name, or None if it can't be used over HTTP."""
    return _NAMES.get(type(view))


def view_of(
    project: OpenProject, session: LabelingSession, name: ViewName, person: Person, *, size: int = USUAL
) -> View:
    """Return the session's view with this name; `size` is the number of items of a grid.

    Raises
    ------
    InputError
        If the session is a side of a blind comparison, has no classes to choose from, or `size` is not
        allowed.
    NoAccessError
        If the view is for adjudication and the person is not an owner.
    """
    if BLIND in session.parameters:
        raise InputError("The sessions of a blind comparison can be used only on its page")
    match name:
        case "grid":
            grid = project.grid(session)
            grid.resize(size)
            return grid
        case "classes":
            if not can_choose(session):
                raise InputError("This project has no other question: there are no classes to choose from")
            return project.classes(session)
        case "decide":
            person.require_owner("decide")
            return project.decisions(session)
        case "found":
            return project.found(session)
        case "words":
            return project.described(session)
        case "lasso":
            return project.enclosed(session)
        case "predicted":
            return project.predicted(session)
        case _:
            return session


def answered(
    project: OpenProject,
    view: View,
    answers: list[dict[str, Any]],
    person: Person,
    *,
    wait: float = AHEAD_SECONDS,
    check: str | None = None,
) -> dict[str, Any]:
    """Store answers, and return the view's card, with the fields of `demonstrated`; see `submit.take`.

    `check` is the id of the selection to compare with a full scan.
    """
    card = take(project, view, answers, person, wait=wait)
    if isinstance(view, ClassSession):
        return demonstrated(view.checked(check), card, check)
    if isinstance(view, BatchSession | Decisions):
        return card
    return demonstrated(view, card, check) if isinstance(view, LabelingSession) else card


def demonstrated(session: SessionState, card: dict[str, Any], check: object = None) -> dict[str, Any]:
    """Add to the card the state of the full-scan check.

    In the autopilot's session, also add the autopilot's answers.
    """
    return card | {"autopilot": autopilot.answers(session, card), "check": _check(session, check)}


def _check(session: SessionState, asked: object) -> dict[str, Any] | None:
    """Return the state of the last full-scan check, or None if there is none.

    If `asked` is the id of another selection, first start a check of that selection.
    """
    with session.lock:
        check: Check | None = session.check
        if isinstance(asked, str) and (check is None or check.selection_id != asked):
            check = session.check = Check(session, asked)
            check.start(session.project.executor)
    return check.state() if check else None


def is_foreseen(view: View, selection_id: str, known: int = 0) -> bool:
    """Return whether a request for the next items after a selection can be answered now.

    This is so if next items are known for more than `known` possible answers, or if no more will be computed.
    """
    if not isinstance(view, LabelingSession | ClassSession):
        return True
    ahead = (view.item_view if isinstance(view, LabelingSession) else view).ahead
    if ahead is None or ahead.shown.id != selection_id:
        return True
    return ahead.is_done or len(ahead.futures) > known


def coming(view: View, selection_id: str) -> dict[str, Any]:
    """Return the next item after each possible answer to a selection; see `cards.coming_of`."""
    if isinstance(view, LabelingSession | ClassSession):
        return coming_of(view, selection_id)
    return {"selection": selection_id, "next": {}, "pictures": {}, "next_is_coming": False}
