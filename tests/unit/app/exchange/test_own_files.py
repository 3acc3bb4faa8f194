"""One's own files again: what was exported and comes back changes nothing, in any format."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from closecall.app.exchange.importing import take_in
from closecall.core.errors import InputError
from closecall.core.evaluation.agreement import krippendorff_alpha
from closecall.storage import Concepts, Database, LabelLog, StorageError
from closecall.storage.exports import label_rows
from closecall.storage.in_force import answers_with
from tests.folders import fresh_folder
from tests.peers.trial import state_of
from tests.storage_kit import Annotator, count_rows, make_concept, sit_down
from tests.unit.app.exchange.test_exchange import FORMATS, empty_database, pool, written

WAYS = [*((form, False) for form in FORMATS), ("csv", True), ("jsonl", True), ("parquet", True)]


def answered() -> Database:
    """Two questions, three annotators who disagree, decisions, an audit, corrections and undone answers."""
    database = empty_database()
    for name in ("seven", "eight"):
        concept = make_concept(database, name)
        ada, bob, cleo = (sit_down(database, concept, annotator) for annotator in ("ada", "bob", "cleo"))
        for item in range(12):
            ada.says("yes" if item % 2 else "no", item)
            bob.says("yes" if item % 3 else "no", item)
        for item in range(4):
            cleo.says(("yes", "no", "unsure", "skip")[item], item)
        cleo.says("yes", 0, purpose="decision")
        cleo.undoes(cleo.says("yes", 1, purpose="decision"))
        ada.undoes(ada.says("yes", 12))
        first = bob.says("yes", 13)
        bob.says("no", 13, corrects=first.id)
        ada.says("yes", 14, purpose="audit")
        bob.says("no", 14, purpose="audit")
    return database


def everything(database: Database) -> tuple:
    """All that an import could change: votes, labels, rows and Krippendorff's α."""
    return (
        state_of(database),
        [tuple(row[:8]) for row in label_rows(database)],
        {name: n for name, n in count_rows(database).items() if name in ("answers", "sessions")},
        krippendorff_alpha([row[4:6] for row in label_rows(database)]),
    )


@pytest.mark.parametrize(("form", "log"), WAYS)
def test_what_was_exported_is_known(form, log):
    """Neither a vote nor a name more, and the same agreement; not even a session."""
    with answered() as database:
        before = everything(database)
        file = written(database, form, log=log)
        for _ in range(2):
            imported = take_in(database, pool(), file)
            assert (imported.new, imported.known, imported.contested) == (0, 0, 0)
            assert everything(database) == before


@pytest.mark.parametrize(("form", "log"), WAYS)
def test_an_old_file_does_not_come_back(form, log):
    """What its annotators have changed or taken back since stays so."""
    with answered() as database:
        file = written(database, form, log=log)
        ada = sit_down(database, Concepts(database).named("seven"), "ada")
        ada.says("yes", 0)
        own = [its for its in LabelLog(database).answers_after(1) if its.annotator == "bob" and its.item == 2]
        bob = Annotator(LabelLog(database), LabelLog(database).session(own[0].session_id))
        bob.undoes(own[0])
        before = everything(database)
        assert take_in(database, pool(), file).new == 0
        assert everything(database) == before


@pytest.mark.parametrize(("form", "log"), WAYS)
def test_an_answer_is_known_wherever_it_comes_back(form, log):
    """A second project keeps the ids and times; the first one knows them again, and its own changes stay."""
    with answered() as first, empty_database() as second:
        for concept in Concepts(first).all():
            Concepts(second).create(concept.name, concept.question)
        take_in(second, pool(), written(first, form, log=log))
        assert state_of(second) == state_of(first)
        ids = {its.id for n in (1, 2) for its in LabelLog(second).answers_after(n)}
        theirs = {its.id: its for its in answers_with(first, ids)}
        assert set(theirs) == ids
        for its in answers_with(second, ids):
            assert (its.browser_time, its.time_taken_ms) == (
                theirs[its.id].browser_time,
                theirs[its.id].time_taken_ms,
            )
        sit_down(first, Concepts(first).named("seven"), "ada").says("unsure", 1)
        before = everything(first)
        assert take_in(first, pool(), written(second, form, log=log)).new == 0
        assert everything(first) == before


