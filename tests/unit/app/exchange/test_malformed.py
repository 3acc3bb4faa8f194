"""Import files that are broken: one sentence that names the file and the place, and nothing stored."""

from __future__ import annotations

import contextlib
import io
import json
from functools import partial
from typing import get_args

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from closecall.app.exchange.importing import take_in
from closecall.core.errors import InputError
from closecall.storage import Concepts, StorageError
from closecall.storage.exports import label_rows
from closecall.storage.imports import ImportFormat, digest_of, format_of, read_labels, read_predictions
from closecall.storage.tabular import MAX_LINE
from tests.scale import examples
from tests.storage_kit import count_rows, make_concept
from tests.unit.app.exchange.test_exchange import empty_database, pool

FORMATS = get_args(ImportFormat)


@pytest.fixture
def database():
    with empty_database() as opened:
        make_concept(opened)
        yield opened


def refused(database, tmp_path, content: str | bytes, name: str = "given.csv") -> str:
    """Import a file that must be refused; the sentence."""
    file = tmp_path / name
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    before = count_rows(database)
    with pytest.raises((InputError, StorageError)) as caught:
        take_in(database, pool(), file)
    sentence = str(caught.value)
    assert count_rows(database) == before
    assert name in sentence
    assert "\n" not in sentence
    assert len(sentence) < 500 + len(str(file))
    return sentence


GOOD = "item,label\n1,yes\n2,no\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["empty"]),
        ("\n\n", ["empty"]),
        ("item,label\n", ["no labels"]),
        ("item,label\n1,\n2,\n", ["no labels"]),
        ("item,label,Item\n1,yes,2\n", ["'item' twice"]),
        ("item,verdict\n1,yes\n", ["line 2", "label", "verdict", "--predictions"]),
        ("thing,label\n1,yes\n", ["line 2", "item", "name", "thing"]),
        ("item,name,label\n,,yes\n", ["line 2", "neither"]),
        (GOOD + "3\n", ["line 4", "1 cells", "2"]),
        (GOOD + "3,yes,no\n", ["line 4", "3 cells", "2"]),
        (GOOD + '3,"ye', ["line 4", "not CSV"]),
        (GOOD + "3,maybe\n", ["line 4", "yes, no, unsure, skip", "'maybe'"]),
        (GOOD + "three,yes\n", ["line 4", "whole number", "'three'"]),
        (GOOD + "-3,yes\n", ["line 4", "whole number", "'-3'"]),
        (GOOD + "3.5,yes\n", ["line 4", "whole number"]),
        (GOOD + "9" * 30 + ",yes\n", ["line 4", "whole number"]),
        (GOOD + "9" * 5000 + ",yes\n", ["line 4", "whole number"]),
        (GOOD + "1e400,yes\n", ["line 4", "whole number"]),
        (GOOD + "1,no\n", ["line 4", "line 2", "item 1", "no", "yes"]),
        (GOOD + "1,no\n3,maybe\n", ["line 4: item 1 is labeled no here but yes in line 2"]),
        (GOOD + "1,no\n2,yes\n3", ["line 4: item 1 is labeled no here but yes in line 2"]),
        (GOOD + "1,yes\n3,maybe\n3,no\n", ["line 5", "'maybe'"]),
        ("item,label,concept\n1,yes,zebra\n", ["no concept 'zebra'", "line 2", "'seven'"]),
        ("item,label,annotator\n1,yes," + "a" * 300 + "\n", ["line 2", "annotator", "200"]),
        ("item,status,yes,no,unsure,skip\n1,yes,many,0,0,0\n", ["line 2", "yes must be", "'many'"]),
        ("item,status,yes,no,unsure,skip\n1,yes,999999999,0,0,0\n", ["line 2", "1,000"]),
        ("item,label\n999,yes\n", ["none of this project's items", "line 2", "999"]),
        ("item,label\n1," + "y" * 200_000, ["line 2", "not CSV"]),
        ("item,label\n1,y\0es\n", ["line 2", "y\\x00es"]),
        ("item,label," + "x" * 200_000 + "\n1,yes,2\n", ["not CSV"]),
        ("," * 100_000 + "\n1,yes\n", ["heading is needed"]),
    ],
)
def test_tables(database, tmp_path, text, words):
    """Each mistake has its sentence; nothing of the file is stored, not even its good lines."""
    sentence = refused(database, tmp_path, text)
    assert all(word in sentence for word in words), sentence


