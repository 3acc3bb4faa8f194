"""Find answers by words: an item's id, a part of an item's or annotator's name, a date, or the answer."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
from numpy.typing import NDArray

from closecall.storage.records import ANSWERS
from closecall.storage.review import CODES, Answers

_DAY = re.compile(r"(\d{4})-(\d{2})(?:-(\d{2}))?")

Mask = NDArray[np.bool_]


def find(
    line: str, answers: Answers, rows: NDArray[np.int64], name_of: Callable[[int], str], zone: tzinfo
) -> Mask:
    """Return a mask of shape (n_rows,) of the rows that match every word of the line.

    The words yes, no, unsure and skip match these answers. Any other word matches if it is the item's id, is
    part of the item's or the annotator's name, or is the day or month of the answer. Examples of days and
    months are 2026-11-21, 2026-11, today and yesterday. Case is ignored.

    Parameters
    ----------
    line : str
        The text of the search field.
    answers : Answers
        The answers to search.
    rows : array of shape (n_rows,), int64
        Rows of `answers` to consider.
    name_of : callable
        Returns the name of an item.
    zone : tzinfo
        Time zone in which days and months begin.
    """
    found = np.ones(len(rows), dtype=np.bool_)
    for word in line.casefold().split():
        left = np.flatnonzero(found)
        found[left] = _is_true(word, answers, rows[left], name_of, zone)
    return found


def zone_named(name: str | None) -> tzinfo:
    """Return the time zone with this name, such as "Europe/Vienna"; UTC if the name is None or unknown."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _is_true(
    word: str, answers: Answers, rows: NDArray[np.int64], name_of: Callable[[int], str], zone: tzinfo
) -> Mask:
    if word in ANSWERS:
        return np.asarray(answers.word[rows] == CODES[word])
    items, place = np.unique(answers.item[rows], return_inverse=True)
    true = np.fromiter((word in name_of(int(item)).casefold() for item in items), np.bool_, len(items))[place]
    named = [number for number, name in enumerate(answers.annotators) if word in name.casefold()]
    true |= np.isin(answers.annotator[rows], named)
    if word.isdecimal() and len(word) < 19:
        true |= answers.item[rows] == int(word)
    if (span := _span(word, zone)) is not None:
        true |= (answers.time[rows] >= span[0]) & (answers.time[rows] < span[1])
    return np.asarray(true)


def _span(word: str, zone: tzinfo) -> tuple[int, int] | None:
    """Return the start and end of a day or month, in milliseconds since 1970 UTC; None for other words."""
    today = datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    if word in ("today", "yesterday"):
        first = today - timedelta(days=word == "yesterday")
        return _ms(first), _ms(first + timedelta(days=1))
    date = _DAY.fullmatch(word)
    if date is None:
        return None
    year, month, day = (int(part) if part else None for part in date.groups())
    try:
        first = datetime(year or 0, month or 0, day or 1, tzinfo=zone)
        after = first + timedelta(days=1) if day else (first + timedelta(days=31)).replace(day=1)
    except (ValueError, OverflowError):
        return None
    return _ms(first), _ms(after)


def _ms(moment: datetime) -> int:
    return round(1000 * moment.timestamp())
