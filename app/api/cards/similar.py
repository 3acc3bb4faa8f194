"""The card for Find similar: a page of items, and statistics of the search."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.app.api.cards.grid import batch_card, picture, taken_cells
from closecall.app.display.phrases import of_class
from closecall.app.display.thumbnails import absence, data_url
from closecall.app.projects.uploaded_images import note_on, why_none
from closecall.app.sessions.similar.query import require_shown
from closecall.app.sessions.similar.session import RECALLED
from closecall.core.errors import InputError
from closecall.core.similar import Neighbours
from closecall.core.similar.queries import PAGE

if TYPE_CHECKING:
    from closecall.app.sessions.answers import Outcome
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.similar.result import Result
    from closecall.app.sessions.similar.session import SimilarSession

SHOWN_QUERIES = 9
"""Maximum number of query items that the card shows, if the query consists of all items answered yes."""


def similar_card(similar: SimilarSession, outcome: Outcome) -> dict[str, Any]:
    """Return the card with a page of similar items, including items that can't be answered here."""
    similar.attend()
    with similar.session.lock:
        card, pool = batch_card(similar, outcome, _looks), similar.session.project.pool
        result = similar.result
        if similar.like is not None and similar.like.digest is not None:
            card["message"] = card["message"] or note_on(pool)
        shown: dict[str, Any] = {"cells": [], "waiting": None, "last": [], "last_round": 0}
        if result is None or pool is None:
            return card | shown | {"similar": _about(similar, None, len(pool) if pool else 0)}
        if similar.course and similar.checked and similar.checked.is_done:
            similar.course[-1]["recall"] = similar.checked.state()["recall"]
        free = {cell["id"]: cell for cell in card["cells"]}
        in_view = result.in_view(similar.view, similar.first)
        others = {item for _, _, item in in_view} - free.keys()
        taken = taken_cells(similar, pool, others, _looks)
        cells = [
            {
                **(free.get(item) or taken[item]),
                "list": name,
                "place": place,
                "value": _value(result.lists[name], place),
                "measure": result.lists[name].measure,
            }
            for name, place, item in in_view
        ]
        return card | shown | {"cells": cells, "similar": _about(similar, result, len(pool))}


def _value(found: Neighbours, place: int) -> float:
    """Return the similarity or distance of the item at index `place` in `found`; angles are in degrees."""
    return float((found.degrees if found.measure == "angle" else found.values)[place])


def _looks(session: LabelingSession, item: int) -> dict[str, Any]:
    """Return an item's picture or, for a text, its beginning and full content."""
    pictures = session.project.pictures
    try:
        opens = pictures.opening(item)
        text = pictures.text(item) if opens is not None else None
    except InputError as error:
        return absence(error)
    return picture(session, item) if opens is None else {"src": "", "opening": opens, "text": text}


def _about(similar: SimilarSession, result: Result | None, total: int) -> dict[str, Any]:
    """Return the query, the settings and the statistics of the search."""
    learning, pool = similar.learning, similar.session.project.pool
    told: dict[str, Any] = {
        "like": _like(similar, result),
        "on_label": similar.on_label,
        "page": PAGE,
        "first": similar.first,
        "total": total,
        "view": similar.view,
        "problem": similar.problem,
        "kind": "item" if pool is None else pool.item_word,
        "why_no_upload": why_none(pool, "Uploads"),
        "metric": {**learning.state(), "newer": False},
        "undo": _undoable(similar),
        "found": 0,
        "search": None,
        "among": None,
        "pending": learning.is_under_way or pool is None,
    }
    if result is None:
        return told
    newest = learning.newest(pool) if pool is not None else None
    if result.learned is not None:
        told["metric"] |= result.learned.state()
        told["metric"]["newer"] = newest is not result.learned
    elif newest is not None:
        told["pending"] = True  # the first metric was learned during the search, so the page asks again
    name = result.metric_in_view(similar.view)
    found, method = result.lists[name], result.methods[name]
    checked = similar.checked
    unknown = {"recall": None, "exact_ms": None, "problem": None}
    return told | {
        "found": len(result.lists["original"].ids),
        "total": found.items,
        "search": {
            "ms": 1000 * found.seconds,
            "compared": found.examined,
            "in_full": found.scored,
            "items": found.items,
            "method": method.label,
            "measure": found.measure,
            "taught": method.taught,
            "is_exact": method.name == "exact",
            "awaited": method.awaited,
            "recalled": RECALLED,
            **(checked.state() if checked else unknown),
            "course": {part: [one[part] for one in similar.course] for part in ("ms", "share", "recall")},
        },
        "among": _among(similar, result),
        "pending": told["pending"]
        or (method.awaited is not None and method.awaited["problem"] is None)
        or not (checked and checked.is_done),
    }


