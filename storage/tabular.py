"""Read and write tables as CSV, JSON Lines and Parquet, without holding a whole table in memory.

CSV is written according to RFC 4180, in UTF-8, optionally with a byte order mark. CSV files from spreadsheets
can be read, too: they may have a byte order mark, be in UTF-16, use semicolons, tabs or bars instead of
commas, and have any line ends. Headings are converted to lower case.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import IO, Any, Literal, TypeVar, get_args

from closecall.storage.errors import StorageError

TableFormat = Literal["csv", "jsonl", "parquet"]
Kind = Literal["text", "whole", "number", "truth", "time", "json"]
Row = Sequence[Any]
T = TypeVar("T")

BATCH_ROWS = 10_000
MAX_LINE = 10_000_000
"""Number of characters at which a JSON line is refused. Lines with labels are much shorter."""

# Spreadsheets execute cells that begin with one of these characters as formulas.
_FORMULA = "=+-@\t\r\n＝＋－＠"
_GUARDED = frozenset(_FORMULA + "'")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DELIMITERS = ",;\t|"
_HEADING = 65_536  # characters in which to look for the separator


@dataclass(frozen=True, slots=True)
class Column:
    """Heading and type of a column.

    A "time" is in milliseconds since 1970 UTC, and is written as ISO 8601 in UTC. A "truth" is a bool, and is
    written as true or false.
    """

    name: str
    kind: Kind = "text"


@dataclass(frozen=True, slots=True)
class Line:
    """Row of a file: its cells by heading, and its place in the file, such as "line 7".

    `has_decimal_commas` says whether a number may have a comma instead of a point. Spreadsheets write such
    numbers with semicolons between the cells.
    """

    place: str
    cells: dict[str, Any]
    has_decimal_commas: bool = False


def guarded(cell: str) -> str:
    """Return the text, with an apostrophe in front if it begins like a formula or with an apostrophe."""
    return "'" + cell if cell[:1] in _GUARDED else cell


def unguarded(cell: str) -> str:
    """Invert `guarded`. Texts that `guarded` does not produce are returned unchanged."""
    bare = cell.removeprefix("'")
    return bare if guarded(bare) == cell else cell


def iso(milliseconds: int) -> str:
    """Return a time as ISO 8601 in UTC with milliseconds. A time outside the calendar stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return str(milliseconds)
    return moment.isoformat(timespec="milliseconds")[:-6] + "Z"


def milliseconds_of(value: object) -> int | None:
    """Invert `iso`, for any text in ISO 8601 or datetime. Return None for anything else.

    A time without a zone is in UTC.
    """
    if isinstance(value, str):
        text = value.strip()
        if text.removeprefix("-").isdecimal() and len(text) < 20:
            return int(text)
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    moment = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def write_table(
    columns: Sequence[Column],
    rows: Iterable[Row],
    out: IO[Any],
    format: TableFormat,  # noqa: A002 (the command line's word)
    *,
    bom: bool = False,
) -> int:
    """Write each row as soon as it is read, and return the number of rows without the heading.

    Parameters
    ----------
    columns : sequence of Column
        Columns of the table, in order.
    rows : iterable of sequences
        Values in the order of the columns, with None for an empty cell.
    out : file
        A binary file for Parquet, and a text file for other formats, opened with newline="" for CSV.
    format : {"csv", "jsonl", "parquet"}
        In CSV, text cells that a spreadsheet would execute as a formula get an apostrophe in front, which
        `unguarded` removes. The other formats are exact.
    bom : bool
        Write a CSV file for spreadsheets: with a byte order mark, by which they recognize UTF-8, and with
        times that they read as times, such as 2026-11-20 10:00:00.123.

    Raises
    ------
    StorageError
        If the format is unknown, or if `bom` is true and the format is not CSV (kind `invalid`).
    """
    if format not in get_args(TableFormat):
        known = ", ".join(get_args(TableFormat))
        raise StorageError(f"format must be one of {known}, got {format!r}", "invalid")
    if bom:
        if format != "csv":
            raise StorageError(f"only csv has a byte order mark, not {format}", "invalid")
        out.write("\ufeff")
        return _write_csv(columns, rows, out, time=_time_in_spreadsheet)
    return _WRITERS[format](columns, rows, out)


