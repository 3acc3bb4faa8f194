"""Parts that several cards share: the item, the possible next items, statistics, and the last answers."""

from __future__ import annotations

import itertools
import secrets
from typing import TYPE_CHECKING, Any

from closecall.app.api.images import original_of
from closecall.app.display.phrases import described, of_group
from closecall.app.display.strategy_labels import label_of
from closecall.app.display.thumbnails import look_of
from closecall.app.engine.selection_parameters import (
    DIRECTION,
    PART,
    SEARCH,
    WORDS,
    is_hurried,
    missing_rows,
    place_of_display,
)
from closecall.app.engine.training import accuracy_of_always_no
from closecall.app.indexes.full_scan import factor_of
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError
from closecall.storage import AnswerRecord, Counts, SelectionRecord

if TYPE_CHECKING:
    from closecall.app.engine.lookahead import Lookahead
    from closecall.app.sessions.answers import Outcome
    from closecall.app.sessions.session_state import SessionState

STRIP = 12
"""Maximum number of answers in a card's strip. The strip shows the last answers; a click corrects one."""

_PROCESS = secrets.token_hex(8)
_numbers = itertools.count()

ONLY_REPEATS = "Every item has an answer, or is a near-duplicate of an item that has one."


def common(session: SessionState, shown: SelectionRecord | None, outcome: Outcome) -> dict[str, Any]:
    """Return the fields that all cards share; the statistics are about the selection `shown`."""
    concept = session.concept.record
    return {
        "project": session.project.key,
        "session": session.id,
        # Cards reach the browser in two ways, and not always in the order in which they were made.
        "stamp": {"process": _PROCESS, "number": next(_numbers)},
        "concept": {
            "id": concept.id,
            "question": concept.question,
            "guideline": concept.guideline,
            "examples": session.concept.example_pictures(),
        },
        "round": shown.round if shown else 0,
        "notes": _notes(session, shown, session.concept.counts()),
        "history": course(session, shown),
        **outcome.as_json(),
        "message": session.problem(),
        "waiting": None if shown else waiting(session),
        "has_groups": session.project.duplicates.current is not None,
    }


def item_of(session: SessionState, shown: SelectionRecord) -> dict[str, Any]:
    """Return the item's id, the id of its selection, the alternative text of its image, and more about it.

    If the item is one of several near-duplicates, this is said. The prediction is included only if the
    annotator has chosen a model whose predictions are shown.
    """
    pool = session.project.pool
    assert pool is not None
    return {
        "id": shown.item,
        "selection": shown.id,
        "alt": pool.source.name(shown.item),
        **alike(session, shown.item),
        **_predicted(session, shown.item),
    }


def _predicted(session: SessionState, item: int) -> dict[str, Any]:
    """Return the item's prediction as a field of the card, or no field if no prediction is shown."""
    if session.shown_model is None:
        return {}
    predictions = session.concept.predictions.of(session.shown_model)
    about = predictions.about(item) if predictions is not None else None
    return {"predicted": about} if about else {}


def painted(session: SessionState, shown: SelectionRecord) -> dict[str, Any]:
    """Return an item with its picture; for a text, with its parts and a picture of its first lines."""
    return _described(session, shown) | look_of(shown.item, session.project.pictures.card)


def _described(session: SessionState, shown: SelectionRecord) -> dict[str, Any]:
    """Return an item without its picture; for a text, with its parts."""
    own = original_of(session.project, shown.item)
    return item_of(session, shown) | own | _text(session, shown.item)


def coming(session: SessionState, shown: SelectionRecord | None, ahead: Lookahead | None) -> dict[str, Any]:
    """Return the next round for each possible answer, and the pictures of the next items.

    The selections of the next rounds come from `ahead`, which computes them for `session`. Only selections
    that are ready are returned; `next_is_coming` tells whether more are being computed.
    """
    if ahead is None or shown is None or ahead.shown.id != shown.id:
        return {"next": {}, "pictures": {}, "next_is_coming": False}
    is_coming, futures = not ahead.is_done, ahead.futures
    views = {
        word: {
            "round": future.chosen.record.round,
            "item": _described(session, future.chosen.record),
            "notes": _notes(session, future.chosen.record, future.counts),
        }
        for word, future in futures.items()
    }
    draw, items = session.project.pictures.card, {future.chosen.record.item for future in futures.values()}
    pictures = {str(item): look_of(item, draw)["src"] for item in sorted(items)}
    return {"next": views, "pictures": pictures, "next_is_coming": is_coming}


def _text(session: SessionState, item: int) -> dict[str, Any]:
    """Return the parts of a text item as a field of the card; for an image, return no field."""
    try:
        return {"text": text} if (text := session.project.pictures.text(item)) else {}
    except InputError:
        return {}


def alike(session: SessionState, item: int) -> dict[str, Any]:
    """If the item is one of several near-duplicates, return this in words and their number, else no field."""
    groups = session.project.duplicates.current
    group = groups.group(item) if groups is not None else None
    return {"alike": of_group(group[0], len(group[1])), "n_alike": len(group[1])} if group else {}


