"""The card for labeling one item at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.parts import STRIP, coming, common, painted, strip_entry
from closecall.app.sessions.group import is_along
from closecall.app.sessions.item_view import AHEAD_SECONDS

if TYPE_CHECKING:
    from closecall.app.sessions.answers import Outcome
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.storage import AnswerRecord


def label_card(session: LabelingSession, outcome: Outcome, wait: float = AHEAD_SECONDS) -> dict[str, Any]:
    """Return the card with the current item, the next item for each possible answer, and the last answers.

    Wait at most `wait` seconds for the next items.
    """
    session.attend(wait)
    with session.lock:
        shown, concept = session.shown, session.concept.record
        recent = session.project.log.recent_answers(concept.id, STRIP, session_id=session.id)
        return {
            **common(session, shown, outcome),
            "item": painted(session, shown) if shown else None,
            **coming(session, shown, session.item_view.ahead),
            "group": session.group.of(shown) if shown else None,
            "strip": [
                strip_entry(session, answer) | {"along": _leader(answer, recent)}
                for answer in reversed(recent)
            ],
        }


def label_coming(session: LabelingSession) -> dict[str, Any]:
    """Return the selection in view, and the next item for each possible answer."""
    with session.lock:
        shown = session.shown
        part = coming(session, shown, session.item_view.ahead)
        return {"selection": shown.id if shown else None, **part}


def _leader(answer: AnswerRecord, recent: Sequence[AnswerRecord]) -> str | None:
    """If `answer` copies a recent answer to a near-duplicate, return the recent answer's id; else None."""
    return next((other.id for other in recent if is_along(answer, other.id)), None)
