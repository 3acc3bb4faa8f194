"""The card for labeling one item at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.parts import STRIP, coming, common, painted, strip_entry
from closecall.app.sessions.group import is_along

if TYPE_CHECKING:
    from closecall.app.sessions.answers import Outcome
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.storage import AnswerRecord


def label_card(session: LabelingSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with the current item, the next item for each possible answer, and the last answers."""
    session.attend()
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


def _leader(answer: AnswerRecord, recent: Sequence[AnswerRecord]) -> str | None:
    """Return the id of the recent answer that this answer repeats for a near-duplicate, or None."""
    return next((other.id for other in recent if is_along(answer, other.id)), None)
