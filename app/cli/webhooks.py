"""Commands for webhooks, the group ``closecall webhook``. They work while the project is served, too."""

from __future__ import annotations

from pathlib import Path

import click

from closecall.storage.records import EVENTS

_PROJECT = click.argument("project", type=click.Path(path_type=Path))
_ID = click.argument("webhook_id", metavar="ID", type=click.IntRange(1))


@click.group()
def webhook() -> None:
    """Manage webhooks, which send the events of a project to other programs."""


@webhook.command("add")
@_PROJECT
@click.argument("url")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(EVENTS),
    help="Kind of event to send; may be repeated.  [default: all]",
)
@click.option("--concept", help="Only events of this concept, by name.  [default: all]")
@click.option("--from-start", is_flag=True, help="Also send the events so far, oldest first.")
@click.option(
    "--secret-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with the secret that signs deliveries.  [default: a random secret, which is printed]",
)
def add_webhook(
    project: Path,
    url: str,
    events: tuple[str, ...],
    concept: str | None,
    from_start: bool,
    secret_file: Path | None,
) -> None:
    """Send the events of PROJECT to URL, and print the new webhook's id and secret.

    The secret is printed only once.
    """
    from closecall.app.exchange.webhooks import add

    add(
        project,
        url,
        events or EVENTS,
        concept=concept,
        from_start=from_start,
        secret=None if secret_file is None else secret_file.read_text("utf-8", "replace").strip(),
    )


@webhook.command("list")
@_PROJECT
def list_webhooks(project: Path) -> None:
    """List the webhooks of PROJECT: the events that each gets, how many events wait, and the last problem."""
    from closecall.app.exchange.webhooks import print_webhooks

    print_webhooks(project)


@webhook.command("remove")
@_PROJECT
@_ID
def remove_webhook(project: Path, webhook_id: int) -> None:
    """Remove the webhook ID of PROJECT. Nothing more is sent to it."""
    from closecall.app.exchange.webhooks import remove

    remove(project, webhook_id)


@webhook.command("pause")
@_PROJECT
@_ID
def pause_webhook(project: Path, webhook_id: int) -> None:
    """Send nothing to the webhook ID of PROJECT until it is resumed."""
    from closecall.app.exchange.webhooks import pause

    pause(project, webhook_id, is_paused=True)


@webhook.command("resume")
@_PROJECT
@_ID
def resume_webhook(project: Path, webhook_id: int) -> None:
    """Send events to the webhook ID of PROJECT again, beginning with those that it has missed."""
    from closecall.app.exchange.webhooks import pause

    pause(project, webhook_id, is_paused=False)