@pytest.mark.parametrize(
    "raw", [b"\x89PNG\r\n\x1a\n\0\0\xff", b"\xff\xfe\0\xd8", b"item,label\n1,\xe9\n", b"\0" * 99]
)
@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.json", "x.parquet"])
def test_other_kinds_of_files(database, tmp_path, raw, name):
    """Pictures, half a character, Latin-1 and zeros."""
    refused(database, tmp_path, raw, name)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"item": 1, "label": "yes"}\n{"item": 2, "la', ["line 2", "not JSON"]),
        ('{"item": 1, "label": "yes"}\n[2, "no"]\n', ["line 2", "object"]),
        ('{"item": 1, "label": ["yes"]}', ["line 1", "label must be text", "['yes']"]),
        ('{"item": {"id": 1}, "label": "yes"}', ["line 1", "item must be a whole number"]),
        ('{"item": true, "label": "yes"}', ["line 1", "item must be a whole number"]),
        ('{"item": 1e400, "label": "yes"}', ["line 1", "item must be a whole number"]),
        ('{"item": ' + "1" * 5000 + ', "label": "yes"}', ["line 1"]),
        ('{"name": 7, "label": "yes"}', ["line 1", "name must be text"]),
        ('{"name": "\\ud800", "label": "yes"}', ["line 1", "half a character"]),
        ("[" * 100_000, ["line 1", "not JSON", "nested"]),
        (" " * MAX_LINE + '{"item": 1}', ["line 1", "longer"]),
    ],
)
def test_json_lines(database, tmp_path, text, words):
    """Truncated, nested, of other types, or endless."""
    sentence = refused(database, tmp_path, text, "given.jsonl")
    assert all(word in sentence for word in words), sentence


TASK = {"data": {"item": 1}, "annotations": [{"result": [{"value": {"choices": ["yes"]}}]}]}


@pytest.mark.parametrize(
    ("given_tasks", "words"),
    [
        ("{}", ["list of tasks"]),
        ("[", ["incomplete JSON"]),
        ("[]", ["no labels"]),
        ("[[]]", ["task 1", "data"]),
        (json.dumps([TASK])[:-5], ["incomplete JSON"]),
        (json.dumps([TASK, TASK])[:-5], ["incomplete JSON", "after task 1"]),
        (json.dumps([TASK]) + "[]", ["more after the end"]),
        (json.dumps([TASK]).replace("}]}]}]", "}]}]} 7]"), ["comma"]),
        ("[" * 100_000, ["nested"]),
        ([{"data": 7}], ["task 1", "data"]),
        ([TASK, {**TASK, "annotations": 7}], ["task 2", "annotations must be a list"]),
        ([TASK, {**TASK, "annotations": [{"result": "yes"}]}], ["task 2", "result must be a list"]),
        (
            [TASK, {**TASK, "annotations": [{"result": [{"value": {"choices": "yes"}}]}]}],
            ["task 2", "choices"],
        ),
        ([{**TASK, "data": {"item": "1"}}], ["task 1", "item must be a whole number"]),
        ([{**TASK, "data": {"video": "a.mp4"}}], ["task 1", "name no item"]),
        ([{"data": {"item": 1}, "annotations": [{"result": [{"type": "rectanglelabels"}]}]}], ["no labels"]),
        ([TASK, json.loads(json.dumps(TASK).replace("yes", "no"))], ["task 2", "task 1"]),
    ],
)
def test_label_studio(database, tmp_path, given_tasks, words):
    """Truncated, no list, no tasks, or tasks of another kind."""
    text = given_tasks if isinstance(given_tasks, str) else json.dumps(given_tasks)
    sentence = refused(database, tmp_path, text, "given.json")
    assert all(word in sentence for word in words), sentence


def test_a_cancelled_annotation_is_a_skip(database, tmp_path):
    """Label Studio keeps what was chosen before; it does not count."""
    cancelled = {**TASK, "data": {"item": 2}}
    cancelled["annotations"] = [{"was_cancelled": True, "result": [{"value": {"choices": ["no"]}}]}]
    file = tmp_path / "given.json"
    file.write_text(json.dumps([TASK, cancelled]))
    assert take_in(database, pool(), file).new == 2
    assert [(row[1], row[3]) for row in label_rows(database)] == [(1, "yes"), (2, "skip")]


def test_parquet(database, tmp_path):
    """A truncated file, and columns of other types."""
    whole = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"item": [1, 2], "label": ["yes", "no"]}), whole)
    assert "Parquet" in refused(database, tmp_path, whole.getvalue()[:-9], "given.parquet")
    for column, word in (
        (pyarrow.array([[1], [2]]), "whole number"),
        (pyarrow.array([0.5, 1]), "whole number"),
    ):
        other = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.table({"item": column, "label": ["yes", "no"]}), other)
        sentence = refused(database, tmp_path, other.getvalue(), "given.parquet")
        assert word in sentence
        assert "row 1" in sentence


