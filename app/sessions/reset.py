"""Reset a question for the next audience: replace it by a copy without labels, and keep the log."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from closecall.app.projects.questions import copy_concept
from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.sessions.autopilot import peoples_concept
from closecall.storage import ConceptRecord, StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject


def start_afresh(project: OpenProject, concept: ConceptRecord, *, by: Person = OPERATOR) -> ConceptRecord:
    """Replace `concept` by a new concept with the same question and no labels; return the new concept.

    Nothing is moved or deleted. Sessions that still show the old concept can still store answers, and
    ``closecall verify`` replays all these answers. The pages of these sessions say that the question was
    reset. If the concept was already replaced, for example by a second click or in another window, return the
    newest replacement.

    Raises
    ------
    InputError
        If the person is not an owner.
    StorageError
        If the project can't be written.
    """
    by.require_owner("reset a question")
    concept = peoples_concept(project, concept)
    if (later := replacement_of(project, concept)) is not None:
        return later
    name = _next_name(project, concept.name)
    try:
        fresh = copy_concept(project.concept_store, concept, name, in_its_place=True)
    except StorageError as error:
        if error.kind != "exists" or (later := replacement_of(project, concept)) is None:
            raise
        return later  # another window was faster
    project.live_concept(concept.id).refresh()
    # Pages that ran when the database announced the change may still have shown the old state.
    project.news.publish("concept", concept=concept.id, elsewhere=False)
    return fresh


def replacement_of(project: OpenProject, concept: ConceptRecord) -> ConceptRecord | None:
    """Return the newest concept that has replaced `concept`, or None if there is none."""
    offered = project.concepts()
    if any(other.id == concept.id for other in offered):
        return None
    later = [other for other in offered if other.question == concept.question and other.id > concept.id]
    return max(later, key=lambda other: other.id, default=None)


def _next_name(project: OpenProject, name: str) -> str:
    """Return the name with the lowest free number, such as "Is this a 7 (2)" for "Is this a 7"."""
    stem, number = re.sub(r" \(\d+\)$", "", name), 2
    while project.concept_store.named(f"{stem} ({number})"):
        number += 1
    return f"{stem} ({number})"
