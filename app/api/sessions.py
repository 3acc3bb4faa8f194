"""A person's sessions and the item in view, as JSON for programs."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from closecall.app.api.cards.parts import figures, waiting
from closecall.app.projects.roles import Person
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.session_state import BLIND, BY
from closecall.core.errors import InputError

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.storage import Counts, SelectionRecord, SessionRecord


def sessions_of(project: OpenProject, person: Person) -> list[dict[str, Any]]:
    """Return a person's sessions, oldest first, without the sides of blind comparisons."""
    own = (record for record in project.sittings() if record.annotator == person.name)
    return [_record(record) for record in own if BLIND not in record.parameters]


def started(
    project: OpenProject, person: Person, *, concept_id: int | None, strategy: str | None, by: str
) -> LabelingSession:
    """Start a session for a program.

    Parameters
    ----------
    project : OpenProject
        The project.
    person : Person
        The annotator.
    concept_id : int or None
        Id of the concept; by default, the project's first concept.
    strategy : str or None
        Name of the query strategy; None for the default.
    by : str
        Name of the program's credential, which the log keeps.

    Raises
    ------
    InputError
        If the project has no such concept, or no concept at all.
    """
    concepts = project.concepts()
    if not concepts:
        raise InputError("The project has no question")
    wanted = concepts[0].id if concept_id is None else concept_id
    if all(concept.id != wanted for concept in concepts):
        raise InputError(f"The project has no concept {wanted} that can be labeled")
    record = project.log.start_session(
        wanted,
        person.name,
        strategy or LabelingSession.DEFAULT,
        seed=secrets.randbelow(2**31),
        parameters={BY: by},
    )
    return project.session(record.id)


def described(session: LabelingSession) -> dict[str, Any]:
    """Return a session's settings."""
    return {
        "id": session.id,
        "concept": session.concept.record.id,
        "annotator": session.annotator,
        "strategy": session.strategy,
        "include_skipped": session.include_skipped,
    }


def _record(record: SessionRecord) -> dict[str, Any]:
    return {
        "id": record.id,
        "concept": record.concept_id,
        "annotator": record.annotator,
        "strategy": record.strategy,
        "created": record.created,
    }


def in_view(session: LabelingSession, *, wait: float) -> dict[str, Any]:
    """Return the item in view and the next item for each possible answer, each with its image's address.

    Wait at most `wait` seconds for the next items.
    """
    session.attend(wait)
    with session.lock:
        shown, ahead = session.shown, session.item_view.ahead
        foreseen = ahead if ahead is not None and shown is not None and ahead.shown.id == shown.id else None
        after = {word: future.chosen.record for word, future in foreseen.futures.items()} if foreseen else {}
        return {
            "session": session.id,
            "round": shown.round if shown else 0,
            "item": _item(session, shown) if shown else None,
            "after": {word: _item(session, record) for word, record in after.items()},
            "is_coming": foreseen is not None and not foreseen.is_done,
            "waiting": None if shown else waiting(session),
            "counts": counts_of(session, session.concept.counts()),
            "message": session.problem(),
        }


def counts_of(session: LabelingSession, counts: Counts) -> dict[str, int]:
    """Return the numbers of items by status."""
    return figures(counts, len(session.project.pool or ()))


def _item(session: LabelingSession, record: SelectionRecord) -> dict[str, Any]:
    project = session.project
    assert project.pool is not None
    return {
        "id": record.item,
        "selection": record.id,
        "name": project.pool.source.name(record.item),
        "image": image_address(project.key, record.item),
        "round": record.round,
        "margin": record.margin,
        "strategy": record.strategy,
        "why": record.why,
        "selection_ms": record.selection_ms,
        "accuracy": record.accuracy,
        "n_labels": record.n_labels,
    }


def image_address(key: str, item: int) -> str:
    """Return the address of an item's image, relative to the API."""
    return f"projects/{quote(key, safe='')}/items/{item}/image"
