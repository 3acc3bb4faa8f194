"""Archived concepts: no longer offered, with all their answers kept."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Connection, ForeignKey, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import Base, Concept
from closecall.storage.records import ConceptRecord


class Archival(Base):
    """The fact that a concept is archived, and since when."""

    __tablename__ = "archivals"

    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"), primary_key=True)
    created: Mapped[int] = mapped_column(BigInteger)


def archive(connection: Connection, concept_id: int, created: int) -> None:
    """Archive a concept in the connection's open transaction; an archived one stays archived."""
    known = select(Archival.concept_id).where(Archival.concept_id == concept_id)
    if connection.scalar(known) is None:
        connection.execute(insert(Archival).values(concept_id=concept_id, created=created))


class Archive:
    """The archived concepts of a project.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = rows.now_ms) -> None:
        self.database = database
        self._clock = clock

    def add(self, concept_id: int) -> None:
        """Archive a concept; archiving it twice has no effect.

        Raises
        ------
        StorageError
            `missing`.
        """
        with self.database.write() as connection:
            if connection.scalar(select(Concept.id).where(Concept.id == concept_id)) is None:
                raise StorageError(f"there is no concept {concept_id}", "missing")
            archive(connection, concept_id, self._clock())

    def offered(self) -> list[ConceptRecord]:
        """Return the active concepts, oldest first."""
        query = (
            select(*rows.columns(Concept))
            .outerjoin(Archival, Archival.concept_id == Concept.id)
            .where(Archival.concept_id.is_(None))
            .order_by(Concept.id)
        )
        with self.database.read() as connection:
            return [rows.concept(row) for row in connection.execute(query).all()]
