"""A project, its pool and its concepts, as JSON for programs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from closecall.app.display.strategy_labels import all_labels
from closecall.app.projects.roles import Person
from closecall.storage import ConceptRecord
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject


class OtherQuestionError(StorageError):
    """Error for a new concept whose name belongs to a concept with another question."""


def brief(project: OpenProject) -> dict[str, Any]:
    """Return the project's key, and the size of its pool."""
    pool = project.pool
    return {
        "key": project.key,
        "items": len(pool) if pool is not None else 0,
        "is_complete": pool is not None and pool.complete,
    }


def described(project: OpenProject) -> dict[str, Any]:
    """Return the project's pool, strategies and concepts."""
    progress, pool = project.build_progress(), project.pool
    return {
        **brief(project),
        "build": {"done": progress.done, "total": progress.total} if progress else None,
        "held_out": len(pool.held_out.ids) if pool is not None else 0,
        "classes": list(pool.classes) if pool is not None else [],
        "problem": project.problem(),
        "strategies": all_labels(),
        "concepts": concepts_of(project),
    }


def concepts_of(project: OpenProject) -> list[dict[str, Any]]:
    """Return the project's active concepts."""
    return [concept_of(project, concept) for concept in project.concepts()]


def concept_of(project: OpenProject, concept: ConceptRecord) -> dict[str, Any]:
    """Return a concept with the numbers of items by status."""
    counts = project.live_concept(concept.id).counts()
    return {
        "id": concept.id,
        "name": concept.name,
        "question": concept.question,
        "guideline": concept.guideline,
        "positive_class": concept.positive_class,
        "counts": {
            "yes": counts.yes,
            "no": counts.no,
            "tied": counts.tied,
            "unsure": counts.unsure,
            "skip": counts.skip,
            "labels": counts.labels,
            "left": counts.left(len(project.pool or ())),
        },
    }


def with_concept(
    project: OpenProject,
    person: Person,
    *,
    question: str,
    name: str = "",
    guideline: str = "",
    positive_class: str | None = None,
) -> tuple[dict[str, Any], bool]:
    """Add a concept; return it, and whether it is new.

    If there is already a concept with this name and question, return that concept, so that a program can
    repeat its request.

    Raises
    ------
    InputError
        If the person is not an owner, or the text `question` is not a question or is too long.
    OtherQuestionError
        If a concept of this name has another question.
    """
    question = " ".join(question.split())
    known = project.concept_store.named(name or question.strip(" ?"))
    if known is None:
        added = project.add_concept(
            question, name=name, guideline=guideline, positive_class=positive_class, by=person
        )
        return concept_of(project, added), True
    if known.question != question:
        raise OtherQuestionError(f"The concept {known.name!r} asks {known.question!r}", "exists")
    return concept_of(project, known), False
