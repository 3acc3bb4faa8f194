"""Routes about projects and their concepts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response, Security
from fastapi.security.http import HTTPAuthorizationCredentials
from pydantic import Field

from closecall.app.api import projects as api
from closecall.app.server.http.bodies import Body, Name
from closecall.app.server.http.credentials import Owns, Reads, bearer_scheme, opened_by, unknown
from closecall.app.sessions.workspace import current
from closecall.storage.models import MAX_GUIDELINE, MAX_QUESTION

router = APIRouter(tags=["projects"])


class NewConcept(Body):
    """A concept to add."""

    question: Annotated[str, Field(min_length=1, max_length=MAX_QUESTION, description="A yes/no question.")]
    name: Name = ""
    guideline: Annotated[str, Field(max_length=MAX_GUIDELINE)] = ""
    positive_class: Annotated[
        str | None, Field(max_length=200, description="The class of the pool that means yes.")
    ] = None


@router.get("/projects")
def list_projects(
    bearer: Annotated[HTTPAuthorizationCredentials | None, Security(bearer_scheme)],
) -> dict[str, Any]:
    """List the projects that a token opens."""
    opened = opened_by(current(), bearer.credentials) if bearer is not None else []
    if not opened:
        raise unknown()
    return {"projects": [api.brief(project) for project in opened]}


@router.get("/projects/{project}")
def show_project(entry: Reads) -> dict[str, Any]:
    """Describe a project: its pool, its strategies and its concepts."""
    return api.described(entry.project)


@router.get("/projects/{project}/concepts")
def list_concepts(entry: Reads) -> dict[str, Any]:
    """List a project's concepts."""
    return {"concepts": api.concepts_of(entry.project)}


@router.post("/projects/{project}/concepts", status_code=201, responses={200: {"description": "Known"}})
def add_concept(entry: Owns, body: NewConcept, response: Response) -> dict[str, Any]:
    """Add a concept. If there already is a concept with this name and question, return that concept."""
    concept, is_new = api.with_concept(entry.project, entry.person, **body.model_dump())
    if not is_new:
        response.status_code = 200
    return concept
