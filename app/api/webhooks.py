"""A project's webhooks as JSON. Only owners see, add and remove them: an address may contain a secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from closecall.core.errors import InputError
from closecall.storage import WebhookRecord
from closecall.storage.backlog import waiting
from closecall.storage.records import EVENTS

if TYPE_CHECKING:
    from closecall.app.projects.project import Project
    from closecall.app.projects.roles import Person

_FIELDS = {"url": str, "events": list, "concept": int, "secret": str, "from_start": bool}


def listed(project: Project, person: Person) -> dict[str, Any]:
    """Return the project's webhooks, oldest first, without their secrets.

    Raises
    ------
    InputError
        If the person is not an owner.
    """
    person.require_owner("see webhooks")
    names = {concept.id: concept.name for concept in project.concepts(archived=True)}
    return {"webhooks": [_shown(project, its, names) for its in project.store.sender.webhooks.all()]}


def added(project: Project, body: Mapping[str, Any], person: Person) -> dict[str, Any]:
    """Add a webhook, and return it with its secret, which is not shown again.

    Parameters
    ----------
    project : Project
        The project whose events the webhook gets.
    body : mapping
        ``url``, and optionally ``events`` (kinds of events, by default all), ``concept`` (an id, by default
        all concepts), ``secret`` (by default a random one) and ``from_start`` (whether to send earlier
        events, too).
    person : Person
        The person who adds the webhook.

    Raises
    ------
    InputError
        If the person is not an owner, or a field is missing, unknown or of the wrong type.
    StorageError
        If a value is not allowed (kind `invalid`), or there is no such concept (kind `missing`).
    """
    person.require_owner("add webhooks")
    _check(body)
    sender = project.store.sender
    its = sender.webhooks.add(
        body["url"],
        EVENTS if body.get("events") is None else body["events"],
        created_by=person.name,
        concept_id=body.get("concept"),
        secret=body.get("secret"),
        from_start=bool(body.get("from_start")),
    )
    sender.refresh()
    names = {concept.id: concept.name for concept in project.concepts(archived=True)}
    return {**_shown(project, its, names), "secret": its.secret}


def removed(project: Project, webhook_id: int, person: Person) -> None:
    """Remove a webhook.

    Raises
    ------
    InputError
        If the person is not an owner.
    StorageError
        If there is no such webhook (kind `missing`).
    """
    person.require_owner("remove webhooks")
    project.store.sender.webhooks.remove(webhook_id)
    project.store.sender.refresh()


def _check(body: Mapping[str, Any]) -> None:
    unknown = sorted(map(repr, body.keys() - _FIELDS.keys()))
    if unknown:
        raise InputError(f"A webhook has no {', '.join(unknown)}; it has {', '.join(_FIELDS)}")
    if body.get("url") is None:
        raise InputError("A webhook needs a url")
    for name, kind in _FIELDS.items():
        value = body.get(name)
        if value is not None and type(value) is not kind:
            raise InputError(f"A webhook's {name} must be of type {kind.__name__}, got {value!r:.80}")
    if not all(isinstance(event, str) for event in body.get("events") or ()):
        raise InputError("A webhook's events must be a list of texts")


def _shown(project: Project, its: WebhookRecord, names: Mapping[int, str]) -> dict[str, Any]:
    """Return a webhook without its secret; `waiting` counts the events that the webhook has not received."""
    return {
        "id": its.id,
        "url": its.url,
        "events": list(its.kinds),
        "concept": its.concept_id,
        "concept_name": None if its.concept_id is None else names[its.concept_id],
        "created": its.created,
        "created_by": its.created_by,
        "is_paused": its.is_paused,
        "waiting": waiting(project.database, its),
        "failures": its.failures,
        "last_problem": its.last_problem,
        "last_success": its.last_success,
    }
