"""Claims: statements about items in imported files. Words such as class names are not interpreted here."""

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
"""`Claim.word` of a claim that withdraws earlier answers; see `label_studio_reading.read_annotations`."""

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
        The annotator; None if the file does not name an annotator.
    number : int
        Number that distinguishes several unnamed annotators, from 1.
    purpose : {"import", "audit", "decision"}
        As in the log. Answers for an audit are not used for training, and an adjudication ("decision") takes
        precedence over votes.
    score : float or None
        The score of a prediction.
    replaces : bool
        Whether the statement supersedes the annotator's earlier statement about the item in the file, as in a
        log.
    is_certain : bool
        Whether `concept` must be a concept of the project. It is false for names that another program chose.
    is_counted : bool
        Whether the file counts answers without naming annotators, and this claim is one of the counted
        answers.
    is_general : bool
        If `concept` is None: whether the statement is about all concepts.
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
    """Return the purpose of an imported answer, given its purpose in the file."""
    return _KEPT.get(str(given), "import")


_KEPT: dict[str, Purpose] = {"audit": "audit", "decision": "decision"}


def storable(value: str, place: str) -> str:
    """Return the text if a database can store it. `place` locates the text in the error message.

    Raises
    ------
    StorageError
        If the text contains half of a surrogate pair (kind `invalid`).
    """
    try:
        value.encode()
    except UnicodeEncodeError:
        raise StorageError(f"{place}: {shown(value)} contains half a character", "invalid") from None
    return value


def whole(value: Any) -> int | None:
    """Convert a number or a text to a whole number from 0 to `MAX_INT`. Return None if that is impossible."""
    if isinstance(value, str) and (digits := value.strip()).isdecimal() and len(digits) < 20:
        value = int(digits)  # int would refuse some of the space around them, such as U+001E
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INT:
        return None
    return value


def number_of(value: object) -> float | None:
    """Convert a number or a text to a finite number. Return None if that is impossible."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