def _like(similar: SimilarSession, result: Result | None) -> dict[str, Any] | None:
    """Return the query as the page shows it."""
    if similar.like is None:
        return None
    project, like = similar.session.project, similar.like
    said: dict[str, Any] = {
        "word": like.word,
        "name": "",
        "pictures": [],
        "openings": [],
        "n": 0,
        "of": 0,
        "audited": 0,
    }
    try:
        if like.digest is not None:
            image = Image.open(io.BytesIO(project.uploads.image(like.digest)))
            return said | {"name": "uploaded image", "pictures": [data_url(image)]}
        if like.item is not None:
            if project.pool is None:
                return said | {"name": like.word}
            require_shown(like, project.pool)
            name = project.pool.source.name(like.item)
            if (opens := project.pictures.opening(like.item)) is not None:
                return said | {"name": name, "openings": [opens]}
            return said | {"name": name, "pictures": [project.pictures.tile(like.item)]}
    except InputError:
        return said | {"name": like.word}
    items = result.queries.items if result else np.empty(0, dtype=np.int64)
    looks = [_looks(similar.session, int(item)) for item in items[:SHOWN_QUERIES]]
    openings = [look["opening"] for look in looks if "opening" in look]
    pictures = [] if openings else [look["src"] for look in looks]
    n = result.queries.X.shape[0] if result else 0
    audited = _audited_yes(similar, items) if result else 0
    return said | {"pictures": pictures, "openings": openings, "n": n, "of": len(items), "audited": audited}


def _audited_yes(similar: SimilarSession, items: NDArray[np.int64]) -> int:
    """Return how many items other than `items` are answered yes for an audit."""
    with similar.session.concept.lock:
        labels = similar.session.concept.catch_up().audit_labels()
    return len(np.setdiff1d(labels.items[labels.yes], items))


def _among(similar: SimilarSession, result: Result) -> dict[str, Any] | None:
    """Count the positives among the first `PAGE` items of each list of results.

    An item is positive by its true class or, if true classes are unknown, by its answer.
    """
    session, pool = similar.session, similar.session.project.pool
    assert pool is not None
    concept = session.concept.record
    index = pool.classes.index(concept.positive_class) if concept.positive_class in pool.classes else None
    with session.concept.lock:
        state = session.concept.catch_up()
        rows = {}
        for name, found in result.lists.items():
            nearest = found.ids[:PAGE].tolist()
            status = [state.status(item) for item in nearest]
            new = np.array([said is None for said in status], dtype=np.bool_)
            if index is not None:
                yes = np.asarray(pool.truth(nearest) == index)
                known = np.ones(len(nearest), dtype=np.bool_)
            else:
                yes = np.array([said == "yes" for said in status], dtype=np.bool_)
                known = np.array([said in ("yes", "no") for said in status], dtype=np.bool_)
            rows[name] = {
                "yes": int(yes.sum()),
                "of": int(known.sum()),
                "new_yes": int((yes & new).sum()),
                "new": int(new.sum()),
            }
    named = concept.positive_class if index is not None else of_class(concept.question, concept.name)
    return {"named": named, "by_truth": index is not None, "nearest": PAGE, "rows": rows}


def _undoable(similar: SimilarSession) -> list[dict[str, Any]]:
    """Return the answers of the session's last submission from Find similar, without undone answers.

    If the session has stored other answers since that submission, the result is empty.
    """
    log, concept = similar.session.project.log, similar.session.concept.record
    recent = log.recent_answers(concept.id, 2 * PAGE, session_id=similar.session.id)
    last: list[dict[str, Any]] = []
    of_round: int | None = None
    for answer in recent:
        chosen = log.selection(answer.selection_id) if answer.selection_id else None
        if chosen is None or chosen.why != "similar" or of_round not in (None, chosen.round):
            break
        of_round = chosen.round
        last.append({"item": answer.item, "undoes": answer.id})
    return last
