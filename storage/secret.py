"""Secrets that all servers of a project share, such as the secret that signs the keys of pages."""

from __future__ import annotations

import secrets

from sqlalchemy import insert, select

from closecall.storage.database import Database
from closecall.storage.models import Secret

_BYTES = 32


def shared_secret(database: Database, name: str) -> bytes:
    """Return the secret with this name: random bytes, which are made when they are first needed."""
    with database.read() as connection:
        found = connection.scalar(select(Secret.value).where(Secret.name == name))
    if found is None:
        with database.write() as connection:
            found = connection.scalar(select(Secret.value).where(Secret.name == name))
            if found is None:
                found = secrets.token_bytes(_BYTES)
                connection.execute(insert(Secret).values(name=name, value=found))
    return bytes(found)
