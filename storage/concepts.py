"""Concepts and their example images."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sqlalchemy import (
    CursorResult,
    Row,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    literal,
    null,
    select,
    update,
)

from closecall.storage import rows
from closecall.storage.archive import archive, replace
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import (
    MAX_EXAMPLE_BYTES,
    MAX_GUIDELINE,
    MAX_NAME,
    MAX_QUESTION,
    AuditShare,
    Concept,
    Example,
    ExampleFeature,
    Withdrawal,
)
from closecall.storage.records import ClassWeight, ConceptRecord, ExampleRecord

_PNG = b"\x89PNG\r\n\x1a\n"
_LIMITS = {"name": MAX_NAME, "question": MAX_QUESTION, "guideline": MAX_GUIDELINE, "positive_class": MAX_NAME}


class Concepts:
    """Concepts of a project: its yes/no questions with their example images.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.
    description : str
        Name of the description (a way of computing features) whose features the examples have; "" is the
        project's first description.
    """

    def __init__(
        self, database: Database, clock: Callable[[], int] = rows.now_ms, description: str = ""
    ) -> None:
        self.database = database
        self.description = description
        self._clock = clock

    def under(self, description: str) -> Concepts:
        """Return an object for the same concepts, but with the examples' features under `description`.

        See `app.projects.descriptions`.
        """
        return Concepts(self.database, self._clock, description)

    def create(
        self,
        name: str,
        question: str,
        *,
        guideline: str = "",
        positive_class: str | None = None,
        c: float = 1.0,
        class_weight: ClassWeight | None = None,
        archived: bool = False,
        instead_of: int | None = None,
    ) -> ConceptRecord:
        """Add a concept, and return it.

        If `archived`, the new concept is archived in the same transaction. If `instead_of` is given, the new
        concept replaces the concept with this id in the same transaction, and gets its audit share.

        Raises
        ------
        StorageError
            If another concept has this name, or has replaced the concept `instead_of` already (kind
            `exists`), or if a value is not allowed (kind `invalid`).
        """
        values = _checked(
            {
                "name": name,
                "question": question,
                "guideline": guideline,
                "positive_class": positive_class,
                "c": c,
                "class_weight": class_weight,
            }
        )
        with self.database.write() as connection:
            if connection.scalar(select(Concept.id).where(Concept.name == values["name"])) is not None:
                raise StorageError(f"there is a question named {values['name']!r} already", "exists")
            made = connection.execute(insert(Concept).values(**values, created=self._clock()))
            if archived:
                archive(connection, _key(made), self._clock())
            if instead_of is not None:
                replace(connection, instead_of, _key(made), self._clock())
                its = select(literal(_key(made)), AuditShare.share).where(AuditShare.concept_id == instead_of)
                connection.execute(insert(AuditShare).from_select(["concept_id", "share"], its))
                self.database.announce(connection, "concept", concept=instead_of)
            self.database.announce(connection, "concept", concept=_key(made))
        return self.get(_key(made))

    def all(self) -> list[ConceptRecord]:
        """Return every concept, oldest first."""
        with self.database.read() as connection:
            found = connection.execute(select(*rows.columns(Concept)).order_by(Concept.id)).all()
        return [rows.concept(row) for row in found]

    def get(self, concept_id: int) -> ConceptRecord:
        """Return the concept with this id.

        Raises
        ------
        StorageError
            If there is no such concept (kind `missing`).
        """
        with self.database.read() as connection:
            row = connection.execute(select(*rows.columns(Concept)).where(Concept.id == concept_id)).first()
        if row is None:
            raise StorageError(f"there is no concept {concept_id}", "missing")
        return rows.concept(row)

    def named(self, name: str) -> ConceptRecord | None:
        """Return the concept with this name, or None."""
        with self.database.read() as connection:
            row = connection.execute(
                select(*rows.columns(Concept)).where(Concept.name == name.strip())
            ).first()
        return None if row is None else rows.concept(row)

    def update(self, concept_id: int, **changes: Any) -> ConceptRecord:
        """Change a concept's question, guideline, name, positive_class, c or class_weight.

        The log keeps the C and the class weight of every earlier selection.

        Raises
        ------
        StorageError
            If there is no such concept (kind `missing`), if another concept has the new name (kind `exists`),
            or if a value is not allowed (kind `invalid`).
        """
        values = _checked(changes)
        with self.database.write() as connection:
            if "name" in values:
                other = select(Concept.id).where(Concept.name == values["name"], Concept.id != concept_id)
                if connection.scalar(other) is not None:
                    raise StorageError(f"there is a question named {values['name']!r} already", "exists")
            if values:
                connection.execute(update(Concept).where(Concept.id == concept_id).values(**values))
                self.database.announce(connection, "concept", concept=concept_id)
        return self.get(concept_id)

    def audit_share(self, concept_id: int) -> float:
        """Return the fraction, 0 … 1, of the concept's rounds whose item is drawn at random for the audit."""
        with self.database.read() as connection:
            found = connection.scalar(select(AuditShare.share).where(AuditShare.concept_id == concept_id))
        return found or 0.0

    def set_audit_share(self, concept_id: int, share: float) -> None:
        """Set the fraction of the concept's rounds whose item is drawn at random for the audit.

        Raises
        ------
        StorageError
            If the share is not in 0 … 1, or there is no such concept (kind `invalid`).
        """
        of_concept = AuditShare.concept_id == concept_id
        with self.database.write() as connection:
            connection.execute(delete(AuditShare).where(of_concept))
            connection.execute(insert(AuditShare).values(concept_id=concept_id, share=share))
            self.database.announce(connection, "concept", concept=concept_id)

    def withdrawn(self, concept_id: int) -> frozenset[str]:
        """Return the digests (`Direction.digest`) of the withdrawn descriptions in words."""
        query = select(Withdrawal.direction, Withdrawal.is_withdrawn)
        in_order = query.where(Withdrawal.concept_id == concept_id).order_by(Withdrawal.seq)
        with self.database.read() as connection:
            found = connection.execute(in_order).all()
        last = {row.direction: row.is_withdrawn for row in found}
        return frozenset(direction for direction, is_withdrawn in last.items() if is_withdrawn)

    def set_withdrawn(self, concept_id: int, direction: str, is_withdrawn: bool, *, annotator: str) -> None:
        """Withdraw or restore a description in words. `direction` is the description's `Direction.digest`.

        Raises
        ------
        StorageError
            If there is no such concept (kind `invalid`).
        """
        with self.database.write() as connection:
            connection.execute(
                insert(Withdrawal).values(
                    concept_id=concept_id,
                    direction=direction,
                    is_withdrawn=is_withdrawn,
                    annotator=annotator,
                    created=self._clock(),
                )
            )
            self.database.announce(connection, "concept", concept=concept_id)

    def add_example(
        self, concept_id: int, image: bytes, is_positive: bool, feature: ArrayLike | None = None
    ) -> ExampleRecord:
        """Store an example image with its answer, and return the example.

        If the concept has an example with this image and answer that was not withdrawn, return this example
        instead. A retried upload is therefore not added twice.

        Parameters
        ----------
        concept_id : int
            The concept.
        image : bytes
            A PNG of at most `MAX_EXAMPLE_BYTES`.
        is_positive : bool
            Whether the answer is yes.
        feature : array of shape (n_features,), float32, optional
            Features of the image under `self.description`, on which the SVM is trained.

        Raises
        ------
        StorageError
            If the image is too large or not a PNG, or the features have another shape or are not finite (kind
            `invalid`), or if the concept is unknown (kind `missing`).
        """
        if not image.startswith(_PNG):
            raise StorageError("an example image must be a PNG", "invalid")
        if len(image) > MAX_EXAMPLE_BYTES:
            raise StorageError(
                f"the example image is too large ({MAX_EXAMPLE_BYTES:,} bytes at most, got {len(image):,})",
                "invalid",
            )
        vector = _checked_feature(feature)
        is_first = not self.description
        self.get(concept_id)
        gone = select(Example.withdraws).where(Example.withdraws.is_not(None))
        same = (
            self._described()
            .where(Example.concept_id == concept_id, Example.is_positive == bool(is_positive))
            .where(Example.image == image, Example.id.not_in(gone))
        )
        with self.database.write() as connection:
            if (row := connection.execute(same).first()) is not None:
                return _example(row)
            made = connection.execute(
                insert(Example).values(
                    concept_id=concept_id,
                    image=image,
                    feature=vector if is_first else None,
                    is_positive=bool(is_positive),
                    created=self._clock(),
                )
            )
            if not is_first and vector is not None:
                of_example = {"example_id": _key(made), "description": self.description}
                connection.execute(insert(ExampleFeature).values(**of_example, feature=vector))
            self.database.announce(connection, "concept", concept=concept_id)
            row = connection.execute(self._described().where(Example.id == _key(made))).one()
        return _example(row)

    def undescribed(self) -> list[ExampleRecord]:
        """Return the examples, of all concepts, that have no features stored under `self.description`."""
        gone = select(Example.withdraws).where(Example.withdraws.is_not(None))
        query = (
            self._described()
            .where(Example.withdraws.is_(None), Example.id.not_in(gone), ExampleFeature.example_id.is_(None))
            .order_by(Example.id)
        )
        if not self.description:
            query = query.where(Example.feature.is_(None))
        with self.database.read() as connection:
            return [_example(row) for row in connection.execute(query)]

    def describe_example(self, example_id: int, feature: ArrayLike | None) -> None:
        """Store the features of an example that `undescribed` has returned.

        `feature` is None if the description can't compute features of the image. If features of the example
        were stored after `undescribed` returned it, the stored features are kept.

        Raises
        ------
        StorageError
            If the features have another shape than (n_features,) or are not finite (kind `invalid`).
        """
        values = {"example_id": example_id, "description": self.description}
        vector = _checked_feature(feature)
        known = select(ExampleFeature.example_id).filter_by(**values)
        with self.database.write() as connection:
            if connection.scalar(known) is None:
                connection.execute(insert(ExampleFeature).values(**values, feature=vector))

    def _described(self) -> Select[Any]:
        """Return a query for examples, with their features under `self.description`."""
        here = and_(ExampleFeature.example_id == Example.id, ExampleFeature.description == self.description)
        own = Example.feature if not self.description else null()
        feature = case((ExampleFeature.example_id.is_not(None), ExampleFeature.feature), else_=own)
        columns = [column for column in rows.columns(Example) if column.name != "feature"]
        query = select(*columns, feature.label("feature"))
        return query.select_from(Example).outerjoin(ExampleFeature, here)

    def withdraw_example(self, example_id: int) -> None:
        """Withdraw an example; withdrawing it again has no effect.

        Raises
        ------
        StorageError
            If there is no such example (kind `missing`).
        """
        with self.database.write() as connection:
            row = connection.execute(
                select(Example.concept_id, Example.is_positive).where(
                    Example.id == example_id, Example.withdraws.is_(None)
                )
            ).first()
            if row is None:
                raise StorageError(f"there is no example {example_id}", "missing")
            if connection.scalar(select(Example.id).where(Example.withdraws == example_id)) is None:
                connection.execute(
                    insert(Example).values(
                        concept_id=row.concept_id,
                        is_positive=row.is_positive,
                        withdraws=example_id,
                        created=self._clock(),
                    )
                )
                self.database.announce(connection, "concept", concept=row.concept_id)

    def examples(self, concept_id: int, through: int | None = None) -> list[ExampleRecord]:
        """Return the examples as they were at the position `through` of the log of examples, oldest first.

        Withdrawn examples are left out. If `through` is None, the position is the end of the log.
        """
        through = self.examples_position(concept_id) if through is None else through
        gone = select(Example.withdraws).where(Example.withdraws.is_not(None), Example.id <= through)
        query = (
            self._described()
            .where(Example.concept_id == concept_id, Example.id <= through)
            .where(Example.withdraws.is_(None), Example.id.not_in(gone))
            .order_by(Example.id)
        )
        with self.database.read() as connection:
            found = connection.execute(query).all()
        return [_example(row) for row in found]

    def examples_position(self, concept_id: int) -> int:
        """Return the last id in the log of the concept's examples and withdrawals, or 0 if it is empty."""
        query = select(func.coalesce(func.max(Example.id), 0)).where(Example.concept_id == concept_id)
        with self.database.read() as connection:
            return int(connection.scalar(query) or 0)