def test_tables_of_earlier_versions_are_known_again():
    """They only count votes: each may be anybody's, and what is more than there is belongs to nobody."""
    with answered() as database:
        before = everything(database)
        file = without_answers(written(database, "csv"))
        assert take_in(database, pool(), file).new == 0
        assert everything(database) == before
    with empty_database() as database:
        for name in ("seven", "eight"):
            make_concept(database, name)
        sit_down(database, Concepts(database).named("seven"), "dora").says("no", 0)
        take_in(database, pool(), file)
        votes, decision = state_of(database)["seven", 0]
        assert sorted(votes.values()) == ["no", "no", "yes"]
        assert (votes["dora"], decision) == ("no", "yes")


def without_answers(file: Path) -> Path:
    """The file as an earlier version has written it."""
    with file.open(newline="", encoding="utf-8") as stream:
        lines = list(csv.DictReader(stream))
    older = fresh_folder() / "labels.csv"
    with older.open("w", newline="", encoding="utf-8") as stream:
        names = [name for name in lines[0] if name not in ("answers", "last_answered_at")]
        table = csv.DictWriter(stream, names, extrasaction="ignore")
        table.writeheader()
        table.writerows(lines)
    return older


@pytest.mark.parametrize("column", ["status", "label"])
def test_a_changed_label_beside_unchanged_answers_is_refused(column):
    """After an edit in a spreadsheet, a message says where the answers are, and nothing is stored."""
    with answered() as database:
        file = written(database, "csv")
        with file.open(newline="", encoding="utf-8") as stream:
            lines = list(csv.DictReader(stream))
        lines[3][column] = "no" if lines[3][column] == "yes" else "yes"
        with file.open("w", newline="", encoding="utf-8") as stream:
            table = csv.DictWriter(stream, list(lines[0]))
            table.writeheader()
            table.writerows(lines)
        before = everything(database)
        with pytest.raises(StorageError, match=rf"line 5: {column} is .* but the column answers gives"):
            take_in(database, pool(), file)
        assert everything(database) == before


def test_an_answer_that_was_edited_in_the_file_is_its_annotator_s_new_one():
    """The id is the old one's, so the new one gets another."""
    with answered() as database:
        file = written(database, "jsonl")
        lines = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        (line,) = (its for its in lines if its["concept"] == "seven" and its["item"] == 5)
        line["answers"][0]["answer"] = "no"
        line |= {"status": "tied", "label": None}
        file.write_text("\n".join(map(json.dumps, lines)))
        assert take_in(database, pool(), file).new == 1
        assert state_of(database)["seven", 5] == ({"ada": "no", "bob": "yes"}, None)
        assert take_in(database, pool(), file).new == 0


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ("[", ["line 2", "answers must be a list in JSON"]),
        ("7", ["line 2", "answers must be a list of objects"]),
        ('[{"answer": "maybe"}]', ["line 2", "yes, no, unsure, skip"]),
        ('[{"answer": "yes", "annotator": 7}]', ["line 2", "annotator must be text"]),
        ('[{"answer": "yes", "time": "yesterday"}]', ["line 2", "time must be a time in ISO 8601"]),
    ],
)
def test_malformed_answers_get_a_sentence(tmp_path, answers, words):
    """Which names the line."""
    file = tmp_path / "labels.csv"
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([["item", "status", "answers"], ["1", "yes", answers]])
    with empty_database() as database:
        make_concept(database)
        with pytest.raises((InputError, StorageError)) as caught:
            take_in(database, pool(), file)
    assert all(word in str(caught.value) for word in words), caught.value


def test_a_file_s_ids_are_used_once():
    """A file that gives two answers one id, or ids that no answer can have, gets other ids."""
    line = {"status": "yes", "label": "yes"}
    lines = [
        line | {"item": item, "answers": [{"answer": "yes", "annotator": "ada", "id": name}]}
        for item, name in enumerate(["the same id", "the-same-id", "the-same-id", "\0" * 9, "short"])
    ]
    file = fresh_folder() / "labels.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    with empty_database() as database:
        make_concept(database)
        assert take_in(database, pool(), file).new == 5
        ids = [its.id for its in LabelLog(database).answers_after(1)]
        assert ids.count("the-same-id") == 1
        assert take_in(database, pool(), file).new == 0
