"""The log of answers and the current labels, page by page, as JSON for programs."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.projects.log_entries import answer_fields

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.storage import ConceptRecord


def answers_after(project: OpenProject, concept: ConceptRecord, after: int, limit: int) -> dict[str, Any]:
    """Return up to `limit` answers after the log position `after`, and the cursor for the next page.

    The cursor is the log position of the last answer. New answers always get later positions.
    """
    found = list(islice(project.log.answers_after(concept.id, after), limit + 1))
    page = found[:limit]
    return {
        "answers": [answer_fields(answer) for answer in page],
        "cursor": page[-1].seq if page else after,
        "more": len(found) > limit,
    }


def labels_after(project: OpenProject, concept: ConceptRecord, after: int, limit: int) -> dict[str, Any]:
    """Return up to `limit` labels of items with ids above `after`, and the cursor for the next page.

    The cursor is the id of the last item.
    """
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
