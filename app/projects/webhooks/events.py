"""Events as JSON, as receivers of webhooks get them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from closecall.app.projects.log_entries import answer_fields
from closecall.storage import HappeningRecord
from closecall.storage.backlog import Batch, Entry


def events_of(batch: Batch, project: str) -> list[dict[str, Any]]:
    """Return the events of a batch, in order; `project` is the project's key."""
    return [event_of(entry, project, batch.concepts) for entry in batch.entries]


def event_of(entry: Entry, project: str, concepts: Mapping[int, str]) -> dict[str, Any]:
    """Return one event. Its `id` is unique in the project, and the same whenever the event is sent again.

    Parameters
    ----------
    entry : AnswerRecord or HappeningRecord
        The answer or happening in the log.
    project : str
        The project's key.
    concepts : mapping
        Names of the concepts, by id.
    """
    concept_id = entry.concept_id
    if isinstance(entry, HappeningRecord):
        kind, time, data = str(entry.kind), entry.created, dict(entry.data)
    else:
        kind = "decision" if entry.purpose == "decision" else "label"
        time, data = entry.server_time, answer_fields(entry)
    return {
        "id": entry.id,
        "kind": kind,
        "project": project,
        "concept": None if concept_id is None else concepts[concept_id],
        "concept_id": concept_id,
        "time": time,
        "data": data,
    }
