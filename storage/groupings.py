"""Groups of near-duplicates in a project's database, with which selections can be computed again."""

from __future__ import annotations

from sqlalchemy import insert, select

from closecall.storage.database import Database
from closecall.storage.models import Grouping


class Groupings:
    """Groups of near-duplicates by digest. They are never changed or removed.

    Parameters
    ----------
    database : Database
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, digest: str, content: bytes) -> None:
        """Store groups under their digest, unless this or another server has stored them already.

        Raises
        ------
        StorageError
            As for `Database.write`.
        """
        with self._database.write() as connection:
            known = select(Grouping.digest).where(Grouping.digest == digest)
            if connection.scalar(known) is None:
                connection.execute(insert(Grouping).values(digest=digest, content=content))

    def has(self, digest: str) -> bool:
        """Return whether groups are stored under the digest."""
        with self._database.read() as connection:
            found = connection.scalar(select(Grouping.digest).where(Grouping.digest == digest))
        return found is not None

    def content(self, digest: str) -> bytes | None:
        """Return what was stored under the digest, or None."""
        with self._database.read() as connection:
            found = connection.scalar(select(Grouping.content).where(Grouping.digest == digest))
        return None if found is None else bytes(found)
