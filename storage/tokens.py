"""Tokens: credentials with which programs use the HTTP API. Only the digest of a token is stored.

A token is 32 random bytes. Its digest can't be inverted by trying texts, unlike the digest of a password.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, insert, select, update

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import MAX_NAME, Token
from closecall.storage.records import SCOPES, Scope

PREFIX = "cc_"
"""The beginning of each token, by which people and secret scanners recognize it."""

_BYTES = 32


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token without its text.

    Parameters
    ----------
    id : int
    annotator : str
        The name under which answers are stored.
    scope : {"read", "label", "own"}
        What the token permits, if the annotator's role permits it too.
    note : str
        What the token is for, in the words of its owner.
    created : int
        Time of creation in milliseconds since 1970 UTC.
    expires, revoked : int or None
        Times at which the token expires and was revoked, in milliseconds since 1970 UTC. None means never.
    """

    id: int
    annotator: str
    scope: Scope
    note: str
    created: int
    expires: int | None
    revoked: int | None

    def permits(self, scope: Scope) -> bool:
        """Return whether the token's scope includes `scope`."""
        return SCOPES.index(scope) <= SCOPES.index(self.scope)


class Tokens:
    """The tokens in a project's database.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = rows.now_ms) -> None:
        self._database = database
        self._clock = clock

    def create(
        self, annotator: str, scope: Scope, *, note: str = "", expires: int | None = None
    ) -> tuple[TokenRecord, str]:
        """Store a new token; return its record, and its text, which can't be read again.

        Raises
        ------
        StorageError
            If the name is empty, if the name or the note is too long, if the scope is unknown, or if the time
            of expiry has passed (kind `invalid`).
        """
        created = self._clock()
        if not 0 < len(annotator.strip()) <= MAX_NAME or len(note) > MAX_NAME:
            raise StorageError(
                f"a token needs a name, and name and note may have {MAX_NAME} characters", "invalid"
            )
        if scope not in SCOPES:
            raise StorageError(f"scope must be one of {', '.join(SCOPES)}, got {scope!r:.80}", "invalid")
        if expires is not None and expires <= created:
            raise StorageError("a token must not expire before it is created", "invalid")
        text = PREFIX + secrets.token_urlsafe(_BYTES)
        values = {
            "annotator": annotator.strip(),
            "scope": scope,
            "note": note,
            "created": created,
            "expires": expires,
            "revoked": None,
        }
        with self._database.write() as connection:
            made = connection.execute(insert(Token).values(digest=_digest(text), **values))
            assert made.inserted_primary_key is not None
            return TokenRecord(id=made.inserted_primary_key[0], **values), text  # type: ignore[arg-type]

    def find(self, text: str) -> TokenRecord | None:
        """Return the token with this text, or None if it does not exist, has expired or was revoked."""
        if not text.startswith(PREFIX):
            return None
        with self._database.read() as connection:
            row = connection.execute(_WITH_DIGEST, {"digest": _digest(text)}).first()
        if row is None or row.revoked is not None:
            return None
        return _record(row) if row.expires is None or row.expires > self._clock() else None

    def all(self) -> list[TokenRecord]:
        """Return all tokens, including expired and revoked tokens, oldest first."""
        with self._database.read() as connection:
            return [_record(row) for row in connection.execute(select(*_COLUMNS).order_by(Token.id))]

    def revoke(self, token_id: int) -> None:
        """End a token now. A token that was revoked before keeps its time of revocation.

        Raises
        ------
        StorageError
            If there is no such token (kind `missing`).
        """
        with self._database.write() as connection:
            if connection.scalar(select(Token.id).where(Token.id == token_id)) is None:
                raise StorageError(f"there is no token {token_id}", "missing")
            its = update(Token).where(Token.id == token_id, Token.revoked.is_(None))
            connection.execute(its.values(revoked=self._clock()))


_COLUMNS = (
    Token.id,
    Token.annotator,
    Token.scope,
    Token.note,
    Token.created,
    Token.expires,
    Token.revoked,
)


def _record(row: Sequence[Any]) -> TokenRecord:
    return TokenRecord(*row)


_WITH_DIGEST = select(*_COLUMNS).where(Token.digest == bindparam("digest"))
"""The query of `Tokens.find`, built once, because SQLAlchemy takes longer to build it than to execute it."""


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