def read_table(path: Path, format: TableFormat) -> Iterator[Line]:  # noqa: A002
    """Yield the rows of a table as they are read.

    Raises
    ------
    StorageError
        If there is no such file (kind `missing`), if its content is invalid (kind `invalid`), or if it can't
        be read (kind `other`). The message names the file and, if possible, the line.
    """
    with file_trouble(path):
        yield from _READERS[format](path)


def batched(values: Iterable[T], n: int) -> Iterator[list[T]]:
    """Yield lists of up to n values."""
    rest = iter(values)
    while batch := list(islice(rest, n)):
        yield batch


def _write_csv(
    columns: Sequence[Column],
    rows: Iterable[Row],
    out: IO[str],
    *,
    time: Callable[[int | None], str | None] | None = None,
) -> int:
    # The default line ends are those of RFC 4180. They also make the writer quote line ends in cells.
    writer = csv.writer(out)
    writer.writerow([guarded(column.name) for column in columns])
    cells = [time if time and column.kind == "time" else _CSV_CELLS[column.kind] for column in columns]
    number = 0
    for batch in batched(rows, BATCH_ROWS):
        writer.writerows([cell(value) for cell, value in zip(cells, row, strict=True)] for row in batch)
        number += len(batch)
    return number


def _write_jsonl(columns: Sequence[Column], rows: Iterable[Row], out: IO[str]) -> int:
    names = [column.name for column in columns]
    times = [place for place, column in enumerate(columns) if column.kind == "time"]
    encode = json.JSONEncoder(ensure_ascii=False).encode
    number = 0
    for row in rows:
        values = list(row)
        for place in times:
            values[place] = _time(values[place])
        out.write(encode(dict(zip(names, values, strict=True))) + "\n")
        number += 1
    return number


def _write_parquet(columns: Sequence[Column], rows: Iterable[Row], out: IO[bytes]) -> int:
    import pyarrow
    import pyarrow.parquet

    kinds = {
        "text": pyarrow.string(),
        "whole": pyarrow.int64(),
        "number": pyarrow.float64(),
        "truth": pyarrow.bool_(),
        "time": pyarrow.timestamp("ms", tz="UTC"),
        "json": pyarrow.string(),
    }
    schema = pyarrow.schema([(column.name, kinds[column.kind]) for column in columns])
    number = 0
    with pyarrow.parquet.ParquetWriter(out, schema) as writer:
        for batch in batched(rows, BATCH_ROWS):
            values = zip(*batch, strict=True)
            arrays = [
                pyarrow.array(map(_json, its) if column.kind == "json" else its, type=kinds[column.kind])
                for column, its in zip(columns, values, strict=True)
            ]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
            number += len(batch)
    return number


def _text(value: Any) -> Any:
    return guarded(value) if isinstance(value, str) else value


def _time(value: int | None) -> str | None:
    return None if value is None else iso(value)


def _time_in_spreadsheet(value: int | None) -> str | None:
    """Return a time without its zone: LibreOffice takes a time with a zone for a text."""
    return None if value is None else iso(value).replace("T", " ").removesuffix("Z")


def _json(value: Any) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _truth(value: bool | None) -> str | None:
    return None if value is None else "true" if value else "false"


def _same(value: Any) -> Any:
    return value


_CSV_CELLS: dict[Kind, Callable[[Any], Any]] = {
    "text": _text,
    "whole": _same,
    "number": _same,
    "truth": _truth,
    "time": _time,
    "json": _json,
}
_WRITERS: dict[TableFormat, Callable[[Sequence[Column], Iterable[Row], IO[Any]], int]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}


