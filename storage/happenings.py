"""Happenings: events of a project that webhooks report, other than answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import func, insert, select

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.models import Answer, Happening
from closecall.storage.records import HappeningKind, HappeningRecord, new_id


class Happenings:
    """The happenings in a project's database.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = rows.now_ms) -> None:
        self.database = database
        self._clock = clock

    def record(
        self, kind: HappeningKind, key: str, data: Mapping[str, Any], *, concept_id: int | None = None
    ) -> bool:
        """Record a happening once, and return whether it is new.

        Parameters
        ----------
        kind : str
            One of `HAPPENINGS`.
        key : str
            Identifies the happening among all happenings of its kind. If a happening with this key exists,
            nothing changes.
        data : mapping
            Details, as JSON.
        concept_id : int or None
            The concept that the happening is about; None means all concepts.

        Raises
        ------
        StorageError
            If the database can't be used, or the concept is unknown.
        """
        known = select(Happening.seq).where(Happening.kind == kind, Happening.key == key)
        with self.database.read() as connection:
            if connection.scalar(known) is not None:
                return False
        with self.database.write() as connection:
            if connection.scalar(known) is not None:
                return False
            connection.execute(
                insert(Happening).values(
                    id=new_id(),
                    kind=kind,
                    key=key,
                    concept_id=concept_id,
                    after=connection.scalar(select(func.coalesce(func.max(Answer.seq), 0))),
                    data=dict(data),
                    created=self._clock(),
                )
            )
        return True

    def all(self) -> list[HappeningRecord]:
        """Return all happenings, oldest first."""
        with self.database.read() as connection:
            found = connection.execute(select(*rows.columns(Happening)).order_by(Happening.seq)).all()
        return [rows.happening(row) for row in found]
