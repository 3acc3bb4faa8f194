"""The card for a blind comparison, which never reveals which side selected the item.

Each side is a labeling session. Each of the two compared strategies has a side. If test items are needed, a
third side draws them at random.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.label import label_card
from closecall.app.api.cards.parts import STRIP, common, painted, strip_entry
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.session_state import BLIND

if TYPE_CHECKING:
    from closecall.app.sessions.blind.comparison import BlindComparison
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.storage import SelectionRecord
    from closecall.storage.records import AnswerWord


def blind_card(view: BlindComparison, outcome: Outcome) -> dict[str, Any]:
    """Return the card with the current item, selected by the side whose turn it is."""
    with view.lock:
        known = view.settle()
        side, follower = view.turn(len(known)), view.turn(len(known) + 1)
        shown, notes, question = side.in_view(), _notes(view, known), view.question
        return {
            **common(side, shown, outcome),
            "session": view.id,
            "concept": {
                "id": question.id,
                "question": question.question,
                "guideline": question.guideline,
                "examples": [],
            },
            "round": len(known) + 1,
            "notes": notes,
            "history": dict.fromkeys(("selection_ms", "margin", "scored", "retrain_ms", "accuracy"), ()),
            "item": painted(side, shown) if shown else None,
            **_coming(side, shown, follower, known, notes),
            "strip": [strip_entry(view.sides[0], answer) for answer in view.recent_answers(STRIP)],
            "blind": True,
        }


def _coming(
    side: LabelingSession,
    shown: SelectionRecord | None,
    follower: LabelingSession,
    known: Mapping[int, AnswerWord],
    notes: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the next item for each possible answer.

    If the next turn belongs to another side, the next item is the same for every answer, because that side
    has already selected it.
    """
    items: dict[str, dict[str, Any]] = {}
    is_coming = False
    following = follower.in_view()
    if shown is not None and follower is side:
        card = label_card(side, Outcome())
        is_coming = card["next_is_coming"]
        for word, view in card["next"].items():
            item = view["item"]
            if item["id"] not in known:
                items[word] = {**item, "src": card["pictures"].get(str(item["id"]), "")}
    elif shown is not None and following is not None and following.item != shown.item:
        items = dict.fromkeys(("no", "yes", "skip", "unsure"), painted(follower, following))
    return {
        "next": {
            word: {"round": len(known) + 2, "notes": notes, "item": _without_picture(item)}
            for word, item in items.items()
        },
        "pictures": {str(item["id"]): item["src"] for item in items.values()},
        "next_is_coming": is_coming,
    }


def _notes(view: BlindComparison, known: Mapping[int, AnswerWord]) -> dict[str, Any]:
    """Return the statistics beside the card: only counts, because other statistics could reveal the side."""
    words, pool = list(known.values()), view.project.pool
    counts = {word: words.count(word) for word in ("yes", "no", "unsure", "skip")}
    return {
        **dict.fromkeys(("selection_ms", "full_scan_ms", "margin", "retrain_ms", "accuracy", "always_no")),
        **dict.fromkeys(("part", "searched", "awaited", "advice", "strategy_label")),
        **dict.fromkeys(("scored", "total", "n_labels", "held_out"), 0),
        "counts": counts | {"left": (len(pool) if pool else 0) - len(words)},
        "strategy": BLIND,
        "why": BLIND,
    }


def _without_picture(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if name != "src"}
