"""Archived concepts, which are no longer offered but keep their answers, and the concepts replacing them."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import BigInteger, Connection, ForeignKey, Select, func, insert, select
from sqlalchemy.orm import Mapped, mapped_column

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import Base, Concept
from closecall.storage.records import ConceptRecord


class Archival(Base):
    """Row for an archived concept, with the time at which it was archived."""

    __tablename__ = "archivals"

    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"), primary_key=True)
    created: Mapped[int] = mapped_column(BigInteger)


class Replacement(Base):
    """Row for a concept that has replaced another concept, and has that concept's place in the list.

    `place` is the id of the first concept that had this place. A concept without a row here has its own id as
    its place.
    """

    __tablename__ = "replacements"

    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"), primary_key=True)
    place: Mapped[int] = mapped_column(ForeignKey("concepts.id"))


def archive(connection: Connection, concept_id: int, created: int) -> None:
    """Archive a concept in the connection's open transaction, unless it is archived already."""
    known = select(Archival.concept_id).where(Archival.concept_id == concept_id)
    if connection.scalar(known) is None:
        connection.execute(insert(Archival).values(concept_id=concept_id, created=created))


def replace(connection: Connection, concept_id: int, replacement: int, created: int) -> None:
    """Archive a concept in the connection's open transaction, and give its place to `replacement`.

    Raises
    ------
    StorageError
        If another active concept has replaced it already (kind `exists`).
    """
    place = connection.scalar(select(Replacement.place).where(Replacement.concept_id == concept_id))
    later = (
        select(Concept.name)
        .join(Replacement, Replacement.concept_id == Concept.id)
        .where(Replacement.place == (place or concept_id), Concept.id > concept_id)
        .where(Concept.id.not_in(select(Archival.concept_id)))
    )
    if (name := connection.scalar(later)) is not None:
        raise StorageError(f"this question was replaced already, by {name!r}", "exists")
    connection.execute(insert(Replacement).values(concept_id=replacement, place=place or concept_id))
    archive(connection, concept_id, created)


def replacements_of(concept_id: int) -> Select[int]:
    """Return a query for the ids of the concepts that have replaced this concept, one after another."""
    place = select(Replacement.place).where(Replacement.concept_id == concept_id).scalar_subquery()
    return select(Replacement.concept_id).where(
        Replacement.place == func.coalesce(place, concept_id), Replacement.concept_id > concept_id
    )


class Archive:
    """Archived concepts of a project.

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
        """Archive a concept; archiving it again has no effect.

        Raises
        ------
        StorageError
            If there is no such concept (kind `missing`).
        """
        with self.database.write() as connection:
            if connection.scalar(select(Concept.id).where(Concept.id == concept_id)) is None:
                raise StorageError(f"there is no concept {concept_id}", "missing")
            archive(connection, concept_id, self._clock())
            self.database.announce(connection, "concept", concept=concept_id)

    def offered(self, *, archived: bool = False) -> list[ConceptRecord]:
        """Return the active concepts or, if `archived`, all concepts.

        Older concepts come first, but a replacement has the place of the concept that it replaced.
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

    def exported(self) -> list[ConceptRecord]:
        """Return the concepts that are exported together, in the order of `offered`.

        An archived concept is left out if an active concept asks the same question about the same class. It
        is then a former version of this concept, or its copy, such as the autopilot's.
        """
        active = self.offered()
        ids = {concept.id for concept in active}
        asked = {(concept.question, concept.positive_class) for concept in active}
        return [
            concept
            for concept in self.offered(archived=True)
            if concept.id in ids or (concept.question, concept.positive_class) not in asked
        ]

    def is_replaced(self, concept_id: int) -> bool:
        """Return whether another concept has replaced this concept."""
        with self.database.read() as connection:
            return connection.scalar(replacements_of(concept_id)) is not None
