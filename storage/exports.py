"""Export labels and the log to files for other programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import IO, Any, Literal, get_args

from sqlalchemy import text

from closecall.storage.concepts import Concepts
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.label_studio import Content, Vote, write_tasks
from closecall.storage.log import LabelLog
from closecall.storage.predictions import Predictions
from closecall.storage.records import LogRow
from closecall.storage.tabular import BATCH_ROWS, Column, Row, TableFormat, batched, iso, write_table

Format = Literal["csv", "jsonl", "parquet", "label-studio"]
NamesOf = Callable[[Sequence[int]], list[str]]

LABELS = (
    Column("concept"),
    Column("item", "whole"),
    Column("label"),
    Column("status"),
    Column("yes", "whole"),
    Column("no", "whole"),
    Column("unsure", "whole"),
    Column("skip", "whole"),
    Column("last_answered_at", "time"),
)
"""Columns of the table of current labels, which has one row per item and concept."""

ANSWERS = Column("answers", "json")
"""An additional column in exported tables of current labels: the answers that the row counts.

Each answer is an object with the keys id, annotator, answer, purpose, time and time_taken_ms.
"""

_SELECTION = (
    Column("round", "whole"),
    Column("why"),
    Column("strategy"),
    Column("parameters", "json"),
    Column("probability", "number"),
    Column("margin", "number"),
    Column("selection_ms", "number"),
    Column("items_scored", "whole"),
    Column("items_total", "whole"),
    Column("retrain_ms", "number"),
    Column("n_labels", "whole"),
    Column("hyperplane_digest"),
    Column("trained_through", "whole"),
    Column("examples_through", "whole"),
    Column("c", "number"),
    Column("class_weight"),
    Column("leased", "json"),
    Column("pool_version", "whole"),
    Column("seed", "whole"),
    Column("accuracy", "number"),
)
LOG = (
    Column("seq", "whole"),
    Column("id"),
    Column("concept"),
    Column("item", "whole"),
    Column("answer"),
    Column("undoes"),
    Column("corrects"),
    Column("undone_by"),
    Column("purpose"),
    Column("annotator"),
    Column("session_id"),
    Column("browser_time", "time"),
    Column("server_time", "time"),
    Column("time_taken_ms", "whole"),
    Column("selection_id"),
    *_SELECTION,
    Column("selected_time", "time"),
)
"""Columns of the table of the log, which has one row per answer."""

PREDICTED = (Column("item", "whole"), Column("score", "number"), Column("predicted"))
"""Columns of a table of another model's predictions, which has one row per item."""


def export(
    database: Database,
    out: IO[Any],
    *,
    concept_id: int | None = None,
    format: Format = "csv",  # noqa: A002 (the command line's word)
    log: bool = False,
    names_of: NamesOf | None = None,
    content: Content | None = None,
    bom: bool = False,
) -> int:
    """Write the current labels, or all answers if `log` is true, and return the number of rows.

    The current labels have one row per item and concept, and the log has one row per answer.

    Parameters
    ----------
    database : Database
        Database to export from. Labeling may continue meanwhile.
    out : file
        A binary file for Parquet, and a text file for other formats, opened with newline="" for CSV. Rows are
        written as they are read.
    concept_id : int, optional
        Export only this concept.
    format : {"csv", "jsonl", "parquet", "label-studio"}
        See `write_table`. With "label-studio", one task per item is written, with the answers of all
        annotators. In this case, the number of tasks is returned; see `storage.label_studio`.
    log : bool
        Export every answer with the reason why its item was shown, instead of the current labels.
    names_of : callable, optional
        Function that returns the names of items, for an additional column in tables.
    content : Content, optional
        What Label Studio tasks contain besides the answers.
    bom : bool
        See `write_table`.

    Raises
    ------
    StorageError
        If the format is unknown, or is "label-studio" although `log` is true (kind `invalid`), or if
        `Database.read` or `write_table` raises it.
    """
    if format not in get_args(Format):
        raise StorageError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}", "invalid")
    if format == "label-studio":
        if log:
            raise StorageError("Label Studio takes no log: use csv, jsonl or parquet", "invalid")
        names = [its.name for its in Concepts(database).all() if concept_id in (None, its.id)]
        through = LabelLog(database).position()
        votes = _votes(database, concept_id)
        return write_tasks(votes, out, content or Content(), concepts=names, through=through)
    columns: tuple[Column, ...] = LOG if log else (*LABELS, ANSWERS)
    rows = _log_rows(database, concept_id) if log else _answered_rows(database, concept_id)
    if names_of is not None:
        columns, rows = with_names(columns, rows, names_of)
    return write_table(columns, rows, out, format, bom=bom)


