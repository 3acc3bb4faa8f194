"""Read labels and predictions from files. Words such as class names are not interpreted here.

The labels in a file become answers, by default with the purpose "import". They are in separate sessions, one
per concept and annotator. The ids of sessions and answers are derived from the digest of the file and from
their own content. A file that is imported twice is therefore stored once, and `closecall verify` can check
that the log still agrees with the file.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

from sqlalchemy import insert, select

from closecall.storage import rows
from closecall.storage.append import append
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.fold import status_of
from closecall.storage.label_studio import concept_of, read_tasks
from closecall.storage.log import announce_answers
from closecall.storage.models import MAX_NAME, Session
from closecall.storage.records import AnswerRecord, Purpose, SessionRecord
from closecall.storage.tabular import Line, TableFormat, batched, file_trouble, read_table, shown

ImportFormat = Literal["csv", "jsonl", "parquet", "label-studio"]

IMPORT = "import"
"""Key of the session parameter that describes the imported file, and name of the session's strategy."""

ITEM_COLUMNS = ("item",)
NAME_COLUMNS = ("name", "path", "file", "filename", "image")
LABEL_COLUMNS = ("answer", "label", "class", "choice")
PREDICTED_COLUMNS = ("predicted", "prediction", "label", "class", "choice")
SCORE_COLUMNS = ("score", "probability", "confidence", "margin")
VOTE_COLUMNS = ("yes", "no", "unsure", "skip")

MOST_VOTES = 1_000
"""Maximum number of votes that one line may count."""

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
_KEPT: dict[str, Purpose] = {"audit": "audit", "decision": "decision"}
_CHUNK = 2_000
_MAX_INT = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Claim:
    """Statement about an item, read from a file.

    Parameters
    ----------
    place : str
        Place in the file, such as "line 7".
    item : int or None
        The item's id.
    name : str or None
        The item's name or path.
    concept : str or None
        The concept's name.
    word : str
        An answer (yes, no, unsure or skip) or a class; empty for a prediction that is only a score.
    annotator : str or None
        The annotator; None if the file has none.
    number : int
        Number that distinguishes several unnamed annotators, from 1.
    purpose : {"import", "audit", "decision"}
        As in the log. Answers for an audit are not used for training, and an adjudication ("decision") takes
        precedence over votes.
    score : float or None
        The score of a prediction.
    replaces : bool
        Whether the statement supersedes an earlier statement in the file by the same annotator about the
        item, as in a log.
    is_certain : bool
        Whether `concept` must be a concept of the project. It is false for names that another program chose.
    """

    place: str
    item: int | None
    name: str | None
    concept: str | None
    word: str
    annotator: str | None = None
    number: int = 1
    purpose: Purpose = "import"
    score: float | None = None
    replaces: bool = False
    is_certain: bool = True


def format_of(path: Path) -> ImportFormat:
    """Return the format that the file's name implies.

    Raises
    ------
    StorageError
        If the name implies no format; of kind `invalid`.
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
        If there is no such file (kind `missing`), it is not a regular file (kind `invalid`), or it can't be
        read (kind `other`).
    """
    with file_trouble(path):
        if not S_ISREG(path.stat().st_mode):
            raise StorageError(f"{path} is not a file", "invalid")
        with path.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def read_labels(path: Path, format: ImportFormat) -> Iterator[Claim]:  # noqa: A002
    """Yield the labels of a file in order; lines without a label are skipped.

    Files written by `export` are supported. From a file of current labels, the counted answers and the
    adjudications are read. From a file of the log, the answers that were not undone are read.

    Raises
    ------
    StorageError
        If there is no such file (kind `missing`), its content is invalid (kind `invalid`), or it can't be
        read (kind `other`). The message names the file and, if possible, the line.
    """
    if format == "label-studio":
        return _of_annotations(path)
    return _of_table(path, format)


def read_predictions(path: Path, format: ImportFormat) -> Iterator[Claim]:  # noqa: A002
    """Yield the predictions of a file in order: a score, a class, or both; errors as in `read_labels`."""
    if format == "label-studio":
        return _of_predictions(path)
    return _of_predicted_table(path, format)


def session_id(digest: str, concept_id: int, annotator: str) -> str:
    """Return the id of the session for an annotator's answers from a file."""
    return str(uuid.uuid5(_IDS, json.dumps([digest, concept_id, annotator])))


def answer_id(digest: str, said: AnswerRecord) -> str:
    """Return the id of an imported answer."""
    content = [digest, said.concept_id, said.annotator, said.item, said.answer, said.purpose]
    return str(uuid.uuid5(_IDS, json.dumps(content)))


