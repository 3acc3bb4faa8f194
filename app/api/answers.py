"""The log of answers and the current labels, page by page, as JSON for programs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.storage import AnswerRecord, ConceptRecord


def answers_after(project: OpenProject, concept: ConceptRecord, after: int, limit: int) -> dict[str, Any]:
    """Return up to `limit` answers after the log position `after`, and the position of the last one.

    The position is the cursor for the next page. An answer never comes before a position that was read.
    """
    found = list(islice(project.log.answers_after(concept.id, after), limit + 1))
    page = found[:limit]
    return {
        "answers": [answer_of(answer) for answer in page],
        "cursor": page[-1].seq if page else after,
        "more": len(found) > limit,
    }


def answer_of(answer: AnswerRecord) -> dict[str, Any]:
    """Return an answer as the log has it. Times are in milliseconds since 1970 UTC."""
    return {
        "seq": answer.seq,
        "id": answer.id,
        "concept": answer.concept_id,
        "session": answer.session_id,
        "annotator": answer.annotator,
        "item": answer.item,
        "answer": answer.answer,
        "undoes": answer.undoes,
        "corrects": answer.corrects,
        "purpose": answer.purpose,
        "selection": answer.selection_id,
        "browser_time": answer.browser_time,
        "server_time": answer.server_time,
        "time_taken_ms": answer.time_taken_ms,
    }


def labels_after(project: OpenProject, concept: ConceptRecord, after: int, limit: int) -> dict[str, Any]:
    """Return up to `limit` labels of items above `after`, and the last of these items, the cursor."""
    labels = project.live_concept(concept.id).standing().labels
    first = int(np.searchsorted(labels.items, after, side="right"))
    items, yes = labels.items[first : first + limit], labels.yes[first : first + limit]
    return {
        "labels": [
            {"item": item, "label": "yes" if is_yes else "no"}
            for item, is_yes in zip(items.tolist(), yes.tolist(), strict=True)
        ],
        "cursor": int(items[-1]) if len(items) else after,
        "more": first + limit < len(labels),
        "through": labels.through,
    }