@contextmanager
def file_trouble(path: Path) -> Iterator[None]:
    """Turn errors of the file system and of the text's encoding into a StorageError."""
    try:
        yield
    except FileNotFoundError:
        raise StorageError(f"There is no file {path}", "missing") from None
    except IsADirectoryError:
        raise StorageError(f"{path} is a folder, and a file is needed", "invalid") from None
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error.strerror or error}", "other") from error
    except UnicodeError:
        raise StorageError(f"{path} is not text in UTF-8 or UTF-16", "invalid") from None


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Open the file as text with unchanged line ends. A byte order mark distinguishes UTF-16 from UTF-8."""
    with file_trouble(path):
        with path.open("rb") as raw:
            marked = raw.read(2) in (b"\xff\xfe", b"\xfe\xff")
        with path.open(encoding="utf-16" if marked else "utf-8-sig", newline="") as text:
            yield text


def _read_csv(path: Path) -> Iterator[Line]:
    with open_text(path) as text:
        first = text.readline(_HEADING)
        parted = max(_DELIMITERS, key=lambda sign: len(next(csv.reader([first], delimiter=sign), [])))
        text.seek(0)
        reader = csv.reader(text, delimiter=parted, strict=True)
        try:
            names = [unguarded(name.strip()).casefold() for name in next(reader, [])]
            require_headings(names, path)
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise StorageError(
                        f"{path}, line {reader.line_num}: it has {len(cells)} cells where the heading has "
                        f"{len(names)}",
                        "invalid",
                    )
                yield Line(
                    f"line {reader.line_num}",
                    dict(zip(names, map(unguarded, cells), strict=True)),
                    has_decimal_commas=parted == ";",
                )
        except csv.Error as error:
            raise StorageError(f"{path}, line {reader.line_num}: it is not CSV: {error}", "invalid") from None


def _read_jsonl(path: Path) -> Iterator[Line]:
    with open_text(path) as text:
        number = 0
        while line := text.readline(MAX_LINE):
            number += 1
            if len(line) == MAX_LINE:
                raise StorageError(
                    f"{path}, line {number}: it is longer than {MAX_LINE:,} characters", "invalid"
                )
            if not line.strip():
                continue
            try:
                cells = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise StorageError(
                    f"{path}, line {number}: it is not JSON: {_reason(error)}", "invalid"
                ) from None
            if not isinstance(cells, dict):
                raise StorageError(
                    f'{path}, line {number}: a JSON object is needed, such as {{"item": 7, "label": '
                    f'"yes"}}, got {shown(cells)}',
                    "invalid",
                )
            yield Line(f"line {number}", {name.casefold(): cell for name, cell in cells.items()})


def _read_parquet(path: Path) -> Iterator[Line]:
    import pyarrow
    import pyarrow.parquet

    with path.open("rb"):  # raises the file system's error
        pass
    number = 0
    try:
        with pyarrow.parquet.ParquetFile(path) as file:
            names = [name.casefold() for name in file.schema_arrow.names]
            require_headings(names, path)
            for batch in file.iter_batches(batch_size=BATCH_ROWS):
                values = [column.to_pylist() for column in batch.columns]
                for cells in zip(*values, strict=True):
                    number += 1
                    yield Line(f"row {number}", dict(zip(names, cells, strict=True)))
    except (pyarrow.ArrowException, OSError, ValueError, OverflowError) as error:
        raise StorageError(
            f"{path} is damaged after row {number:,}, or no Parquet file: {_reason(error)}", "invalid"
        ) from None


def _reason(error: BaseException) -> str:
    """Return the reason for an error on one line."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return " ".join(str(error).split())[:200]


def shown(value: object) -> str:
    """Return a value's `repr`, shortened to 58 characters if it has more than 60."""
    try:
        text = repr(value)
    except ValueError:  # an integer of too many digits
        return "a huge number"
    return text if len(text) <= 60 else text[:57] + "…"


_READERS: dict[TableFormat, Callable[[Path], Iterator[Line]]] = {
    "csv": _read_csv,
    "jsonl": _read_jsonl,
    "parquet": _read_parquet,
}


def require_headings(names: Sequence[str], path: Path) -> None:
    """Check the headings of a table.

    Raises
    ------
    StorageError
        If all headings are empty, or if a heading is repeated (kind `invalid`).
    """
    if not any(names):
        raise StorageError(f"{path} is empty: a heading is needed, such as item,label", "invalid")
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None:
        raise StorageError(f"{path}: the heading has {shown(twice)} twice", "invalid")