def store(
    database: Database, sessions: Iterable[SessionRecord], answers: Iterable[AnswerRecord], server_time: int
) -> tuple[int, int]:
    """Store imported answers with their sessions, all or none of them.

    Return how many of the answers are new, and how many had been stored before.

    Raises
    ------
    StorageError
        If an answer is refused (kind `invalid`), or if `Database.write` raises it. Nothing is stored then.
    """
    new = known = 0
    with database.write() as connection:
        for session in sessions:
            if connection.scalar(select(Session.id).where(Session.id == session.id)) is None:
                values = {column.name: getattr(session, column.name) for column in rows.columns(Session)}
                connection.execute(insert(Session).values(values | {"created": server_time}))
        for batch in batched(answers, _CHUNK):
            result = append(connection, batch, server_time)
            if result.refused:
                raise StorageError(f"an imported answer was refused: {result.refused[0].reason}", "invalid")
            announce_answers(database, connection, result)
            new, known = new + len(result.accepted), known + len(result.known)
    return new, known


def checked_annotator(name: str, place: str) -> str:
    """Return an annotator's name as it is stored; `place` is where it is in the file, for error messages.

    Raises
    ------
    StorageError
        If the name is empty or too long; of kind `invalid`.
    """
    stripped = name.strip()
    if not 0 < len(stripped) <= MAX_NAME:
        raise StorageError(
            f"{place}: an annotator needs a name of at most {MAX_NAME} characters, got {shown(name)}",
            "invalid",
        )
    return stripped


# Tables


def _of_table(path: Path, form: TableFormat) -> Iterator[Claim]:
    for line in read_table(path, form):
        cells = line.cells
        if {*VOTE_COLUMNS, "status"} <= cells.keys():
            yield from _votes(path, line)
            continue
        if {"predicted", "score"} <= cells.keys():  # in the form that `closecall predict` writes
            raise StorageError(
                f"{path} contains predictions (columns score and predicted), not labels: import them "
                f"with --predictions MODEL",
                "invalid",
            )
        label = _first(cells, LABEL_COLUMNS)
        if label is None:
            raise _no_column(path, line, "labels", LABEL_COLUMNS, "; predictions need --predictions MODEL")
        word = _word(path, line, label)
        if word in ("", "undo") or _text(path, line, "undone_by"):
            continue
        yield _claim(
            path,
            line,
            word,
            purpose=_purpose(cells.get("purpose")),
            replaces="undone_by" in cells,
        )


def _votes(path: Path, line: Line) -> Iterator[Claim]:
    """Yield the answers that a line of current labels counts, without annotators, and the adjudication."""
    status, label = _text(path, line, "status"), _text(path, line, "label")
    purpose: Purpose = "audit" if status in ("yes", "no") and not label else "import"
    number, said = 0, dict.fromkeys(VOTE_COLUMNS, 0)
    for word in VOTE_COLUMNS:
        votes = _whole(path, line, word)
        if votes is None or votes > MOST_VOTES - number:
            raise _bad(path, line, word, f"votes from 0 to {MOST_VOTES:,} together")
        said[word] = votes
        for _ in range(votes):
            number += 1
            yield _claim(path, line, word, number=number, purpose=purpose)
    if status in VOTE_COLUMNS and status != status_of(**said):
        yield _claim(path, line, status, purpose="decision")


def _of_predicted_table(path: Path, form: TableFormat) -> Iterator[Claim]:
    for line in read_table(path, form):
        label, score = _first(line.cells, PREDICTED_COLUMNS), _first(line.cells, SCORE_COLUMNS)
        if label is None and score is None:
            raise _no_column(path, line, "predictions", (*SCORE_COLUMNS, *PREDICTED_COLUMNS))
        word = _word(path, line, label) if label else ""
        number = _score(path, line, score) if score else None
        if word or number is not None:
            yield _claim(path, line, word, score=number)


def _claim(path: Path, line: Line, word: str, **more: Any) -> Claim:
    item = _first(line.cells, ITEM_COLUMNS)
    name = next((column for column in NAME_COLUMNS if line.cells.get(column) not in (None, "")), None)
    if item is None and _first(line.cells, NAME_COLUMNS) is None:
        raise _no_column(path, line, "items", (*ITEM_COLUMNS, *NAME_COLUMNS))
    claimed = Claim(
        line.place,
        _whole(path, line, item) if item else None,
        _text(path, line, name) if name else None,
        _text(path, line, "concept") or None,
        word,
        _text(path, line, "annotator") or None,
        **more,
    )
    if claimed.item is None and claimed.name is None:
        raise StorageError(f"{path}, {line.place}: neither an item's id nor its name is given", "invalid")
    return claimed


def _first(cells: Mapping[str, Any], columns: Iterable[str]) -> str | None:
    """Return the first of `columns` that the table has, or None."""
    return next((column for column in columns if column in cells), None)


def _purpose(given: object) -> Purpose:
    return _KEPT.get(str(given), "import")


