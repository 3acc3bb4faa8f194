"""Read labels and predictions from files. Words such as class names are not interpreted here.

The labels in a file become answers, by default with the purpose "import". They are in separate sessions, one
per file, concept and annotator. An answer that was exported with its id keeps this id, so that it is
recognized when it is imported again. All other answers get ids that are derived from the digest of the file
and from the content of the answer. A file that is imported twice is therefore stored once, and
`closecall verify` can check that the log still agrees with the file.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

from sqlalchemy import Connection, insert, select, update

from closecall.storage import rows
from closecall.storage.append import append
from closecall.storage.claims import Claim
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.label_studio_reading import ORIGIN, read_annotations, read_predicted
from closecall.storage.log import announce_answers
from closecall.storage.models import MAX_NAME, Session
from closecall.storage.records import AnswerRecord, SessionRecord
from closecall.storage.table_reading import read_label_table, read_predicted_table
from closecall.storage.tabular import batched, file_trouble, shown

ImportFormat = Literal["csv", "jsonl", "parquet", "label-studio"]

IMPORT = "import"
"""Key of the session parameter that describes the imported file, and name of the session's strategy."""

GIVEN = "given"
"""Key in the parameter `IMPORT` for the number and the digest of the answers that kept their ids."""

_SUFFIXES: dict[str, ImportFormat] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".json": "label-studio",
}
_IDS = uuid.UUID("6d1f7a0c-8b0e-5b5f-9a35-6f1f2f0c4a11")
_CHUNK = 2_000
_PARTS = 5  # of the id of an answer with an origin


def format_of(path: Path) -> ImportFormat:
    """Return the format that the file's name implies.

    Raises
    ------
    StorageError
        If the name implies no format (kind `invalid`).
    """
    found = _SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise StorageError(
            f"{path} does not end in one of {', '.join(_SUFFIXES)}: say its --format", "invalid"
        )
    return found


def digest_of(path: Path) -> str:
    """Return the BLAKE2b digest of the file's content: 32 hexadecimal digits.

    Raises
    ------
    StorageError
        If there is no such file (kind `missing`), if it is not a regular file (kind `invalid`), or if it
        can't be read (kind `other`).
    """
    with file_trouble(path):
        if not S_ISREG(path.stat().st_mode):
            raise StorageError(f"{path} is not a file", "invalid")
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def read_labels(
    path: Path,
    format: ImportFormat,  # noqa: A002
    users: Mapping[str, str] | None = None,
) -> Iterator[Claim]:
    """Yield the labels of a file in order; lines without a label are skipped.

    Files written by `export` are supported. From a file of current labels, the adjudications and the answers
    that count are read. From a file of the log, the answers that were not undone are read. `users` maps
    the number or e-mail address of a user of Label Studio to an annotator; see
    `label_studio_reading.read_annotations`.

    Raises
    ------
    StorageError
        If there is no such file (kind `missing`), if its content is invalid (kind `invalid`), or if it can't
        be read (kind `other`). The message names the file and, if possible, the line.
    """
    if format == "label-studio":
        return read_annotations(path, users or {})
    return read_label_table(path, format)


def read_predictions(path: Path, format: ImportFormat) -> Iterator[Claim]:  # noqa: A002
    """Yield the predictions of a file in order: a score, a class, or both.

    Errors are raised as by `read_labels`.
    """
    if format == "label-studio":
        return read_predicted(path)
    return read_predicted_table(path, format)


def session_id(digest: str, concept_id: int, annotator: str) -> str:
    """Return the id of the session for an annotator's answers from a file."""
    return str(uuid.uuid5(_IDS, json.dumps([digest, concept_id, annotator])))


def answer_id(digest: str, said: AnswerRecord, origin: str = "") -> str:
    """Return the id of an imported answer; `origin` is `Claim.origin`."""
    content = json.dumps([digest, said.concept_id, said.annotator, said.item, said.answer, said.purpose])
    if origin:
        return f"{origin}:{hashlib.blake2b(content.encode(), digest_size=8).hexdigest()}"
    return str(uuid.uuid5(_IDS, content))


