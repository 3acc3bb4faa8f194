"""The cards for many items at once: the grid, items found by name or by words, a lasso, and predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.parts import alike, common, item_of
from closecall.app.api.images import original_of
from closecall.app.display import phrases as words
from closecall.app.display.thumbnails import look_of
from closecall.app.engine.selection_parameters import PREDICTED
from closecall.app.sessions.grid import MOST
from closecall.app.sessions.name_search import LONGEST
from closecall.app.sessions.word_search import LONGEST as LONGEST_DESCRIPTION

if TYPE_CHECKING:
    from closecall.app.sessions.answers import Outcome
    from closecall.app.sessions.grid import Batch, BatchSession, GridSession
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.lasso import LassoSession
    from closecall.app.sessions.name_search import FoundSession
    from closecall.app.sessions.predicted import PredictedSession
    from closecall.app.sessions.word_search import WordSession
    from closecall.core.pool.pool import Pool
    from closecall.storage import AnswerRecord

    Looks = Callable[[LabelingSession, int], dict[str, Any]]
    """A function that returns the fields with which a cell shows an item, such as the image."""


def grid_card(grid: GridSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with the current grid and, for corrections, the previous grid."""
    grid.attend()
    with grid.session.lock:
        return batch_card(grid, outcome)


def found_card(found: FoundSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with a page of items found by name, including items that can't be answered here."""
    found.attend()
    with found.session.lock:
        pool = found.session.project.pool
        like = {} if pool is None else {"like": pool.source.name(int(pool.ids[0]))}
        return _search_card(found, outcome, {"longest": LONGEST, **like})


def word_card(found: WordSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with a page of items found by words, including items that can't be answered here."""
    found.attend()
    with found.session.lock:
        about = {"excluded": found.excluded, "problem": _sentence(found.problem)}
        card = _search_card(found, outcome, {"longest": LONGEST_DESCRIPTION, "words": about})
        return card | {"message": card["message"] or " ".join(found.notes) or None}


def lasso_card(lasso: LassoSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with the items in a lasso on the map.

    In the card's field `search`, `total` is the number of items in the lasso, and `found` is the number of
    items in the lasso that can still be answered here.
    """
    lasso.attend()
    with lasso.session.lock:
        card, pool = batch_card(lasso, outcome), lasso.session.project.pool
        left, inside = (0, 0) if pool is None else lasso.n_left(pool)
        about = {**_NO_TEXT, "found": left, "total": inside, "page": lasso.SIZE}
        return card | {"search": about | {"lasso": {"problem": _sentence(lasso.problem)}}, "waiting": None}


def predicted_card(chosen: PredictedSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with the items chosen by a model's predictions, each with its prediction.

    The card's field `search` says how the items were chosen, or why there are no items.
    """
    chosen.attend()
    with chosen.session.lock:
        card, by = batch_card(chosen, outcome), chosen.by
        predictions = chosen.predictions()
        how = none = ""
        if by is not None and predictions is not None:
            how = words.chosen_by_predictions(by.model, by.order, predictions.threshold)
            none = words.none_by_predictions(by.model, by.order)
        for cell, record in zip(card["cells"], chosen.shown, strict=True):
            cell["predicted"] = {"model": by.model if by else "", **record.parameters[PREDICTED]}
        about = {**_NO_TEXT, "found": len(chosen.shown), "total": len(chosen.shown), "page": chosen.SIZE}
        return card | {
            "search": about | {"predicted": {"how": how, "none": _sentence(chosen.problem) or none}},
            "waiting": None,
        }


_NO_TEXT = {"text": "", "first": 0, "longest": 0}
"""Entries of a card's field `search` for a view with one page and without a text to search for."""


def _sentence(problem: str | None) -> str | None:
    return None if problem is None else words.as_sentence(problem)


def _search_card(
    found: FoundSession | WordSession, outcome: Outcome, about: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the card with a page of found items; its field `search` includes the entries of `about`."""
    card, pool = batch_card(found, outcome), found.session.project.pool
    search = {"text": found.text, "found": 0, "total": 0, "first": 0, "page": found.SIZE, **about}
    if pool is None:
        return card | {"search": search}
    page, items = found.page(pool), found.found(pool)
    free = {cell["id"]: cell for cell in card["cells"]}
    taken = taken_cells(found, pool, [item for item in page if item not in free])
    cells = [free.get(item) or taken.get(item) for item in page]
    return card | {
        "cells": [cell for cell in cells if cell and cell.get("stands") != ""],
        "search": search | {"found": len(items), "total": len(pool), "first": found.first},
        "waiting": None,
    }


def picture(session: LabelingSession, item: int) -> dict[str, Any]:
    """Return the fields of a cell with the item's image, or with the reason why it can't be shown."""
    return look_of(item, session.project.pictures.tile) | original_of(session.project, item)


def batch_card(batch: BatchSession, outcome: Outcome, looks: Looks = picture) -> dict[str, Any]:
    """Return the fields that all cards with many items share."""
    session = batch.session
    card = common(session, batch.shown[0] if batch.shown else None, outcome)
    card["concept"]["question"] = words.of_several(card["concept"]["question"])
    margins = [record.margin for record in batch.shown if record.margin is not None]
    card["notes"] |= {"items": len(batch.shown), "furthest": max(margins, default=None)}
    log, concept = session.project.log, session.concept.record
    given = log.recent_answers(concept.id, MOST, session_id=session.id) if batch.last else []
    return card | {
        "cells": _cells(session, batch.shown, {}, looks),
        "last_round": batch.last[0].round if batch.last else 0,
        "last": _cells(session, batch.last, {answer.item: answer for answer in given}, looks),
    }


def taken_cells(
    batch: BatchSession, pool: Pool, items: Iterable[int], looks: Looks = picture
) -> dict[int, dict[str, Any]]:
    """Return a dict from item to cell, for `items` that the annotator can't answer in this view.

    In a cell, `stands` is the item's status if it has answers, "held" if it is leased to another session, and
    otherwise "".
    """
    stands = batch.standing_of(items)
    return {
        item: {
            "id": item,
            "selection": None,
            "alt": pool.source.name(item),
            **alike(batch.session, item),
            **looks(batch.session, item),
            "answer": None,
            "answer_id": None,
            "stands": status,
        }
        for item, status in stands.items()
    }


def _cells(
    session: LabelingSession, batch: Batch, given: Mapping[int, AnswerRecord], looks: Looks
) -> list[dict[str, Any]]:
    cells = [item_of(session, record) | looks(session, record.item) for record in batch]
    for cell in cells:
        answer = given.get(cell["id"])
        cell["answer"] = answer.answer if answer else None
        cell["answer_id"] = answer.id if answer else None
    return cells