def test_files_that_are_not_there(tmp_path):
    """No file, a folder, and a name that tells no format."""
    with pytest.raises(StorageError, match="There is no file"):
        digest_of(tmp_path / "nowhere.csv")
    with pytest.raises(StorageError, match="is not a file"):
        digest_of(tmp_path)
    with pytest.raises(StorageError, match="--format"):
        format_of(tmp_path / "labels.xlsx")


@pytest.mark.parametrize("read", [digest_of, *(partial(read_labels, format=form) for form in FORMATS)])
def test_a_file_that_cannot_be_read_gets_one_sentence(tmp_path, read):
    """Whatever the file system says, in every format."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, kind, words in (
        (tmp_path / "nowhere", "missing", f"There is no file {tmp_path / 'nowhere'}"),
        (tmp_path, "invalid", f"{tmp_path} is "),
        (loop, "other", f"{loop} cannot be read: Too many levels of symbolic links"),
        (tmp_path / ("x" * 300), "other", "cannot be read: File name too long"),
    ):
        with pytest.raises(StorageError) as caught:
            list(read(path))
        assert caught.value.kind == kind
        assert words in str(caught.value)


def test_several_concepts_need_a_name(database, tmp_path):
    """Where yes could be about two concepts, nobody guesses."""
    Concepts(database).create("eight", "Is it an 8?")
    sentence = refused(database, tmp_path, GOOD)
    assert "line 2" in sentence
    assert "--concept" in sentence
    assert "eight" in sentence


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item\n1\n", ["line 2", "score", "predicted"]),
        ("item,score\n1,nan\n", ["line 2", "finite"]),
        ("item,score\n1,1e999\n", ["line 2", "finite"]),
        ("item,score\n1,high\n", ["line 2", "finite", "'high'"]),
        ('item,score\n1,"0,93"\n', ["line 2", "finite", "'0,93'"]),
        ("item;score\n1;1.234,5\n", ["line 2", "finite", "'1.234,5'"]),
        ("item;score\n1;1,234,5\n", ["line 2", "finite", "'1,234,5'"]),
    ],
)
def test_predictions(tmp_path, text, words):
    """Scores are finite numbers."""
    file = tmp_path / "given.csv"
    file.write_text(text)
    with pytest.raises(StorageError) as caught:
        list(read_predictions(file, "csv"))
    assert all(word in str(caught.value) for word in words)


def test_between_semicolons_a_score_may_have_a_decimal_comma(tmp_path):
    """As spreadsheets write it in many languages."""
    file = tmp_path / "given.csv"
    file.write_text("item;score\n1;0,93\n2;-1,5e-3\n3;0.25\n4;\n5;7\n")
    assert [its.score for its in read_predictions(file, "csv")] == [0.93, -0.0015, 0.25, 7]


@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), suffix=st.sampled_from([".csv", ".jsonl", ".json", ".parquet"]))
def test_damage_is_told_or_harmless(database, tmp_path, seed, suffix):
    """Bytes changed, cut or doubled anywhere: a sentence, or labels; never anything else."""
    rng = np.random.default_rng(seed)
    rows = [{"item": item, "name": None, "label": "yes"} for item in range(8)]
    whole = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), whole)
    raw = bytearray(
        {
            ".csv": b"item,name,label\r\n" + b"".join(b'%d,"",yes\r\n' % item for item in range(8)),
            ".jsonl": "\n".join(map(json.dumps, rows)).encode(),
            ".json": json.dumps([{**TASK, "data": {"item": item}} for item in range(8)]).encode(),
            ".parquet": whole.getvalue(),
        }[suffix]
    )
    for _ in range(rng.integers(1, 6)):
        place = int(rng.integers(len(raw) or 1))
        match rng.integers(4):
            case 0:
                raw[place : place + 1] = rng.bytes(1)
            case 1:
                del raw[place : place + int(rng.integers(1, 20))]
            case 2:
                raw[place:place] = raw[place : place + 30]
            case 3:
                raw[place:place] = rng.choice([b'"', b"\n", b"{", b"[", b"\0", b"9" * 400, b"\xff", b"null"])
    file = tmp_path / f"damaged{suffix}"
    file.write_bytes(raw)
    before = count_rows(database)["answers"]
    with contextlib.suppress(InputError, StorageError):
        imported = take_in(database, pool(), file)
        before += imported.new
    assert count_rows(database)["answers"] == before


def test_another_program_s_control_is_no_concept(database, tmp_path):
    """What Label Studio's user called the question does not matter where there is but one; ours does."""
    file = tmp_path / "given.json"
    file.write_text(json.dumps([TASK]).replace('{"value"', '{"from_name": "animal", "value"'))
    assert take_in(database, pool(), file).new == 1
    ours = json.dumps([TASK]).replace('{"value"', '{"from_name": "concept:zebra", "value"')
    assert "'zebra'" in refused(database, tmp_path, ours, "given.json")
