"""Statements about items, as files make them. Words such as class names are not interpreted here."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from closecall.storage.errors import StorageError
from closecall.storage.records import Purpose
from closecall.storage.tabular import shown

ITEM_COLUMNS = ("item",)
NAME_COLUMNS = ("name", "path", "file", "filename", "image")

WITHDRAWN = "undo"
"""Word of a claim that withdraws what the file's annotation said before."""

MAX_INT = 2**63 - 1


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
        An answer (yes, no, unsure or skip), a class, or `WITHDRAWN`; empty for a prediction that is only a
        score.
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
    is_counted : bool
        Whether the file only counts this answer, without its annotator.
    is_general : bool
        Whether the statement is about all questions, if `concept` is None.
    id : str or None
        Id of the answer in the log from which the file was exported.
    origin : str
        The annotation of another program that makes the statement; see `storage.label_studio_reading`.
    user : str or None
        The other program's user who makes the statement, if `annotator` is not known yet.
    time : int or None
        Time of the statement, in milliseconds since 1970 UTC.
    time_taken_ms : int or None
        Time that the annotator took, in milliseconds.
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
    is_counted: bool = False
    is_general: bool = False
    id: str | None = None
    origin: str = ""
    user: str | None = None
    time: int | None = None
    time_taken_ms: int | None = None


def purpose_of(given: object) -> Purpose:
    """Return the purpose that an imported answer gets, by its purpose in the file."""
    return _KEPT.get(str(given), "import")


_KEPT: dict[str, Purpose] = {"audit": "audit", "decision": "decision"}


def storable(value: str, place: str) -> str:
    """Return a text that a database can store; `place` is where it is, for the message.

    Raises
    ------
    StorageError
        If it contains half of a surrogate pair; of kind `invalid`.
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise StorageError(f"{place}: {shown(value)} contains half a character", "invalid") from None
    return value


def whole(value: Any) -> int | None:
    """Return a whole number from 0 to `MAX_INT`, given as a number or as text; None for anything else."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value.strip()) < 20:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        return None
    return value


def number_of(value: object) -> float | None:
    """Return a finite number, given as a number or as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
