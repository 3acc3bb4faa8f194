"""Labels and log as files that other programs read."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TextIO, get_args

from sqlalchemy import text

from storage.database import Database
from storage.errors import StorageError
from storage.log import LabelLog
from storage.records import LogRow

Format = Literal["csv", "jsonl"]

# A spreadsheet takes a cell that begins like this for a formula, full-width signs included, and runs it.
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def export(
    database: Database,
    out: TextIO,
    *,
    concept_id: int | None = None,
    format: Format = "csv",  # noqa: A002 (the command line's word)
    log: bool = False,
    name_of: Callable[[int], str] | None = None,
) -> int:
    """Write labels, one line an item and concept, or with `log` every answer; return the number of lines.

    Parameters
    ----------
    database : Database
        What to read; labeling may go on meanwhile.
    out : text file
        Opened with newline="" for CSV. Lines are written as they are read.
    concept_id : int, optional
        Only this concept's.
    format : {"csv", "jsonl"}
        Text cells of a CSV that a spreadsheet would run as a formula begin with an apostrophe; `unguarded`
        takes it off. JSON Lines carry everything unchanged.
    log : bool
        Every answer with why its item was shown, instead of the current labels.
    name_of : callable, optional
        Gives an item's name, for a column of its own.

    Raises
    ------
    StorageError
        `invalid` for an unknown format; what `Database.read` raises.
    """
    if format not in get_args(Format):
        raise StorageError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}", "invalid")
    lines = _log_lines(database, concept_id) if log else _label_lines(database, concept_id)
    if name_of is not None:
        lines = _named(lines, name_of)
    return _write_csv(lines, out) if format == "csv" else _write_jsonl(lines, out)


def guarded(cell: str) -> str:
    """The text as a cell that no spreadsheet takes for a formula."""
    return "'" + cell if cell.startswith((*_FORMULA, "'")) else cell


def unguarded(cell: str) -> str:
    """The text that `guarded` was given."""
    return cell.removeprefix("'")


def _label_lines(database: Database, concept_id: int | None) -> Iterator[dict[str, Any]]:
    query = (
        "SELECT c.name, l.item, l.label, l.status, l.yes, l.no, l.unsure, l.skip, l.last_time "
        "FROM current_labels AS l JOIN concepts AS c ON c.id = l.concept_id "
        + ("" if concept_id is None else "WHERE l.concept_id = :concept_id ")
        + "ORDER BY l.concept_id, l.item"
    )
    names = ("concept", "item", "label", "status", "yes", "no", "unsure", "skip")
    values = {} if concept_id is None else {"concept_id": concept_id}
    with database.read() as connection:
        for row in connection.execution_options(yield_per=2_000).execute(text(query), values):
            yield dict(zip(names, row[:-1], strict=True)) | {"last_answered": iso(row[-1])}


def _log_lines(database: Database, concept_id: int | None) -> Iterator[dict[str, Any]]:
    return map(_log_line, LabelLog(database).log_rows(concept_id))


def _log_line(row: LogRow) -> dict[str, Any]:
    given, chosen = row.answer, row.selection
    return {
        "seq": given.seq,
        "id": given.id,
        "concept": row.concept,
        "item": given.item,
        "answer": given.answer,
        "undoes": given.undoes,
        "corrects": given.corrects,
        "undone_by": row.undone_by,
        "purpose": given.purpose,
        "annotator": given.annotator,
        "session_id": given.session_id,
        "browser_time": iso(given.browser_time),
        "server_time": iso(given.server_time),
        "time_taken_ms": given.time_taken_ms,
        "selection_id": given.selection_id,
        **(_NO_SELECTION if chosen is None else {name: getattr(chosen, name) for name in _SELECTION_COLUMNS}),
        "selected_time": None if chosen is None else iso(chosen.created),
    }


_SELECTION_COLUMNS = (
    "round",
    "why",
    "strategy",
    "parameters",
    "probability",
    "margin",
    "selection_ms",
    "items_scored",
    "items_total",
    "retrain_ms",
    "n_labels",
    "hyperplane_digest",
    "trained_through",
    "examples_through",
    "c",
    "class_weight",
    "leased",
    "pool_version",
    "seed",
    "accuracy",
)
_NO_SELECTION = dict.fromkeys(_SELECTION_COLUMNS)


def iso(milliseconds: int) -> str:
    """A time as ISO 8601 in UTC, to the millisecond; what no calendar holds stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def _named(lines: Iterable[dict[str, Any]], name_of: Callable[[int], str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        named: dict[str, Any] = {}
        for key, value in line.items():
            named[key] = value
            if key == "item":
                named["name"] = name_of(value)
        yield named


def _write_csv(lines: Iterator[dict[str, Any]], out: TextIO) -> int:
    writer = csv.writer(out)  # its line ends, those of RFC 4180, also make it quote every line end in a cell
    number = 0
    for number, line in enumerate(lines, start=1):
        if number == 1:
            writer.writerow(line)
        writer.writerow([_cell(value) for value in line.values()])
    return number


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return guarded(value)
    if isinstance(value, (dict, tuple)):
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    return value


def _write_jsonl(lines: Iterator[dict[str, Any]], out: TextIO) -> int:
    number = 0
    for line in lines:
        out.write(json.dumps(line, ensure_ascii=False) + "\n")
        number += 1
    return number
