"""Starting afresh for the next audience: the same question without labels, and the log as it was."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.sessions.autopilot import peoples_concept
from closecall.storage import ConceptRecord

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject


def start_afresh(project: OpenProject, concept: ConceptRecord, *, by: Person = OPERATOR) -> ConceptRecord:
    """A concept that asks the same and has no labels; `concept` is put away with all that was said of it.

    Nothing is moved or deleted: sessions that still have the old concept in view go on storing their answers,
    and `closecall verify` replays them all. Where it was put away already, by a second click or in another
    window, the concept that took its place is returned.

    Raises
    ------
    InputError
        If whoever asks for it is no owner.
    """
    by.require_owner("start afresh")
    concept = peoples_concept(project, concept)
    offered = project.concepts()
    if all(other.id != concept.id for other in offered):
        later = [other for other in offered if other.question == concept.question and other.id > concept.id]
        if later:
            return later[-1]
    return project.copy_concept(concept, _next_name(project, concept.name), in_its_place=True)


def _next_name(project: OpenProject, name: str) -> str:
    """The name with the next number that is free: "Is this a 7 (2)" after "Is this a 7"."""
    stem, number = re.sub(r" \(\d+\)$", "", name), 2
    while project.concept_store.named(f"{stem} ({number})"):
        number += 1
    return f"{stem} ({number})"
