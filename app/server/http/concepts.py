"""Routes about one concept: the log, the labels, progress, people and the classifier."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field

from closecall.app.api import answers as log
from closecall.app.api import projects
from closecall.app.api.people import team_of
from closecall.app.api.progress import progress_of
from closecall.app.exchange.model import manifest_of, model_of
from closecall.app.server.http.bodies import After, Body, ConceptId, Limit
from closecall.app.server.http.credentials import Entry, Owns, Reads, ReadsAnswers
from closecall.app.server.http.problems import Problem
from closecall.core.errors import InputError
from closecall.storage import ConceptRecord

router = APIRouter(tags=["concepts"])


class AuditShare(Body):
    """Share of the rounds that draw an item for the audit."""

    share: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


@router.get("/projects/{project}/concepts/{concept}")
def show_concept(entry: Reads, concept: ConceptId) -> dict[str, Any]:
    """Describe a concept."""
    return projects.concept_of(entry.project, record(entry, concept))


@router.get("/projects/{project}/concepts/{concept}/answers")
def list_answers(
    entry: ReadsAnswers, concept: ConceptId, after: After = 0, limit: Limit = 1000
) -> dict[str, Any]:
    """Read the log: the answers after a cursor, in the order in which they were stored."""
    return log.answers_after(entry.project, record(entry, concept), max(0, after), limit)


@router.get("/projects/{project}/concepts/{concept}/labels")
def list_labels(
    entry: ReadsAnswers, concept: ConceptId, after: After = -1, limit: Limit = 1000
) -> dict[str, Any]:
    """List the current labels in the order of the item ids."""
    return log.labels_after(entry.project, record(entry, concept), after, limit)


@router.get("/projects/{project}/concepts/{concept}/progress")
def show_progress(entry: Reads, concept: ConceptId) -> dict[str, Any]:
    """Return the learning curve, the audit and the advice to stop."""
    return progress_of(entry.project, entry.project.live_concept(record(entry, concept).id))


@router.put("/projects/{project}/concepts/{concept}/audit")
def set_audit_share(entry: Owns, concept: ConceptId, body: AuditShare) -> dict[str, Any]:
    """Set the share of the rounds that draw an item for the audit."""
    live = entry.project.live_concept(record(entry, concept).id)
    entry.project.set_audit_share(live, body.share, by=entry.person)
    return {"share": live.audit_share}


@router.get("/projects/{project}/concepts/{concept}/people")
def show_people(entry: Reads, concept: ConceptId) -> dict[str, Any]:
    """Return the statistics of the annotators.

    Without the scope "own", the response has only the statistics of the person who asks.
    """
    live = entry.project.live_concept(record(entry, concept).id)
    return team_of(entry.project, live, entry.person, UTC)


@router.get("/projects/{project}/concepts/{concept}/model")
def show_model(entry: Reads, concept: ConceptId) -> dict[str, Any]:
    """Return the classifier: its weights, and how it was trained."""
    project, its = entry.project, record(entry, concept)
    if project.pool is None:
        raise Problem(409, "The pool has no items yet")
    try:
        model = model_of(project.concept_store, project.log, project.pool, its)
    except InputError as error:
        raise Problem(409, str(error)) from None
    plane = model.hyperplane
    manifest = {name: value for name, value in manifest_of(model, project.pool).items() if name != "files"}
    return {**manifest, "coef": plane.normal.tolist(), "intercept": plane.bias}


def record(entry: Entry, concept: int) -> ConceptRecord:
    """Return the concept with this id, which may be archived.

    Raises
    ------
    Problem
        With status 404, if there is no such concept.
    """
    found = next((its for its in entry.project.concepts(archived=True) if its.id == concept), None)
    if found is None:
        raise Problem(404, f"The project has no concept {concept}")
    return found
