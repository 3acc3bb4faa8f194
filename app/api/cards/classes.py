"""The card for labeling several concepts at once. Each concept is a class; an item gets one class or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.parts import STRIP, coming, common, course, painted, strip_entry
from closecall.app.sessions.classes import labels_of

if TYPE_CHECKING:
    from closecall.app.sessions.answers import Outcome
    from closecall.app.sessions.classes import ClassSession
    from closecall.app.sessions.session_state import SessionState
    from closecall.storage.records import AnswerWord

QUESTION = "Which is it?"


def classes_card(view: ClassSession, outcome: Outcome, wait: float) -> dict[str, Any]:
    """Return the card with the current item, the classes, and the next item for each possible answer.

    The statistics are about the concept for which the item was selected. Wait at most `wait` seconds for the
    next items.
    """
    view.attend(wait)
    with view.alone() as members:
        chooser, shown, follower = view.chooser, view.shown, view.in_turn()[0]
        card = common(chooser, shown, outcome)
        _tell_concept(card["notes"], chooser, members)
        return (
            card
            | _coming(view, members)
            | {
                "session": view.id,
                "concept": {
                    "id": view.session.concept.record.id,
                    "question": QUESTION,
                    "guideline": "",
                    "examples": [],
                },
                "item": painted(chooser, shown) if shown else None,
                "classes": labels_of([member.concept.record for member in members]),
                "turn": {"concept": follower.concept.record.id, "history": course(follower)},
                "strip": _strip(view.session, members),
            }
        )


def classes_coming(view: ClassSession) -> dict[str, Any]:
    """Return the selection in view, and the next item for each possible answer."""
    with view.alone() as members:
        return {"selection": view.shown.id if view.shown else None, **_coming(view, members)}


def _coming(view: ClassSession, members: Sequence[SessionState]) -> dict[str, Any]:
    follower = view.in_turn()[0]
    part = coming(follower, view.shown, view.ahead)
    for following in part["next"].values():
        _tell_concept(following["notes"], follower, members)
    return part


def _tell_concept(notes: dict[str, Any], its: SessionState, members: Sequence[SessionState]) -> None:
    """Add to `notes` the question for which an item is selected.

    Remove the advice to stop from `notes`, unless it is the advice for all concepts.
    """
    notes["asked"] = its.concept.record.question
    if not all(member.concept.milestones.advice.stop for member in members):
        notes["advice"] = None


def _strip(main: SessionState, members: Sequence[SessionState]) -> list[dict[str, Any]]:
    """Return the last items that were assigned to a class or to no class, each with its current class."""
    recent = main.project.log.recent_answers(main.concept.record.id, STRIP, session_id=main.id)
    words: dict[int, dict[int, AnswerWord]] = {answer.item: {} for answer in recent}
    for member in members:
        with member.concept.lock:
            state = member.concept.catch_up()
            for item, given in words.items():
                if word := state.votes(item).get(main.annotator):
                    given[member.concept.record.id] = word
    strip = []
    for answer in reversed(recent):
        given = words[answer.item]
        if len(given) < 2 or answer.purpose == "decision":
            continue  # the item was answered for this concept alone, or adjudicated
        chosen = next((concept for concept, word in given.items() if word == "yes"), None)
        word = "yes" if chosen is not None else answer.answer
        strip.append(strip_entry(main, answer) | {"answer": word, "concept": chosen})
    return strip
