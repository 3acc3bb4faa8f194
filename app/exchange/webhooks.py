"""Add, list, pause and remove webhooks at the command line, also while the project is served."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import click

from closecall.app.display.phrases import counted
from closecall.app.exchange.offline_project import concept_named, open_beside_server, open_labels
from closecall.app.projects.roles import OPERATOR
from closecall.storage import Concepts, WebhookRecord, Webhooks
from closecall.storage.backlog import waiting


def add(
    project: Path,
    url: str,
    kinds: Iterable[str],
    *,
    concept: str | None,
    from_start: bool,
    secret: str | None,
) -> None:
    """Add a webhook, and print its id and, if no secret was given, its secret.

    Raises
    ------
    InputError
        If there is no such project or concept.
    StorageError
        If a value is not allowed, or the database can't be written.
    """
    with open_beside_server(project) as database:
        its = concept_named(database, concept)
        webhook = Webhooks(database).add(
            url,
            kinds,
            created_by=OPERATOR.name,
            concept_id=None if its is None else its.id,
            secret=secret,
            from_start=from_start,
        )
    click.echo(f"Webhook {webhook.id} sends {_content(webhook, None if its is None else its.name)} to {url}")
    if secret is None:
        click.echo(f"Its secret, which is shown only now: {webhook.secret}")


def print_webhooks(project: Path) -> None:
    """Print the webhooks, one line each, without their secrets."""
    with open_labels(project) as database:
        webhooks = Webhooks(database).all()
        names = {concept.id: concept.name for concept in Concepts(database).all()}
        numbers = [waiting(database, webhook) for webhook in webhooks]
    if not webhooks:
        click.echo("There are no webhooks: closecall webhook add PROJECT URL adds one.")
    for webhook, number in zip(webhooks, numbers, strict=True):
        concept = None if webhook.concept_id is None else names[webhook.concept_id]
        click.echo(
            f"{webhook.id}: {_content(webhook, concept)} to {webhook.url}, {_state(webhook)}, "
            f"{counted(number, 'event')} not delivered yet"
        )


def remove(project: Path, webhook_id: int) -> None:
    """Remove a webhook.

    Raises
    ------
    InputError
        If there is no such project.
    StorageError
        If there is no such webhook (kind `missing`), or the database can't be written.
    """
    with open_beside_server(project) as database:
        Webhooks(database).remove(webhook_id)
    click.echo(f"Webhook {webhook_id} is removed.")


def pause(project: Path, webhook_id: int, *, is_paused: bool) -> None:
    """Pause a webhook, or resume it; see `remove` for errors."""
    with open_beside_server(project) as database:
        Webhooks(database).pause(webhook_id, is_paused)
    click.echo(f"Webhook {webhook_id} is {'paused' if is_paused else 'resumed'}.")


def _content(webhook: WebhookRecord, concept: str | None) -> str:
    return f"{', '.join(webhook.kinds)} of {'all concepts' if concept is None else repr(concept)}"


def _state(webhook: WebhookRecord) -> str:
    if webhook.is_paused:
        return "paused"
    if webhook.failures:
        return f"{counted(webhook.failures, 'failed attempt')} in a row ({webhook.last_problem})"
    if webhook.last_success is None:
        return "nothing sent yet"
    moment = datetime.fromtimestamp(webhook.last_success / 1000, UTC).isoformat(" ", "seconds")
    return f"last delivery {moment}"
