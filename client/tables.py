"""Turn tables of pandas and Arrow into rows for the API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")

KEYS = ("item", "name")
"""Columns that say which item a row is about: its id, or its name."""


def rows_of(table: Any, values: Sequence[str], more: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as JSON objects.

    Parameters
    ----------
    table : pandas.DataFrame, pyarrow.Table, mapping or iterable
        A mapping is from items to values. An iterable has mappings, or pairs of an item and a value. Items
        are given by id or by name.
    values : sequence of str
        Each row needs at least one of these columns. The value of a pair belongs to the first column.
    more : sequence of str
        Columns that a row may also have. All other columns are left out.

    Raises
    ------
    ValueError
        If a row has no item or no value.
    """
    for row in _rows(table):
        if isinstance(row, Mapping):
            named = row
        else:
            key, value = row
            named = {"name" if isinstance(key, str) else "item": key, values[0]: value}
        plain = {name: _plain(named[name]) for name in (*KEYS, *values, *more) if name in named}
        kept = {name: value for name, value in plain.items() if value is not None}
        for needed in (KEYS, values):
            if not any(name in kept for name in needed):
                raise ValueError(f"Each row needs {' or '.join(map(repr, needed))}, got {dict(named)!r:.200}")
        yield kept


def chunks(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of at most `size` rows."""
    rest = iter(rows)
    while chunk := list(islice(rest, size)):
        yield chunk


def columns(rows: Iterable[Any], names: Sequence[str]) -> dict[str, list[Any]]:
    """Return, for each attribute in `names`, a column with the values of all rows."""
    kept = list(rows)
    return {name: [getattr(row, name) for row in kept] for name in names}


def _rows(table: Any) -> Iterable[Any]:
    if hasattr(table, "to_pylist"):  # Arrow
        return table.to_pylist()  # type: ignore[no-any-return]
    if hasattr(table, "to_dict"):  # pandas
        return table.to_dict("records")  # type: ignore[no-any-return]
    return table.items() if isinstance(table, Mapping) else table


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold: None for NaN, and "yes" or "no" for a bool."""
    if hasattr(value, "item"):  # a number of NumPy
        value = value.item()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value != value else value  # only NaN differs from itself
