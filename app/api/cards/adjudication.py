"""The card for adjudication: the next item with both yes and no answers, and who gave which answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.parts import STRIP, common, painted, strip_entry
from closecall.app.sessions.adjudication import WORDS
from closecall.storage.review import CODES

if TYPE_CHECKING:
    from closecall.app.sessions.adjudication import Decisions, Line
    from closecall.app.sessions.answers import Outcome
    from closecall.storage.review import Answers

NOTHING = "There is nothing to decide: no item has both yes and no answers."
ELSEWHERE = "Other owners are looking at the remaining items."


def adjudication_card(view: Decisions, outcome: Outcome) -> dict[str, Any]:
    """Return the card: the first item to decide, its answers, and the next item for each decision."""
    line = view.line()
    shown = view.stand_in(line.items[0]) if line.items else None
    card = common(view.session, shown, outcome)
    guideline = voices(line.answers, shown.item) if shown else ""
    card["concept"] |= {"examples": [], "guideline": guideline}
    card["notes"] |= {"strategy": "decision", "why": "decision", "waiting": len(line.items)}
    nothing = ELSEWHERE if line.is_any_contested else NOTHING
    return {
        **card,
        "item": painted(view.session, shown) if shown else None,
        **_coming(view, line, card["notes"]),
        "strip": _strip(view),
        "waiting": None
        if shown
        else {
            "done": 0,
            "total": 0,
            "exhausted": True,
            "held": 0,
            "stopped": False,
            "message": nothing,
        },
        "blind": True,
    }


def _coming(view: Decisions, line: Line, notes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next item for each possible decision, so that the browser can show it without delay."""
    views: dict[str, Any] = {}
    pictures: dict[str, str] = {}
    waiting = line.items
    for word in (*WORDS, "skip") if waiting else ():
        left = [*waiting[1:], *(waiting[:1] if word == "skip" else ())]
        if left:
            item = painted(view.session, view.stand_in(left[0], again=left[0] == waiting[0]))
            pictures[str(item["id"])] = item.pop("src")
            views[word] = {
                "round": 0,
                "item": item,
                "notes": {**notes, "waiting": len(left)},
                "concept": {"guideline": voices(line.answers, left[0])},
            }
    return {"next": views, "pictures": pictures, "next_is_coming": False}


def _strip(view: Decisions) -> list[dict[str, Any]]:
    """Return the session's last decisions, oldest first."""
    log, concept = view.project.log, view.session.concept.record
    recent = log.recent_answers(concept.id, STRIP, session_id=view.id, purpose="decision")
    return [strip_entry(view.session, answer) for answer in reversed(recent)]


def voices(answers: Answers, item: int) -> str:
    """Return one line with the current answers of all annotators about an item."""
    return " · ".join(f"{word}: {', '.join(names)}" for word, names in said_by(answers, item).items())


def said_by(answers: Answers, item: int) -> dict[str, list[str]]:
    """Return a dict from each current answer about an item to the names of the annotators who gave it.

    The answers are in the order no, yes, unsure, skip.
    """
    said: dict[str, list[str]] = {}
    for word in ("no", "yes", "unsure", "skip"):
        rows = [
            row
            for row in answers.of(item)
            if answers.in_force[row] and not answers.is_decision[row] and answers.word[row] == CODES[word]
        ]
        if rows:
            said[word] = sorted(answers.annotators[answers.annotator[row]] for row in rows)
    return said
