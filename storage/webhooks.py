"""Webhooks: addresses that get a project's events, each with its own position in the logs."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from sqlalchemy import Connection, delete, func, insert, select, update

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import MAX_NAME, MAX_URL, Answer, Concept, Happening, Webhook
from closecall.storage.records import EVENTS, EventKind, WebhookRecord

MOST_WEBHOOKS = 20
"""Maximum number of webhooks of a project, because the server has a thread for each."""

LEAST_SECRET = 16
"""Minimum number of characters of a webhook's secret."""


class Webhooks:
    """The webhooks of a project. `storage.backlog` reads the events that they have not received.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = rows.now_ms) -> None:
        self.database = database
        self._clock = clock

    def add(
        self,
        url: str,
        kinds: Iterable[str] = EVENTS,
        *,
        created_by: str,
        concept_id: int | None = None,
        secret: str | None = None,
        from_start: bool = False,
    ) -> WebhookRecord:
        """Add a webhook, and return it with its secret.

        Parameters
        ----------
        url : str
            The receiver's address.
        kinds : iterable of str
            Which events it gets; see `EVENTS`.
        created_by : str
            Name of the person who adds it.
        concept_id : int or None
            The concept whose events it gets, also those of later concepts that replace it; None means all
            concepts.
        secret : str or None
            The secret that signs the deliveries; None means a random one.
        from_start : bool
            Whether it also gets the events from before it was added.

        Raises
        ------
        StorageError
            If a value is not allowed, or there are `MOST_WEBHOOKS` webhooks (kind `invalid`), or there is no
            such concept (kind `missing`).
        """
        values: dict[str, Any] = {
            "url": _checked_url(url),
            "secret": secrets.token_urlsafe(32) if secret is None else _checked_secret(secret),
            "kinds": _checked_kinds(kinds),
            "concept_id": concept_id,
            "created": self._clock(),
            "created_by": created_by,
            "failures": 0,
            "is_paused": False,
        }
        with self.database.write() as connection:
            number = connection.scalar(select(func.count()).select_from(Webhook)) or 0
            if number >= MOST_WEBHOOKS:
                raise StorageError(
                    f"a project has at most {MOST_WEBHOOKS} webhooks: remove one first", "invalid"
                )
            if concept_id is not None:
                _require_concept(connection, concept_id)
            through = (0, 0) if from_start else _ends(connection)
            values["answers_through"], values["happenings_through"] = through
            made = connection.execute(insert(Webhook).values(**values)).inserted_primary_key
            assert made is not None
            return _one(connection, made[0])

    def all(self) -> list[WebhookRecord]:
        """Return the webhooks, oldest first."""
        with self.database.read() as connection:
            found = connection.execute(select(*rows.columns(Webhook)).order_by(Webhook.id)).all()
        return [rows.webhook(row) for row in found]

    def get(self, webhook_id: int) -> WebhookRecord:
        """Return the webhook with this id.

        Raises
        ------
        StorageError
            If there is no such webhook (kind `missing`).
        """
        with self.database.read() as connection:
            return _one(connection, webhook_id)

    def remove(self, webhook_id: int) -> None:
        """Remove a webhook. Its id is never used again.

        Raises
        ------
        StorageError
            If there is no such webhook (kind `missing`).
        """
        with self.database.write() as connection:
            _one(connection, webhook_id)
            connection.execute(delete(Webhook).where(Webhook.id == webhook_id))

    def pause(self, webhook_id: int, is_paused: bool) -> None:
        """Pause a webhook, or resume it. A resumed webhook first gets the events of the pause.

        Raises
        ------
        StorageError
            If there is no such webhook (kind `missing`).
        """
        with self.database.write() as connection:
            _one(connection, webhook_id)
            changed = update(Webhook).where(Webhook.id == webhook_id).values(is_paused=is_paused)
            connection.execute(changed)

    def ends(self) -> tuple[int, int]:
        """Return the positions of the last answer and of the last happening, each 0 if there is none."""
        with self.database.read() as connection:
            return _ends(connection)

    def delivered(
        self, webhook_id: int, answers_through: int, happenings_through: int, *, is_success: bool = True
    ) -> None:
        """Record that all events up to both positions have been delivered.

        Positions never move back. If the webhook has been removed, nothing changes. If `is_success` is false,
        no events were sent, because this webhook gets none of the events up to these positions.
        """
        outcome: dict[str, Any] = {"failures": 0, "last_problem": None, "last_success": self._clock()}
        its = Webhook.id == webhook_id
        with self.database.write() as connection:
            if is_success:
                connection.execute(update(Webhook).where(its).values(**outcome))
            for column, through in (
                (Webhook.answers_through, answers_through),
                (Webhook.happenings_through, happenings_through),
            ):
                moved = update(Webhook).where(its, column < through).values({column: through})
                connection.execute(moved)

    def failed(self, webhook_id: int, problem: str) -> None:
        """Record that an attempt to deliver failed, and why, in one sentence."""
        values = {"failures": Webhook.failures + 1, "last_problem": problem}
        with self.database.write() as connection:
            connection.execute(update(Webhook).where(Webhook.id == webhook_id).values(values))


def _one(connection: Connection, webhook_id: int) -> WebhookRecord:
    row = connection.execute(select(*rows.columns(Webhook)).where(Webhook.id == webhook_id)).first()
    if row is None:
        raise StorageError(f"there is no webhook {webhook_id}", "missing")
    return rows.webhook(row)


def _ends(connection: Connection) -> tuple[int, int]:
    answers, happenings = (
        connection.scalar(select(func.coalesce(func.max(column), 0))) or 0
        for column in (Answer.seq, Happening.seq)
    )
    return answers, happenings


def _require_concept(connection: Connection, concept_id: int) -> None:
    if connection.scalar(select(Concept.id).where(Concept.id == concept_id)) is None:
        raise StorageError(f"there is no concept {concept_id}", "missing")


def _checked_url(url: str) -> str:
    url = url.strip()
    if not 0 < len(url) <= MAX_URL:
        raise StorageError(f"a webhook needs an address of at most {MAX_URL:,} characters", "invalid")
    try:
        parts = urlsplit(url)
        is_known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_known = False
    if not is_known or not url.isprintable() or " " in url or "\\" in url:
        raise StorageError(
            "a webhook needs an address such as https://example.org/closecall, with http or https", "invalid"
        )
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise StorageError(
            "leave user, password and fragment out of a webhook's address: the signature shows the receiver "
            "who sends",
            "invalid",
        )
    return url


def _checked_secret(secret: str) -> str:
    if not LEAST_SECRET <= len(secret) <= MAX_NAME or not (secret.isascii() and secret.isprintable()):
        raise StorageError(
            f"a webhook's secret needs {LEAST_SECRET} to {MAX_NAME} characters, all printable ASCII",
            "invalid",
        )
    return secret


def _checked_kinds(kinds: Iterable[str]) -> list[EventKind]:
    """Return the kinds in the order of `EVENTS`, each once."""
    wanted = set(kinds)
    if not wanted or not wanted <= set(EVENTS):
        unknown = ", ".join(sorted(map(repr, wanted - set(EVENTS)))) or "none"
        raise StorageError(f"a webhook gets some of the events {', '.join(EVENTS)}, got {unknown}", "invalid")
    return [kind for kind in EVENTS if kind in wanted]
