"""Exports: what is written is what was answered, and harmless to open."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closecall.storage import Database, LabelLog, StorageError, export
from closecall.storage.tabular import guarded, iso, unguarded
from tests.storage_kit import Annotator, count_rows, make_concept, sit_down

HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "＝1", "'=1", "'", 'a,"b"\nc', "Möwe 🐦", "plain"]


@pytest.fixture
def database(where: Path | str) -> Iterator[Database]:
    """A database in which three people disagree about a few items."""
    with Database.open(where, create=True) as opened:
        yield opened


@pytest.fixture
def ada(database: Database) -> Annotator:
    """Ada, after she, Bob and Cleo have answered."""
    concept = make_concept(database)
    ada, bob, cleo = (sit_down(database, concept, name) for name in ("Ada", "=Bob()", "Cleo"))
    ada.says("yes", 1, selection_id=ada.is_shown(1, leased=(4, 9), parameters={"k": 300}).id)
    bob.says("yes", 1)
    cleo.says("no", 1)
    ada.says("yes", 2)
    bob.says("no", 2)
    ada.undoes(ada.says("no", 3))
    ada.says("unsure", 4)
    ada.says("yes", 5, purpose="audit")
    return ada


def exported(database: Database, **options: Any) -> list[dict[str, Any]]:
    """The lines of an export, parsed again by an ordinary reader."""
    out = io.StringIO(newline="")
    number = export(database, out, **options)
    out.seek(0)
    if options.get("format", "csv") == "jsonl":
        lines = [json.loads(line) for line in out]
    else:
        lines = list(csv.DictReader(out))
    assert len(lines) == number
    return lines


@pytest.mark.parametrize("format_", ["csv", "jsonl"])
def test_labels_are_what_the_annotators_say_together(
    database: Database, ada: Annotator, format_: str
) -> None:
    """One line an item: label where it trains, status in any case, votes, and nothing of what was undone."""
    lines = exported(database, format=format_)
    found = [(int(line["item"]), line["label"] or None, line["status"]) for line in lines]
    assert found == [(1, "yes", "yes"), (2, None, "tied"), (4, None, "unsure"), (5, None, "yes")]
    assert [int(lines[0][word]) for word in ("yes", "no", "unsure", "skip")] == [2, 1, 0, 0]


def test_exported_labels_are_the_ones_that_train(database: Database, ada: Annotator) -> None:
    """The file, read back, gives the SVM the same labels as the log does."""
    for item in range(10, 60):
        ada.says(("yes", "no", "skip")[item % 3], item)
    read = {
        int(line["item"]): line["label"] == "yes"
        for line in exported(database, format="csv")
        if line["label"]
    }
    labels = ada.log.labels(ada.session.concept_id)
    assert read == dict(zip(labels.items.tolist(), labels.yes.tolist(), strict=True))


def test_the_whole_log_round_trips(database: Database, ada: Annotator) -> None:
    """From the exported log, parsed again, every answer and its selection can be told as they were."""
    stored = list(ada.log.log_rows())
    for format_ in ("csv", "jsonl"):
        lines = exported(database, format=format_, log=True)
        assert [int(line["seq"]) for line in lines] == [row.answer.seq for row in stored]
        for line, row in zip(lines, stored, strict=True):
            text = unguarded if format_ == "csv" else str
            assert text(line["annotator"]) == row.answer.annotator
            assert (line["id"], line["answer"], line["purpose"]) == (
                row.answer.id,
                row.answer.answer,
                row.answer.purpose,
            )
            assert (line["undoes"] or None, line["undone_by"] or None) == (row.answer.undoes, row.undone_by)
            assert line["browser_time"] == iso(row.answer.browser_time)
        leased = lines[0]["leased"]
        assert (json.loads(leased) if format_ == "csv" else leased) == [4, 9]
        assert lines[1]["strategy"] in ("", None)


def test_only_one_concept_if_asked(database: Database, ada: Annotator) -> None:
    """Another concept's labels stay out."""
    other = make_concept(database, "eight")
    sit_down(database, other).says("no", 1)
    assert {line["concept"] for line in exported(database)} == {"seven", "eight"}
    assert [line["concept"] for line in exported(database, concept_id=other.id)] == ["eight"]
    assert [line["concept"] for line in exported(database, concept_id=other.id, log=True)] == ["eight"]


def test_an_empty_project_exports_nothing(database: Database) -> None:
    """No lines, no error."""
    assert exported(database) == exported(database, log=True, format="jsonl") == []


@pytest.mark.parametrize("name", HOSTILE)
def test_no_cell_is_a_formula(database: Database, ada: Annotator, name: str) -> None:
    """What a spreadsheet would run begins with an apostrophe in CSV, and comes back; JSON keeps it."""
    (line, *_) = exported(database, names_of=lambda items: [name] * len(items))
    assert not line["name"].startswith(("=", "+", "-", "@", "\t", "\r", "＝"))
    assert unguarded(line["name"]) == name
    (line, *_) = exported(database, format="jsonl", names_of=lambda items: [name] * len(items))
    assert line["name"] == name


def test_annotators_cannot_write_formulas_either(database: Database, ada: Annotator) -> None:
    """A name typed at sign-in is text in the owner's spreadsheet."""
    assert "'=Bob()" in {line["annotator"] for line in exported(database, log=True)}


@pytest.mark.thorough
@given(st.text())
def test_guarding_can_be_taken_off(text: str) -> None:
    """Every text survives there and back."""
    assert unguarded(guarded(text)) == text


def test_times_are_iso_8601() -> None:
    """UTC, to the millisecond, before 1970 too; an impossible one does not stop the export."""
    assert iso(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert iso(-1) == "1969-12-31T23:59:59.999Z"
    assert iso(2**62) == str(2**62)


def test_unknown_formats_are_refused(database: Database) -> None:
    """With the list of those that exist."""
    with pytest.raises(StorageError, match="csv, jsonl, parquet, label-studio, got 'xls'"):
        export(database, io.StringIO(), format="xls")  # type: ignore[arg-type]


def test_labeling_goes_on_during_an_export(database: Database, ada: Annotator) -> None:
    """A log export that is under way holds no lock, and ends where it began."""
    ada.send(*(ada.record("no", item) for item in range(100, 2_400)))
    rows = LabelLog(database).log_rows()
    first = next(rows)
    through = count_rows(database)["answers"]
    ada.says("yes", 9)
    assert [first.answer.seq, *(row.answer.seq for row in rows)] == list(range(1, through + 1))