def undo_id(digest: str, undone: str) -> str:
    """Return the id of the answer by which a file withdraws another answer."""
    return str(uuid.uuid5(_IDS, json.dumps([digest, "undo", undone])))


def origin_of(id: str) -> str:  # noqa: A002 (it is the answer's id)
    """Return the origin of an answer that was made in Label Studio, or "" for all other answers."""
    parts = id.split(":")
    return ":".join(parts[:-1]) if parts[0] == ORIGIN and len(parts) == _PARTS else ""


def is_derived(digest: str, said: AnswerRecord) -> bool:
    """Return whether the answer's id is derived from its content and from the file with this digest."""
    return said.id == answer_id(digest, said, origin_of(said.id))


def combined(answers: Iterable[AnswerRecord], before: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the number of answers, and a digest of their ids and contents that ignores their order.

    `before` is an earlier result for other answers. The new result includes these answers.
    """
    number, total = (before["answers"], int(before["sum"], 16)) if before else (0, 0)
    for said in answers:
        content = json.dumps([said.id, said.annotator, said.item, said.answer, said.purpose])
        number += 1
        total += int.from_bytes(hashlib.blake2b(content.encode(), digest_size=8).digest(), "big")
    return {"answers": number, "sum": f"{total % 2**64:016x}"}


def store(
    database: Database, sessions: Iterable[SessionRecord], answers: Iterable[AnswerRecord], server_time: int
) -> tuple[int, int]:
    """Store imported answers with their sessions, all or none of them.

    Return how many of the answers are new, and how many had been stored before.

    Raises
    ------
    StorageError
        Of the kind `invalid` if an answer is refused. Also if `Database.write` raises it. Nothing is stored
        then.
    """
    new = known = 0
    with database.write() as connection:
        digests = {}
        for session in sessions:
            digests[session.id] = session.parameters.get(IMPORT, {}).get("digest")
            if connection.scalar(select(Session.id).where(Session.id == session.id)) is None:
                values = {column.name: getattr(session, column.name) for column in rows.columns(Session)}
                connection.execute(insert(Session).values(values | {"created": server_time}))
        for batch in batched(answers, _CHUNK):
            result = append(connection, batch, server_time)
            if result.refused:
                raise StorageError(f"an imported answer was refused: {result.refused[0].reason}", "invalid")
            announce_answers(database, connection, result)
            new, known = new + len(result.accepted), known + len(result.known)
            _note_given(connection, result.accepted, digests)
    return new, known


def _note_given(
    connection: Connection, accepted: Iterable[AnswerRecord], digests: Mapping[str, str | None]
) -> None:
    """Update the sessions' parameter `GIVEN` with the accepted answers that kept their ids from the file."""
    by_session: dict[str, list[AnswerRecord]] = {}
    for said in accepted:
        digest = digests.get(said.session_id)
        if digest is not None and said.undoes is None and not is_derived(digest, said):
            by_session.setdefault(said.session_id, []).append(said)
    for session, given in by_session.items():
        its = Session.id == session
        parameters = connection.execute(select(Session.parameters).where(its)).scalar_one()
        described = {**parameters[IMPORT], GIVEN: combined(given, parameters[IMPORT].get(GIVEN))}
        changed = {**parameters, IMPORT: described}
        connection.execute(update(Session).where(its).values(parameters=changed))


def checked_annotator(name: str, place: str) -> str:
    """Return an annotator's name as it is stored. `place` locates the name in error messages.

    Raises
    ------
    StorageError
        If the name is empty or too long (kind `invalid`).
    """
    stripped = name.strip()
    if not 0 < len(stripped) <= MAX_NAME:
        raise StorageError(
            f"{place}: an annotator needs a name of at most {MAX_NAME} characters, got {shown(name)}",
            "invalid",
        )
    return stripped