def strip_entry(session: SessionState, answer: AnswerRecord) -> dict[str, Any]:
    """Return an answer's entry in the strip of last answers, with the ids that a correction refers to.

    A correction takes the place of the corrected answer, so only `seq` tells which answer was stored last.
    """
    return {
        "answer_id": answer.id,
        "seq": answer.seq,
        "item": answer.item,
        "answer": answer.answer,
        "decides": answer.purpose == "decision",
        "src": thumbnail(session, answer.item),
    }


def thumbnail(session: SessionState, item: int) -> str:
    """Return an item's picture for the strip of last answers, or "" if it can't be shown."""
    return look_of(item, session.project.pictures.thumbnail)["src"]


def _device_of(session: SessionState) -> str | None:
    """Return the name of the device that scans the pool, or None if the processors scan it."""
    device = session.project.store.helpers.device
    return device.name if device is not None and session.project.indexes.device_state == "ready" else None


def _notes(session: SessionState, shown: SelectionRecord | None, counts: Counts) -> dict[str, Any]:
    """Return the statistics of the selection `shown`; `counts`, `now` and `advice` may be newer."""
    pool, advice = session.project.pool, session.concept.milestones.advice
    n_items = len(pool) if pool else 0
    return {
        "selection_ms": shown.selection_ms if shown else None,
        "full_scan_ms": session.project.indexes.full_scan.beside(shown.id) if shown else None,
        "full_scan_is_estimate": factor_of(n_items) > 1,
        "full_scan_device": _device_of(session),
        "margin": shown.margin if shown else None,
        "scored": shown.items_scored if shown else 0,
        "total": shown.items_total if shown else n_items,
        "retrain_ms": shown.retrain_ms if shown else None,
        "n_labels": shown.n_labels if shown else None,
        "accuracy": shown.accuracy if shown else None,
        "held_out": len(unrepeated_held_out(pool)) if pool else 0,
        "always_no": accuracy_of_always_no(pool, session.concept.record.positive_class) if pool else None,
        "counts": figures(counts, n_items),
        "now": {"labels": counts.labels + session.concept.n_examples, "items": n_items},
        "strategy": shown.strategy if shown else session.strategy,
        "strategy_label": label_of(shown.strategy if shown else session.strategy),
        "why": shown.why if shown else None,
        "part": shown.parameters.get(PART) if shown else None,
        "hurried": shown is not None and is_hurried(shown),
        "missing": missing_rows(shown) if shown else 0,
        "searched": _searched(shown) if shown else None,
        "awaited": _awaited(session, shown),
        "advice": advice.reason if advice.stop else None,
        "is_replaced": session.concept.is_replaced,
    }


def figures(counts: Counts, n_items: int) -> dict[str, int]:
    """Return the numbers of items by status; `n_items` is the size of the pool."""
    return {
        "yes": counts.yes,
        "no": counts.no,
        "unsure": counts.unsure,
        "tied": counts.tied,
        "skip": counts.skip,
        "left": counts.left(n_items),
    }


def _searched(shown: SelectionRecord) -> str | None:
    """Return the search text that found the item; None if the item was chosen in another way."""
    if SEARCH in shown.parameters:
        return str(shown.parameters[SEARCH]["text"])
    words = shown.parameters.get(WORDS) or shown.parameters.get(DIRECTION)
    return described(words["texts"], words["excluded"]) if words else None


def _awaited(session: SessionState, shown: SelectionRecord | None) -> str | None:
    """If the session's strategy still waits for its index, return the strategy's display name, else None.

    Meanwhile, another strategy selects the items, such as `shown`.
    """
    stands_in = shown is not None and shown.why == "strategy" and shown.strategy != session.strategy
    is_ready = session.project.indexes.get(session.strategy) is not None
    return label_of(session.strategy) if stands_in and not is_ready else None


def course(session: SessionState, shown: SelectionRecord | None = None) -> dict[str, list[float | None]]:
    """Return the times (in ms), margins and other numbers of the last rounds, oldest first.

    Only rounds are returned that were shown like `shown`: alone, in grids, or as results of searches. If
    `shown` is None, they are those shown alone.
    """
    place = "alone" if shown is None else place_of_display(shown)
    rounds = [record for record in session.history if place_of_display(record) == place]
    return {
        "selection_ms": [r.selection_ms for r in rounds],
        "margin": [r.margin for r in rounds],
        "scored": [r.items_scored for r in rounds],
        "retrain_ms": [r.retrain_ms for r in rounds],
        "accuracy": [r.accuracy for r in rounds],
    }


def waiting(session: SessionState) -> dict[str, Any]:
    """Return why no item is in view, and the progress of the pool's build.

    If `stopped`, no item is being prepared, because of a problem that the card's message describes.
    `held` is the number of items without an answer that other sessions show, or may show next.
    """
    progress = session.project.build_progress()
    why: dict[str, Any] = {
        "done": progress.done if progress else 0,
        "total": progress.total if progress else 0,
        "exhausted": session.exhausted,
        "held": session.held_elsewhere() if session.exhausted else 0,
        "stopped": session.trouble is not None or session.project.is_build_stopped(),
    }
    if session.exhausted and progress is None and session.project.groups() is not None:
        why["message"] = ONLY_REPEATS
    return why