def _example(row: Row[Any]) -> ExampleRecord:
    feature = None if row.feature is None else np.frombuffer(row.feature, dtype="<f4").astype(np.float32)
    if feature is not None:
        feature.flags.writeable = False
    return ExampleRecord(
        id=row.id,
        concept_id=row.concept_id,
        image=row.image,
        feature=feature,
        is_positive=row.is_positive,
        created=row.created,
    )


def _checked_feature(feature: ArrayLike | None) -> bytes | None:
    """Check features, and return them as they are stored."""
    if feature is None:
        return None
    vector = np.asarray(feature, dtype="<f4")
    if vector.ndim != 1 or not vector.size or not np.isfinite(vector).all():
        raise StorageError(
            f"an example's feature must be finite, of shape (n_features,), got shape {vector.shape}",
            "invalid",
        )
    return vector.tobytes()


def _key(made: CursorResult[Any]) -> int:
    key = made.inserted_primary_key
    assert key is not None
    return int(key[0])


def _checked(values: dict[str, Any]) -> dict[str, Any]:
    """Check values of a concept's columns, and return them without white space around texts."""
    checked: dict[str, Any] = {}
    for name, value in values.items():
        if name in _LIMITS:
            checked[name] = _checked_text(name, value)
        elif name == "c":
            if not (isinstance(value, (int, float)) and math.isfinite(value) and value > 0):
                raise StorageError(f"C must be a positive number, got {value!r}", "invalid")
            checked[name] = float(value)
        elif name == "class_weight":
            if value not in (None, "balanced"):
                raise StorageError(f"class_weight must be 'balanced' or None, got {value!r}", "invalid")
            checked[name] = value
        else:
            raise StorageError(f"a concept has no {name!r} that could be changed", "invalid")
    return checked


def _checked_text(name: str, value: Any) -> str | None:
    if value is None and name == "positive_class":
        return None
    if not isinstance(value, str):
        raise StorageError(f"a concept's {name} must be text, got {value!r}", "invalid")
    text = value.strip()
    if not text and name in ("name", "question"):
        raise StorageError(f"a concept needs a {name}", "invalid")
    if len(text) > _LIMITS[name]:
        spoken = "class that means yes" if name == "positive_class" else name
        raise StorageError(
            f"the {spoken} is too long ({_LIMITS[name]:,} characters at most, got {len(text):,})", "invalid"
        )
    return text