def export_predictions(
    database: Database,
    set_id: int,
    out: IO[Any],
    *,
    format: TableFormat = "csv",  # noqa: A002 (the command line's word)
    names_of: NamesOf | None = None,
    bom: bool = False,
) -> int:
    """Write another model's predictions as a table that can be imported.

    Parameters
    ----------
    database, out, format, names_of, bom
        As for `export`, except that the format "label-studio" is not possible.
    set_id : int
        Id of the record in `Predictions.all` that describes the predictions.

    Returns
    -------
    int
        Number of predictions.

    Raises
    ------
    StorageError
        If the format is unknown (kind `invalid`), or if `Database.read` raises it.
    """
    columns: tuple[Column, ...] = PREDICTED
    rows: Iterator[Row] = Predictions(database).of(set_id)
    if names_of is not None:
        columns, rows = with_names(columns, rows, names_of)
    return write_table(columns, rows, out, format, bom=bom)


def with_names(
    columns: Sequence[Column], rows: Iterable[Row], names_of: NamesOf
) -> tuple[tuple[Column, ...], Iterator[Row]]:
    """Return the columns and rows with the items' names as a new column after the column of items."""
    place = [column.name for column in columns].index("item") + 1

    def named() -> Iterator[Row]:
        for batch in batched(rows, BATCH_ROWS):
            names = names_of([row[place - 1] for row in batch])
            for row, name in zip(batch, names, strict=True):
                yield (*row[:place], name, *row[place:])

    return (*columns[:place], Column("name"), *columns[place:]), named()


def label_rows(database: Database, concept_id: int | None = None, *, by_item: bool = False) -> Iterator[Row]:
    """Yield the current labels as rows with the columns `LABELS`, ordered by concept and then by item.

    If `by_item`, the rows are ordered by item and then by concept.
    """
    query = (
        "SELECT c.name, l.item, l.label, l.status, l.yes, l.no, l.unsure, l.skip, l.last_time "
        "FROM current_labels AS l JOIN concepts AS c ON c.id = l.concept_id "
        + ("" if concept_id is None else "WHERE l.concept_id = :concept_id ")
        + ("ORDER BY l.item, l.concept_id" if by_item else "ORDER BY l.concept_id, l.item")
    )
    return _rows(database, query, concept_id)


def _answered_rows(database: Database, concept_id: int | None) -> Iterator[Row]:
    """Yield the rows of `label_rows`, with a list of the row's answers as the last value (`ANSWERS`)."""
    query = (
        "SELECT c.name, l.item, l.label, l.status, l.yes, l.no, l.unsure, l.skip, l.last_time, "
        "a.id, a.annotator, a.answer, a.purpose, a.browser_time, a.time_taken_ms "
        "FROM current_labels AS l JOIN concepts AS c ON c.id = l.concept_id "
        "JOIN current_answers AS a ON a.concept_id = l.concept_id AND a.item = l.item "
        + ("" if concept_id is None else "WHERE l.concept_id = :concept_id ")
        + "ORDER BY l.concept_id, l.item, CASE WHEN a.purpose = 'decision' THEN 1 ELSE 0 END, a.seq"
    )
    n = len(LABELS)
    for label, its in groupby(_rows(database, query, concept_id), key=lambda row: tuple(row[:n])):
        yield (*label, [_answer(*row[n:]) for row in its])


def _answer(
    id: str,  # noqa: A002 (it is the answer's id)
    annotator: str,
    answer: str,
    purpose: str,
    time: int,
    time_taken_ms: int | None,
) -> dict[str, Any]:
    return {
        "id": id,
        "annotator": annotator,
        "answer": answer,
        "purpose": purpose,
        "time": iso(time),
        "time_taken_ms": time_taken_ms,
    }


def _votes(database: Database, concept_id: int | None) -> Iterator[Vote]:
    """Yield all current answers, ordered by item, annotator and concept.

    The adjudications of an item come after its other answers.
    """
    query = (
        "SELECT a.item, c.name, a.annotator, a.answer, a.purpose, a.id, a.browser_time, a.time_taken_ms "
        "FROM current_answers AS a JOIN concepts AS c ON c.id = a.concept_id "
        + ("" if concept_id is None else "WHERE a.concept_id = :concept_id ")
        + "ORDER BY a.item, CASE WHEN a.purpose = 'decision' THEN 1 ELSE 0 END, a.annotator, a.concept_id"
    )
    return (Vote(*row) for row in _rows(database, query, concept_id))


def _rows(database: Database, query: str, concept_id: int | None) -> Iterator[Row]:
    values = {} if concept_id is None else {"concept_id": concept_id}
    with database.read() as connection:
        yield from connection.execution_options(yield_per=2_000).execute(text(query), values)


def _log_rows(database: Database, concept_id: int | None) -> Iterator[Row]:
    return map(_log_row, LabelLog(database).log_rows(concept_id))


def _log_row(row: LogRow) -> Row:
    given, chosen = row.answer, row.selection
    return (
        given.seq,
        given.id,
        row.concept,
        given.item,
        given.answer,
        given.undoes,
        given.corrects,
        row.undone_by,
        given.purpose,
        given.annotator,
        given.session_id,
        given.browser_time,
        given.server_time,
        given.time_taken_ms,
        given.selection_id,
        *(None if chosen is None else getattr(chosen, column.name) for column in _SELECTION),
        None if chosen is None else chosen.created,
    )
