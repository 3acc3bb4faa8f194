"""Labels and predictions out of files: what each line says, in words, before anybody knows what they mean.

A file's labels become answers of purpose "import" in sessions of their own, one for each concept and
annotator. Session and answer ids are made from the file's digest and from what is said, so that a file
that is imported twice is stored once, and `closecall verify` can tell whether the log still says what the
file said.
"""

from __future__ import annotations

import hashlib
import json
import math
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import insert, select

from closecall.storage import rows
from closecall.storage.append import append
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.fold import status_of
from closecall.storage.label_studio import concept_of, read_tasks
from closecall.storage.models import MAX_NAME, Session
from closecall.storage.records import AnswerRecord, Purpose, SessionRecord
from closecall.storage.tabular import Line, TableFormat, batched, read_table, shown

ImportFormat = Literal["csv", "jsonl", "parquet", "label-studio"]

IMPORT = "import"
"""Describes, among a session's parameters, the file that its answers came from; also its strategy's name."""

ITEM_COLUMNS = ("item",)
NAME_COLUMNS = ("name", "path", "file", "filename", "image")
LABEL_COLUMNS = ("answer", "label", "class", "choice")
PREDICTED_COLUMNS = ("predicted", "prediction", "label", "class", "choice")
SCORE_COLUMNS = ("score", "probability", "confidence", "margin")
VOTE_COLUMNS = ("yes", "no", "unsure", "skip")

MOST_VOTES = 1_000
"""Annotators that one line may count."""

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
    """That somebody says something of an item.

    Parameters
    ----------
    place : str
        Where the file says so, such as "line 7".
    item : int or None
        The item's id.
    name : str or None
        Its name or path.
    concept : str or None
        The concept's name.
    word : str
        Yes, no, unsure, skip, or a class.
    annotator : str or None
        Who says so; None where the file does not tell.
    number : int
        Which of several unnamed annotators, from 1.
    purpose : {"import", "audit", "decision"}
        What an audit asked for is kept out of training, here, too, and a decision outranks votes.
    score : float or None
        A prediction's.
    replaces : bool
        Whether it counts in place of what the same annotator said earlier in the file, as it does in a log.
    is_certain : bool
        Whether the concept must be one of the project's: not where another program named it.
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
    """The format that the file's name tells.

    Raises
    ------
    StorageError
        `invalid`, if it tells none.
    """
    found = _SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise StorageError(
            f"{path} does not end in one of {', '.join(_SUFFIXES)}: say its --format", "invalid"
        )
    return found


def digest_of(path: Path) -> str:
    """Names the file's content: 32 hexadecimal digits."""
    if not path.exists():
        raise StorageError(f"There is no file {path}", "missing")
    if not path.is_file():
        raise StorageError(f"{path} is no file", "invalid")
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def read_labels(path: Path, format: ImportFormat) -> Iterator[Claim]:  # noqa: A002
    """The labels of a file, in its order; lines without one are left out.

    What `export` writes is read back: current labels by their votes, a log by its answers in force.

    Raises
    ------
    StorageError
        `missing` or `invalid`, in a sentence that names the file and the line.
    """
    if format == "label-studio":
        return _of_annotations(path)
    return _of_table(path, format)


def read_predictions(path: Path, format: ImportFormat) -> Iterator[Claim]:  # noqa: A002
    """The predictions of a file, in its order: a score, a class, or both; errors as `read_labels`."""
    if format == "label-studio":
        return _of_predictions(path)
    return _of_predicted_table(path, format)


def session_id(digest: str, concept_id: int, annotator: str) -> str:
    """The id of the session that holds what an annotator says in a file."""
    return str(uuid.uuid5(_IDS, json.dumps([digest, concept_id, annotator])))


def answer_id(digest: str, said: AnswerRecord) -> str:
    """The id of an imported answer."""
    told = [digest, said.concept_id, said.annotator, said.item, said.answer, said.purpose]
    return str(uuid.uuid5(_IDS, json.dumps(told)))


def store(
    database: Database, sessions: Iterable[SessionRecord], answers: Iterable[AnswerRecord], server_time: int
) -> tuple[int, int]:
    """Store imported answers with their sessions, all or none; how many were new, and how many known.

    Raises
    ------
    StorageError
        `invalid`, if an answer is refused; what `Database.write` raises. Nothing was stored then.
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
            new, known = new + len(result.accepted), known + len(result.known)
    return new, known


def checked_annotator(name: str, place: str) -> str:
    """An annotator's name as it can be stored; `place` says where it was read."""
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
        if {"predicted", "score"} <= cells.keys():  # as `closecall predict` writes them
            raise StorageError(
                f"{path} holds predictions (its columns score and predicted say so), not labels: import them "
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
    """A line of current labels as so many answers, each by somebody unnamed, and what was decided instead."""
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
    """The first of these columns that the table has."""
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
    """A label as text; JSON and Parquet may have truth values and numbers in place of words."""
    value = line.cells[column]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= _MAX_INT:
        return str(value)
    return _text(path, line, column).strip()


def _whole(path: Path, line: Line, column: str) -> int | None:
    """A whole number from 0 on; None where nothing is given."""
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
    """A finite number, given as one or as text; None for anything else."""
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
        raise StorageError(f"{place}: {shown(value)} holds half a character", "invalid") from None
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
    """Whose answer it is: as this program wrote it, else Label Studio's user."""
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
