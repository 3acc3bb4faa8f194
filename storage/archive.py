"""Archived concepts: no longer offered, with all their answers kept, and their replacements."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Connection, ForeignKey, func, insert, select
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


class Replacement(Base):
    """A concept that has replaced another one; its place is the id of the first of all that had this place.

    The place of any other concept is its own id.
    """

    __tablename__ = "replacements"

    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"), primary_key=True)
    place: Mapped[int] = mapped_column(ForeignKey("concepts.id"))


def archive(connection: Connection, concept_id: int, created: int) -> None:
    """Archive a concept in the connection's open transaction; an archived one stays archived."""
    known = select(Archival.concept_id).where(Archival.concept_id == concept_id)
    if connection.scalar(known) is None:
        connection.execute(insert(Archival).values(concept_id=concept_id, created=created))


def replace(connection: Connection, concept_id: int, replacement: int, created: int) -> None:
    """Archive a concept in the connection's open transaction, and give its place to another one."""
    place = connection.scalar(select(Replacement.place).where(Replacement.concept_id == concept_id))
    connection.execute(insert(Replacement).values(concept_id=replacement, place=place or concept_id))
    archive(connection, concept_id, created)


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

    def offered(self, *, archived: bool = False) -> list[ConceptRecord]:
        """Return the active concepts, on request with archived ones.

        The oldest is first, but a replacement comes where the replaced concept was.
        """
        query = (
            select(*rows.columns(Concept))
            .outerjoin(Replacement, Replacement.concept_id == Concept.id)
            .order_by(func.coalesce(Replacement.place, Concept.id), Concept.id)
        )
        if not archived:
            query = query.where(Concept.id.not_in(select(Archival.concept_id)))
        with self.database.read() as connection:
            return [rows.concept(row) for row in connection.execute(query).all()]
