"""Routes of a project's webhooks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import Field

from closecall.app.api import webhooks as api
from closecall.app.server.http.bodies import LARGEST, Body
from closecall.app.server.http.credentials import Owns
from closecall.storage.records import EventKind

router = APIRouter(tags=["webhooks"])


class NewWebhook(Body):
    """A webhook to add."""

    url: Annotated[str, Field(min_length=1, max_length=2000, description="Where the events are sent.")]
    events: Annotated[
        list[EventKind] | None, Field(description="Kinds of events, by default all of them.")
    ] = None
    concept: Annotated[int | None, Field(ge=1, le=LARGEST, description="Only events of this concept.")] = None
    secret: Annotated[
        str | None, Field(min_length=1, max_length=200, description="By default a random one.")
    ] = None
    from_start: Annotated[bool, Field(description="Also send the events of the past.")] = False


@router.get("/projects/{project}/webhooks")
def list_webhooks(entry: Owns) -> dict[str, Any]:
    """List the webhooks, without their secrets."""
    return api.listed(entry.project, entry.person)


@router.post("/projects/{project}/webhooks", status_code=201)
def add_webhook(entry: Owns, body: NewWebhook) -> dict[str, Any]:
    """Add a webhook. The response has its secret, which is not shown again."""
    given = body.model_dump(exclude_none=True)
    return api.added(entry.project, given, entry.person)


@router.delete("/projects/{project}/webhooks/{webhook}", status_code=204)
def remove_webhook(
    entry: Owns, webhook: Annotated[int, Path(ge=1, le=LARGEST, description="The webhook's id.")]
) -> None:
    """Remove a webhook."""
    api.removed(entry.project, webhook, entry.person)
