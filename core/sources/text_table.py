"""Texts in a table: a CSV, JSON Lines or Parquet file with a text column and, optionally, a class column.

The texts are unpacked once, into one file in the user's cache, and memory-mapped from there.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources.base import Items, Source
from closecall.core.sources.classes import MAX_HELD_OUT, path_hash
from closecall.core.sources.texts import VOCABULARY_FILE, Texts, decoded
from closecall.core.sources.unpacking import unpacked
from closecall.core.sources.vocabulary import Vocabulary

SUFFIXES = (".csv", ".jsonl", ".parquet")
TEXT_COLUMNS = ("text", "document", "content", "body", "sentence")
"""Names of the text column to try, in this order, if no name is given."""
CLASS_COLUMNS = ("label", "class", "category", "target")
"""Names of the class column to try, in this order, if no name is given."""
MOST_CLASSES = 1_000
"""Maximum number of different values in a column of classes."""

_ROWS_AT_ONCE = 4096
_TEXTS, _ENDS, _TRUTH, _CLASSES = "texts.bin", "ends.npy", "truth.npy", "classes.json"


class TextTable(Texts):
    """Source of the texts in a table, in the order of the rows.

    A tenth of the rows with a known class, at most 10,000, are held out.

    Parameters
    ----------
    path : Path
        A .csv file with a header, a .jsonl file, or a .parquet file.
    text, label : str, optional
        Names of the text column and of the class column. By default, they are the first names in
        `TEXT_COLUMNS` and `CLASS_COLUMNS` that the table has. A default class column is ignored unless it has
        2 to 1,000 classes. A missing text counts as an empty text, and a missing class as unknown.
    earlier : dict, optional
        Spec of an earlier version of the table with fewer rows. Its classes and held-out items are kept.
    vocabulary : Vocabulary, optional
        Vocabulary that the source had when it was first made. By default, a new one.
    as_written : bool
        See `read_batches`.

    Raises
    ------
    InputError
        If the file or a column does not exist, if the file cannot be read, if the given class column has
        fewer than 2 or more than 1,000 classes, or if there are no rows.
    """

    kind: ClassVar[str] = "table"

    def __init__(
        self,
        path: Path,
        *,
        text: str | None = None,
        label: str | None = None,
        earlier: dict[str, Any] | None = None,
        vocabulary: Vocabulary | None = None,
        as_written: bool = True,
    ) -> None:
        self.path = path.absolute()
        if not self.path.is_file():
            raise InputError(f"there is no file {self.path}")
        if self.path.suffix.lower() not in SUFFIXES:
            raise InputError(f"{self.path} must be one of {', '.join(SUFFIXES)}")
        self.text_column, self.class_column, self.as_written = text, label, as_written
        self.title = f"Texts in {self.path.name}"
        folder = unpacked(self.path, self._unpack, what=json.dumps([text, label, *self._how]))
        self._ends: NDArray[np.int64] = np.load(folder / _ENDS, mmap_mode="r")
        self._bytes = np.memmap(folder / _TEXTS, dtype=np.uint8, mode="r") if self._ends[-1] else None
        names = tuple(json.loads((folder / _CLASSES).read_text()))
        self._truth: NDArray[np.int16] = np.load(folder / _TRUTH)
        self.classes = names
        self._first = len(self._ends)
        self._saved = vocabulary
        if earlier is not None:
            self.classes = tuple(earlier["classes"])
            index = {name: place for place, name in enumerate(self.classes)}
            places = [index.get(name, -1) for name in names]
            self._truth = np.array([*places, -1], dtype=np.int16)[self._truth]
            self._first = earlier["first"]

    def __len__(self) -> int:
        return len(self._ends)

    def spec(self) -> dict[str, Any]:
        """Return the path of the file, its columns, and a digest of the texts."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "text": self.text_column,
            "label": self.class_column,
            "items": len(self),
            "first": self._first,
            "classes": list(self.classes),
            "digest": self._digest(len(self)),
            **self._how,
        }

    @property
    def _how(self) -> dict[str, bool]:
        """How cells are read, for the spec. Pools from before there was a choice have no entry."""
        return {"as_written": True} if self.as_written else {}

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """See `Source.from_spec`. Rows that were added to the file after `spec` was made are left out."""
        words = None if folder is None else Vocabulary.load(folder / VOCABULARY_FILE)
        source = cls(
            Path(spec["path"]),
            text=spec["text"],
            label=spec["label"],
            earlier=spec,
            vocabulary=words,
            as_written=spec.get("as_written", False),
        )
        if not source._begins_like(spec):
            raise InputError(f"{source.path} no longer has the texts that the pool was built from")
        source._ends, source._truth = source._ends[: spec["items"]], source._truth[: spec["items"]]
        return source

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`."""
        known = {
            "kind": self.kind,
            "path": str(self.path),
            "text": self.text_column,
            "label": self.class_column,
        }
        same = all(spec.get(key) == value for key, value in known.items())
        if folder is None or not same:
            return self
        continued = type(self)(
            self.path,
            text=self.text_column,
            label=self.class_column,
            earlier=spec,
            vocabulary=Vocabulary.load(folder / VOCABULARY_FILE),
            as_written=spec.get("as_written", False),
        )
        return continued if continued._begins_like(spec) else self

    def name(self, item: int) -> str:
        """Return a name such as "row 17", counted from 1."""
        return f"row {int(self.check_items(np.array([item]))[0]) + 1}"

    def read(self, item: int) -> str:
        """See `Texts.read`."""
        start = int(self._ends[item - 1]) if item else 0
        if self._bytes is None:
            return ""
        return decoded(self._bytes[start : int(self._ends[item])].tobytes(), "utf-8")

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self._truth[self.check_items(items)]

    def held_out(self) -> Items:
        """See `Source.held_out`. A hash of the row number chooses rows of the table's first version."""
        return self._held_out

    @cached_property
    def _held_out(self) -> Items:
        known = np.flatnonzero(self._truth[: self._first] >= 0)
        by_hash = sorted(known.tolist(), key=lambda row: path_hash(str(row)))
        return np.sort(np.array(by_hash[: min(MAX_HELD_OUT, len(known) // 10)], dtype=np.int64))

    def _digest(self, n: int) -> str:
        """Return a digest of the first n texts."""
        digest = hashlib.blake2b(np.ascontiguousarray(self._ends[:n]).tobytes(), digest_size=8)
        if self._bytes is not None and n:
            digest.update(self._bytes[: int(self._ends[n - 1])].data)
        return digest.hexdigest()

    def _begins_like(self, spec: dict[str, Any]) -> bool:
        return len(self) >= int(spec["items"]) and self._digest(spec["items"]) == str(spec["digest"])

    def _unpack(self, folder: Path) -> None:
        import pyarrow

        ends, end = [], 0
        classes: list[str | None] = []
        try:
            with (folder / _TEXTS).open("wb") as out:
                for texts, labels in self._columns():
                    for text in texts:
                        end += out.write((text or "").encode(errors="replace"))
                        ends.append(end)
                    classes += labels
        except (pyarrow.ArrowException, ValueError) as error:
            raise InputError(f"{self.path} is damaged, or no table: {error}") from error
        if not ends:
            raise InputError(f"{self.path} has no rows")
        counts = Counter(name for name in classes if name)
        names = sorted(counts) if 2 <= len(counts) <= MOST_CLASSES else []
        if self.class_column is not None and not names:
            raise InputError(
                f"column {self.class_column} of {self.path} must have 2 to {MOST_CLASSES:,} classes, "
                f"got {len(counts):,}"
            )
        index = {name: place for place, name in enumerate(names)}
        np.save(folder / _ENDS, np.array(ends, dtype=np.int64))
        np.save(folder / _TRUTH, np.array([index.get(name or "", -1) for name in classes], dtype=np.int16))
        (folder / _CLASSES).write_text(json.dumps(names))

    def _columns(self) -> Iterator[tuple[list[str | None], list[str | None]]]:
        """Yield texts and classes, several thousand rows at a time."""
        for batch in read_batches(self.path, as_written=self.as_written):
            names = batch.schema.names
            text = choose_column(names, self.text_column, TEXT_COLUMNS, self.path)
            label = choose_column(names, self.class_column, CLASS_COLUMNS, self.path)
            if text is None:
                raise InputError(
                    f"{self.path} has no column of texts (one of {', '.join(TEXT_COLUMNS)}): "
                    f"choose one of {', '.join(names)}"
                )
            labels: list[str | None] = [None] * len(batch)
            if label is not None:
                labels = strings_of(batch, label, as_written=self.as_written)
            yield strings_of(batch, text, as_written=self.as_written), labels


def read_batches(path: Path, *, as_written: bool) -> Iterator[Any]:
    """Yield the record batches of a .csv, .jsonl or .parquet file.

    If `as_written` is true, the cells of .csv and .jsonl files are bytes, as they are written in the file.
    Otherwise, their types are guessed: "001" becomes 1, and a cell of another type than the column is an
    error. Pools from before there was a choice have guessed types.

    Raises
    ------
    ValueError, pyarrow.ArrowException
        If the file is damaged, or is no table.
    """
    if as_written and path.suffix.lower() == ".jsonl":
        yield from _json_as_written(path)
        return
    if path.suffix.lower() == ".parquet":
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(path) as file:
            yield from file.iter_batches(batch_size=_ROWS_AT_ONCE)
    elif path.suffix.lower() == ".csv":
        import pyarrow.csv

        options, convert = pyarrow.csv.ParseOptions(newlines_in_values=True), None
        if as_written:
            with pyarrow.csv.open_csv(path, parse_options=options) as reader:
                types = dict.fromkeys(reader.schema.names, pyarrow.binary())
            convert = pyarrow.csv.ConvertOptions(column_types=types)
        with pyarrow.csv.open_csv(path, parse_options=options, convert_options=convert) as reader:
            yield from reader
    else:
        import pyarrow.json

        options = pyarrow.json.ParseOptions(newlines_in_values=False)
        yield from pyarrow.json.read_json(path, parse_options=options).to_batches(max_chunksize=_ROWS_AT_ONCE)


def _json_as_written(path: Path) -> Iterator[Any]:
    import pyarrow

    names = list(dict.fromkeys(name for row in _json_objects(path) for name in row))
    rows = _json_objects(path)
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        cells = {name: [_json_cell(row.get(name)) for row in some] for name in names}
        yield pyarrow.record_batch({name: pyarrow.array(cells[name], pyarrow.binary()) for name in names})


def _json_objects(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON Lines file. Their numbers are strings, as written."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line, parse_int=str, parse_float=str)
            except ValueError as error:
                raise ValueError(f"line {number} is not JSON ({error})") from error
            if not isinstance(row, dict):
                raise ValueError(f"line {number} is not a JSON object")
            yield row


def _json_cell(value: Any) -> bytes | None:
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode(errors="replace")


def choose_column(names: list[str], wanted: str | None, usual: tuple[str, ...], path: Path) -> str | None:
    """Return the column `wanted`. If it is None, return the first of the `usual` names that is in `names`.

    If none of the `usual` names is in `names`, return None.

    Raises
    ------
    InputError
        If the wanted column doesn't exist.
    """
    if wanted is not None:
        if wanted not in names:
            raise InputError(f"{path} has no column {wanted!r}: choose one of {', '.join(names)}")
        return wanted
    by_lower = {name.lower(): name for name in names}
    return next((by_lower[name] for name in usual if name in by_lower), None)


def strings_of(batch: Any, column: str, *, as_written: bool) -> list[str | None]:
    """Return the values of a column of a record batch from `read_batches` as strings."""

    def text(value: Any) -> str:
        return value.decode(errors="replace") if as_written and isinstance(value, bytes) else str(value)

    return [None if value is None else text(value) for value in batch.column(column).to_pylist()]
