"""Small label databases for tests, and an annotator who answers into them."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import text

from closecall.storage import (
    AnswerRecord,
    AppendResult,
    ConceptRecord,
    Concepts,
    Database,
    LabelLog,
    SelectionRecord,
    SessionRecord,
    new_id,
)

ENGINES = ("sqlite", "postgresql")
"""Which databases the storage tests run on."""


@dataclass
class Annotator:
    """A person with a session, whose answers are about one concept."""

    log: LabelLog
    session: SessionRecord

    def record(self, answer: str, item: int, **fields: Any) -> AnswerRecord:
        """An answer as a browser would send it, not stored yet."""
        given = {
            "id": new_id(),
            "concept_id": self.session.concept_id,
            "session_id": self.session.id,
            "annotator": self.session.annotator,
            "item": item,
            "answer": answer,
            "browser_time": 1_700_000_000_000,
            "time_taken_ms": 700,
        }
        return AnswerRecord(**(given | fields))

    def send(self, *answers: AnswerRecord) -> AppendResult:
        """Store answers in one batch."""
        return self.log.append_answers(answers)

    def says(self, answer: str, item: int, **fields: Any) -> AnswerRecord:
        """Store one answer that must be accepted."""
        (accepted,) = self.send(self.record(answer, item, **fields)).accepted
        return accepted

    def undoes(self, answer: AnswerRecord) -> AnswerRecord:
        """Take an answer back, which must be accepted."""
        return self.says("undo", answer.item, undoes=answer.id)

    def is_shown(self, item: int, **fields: Any) -> SelectionRecord:
        """Record that an item was selected for this session."""
        given = {
            "session_id": self.session.id,
            "concept_id": self.session.concept_id,
            "round": 1,
            "item": item,
            "why": "strategy",
            "strategy": "margin-index",
            "seed": 3,
            "pool_version": 2,
            "items_total": 1_000,
        }
        return self.log.record_selection(SelectionRecord(**(given | fields)))


def make_concept(database: Database, name: str = "seven") -> ConceptRecord:
    """A concept to answer about."""
    return Concepts(database).create(name, f"Is it a {name}?")


def sit_down(database: Database, concept: ConceptRecord, name: str = "Ada") -> Annotator:
    """Start a session for somebody."""
    log = LabelLog(database)
    return Annotator(log, log.start_session(concept.id, name, "margin-index"))


@contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Run a block without root's privilege to read and write everything; needs `open_folder`."""
    if os.geteuid() != 0:
        yield
        return
    try:
        os.setresuid(65534, 65534, 0)
        yield
    finally:
        os.setresuid(0, 0, 0)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that any user may enter (pytest's own may be entered by their owner alone)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        yield folder


def no_room(**_: object) -> None:
    """A full disk, in place of `tempfile.TemporaryFile`."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def count_rows(database: Database) -> dict[str, int]:
    """The number of rows of each table, by table name."""
    with database.read() as connection:
        return {
            name: int(connection.execute(text(f"SELECT COUNT(*) FROM {name}")).scalar_one())
            for name in ("concepts", "examples", "sessions", "selections", "foreseen", "answers")
        }
