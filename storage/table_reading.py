"""Read labels and predictions from tables, such as the tables of `exports` and of `closecall predict`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from closecall.storage.claims import (
    ITEM_COLUMNS,
    MAX_INT,
    NAME_COLUMNS,
    Claim,
    number_of,
    purpose_of,
    storable,
    whole,
)
from closecall.storage.errors import StorageError
from closecall.storage.fold import status_of
from closecall.storage.records import Purpose
from closecall.storage.tabular import Line, TableFormat, milliseconds_of, read_table, shown

LABEL_COLUMNS = ("answer", "label", "class", "choice")
PREDICTED_COLUMNS = ("predicted", "prediction", "label", "class", "choice")
SCORE_COLUMNS = ("score", "probability", "confidence", "margin")
VOTE_COLUMNS = ("yes", "no", "unsure", "skip")

ANSWERS_COLUMN = "answers"
"""Column with the answers that a line counts, as JSON, in tables of current labels."""

MOST_VOTES = 1_000
"""Maximum number of votes that one line may count."""

_OF_THE_LOG = ("id", "undone_by", "session_id")
_OF_LABEL_STUDIO = ("annotation_id", "annotator", "lead_time", "created_at")


def read_label_table(path: Path, form: TableFormat) -> Iterator[Claim]:
    """Yield the labels of a table; see `imports.read_labels`."""
    for line in read_table(path, form):
        cells = line.cells
        if all(column in cells for column in _OF_LABEL_STUDIO):
            raise StorageError(
                f"{path} is Label Studio's export as CSV or TSV, which does not say who edited an answer: "
                f"export as JSON there, and import that file",
                "invalid",
            )
        if "status" in cells and cells.get(ANSWERS_COLUMN) not in (None, "", "[]", []):
            yield from _answers(path, line)
            continue
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
            purpose=purpose_of(cells.get("purpose")),
            replaces="undone_by" in cells,
            **(_details(path, line) if all(column in cells for column in _OF_THE_LOG) else {}),
        )


def _details(path: Path, line: Line) -> dict[str, Any]:
    """Return the id and the times of an answer in a line of the log."""
    has_taken = "time_taken_ms" in line.cells
    return {
        "id": _text(path, line, "id") or None,
        "time": _time(path, line, "browser_time"),
        "time_taken_ms": _whole(path, line, "time_taken_ms") if has_taken else None,
    }


def _answers(path: Path, line: Line) -> Iterator[Claim]:
    """Yield the answers that a line of current labels lists, each with its id and its annotator.

    Raises
    ------
    StorageError
        Also if the line's status or label was changed, but not its answers.
    """
    given = line.cells[ANSWERS_COLUMN]
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            raise _bad(path, line, ANSWERS_COLUMN, "a list in JSON") from None
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise _bad(path, line, ANSWERS_COLUMN, "a list of objects")
    claims = []
    for each in given:
        inner = Line(f"{line.place}, {ANSWERS_COLUMN}", each)
        word = _text(path, inner, "answer")
        if word not in VOTE_COLUMNS:
            raise _bad(path, line, ANSWERS_COLUMN, f"answers that are {', '.join(VOTE_COLUMNS)}")
        claims.append(
            _claim(
                path,
                line,
                word,
                purpose=purpose_of(each.get("purpose")),
                annotator=_text(path, inner, "annotator") or None,
                id=_text(path, inner, "id") or None,
                time=_time(path, inner, "time"),
                time_taken_ms=whole(each.get("time_taken_ms")),
            )
        )
    _require_unchanged(path, line, claims)
    yield from claims


def _require_unchanged(path: Path, line: Line, claims: Sequence[Claim]) -> None:
    """Check that the line's status and label follow from its answers."""
    decided = [claim.word for claim in claims if claim.purpose == "decision"]
    votes = Counter(claim.word for claim in claims if claim.purpose != "decision")
    trains = Counter(claim.word for claim in claims if claim.purpose == "import")
    status: str | None = decided[-1] if decided else status_of(**votes)
    label: str | None = {1: "yes", -1: "no"}.get(_sign(trains["yes"] - trains["no"]))
    if decided:
        is_audited = any(claim.purpose == "audit" for claim in claims)
        label = decided[-1] if decided[-1] in ("yes", "no") and not is_audited else None
    for column, word in (("status", status), ("label", label)):
        found = _word(path, line, column) if line.cells.get(column) is not None else ""
        if column in line.cells and found != (word or ""):
            raise StorageError(
                f"{path}, {line.place}: {column} is {shown(found)}, but the column {ANSWERS_COLUMN} gives "
                f"{shown(word or '')}: change that column, or import a table with item and label only",
                "invalid",
            )


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def _votes(path: Path, line: Line) -> Iterator[Claim]:
    """Yield the answers and the adjudication of a line of current labels that only counts answers.

    The answers have no annotators. Earlier versions exported labels in this form.
    """
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
            yield _claim(path, line, word, number=number, purpose=purpose, is_counted=True)
    if status in VOTE_COLUMNS and status != status_of(**said):
        yield _claim(path, line, status, purpose="decision")


def read_predicted_table(path: Path, form: TableFormat) -> Iterator[Claim]:
    """Yield the predictions of a table; see `imports.read_predictions`."""
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
        more.pop("annotator", None) or _text(path, line, "annotator") or None,
        **more,
    )
    if claimed.item is None and claimed.name is None:
        raise StorageError(f"{path}, {line.place}: neither an item's id nor its name is given", "invalid")
    return claimed


def _first(cells: Mapping[str, Any], columns: Iterable[str]) -> str | None:
    """Return the first of `columns` that the table has, or None."""
    return next((column for column in columns if column in cells), None)


def _text(path: Path, line: Line, column: str) -> str:
    value = line.cells.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _bad(path, line, column, "text")
    return storable(value, f"{path}, {line.place}")


def _word(path: Path, line: Line, column: str) -> str:
    """Return a label as text. JSON and Parquet files may have a truth value or a number instead."""
    value = line.cells[column]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and abs(value) <= MAX_INT:
        return str(value)
    return _text(path, line, column).strip()


def _whole(path: Path, line: Line, column: str) -> int | None:
    """Return a non-negative integer, or None for an empty cell."""
    value = line.cells[column]
    if value is None or value == "":
        return None
    number = whole(value)
    if number is None:
        raise _bad(path, line, column, "a whole number from 0 on")
    return number


def _time(path: Path, line: Line, column: str) -> int | None:
    """Return a time in milliseconds since 1970 UTC, or None for an empty cell."""
    value = line.cells.get(column)
    if value is None or value == "":
        return None
    time = value if isinstance(value, int) and not isinstance(value, bool) else milliseconds_of(value)
    if time is None or abs(time) > MAX_INT:
        raise _bad(path, line, column, "a time in ISO 8601")
    return time


def _score(path: Path, line: Line, column: str) -> float | None:
    value = line.cells[column]
    if value is None or value == "":
        return None
    if line.has_decimal_commas and isinstance(value, str) and "." not in value:
        value = value.replace(",", ".")
    found = number_of(value)
    if found is None:
        raise _bad(path, line, column, "a finite number")
    return found


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