def _text(path: Path, line: Line, column: str) -> str:
    value = line.cells.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(path, line, column, "text")
    return _storable(value, f"{path}, {line.place}")


def _word(path: Path, line: Line, column: str) -> str:
    """Return a label as text. JSON and Parquet files may have a truth value or a number instead."""
    value = line.cells[column]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= _MAX_INT:
        return str(value)
    return _text(path, line, column).strip()


def _whole(path: Path, line: Line, column: str) -> int | None:
    """Return a non-negative integer, or None for an empty cell."""
    value = line.cells[column]
    if value is None or value == "":
        return None
    if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_INT:
        raise _bad(path, line, column, "a whole number from 0 on")
    return value


def _score(path: Path, line: Line, column: str) -> float | None:
    value = line.cells[column]
    if value is None or value == "":
        return None
    found = number_of(value)
    if found is None:
        raise _bad(path, line, column, "a finite number")
    return found


def number_of(value: object) -> float | None:
    """Return a finite number, given as a number or as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _storable(value: str, place: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise StorageError(f"{place}: {shown(value)} contains half a character", "invalid") from None
    return value


def _bad(path: Path, line: Line, column: str, allowed: str) -> StorageError:
    return StorageError(
        f"{path}, {line.place}: {column} must be {allowed}, got {shown(line.cells[column])}", "invalid"
    )


def _no_column(path: Path, line: Line, what: str, columns: Iterable[str], more: str = "") -> StorageError:
    there = ", ".join(shown(name) for name in list(line.cells)[:12])
    return StorageError(
        f"{path}, {line.place}: there is no column of {what} (one of {', '.join(columns)}) but {there}{more}",
        "invalid",
    )


# Label Studio


def _of_annotations(path: Path) -> Iterator[Claim]:
    for place, task in read_tasks(path):
        for annotation in _objects(path, place, task, "annotations"):
            if annotation.get("was_cancelled"):
                continue
            for result in _choices(path, place, annotation):
                meta = result.get("meta")
                meta = meta if isinstance(meta, dict) else {}
                yield from _of_result(
                    path,
                    place,
                    task,
                    result,
                    annotator=_annotator(meta, annotation),
                    purpose=_purpose(meta.get("purpose")),
                )


def _of_predictions(path: Path) -> Iterator[Claim]:
    for place, task in read_tasks(path):
        for prediction in _objects(path, place, task, "predictions"):
            for result in _choices(path, place, prediction):
                given = prediction.get("score", result.get("score"))
                score = None if given is None else number_of(given)
                if given is not None and score is None:
                    raise StorageError(
                        f"{path}, {place}: score must be a finite number, got {shown(given)}", "invalid"
                    )
                yield from _of_result(path, place, task, result, score=score)


def _of_result(
    path: Path, place: str, task: Mapping[str, Any], result: Mapping[str, Any], **more: Any
) -> Iterator[Claim]:
    value = result.get("value")
    words = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise StorageError(f"{path}, {place}: choices must be a list of words, got {shown(words)}", "invalid")
    where = f"{path}, {place}"
    data = task["data"]
    item, concept = data.get("item"), result.get("from_name")
    is_whole = isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= _MAX_INT
    if item is not None and not is_whole:
        raise StorageError(f"{where}: item must be a whole number from 0 on, got {shown(item)}", "invalid")
    name = next((data[key] for key in NAME_COLUMNS if isinstance(data.get(key), str) and data[key]), None)
    if item is None and name is None:
        raise StorageError(
            f"{where}: its data name no item by one of {', '.join((*ITEM_COLUMNS, *NAME_COLUMNS))}", "invalid"
        )
    called, is_certain = concept_of(_storable(concept, where)) if isinstance(concept, str) else (None, True)
    for word in words:
        yield Claim(
            place,
            item,
            None if name is None else _storable(name, where),
            called,
            _storable(word, where).strip(),
            is_certain=is_certain,
            **more,
        )


def _annotator(meta: Mapping[str, Any], annotation: Mapping[str, Any]) -> str | None:
    """Return the annotator from this program's metadata or, without metadata, the user of Label Studio."""
    named, by = meta.get("text"), annotation.get("completed_by")
    if isinstance(named, list) and len(named) == 1 and isinstance(named[0], str):
        return named[0]
    if isinstance(by, dict):
        by = by.get("email") or by.get("id")
    if isinstance(by, int) and not isinstance(by, bool):
        return f"Label Studio user {by:.0f}" if abs(by) <= _MAX_INT else None
    return by if isinstance(by, str) and by else None


def _choices(path: Path, place: str, said: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [r for r in _objects(path, place, said, "result") if r.get("type", "choices") == "choices"]


def _objects(path: Path, place: str, of: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = of.get(key) or []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise StorageError(f"{path}, {place}: {key} must be a list of objects, got {shown(found)}", "invalid")
    return found
