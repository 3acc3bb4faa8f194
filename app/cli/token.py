"""Commands for the tokens with which programs use the HTTP API, the group ``closecall token``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from closecall.storage.records import Scope
    from closecall.storage.tokens import TokenRecord

_PROJECT = click.argument("project", type=click.Path(path_type=Path))

DAY_MS = 24 * 3600 * 1000


@click.group()
def token() -> None:
    """Create, list and revoke tokens, with which programs use the HTTP API.

    The project may be served meanwhile.
    """


@token.command("create")
@_PROJECT
@click.option(
    "--name", required=True, help="The annotator under whose name the program's answers are stored."
)
@click.option(
    "--scope",
    type=click.Choice(["read", "label", "own"]),
    default="label",
    show_default=True,
    help="read: read everything; label: also answer; own: also what owners may, if NAME is an owner.",
)
@click.option("--note", default="", help="What the token is for.")
@click.option("--days", type=click.IntRange(1, 36_500), help="Days until it expires.  [default: never]")
def create_token(project: Path, name: str, scope: Scope, note: str, days: int | None) -> None:
    """Create a token for PROJECT and print it. It can't be shown again."""
    from closecall.app.exchange.offline_project import open_beside_server
    from closecall.app.projects.roles import name_given
    from closecall.storage.rows import now_ms
    from closecall.storage.tokens import Tokens

    annotator = name_given(name)
    if "@" in annotator:
        annotator = annotator.lower()  # sign-in gives addresses in lower case
    with open_beside_server(project) as database:
        expires = None if days is None else now_ms() + days * DAY_MS
        record, text = Tokens(database).create(annotator, scope, note=note, expires=expires)
    click.echo(text)
    click.echo(
        f"Token {record.id} for {annotator}, scope {scope}. Keep it secret: it is not shown again.", err=True
    )


@token.command("list")
@_PROJECT
def list_tokens(project: Path) -> None:
    """List the tokens of PROJECT."""
    from closecall.app.exchange.offline_project import open_labels
    from closecall.storage.rows import now_ms
    from closecall.storage.tokens import Tokens

    with open_labels(project) as database:
        records = Tokens(database).all()
    if not records:
        click.echo("There are no tokens: closecall token create PROJECT --name NAME makes one.")
    for record in records:
        note = f", {record.note}" if record.note else ""
        click.echo(f"{record.id}: {record.annotator}, {record.scope}{note}, {_state(record, now_ms())}")


def _state(record: TokenRecord, now: int) -> str:
    if record.revoked is not None:
        return f"revoked on {_date(record.revoked)}"
    if record.expires is None:
        return f"created on {_date(record.created)}"
    return f"{'expired' if record.expires <= now else 'expires'} on {_date(record.expires)}"


def _date(milliseconds: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d")


@token.command("revoke")
@_PROJECT
@click.argument("number", type=click.IntRange(1))
def revoke_token(project: Path, number: int) -> None:
    """Revoke token NUMBER of PROJECT at once."""
    from closecall.app.exchange.offline_project import open_beside_server
    from closecall.storage.tokens import Tokens

    with open_beside_server(project) as database:
        Tokens(database).revoke(number)
    click.echo(f"Token {number} is revoked.")
