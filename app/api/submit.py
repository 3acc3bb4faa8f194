"""Store each answer in the view where it was given, even if the page now shows another view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from itertools import groupby
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards import View, card_of
from closecall.app.display.phrases import as_sentence
from closecall.app.sessions.adjudication import Decisions, is_decision
from closecall.app.sessions.answers import Outcome, has_answered, others_only, refers_to_something, with_ids
from closecall.app.sessions.classes import ClassSession
from closecall.app.sessions.item_view import AHEAD_SECONDS
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.presses import CLASSES, classes_of, is_press
from closecall.app.sessions.review import Review
from closecall.app.sessions.session_state import BLIND
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.projects.roles import Person
    from closecall.app.sessions.registry import OpenProject

Taker = View | Review
"""A view that stores answers."""


LONGEST_ID = 64


def named(pending: object) -> list[dict[str, Any]]:
    """Return the answers in a browser's message that have a valid id and session.

    Other answers can be neither stored nor reported to the browser as refused.
    """
    answers = [answer for answer in pending if isinstance(answer, dict)] if isinstance(pending, list) else []
    return [answer for answer in answers if _is_id(answer.get("id")) and _is_id(answer.get("session"))]


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value.isascii() and len(value) <= LONGEST_ID


def take(
    project: OpenProject,
    view: View,
    answers: list[dict[str, Any]],
    person: Person,
    *,
    wait: float = AHEAD_SECONDS,
) -> dict[str, Any]:
    """Store a person's `answers`. Return the card of `view`, together with the outcome that `settle` returns.

    Wait at most `wait` seconds in all for the items that would follow the possible answers.
    """
    settled = settle(project, view, answers, person)
    card = card_of(view, wait=wait)
    return {**card, **settled, "message": settled["message"] or card["message"]}


def settle(
    project: OpenProject, view: Taker, answers: list[dict[str, Any]], person: Person
) -> dict[str, Any]:
    """Store a person's `answers`; return a dict with `message` and, as in `card_of`, `acked` and `refused`.

    Answers that are neither acknowledged nor refused stay in the browser's queue. Some can't be stored now,
    for the reason in `message`. Others were given in the same browser by another person, and wait until that
    person signs in again. If a session can't be opened, only the answers of this session are delayed.
    """
    readable, malformed = with_ids(answers)
    if isinstance(view, LabelingSession):
        readable = _with_classes(readable, view)
    settled: dict[str, Any] = {**Outcome(refused=malformed).as_json(), "message": None}
    decisions: set[str] = set()
    stuck: set[str] = set()

    def taken_by(answer: dict[str, Any]) -> Taker | None:
        found = taker_of(project, view, answer, person, decisions)
        if isinstance(found, Decisions):
            decisions.add(str(answer.get("id")))
        return found

    def store(given: Iterable[dict[str, Any]]) -> None:
        for taker, some in groupby(given, taken_by):
            if taker is None:
                continue
            theirs, refused = _theirs(project, taker, list(some), person)
            settled["refused"] += refused
            if theirs:
                outcome = taker.store(theirs, person) if isinstance(taker, Decisions) else taker.store(theirs)
                for part, ids in outcome.as_json().items():
                    settled[part] += ids

    for name, some in groupby(readable, lambda answer: str(answer.get("session"))):
        if name in stuck:
            continue
        try:
            store(some)
        except InputError as error:
            stuck.add(name)
            settled["message"] = as_sentence(str(error))
        except StorageError as error:
            settled["message"] = as_sentence(str(error))
            break
    return settled


def _with_classes(answers: list[dict[str, Any]], session: LabelingSession) -> list[dict[str, Any]]:
    """Let undos that were given while one question was shown undo whole presses of class keys.

    Such an undo is only about the last answer in view, which may be a part of a press.
    """
    pressed = {answer.get("id"): answer[CLASSES] for answer in answers if is_press(answer)}
    whole = []
    for answer in answers:
        undone = answer.get("undoes")
        if undone is not None and not is_press(answer) and answer.get("session") == session.id:
            classes = pressed.get(undone) or classes_of(undone, session)
            whole.append({**answer, CLASSES: classes} if classes else answer)
        else:
            whole.append(answer)
    return whole


def _theirs(
    project: OpenProject, taker: Taker, given: list[dict[str, Any]], person: Person
) -> tuple[list[dict[str, Any]], list[dict[str, str]]]:
    """Return the answers that the person may give, and the refusals of the other answers."""
    if person.is_owner:
        return given, []
    theirs, refused = [], []
    for answer in given:
        session = project.known_session(str(answer.get("session")), person)
        if isinstance(taker, Decisions):
            reason = f"Only an owner may decide, but {person.name} is not one"
        elif session is None or refers_to_something(answer) or has_answered(session, answer.get("item")):
            theirs.append(answer)
            continue
        else:
            reason = others_only(answer.get("item"))
        refused.append({"id": str(answer.get("id"))[:64], "reason": reason})
    return theirs, refused


def taker_of(
    project: OpenProject, view: Taker, answer: dict[str, Any], person: Person, decisions: Set[str]
) -> Taker | None:
    """Return the view that the answer was given in, or None if this view belongs to another person.

    `decisions` are the ids of earlier adjudications in the same batch, which the log does not have yet.
    """
    session = project.known_session(str(answer.get("session")), person)
    if session is None:
        return None
    if BLIND in session.parameters:
        return project.blind(session.parameters[BLIND]["sides"][0])
    if is_press(answer):
        return project.classes(session)
    if is_decision(answer) or takes_back_decision(project, answer, decisions):
        return project.decisions(session)
    return view if session.id == view.id and not isinstance(view, ClassSession | Decisions) else session


def takes_back_decision(project: OpenProject, answer: Mapping[str, Any], decisions: Set[str]) -> bool:
    """Return whether the answer undoes or corrects an adjudication, in the log or among `decisions`.

    The log is searched, because undos and corrections name only the answer that they change.
    """
    changed = answer.get("undoes") or answer.get("corrects")
    if not isinstance(changed, str):
        return False
    stored = project.log.answer(changed)
    return changed in decisions if stored is None else stored.purpose == "decision"
