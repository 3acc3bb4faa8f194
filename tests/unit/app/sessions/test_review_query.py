from __future__ import annotations

from datetime import UTC, datetime
from itertools import count
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from closecall.app.sessions.review_query import find, zone_named
from closecall.storage import AnswerRecord
from closecall.storage.review import AnswerTable

VIENNA = ZoneInfo("Europe/Vienna")
NAMES = {7: "Birds/Snow owl.png", 12: "cats/tom.png", 480_623: "digit 480623"}


def at(day: str, hour: int = 12, zone=UTC) -> int:
    return round(1000 * datetime.fromisoformat(f"{day}T{hour:02}:00").replace(tzinfo=zone).timestamp())


def table(*given: tuple[int, str, str, int]):
    """Answers by item, annotator, answer and time."""
    seq = count(1)
    records = [
        AnswerRecord(
            id=f"answer-{n}",
            concept_id=1,
            session_id="session-1",
            annotator=who,
            item=item,
            answer=word,
            browser_time=time,
            seq=n,
        )
        for (item, who, word, time), n in zip(given, seq, strict=False)
    ]
    return AnswerTable(1).fold(records).answers()


ANSWERS = table(
    (7, "Ada", "yes", at("2026-11-20")),
    (12, "ada lovelace", "no", at("2026-11-21")),
    (480_623, "lin", "no", at("2026-12-01")),
    (12, "lin", "skip", at("2026-11-21", 23)),
)


def found(line: str, zone=UTC) -> list[int]:
    """The rows that a line finds."""
    rows = np.arange(len(ANSWERS))
    return np.flatnonzero(find(line, ANSWERS, rows, NAMES.__getitem__, zone)).tolist()


@pytest.mark.parametrize(
    ("line", "rows"),
    [
        ("12", [1, 3]),  # an id; not a part of 480623
        ("480623", [2]),
        ("0012", [1, 3]),
        ("owl", [0]),  # a part of a name
        ("BIRDS/snow", [0]),
        ("ada", [0, 1]),  # an annotator, in full or in part
        ("lovelace", [1]),
        ("no", [1, 2]),  # an answer, although it is a part of "snow"
        ("skip", [3]),
        ("2026-11-21", [1, 3]),  # a day
        ("2026-11", [0, 1, 3]),  # a month
        ("2026-12", [2]),
        ("lin no", [2]),  # every word must be true of one and the same answer
        ("12 lin", [3]),
        ("", [0, 1, 2, 3]),
        ("nobody", []),
        ("2026-13", []),
        ("2026-02-31", []),
        ("9" * 40, []),
    ],
)
def test_every_word_of_a_line_must_be_true(line, rows):
    """Of ids, names, annotators, answers and dates."""
    assert found(line) == rows


def test_a_day_is_the_readers_day():
    """23 h of November 21 in London is November 22 in Vienna."""
    assert found("2026-11-22") == []
    assert found("2026-11-22", VIENNA) == [3]
    assert found("2026-11-21 lin", VIENNA) == []


def test_the_last_day_on_which_clocks_are_set_ends_an_hour_later():
    """October 25, 2026 has 25 hours in Vienna."""
    last = at("2026-10-25", 23, VIENNA)
    answers = table((1, "ada", "yes", last), (2, "ada", "yes", last + 3_600_000))
    rows = np.arange(2)
    assert find("2026-10-25", answers, rows, str, VIENNA).tolist() == [True, False]


def test_today_and_yesterday_are_days():
    """As seen from now."""
    now = round(1000 * datetime.now(UTC).timestamp())
    answers = table((1, "ada", "yes", now), (2, "ada", "yes", now - 86_400_000))
    assert find("today", answers, np.arange(2), str, UTC).tolist() == [True, False]
    assert find("yesterday", answers, np.arange(2), str, UTC).tolist() == [False, True]


@pytest.mark.parametrize("name", [None, "", "Nowhere/City", "../etc/passwd", "Europe"])
def test_an_unknown_time_zone_is_utc(name):
    """Browsers may say anything."""
    assert zone_named(name) is UTC
    assert zone_named("Europe/Vienna") == VIENNA
