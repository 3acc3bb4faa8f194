"""In and out: what is exported can be imported, and gives the same labels."""

from __future__ import annotations

import csv
import io
import json
import shutil
import tarfile
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from closecall.app.exchange.class_folders import export_folder
from closecall.app.exchange.importing import take_in
from closecall.app.exchange.item_matching import Items
from closecall.app.exchange.label_studio_tasks import concepts_of
from closecall.app.exchange.offline_project import concept_named, names_of
from closecall.app.exchange.reading import Manner
from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import Archive, Concepts, Database, LabelLog, StorageError, export
from closecall.storage.claims import Claim
from closecall.storage.exports import label_rows
from closecall.storage.imports import read_labels
from closecall.storage.label_studio import Content, labeling_config
from tests.folders import fresh_folder
from tests.scale import examples
from tests.storage_kit import count_rows, make_concept, sit_down

AWKWARD = [
    "=1+1.png",
    "+1.png",
    "-1.png",
    "@SUM(A1).png",
    "'quoted'.png",
    "''=.png",
    '"double", and comma.png',
    "semi;colon|bar.png",
    "line\nend.png",
    "carriage\rreturn\r\n.png",
    "tab\t.png",
    "＝wide.png",
    "Möwe 🐦.png",
    "Mo\u0308we.png",
    " blanks .png",
    "100%?d=x&y#z.png",
    "sub/7.png",
    "sub/deep/7.png",
    "null.png",
    "0.png",
]
FORMATS = {"csv": ".csv", "jsonl": ".jsonl", "parquet": ".parquet", "label-studio": ".json"}
ANSWERS = ("yes", "no", "unsure", "skip")


@cache
def pool() -> Pool:
    """A finished pool of images whose names are hard to write down; do not change it."""
    folder = fresh_folder()
    for number, name in enumerate(AWKWARD):
        (folder / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 255, (8, 8), dtype=np.uint8)
        Image.fromarray(noise).save(folder / "images" / name)
    build(source_from(str(folder / "images"), use_classes=False), folder / "pool")
    return Pool.open(folder / "pool")


@cache
def _empty() -> Path:
    path = fresh_folder() / "labels.db"
    Database.open(path, create=True).close()
    return path


def empty_database() -> Database:
    """A new database without concepts."""
    return Database.open(shutil.copy(_empty(), fresh_folder() / "labels.db"))


def written(database: Database, form: str, **options) -> Path:
    """The labels of a database in a new file."""
    file = fresh_folder() / f"labels{FORMATS[form]}"
    with file.open("wb") if form == "parquet" else file.open("w", encoding="utf-8", newline="") as out:
        export(
            database,
            out,
            format=form,  # type: ignore[arg-type]
            names_of=lambda items: names_of(pool(), items),
            content=Content(lambda items: [{"image": name} for name in names_of(pool(), items)]),
            **options,
        )
    return file


def labels_of(database: Database) -> list[tuple]:
    """Concept, item, label, status and votes of every label."""
    return [tuple(row[:8]) for row in label_rows(database)]


def votes_of(database: Database) -> dict:
    """Who says what of which item, and what was decided."""
    log = LabelLog(database)
    states = {concept.name: log.state(concept.id) for concept in Concepts(database).all()}
    return {
        (name, item): (dict(state.votes(item)), state.decision(item))
        for name, state in states.items()
        for item in state.answered_items().tolist()
    }


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12).filter(str.strip)
sayings = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, len(AWKWARD) - 1),
        st.sampled_from(ANSWERS),
        st.sampled_from(["train", "train", "train", "audit", "decision"]),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@pytest.mark.parametrize("form", FORMATS)
@settings(max_examples=examples(20))
@given(
    concepts=st.lists(texts, min_size=2, max_size=2, unique_by=str.strip),
    annotators=st.lists(texts, min_size=3, max_size=3, unique_by=str.strip),
    said=sayings,
    log=st.booleans(),
)
def test_export_and_import_give_the_same_labels(form, concepts, annotators, said, log):
    """For every format, whatever concepts, annotators and items are called, and whatever was taken back."""
    log = log and form != "label-studio"
    audited = {(concept, item) for concept, _, item, _, purpose, _ in said if purpose == "audit"}
    with empty_database() as first, empty_database() as second:
        made = [make_concept(first, name) for name in concepts]
        people = [[sit_down(first, concept, name) for name in annotators] for concept in made]
        for concept, person, item, word, purpose, undone in said:
            if purpose != "decision":
                purpose = "audit" if (concept, item) in audited else "train"
            answer = people[concept][person].says(word, item, purpose=purpose)
            if undone:
                people[concept][person].undoes(answer)
        for concept in made:
            Concepts(second).create(concept.name, concept.question)
        file = written(first, form, log=log)
        if not labels_of(first):
            with pytest.raises(InputError, match="contains no labels"):
                take_in(second, pool(), file)
            return
        imported = take_in(second, pool(), file)
        assert imported.items.unmatched.number == imported.items.by_end == 0
        assert labels_of(second) == labels_of(first)
        assert votes_of(second) == votes_of(first)
        rows = count_rows(second)["answers"]
        again = take_in(second, pool(), file)
        assert (again.new, again.same) == (0, rows)
        assert count_rows(second)["answers"] == rows


@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), word=st.sampled_from(ANSWERS))
@settings(max_examples=examples(60))
@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_any_name_survives_a_table(form, name, word):
    """Names of items, however they are spelled, are read as they were written."""
    with empty_database() as database:
        sit_down(database, make_concept(database)).says(word, 3)
        file = fresh_folder() / "labels"
        with file.open("wb") if form == "parquet" else file.open("w", encoding="utf-8", newline="") as out:
            export(database, out, format=form, names_of=lambda items: [name] * len(items))
    (claim,) = read_labels(file, form)
    assert (claim.name, claim.item, claim.word, claim.concept) == (name, 3, word, "seven")


@pytest.fixture
def database():
    with empty_database() as opened:
        yield opened


def test_label_studio_finds_its_own_fields(database):
    """Each result names a control of the labeling interface, its object, and one of its choices."""
    for name in ("seven", "7", 'a "b" <c> & d', "true", "it's\nnew"):
        concept = make_concept(database, name)
        for person in ("Ada", "Bob"):
            sit_down(database, concept, person).says("yes", 2)
    asked = [(concept.name, concept.question) for concept in Concepts(database).all()]
    interface = ET.fromstring(labeling_config(asked))
    shown = interface.find("Image")
    controls = {control.get("name"): control for control in interface.iter("Choices")}
    assert len(controls) == 5
    assert not any(name.isdigit() or name in ("true", shown.get("name")) for name in controls)
    (task,) = json.loads(written(database, "label-studio").read_text("utf-8"))
    assert task["data"][shown.get("value").removeprefix("$")] == pool().source.name(2)
    assert [len(annotation["result"]) for annotation in task["annotations"]] == [5, 5]
    for result in (result for annotation in task["annotations"] for result in annotation["result"]):
        control = controls[result["from_name"]]
        assert control.get("toName") == result["to_name"] == shown.get("name")
        assert result["type"] == "choices"
        offered = {choice.get("value") for choice in control.iter("Choice")}
        assert set(result["value"]["choices"]) <= offered
    assert "completed_by" not in task["annotations"][0]


def test_a_log_is_nothing_for_label_studio(database):
    """Its tasks hold answers in force."""
    with pytest.raises(StorageError, match="csv, jsonl or parquet"):
        export(database, io.StringIO(), format="label-studio", log=True)


def test_columns_of_parquet_have_types(database):
    """Numbers are numbers and times are times, for an empty table, too."""
    make_concept(database)
    for log in (False, True):
        schema = pyarrow.parquet.read_schema(written(database, "parquet", log=log))
        assert str(schema.field("item").type) == "int64"
        assert (
            str(schema.field("last_answered_at" if not log else "server_time").type)
            == "timestamp[ms, tz=UTC]"
        )


def test_a_folder_of_one_concept(database, tmp_path):
    """Items that are yes or no lie flat below their label, byte for byte; the others are counted."""
    concept = make_concept(database)
    ada, bob = sit_down(database, concept), sit_down(database, concept, "Bob")
    for item in range(16):
        ada.says(ANSWERS[item % 4], item)
    bob.says("no", 0)
    ada.says("yes", 16, purpose="audit")
    exported = export_folder(database, pool(), None, tmp_path / "sorted")
    assert exported.files == {"yes": 3, "no": 4}
    assert exported.left_out == {
        "tied": 1,
        "unsure": 4,
        "skipped": 4,
        "answered for an audit only": 1,
        "without an answer to every question": len(AWKWARD) - 17,
    }
    for item in range(len(AWKWARD)):
        name = pool().source.name(item).replace("/", "_")
        places = [label for label in ("yes", "no") if (tmp_path / "sorted" / label / name).exists()]
        assert places == ([ANSWERS[item % 4]] if item % 4 < 2 and 0 < item < 16 else [])
        for label in places:
            original = pool().source.original(item)
            assert (tmp_path / "sorted" / label / name).read_bytes() == original.read_bytes()
    with pytest.raises(InputError, match="not empty"):
        export_folder(database, pool(), None, tmp_path / "sorted")


def test_files_of_one_folder_keep_apart(database, tmp_path):
    """Two paths that become one name, and a path too long for a file's name, are different files."""
    names = ["a/b_c.png", "a_b/c.png", f"{'long/' * 60}1.png", f"{'long/' * 60}2.png"]
    for number, name in enumerate(names):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), number).save(tmp_path / "images" / name)
    made = build(source_from(str(tmp_path / "images"), use_classes=False), tmp_path / "pool")
    ada = sit_down(database, make_concept(database))
    for item in range(4):
        ada.says("yes", item)
    assert export_folder(database, made, None, tmp_path / "sorted").files == {"yes": 4}
    written_files = list((tmp_path / "sorted" / "yes").iterdir())
    assert all(path.suffix == ".png" for path in written_files)
    assert {Image.open(path).getpixel((0, 0)) for path in written_files} == set(range(4))


def test_a_folder_of_images_from_a_tar_or_a_table(database, tmp_path, monkeypatch):
    """They are copied byte for byte; what has no file name gets the suffix of its format."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    held = io.BytesIO()
    Image.effect_noise((900, 700), 50).save(held, "jpeg")
    with tarfile.open(tmp_path / "t.tar", "w") as tar:
        member = tarfile.TarInfo("a/1.JPG")
        member.size = len(held.getvalue())
        tar.addfile(member, io.BytesIO(held.getvalue()))
    pyarrow.parquet.write_table(pyarrow.table({"image": [held.getvalue()]}), tmp_path / "t.parquet")
    sit_down(database, make_concept(database)).says("yes", 0)
    for word, name in {"tar:t.tar": "a_1.JPG", "edges:images:t.parquet": "row 1.jpeg"}.items():
        kind, _, file = word.rpartition(":")
        out = tmp_path / kind.partition(":")[0]
        made = build(source_from(f"{kind}:{tmp_path / file}"), out / "pool")
        assert export_folder(database, made, None, out / "sorted").files == {"yes": 1}
        assert (out / "sorted" / "yes" / name).read_bytes() == held.getvalue()


def test_a_folder_of_several_concepts(database, tmp_path):
    """Folders are the classes, made harmless; no to all is none."""
    concepts = Concepts(database)
    names = ("../seal", "sea/gull", "CON?")
    made = [concepts.create(name, "Is it?", positive_class=name) for name in names]
    people = [sit_down(database, concept) for concept in made]
    for item in range(4):
        for number, person in enumerate(people):
            person.says("yes" if number == item else "no", item)
    copied = export_folder(database, pool(), None, tmp_path / "sorted").files
    assert set(copied) == {"_seal", "sea_gull", "CON_", "none"}
    assert set(copied.values()) == {1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sorted"]
    assert sorted(path.name for path in (tmp_path / "sorted").iterdir()) == sorted(copied)


def test_former_versions_and_copies_of_a_question_are_not_exported_as_classes(tmp_path):
    """After a reset, a blind comparison or the autopilot, one question is still one question."""
    with empty_database() as database:
        concepts = Concepts(database)
        asked = concepts.create("Is there a dog", "Is there a dog?")
        copy = concepts.create("Is there a dog (autopilot)", "Is there a dog?", archived=True)
        fresh = concepts.create("Is there a dog (2)", "Is there a dog?", instead_of=asked.id)
        for concept, words in ((asked, "yes no"), (copy, "yes yes yes yes"), (fresh, "no yes no")):
            for item, word in enumerate(words.split()):
                sit_down(database, concept, concept.name).says(word, item)
        assert Archive(database).exported() == concepts_of(database, None) == [fresh]
        assert concepts_of(database, asked) == [asked]
        assert export_folder(database, pool(), None, tmp_path / "one").files == {"yes": 1, "no": 2}
        other = concepts.create("Is there a cat", "Is there a cat?")
        assert Archive(database).exported() == [fresh, other]
        file = tmp_path / "labels.csv"
        file.write_text("item,label\n7,dog\n8,cat\n")
        take_in(database, pool(), file)
        of_dog, of_cat = (LabelLog(database).state(concept.id) for concept in (fresh, other))
        assert [(of_dog.status(item), of_cat.status(item)) for item in (7, 8)] == [
            ("yes", "no"),
            ("no", "yes"),
        ]
        exported = export_folder(database, pool(), None, tmp_path / "two")
        assert exported.files == {"dog": 2, "cat": 1}


def test_no_to_all_is_a_no_to_every_question(database, tmp_path):
    """An item that is tied, skipped or not asked about one of the questions is no example of none."""
    seal, gull = (Concepts(database).create(name, "Is it?", positive_class=name) for name in ("seal", "gull"))
    old = Concepts(database).create("old", "Is it?", positive_class="old")
    of_seal, of_gull, bob = (
        sit_down(database, seal),
        sit_down(database, gull),
        sit_down(database, seal, "Bob"),
    )
    of_old = sit_down(database, old)
    Archive(database).add(old.id)
    for item, words in enumerate(
        [
            ("no", "no"),
            ("no", "skip"),
            ("no", "unsure"),
            ("no", None),
            (None, "no"),
            ("yes", "skip"),
            ("no", "no"),
        ]
    ):
        for person, word in zip((of_seal, of_gull), words, strict=True):
            if word:
                person.says(word, item)
    bob.says("yes", 6)
    of_seal.says("no", 7)
    of_gull.says("no", 7)
    of_old.says("yes", 7)
    of_seal.says("yes", 8, purpose="audit")
    exported = export_folder(database, pool(), None, tmp_path / "sorted")
    assert exported.files == {"none": 1, "seal": 1, "old": 1}
    assert [path.name for path in (tmp_path / "sorted" / "none").iterdir()] == [
        pool().source.name(0).replace("/", "_")
    ]
    unasked = len(AWKWARD) - 7
    assert exported.left_out == {
        "tied": 1,
        "unsure": 1,
        "skipped": 1,
        "answered for an audit only": 1,
        "without an answer to every question": unasked,
    }


def take(database: Database, tmp_path: Path, text: str, suffix: str = ".csv", **options):
    """Import a file of this content."""
    file = tmp_path / f"given{suffix}"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return take_in(database, pool(), file, manner=Manner(**options))


def test_names_are_found_by_the_end_of_their_path(database, tmp_path):
    """Absolute paths, addresses, Label Studio's own and Windows' lead to the item that they end in."""
    make_concept(database)
    paths = ["/home/ada/sub/7.png", "https://example.org/a/sub/deep/7.png?x=1", "C:\\photos\\null.png"]
    paths += ["/data/local-files/?d=images/M%C3%B6we%20%F0%9F%90%A6.png", "/data/upload/3/0a1b2c3d-0.png"]
    table = io.StringIO()
    csv.writer(table).writerows([["path", "label"], *([path, "yes"] for path in paths)])
    imported = take(database, tmp_path, table.getvalue())
    found = [pool().source.name(row[1]) for row in label_rows(database)]
    assert sorted(found) == sorted(["sub/7.png", "sub/deep/7.png", "null.png", "Möwe 🐦.png", "0.png"])
    assert imported.items.by_end == imported.new == 5


@pytest.mark.parametrize("name", ["7.png", "other/7.png", "sub/deep/8.png", "http://[x", "?d=", "/", "x://y"])
def test_what_could_be_another_item_is_none(database, tmp_path, name):
    """A file name that two items share, which is said; one in another folder; what only looks like a path."""
    make_concept(database)
    imported = take(database, tmp_path, f"name,label\n{name},yes\nnull.png,no\n")
    assert [pool().source.name(row[1]) for row in label_rows(database)] == ["null.png"]
    why = "several items are" if name == "7.png" else "no item is"
    assert imported.items.unmatched.listed == [f"line 2: {why} called {name!r}"]


def test_a_bare_file_name_means_the_only_one_in_any_folder(tmp_path):
    """As spreadsheets have it that were made folder by folder."""
    for name in ("a/one.png", "b/two.png"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((8, 8), 60).save(tmp_path / "images" / name)
    build(source_from(str(tmp_path / "images"), use_classes=False), tmp_path / "pool")
    items = Items(Pool.open(tmp_path / "pool"))
    found = [items.find(Claim("line 2", None, name, None, "yes")) for name in ("two.png", "a/two.png")]
    assert [item is not None and items.is_called(item, "b/two.png") for item in found] == [True, False]


def test_accents_are_matched_in_either_encoding_if_one_item_has_the_name(tmp_path):
    """Folders on a Mac decompose the letters that tables compose. Names that match exactly go first."""
    names = ["e\u0301/one.png", "e\u0301/two.png", "\u00e9/two.png", "a\u030a\u0323.png", "a\u0323\u030a.png"]
    for name in names:
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((8, 8), 60).save(tmp_path / "images" / name)
    build(source_from(str(tmp_path / "images"), use_classes=False), tmp_path / "pool")
    built = Pool.open(tmp_path / "pool")
    items, source = Items(built), built.source

    def named(name):
        item = items.find(Claim("line 2", None, name, None, "yes"))
        return None if item is None else source.name(item)

    assert {name: named(name) for name in names} == {name: name for name in names}
    assert items.by_end == 0
    assert named("\u00e9/one.png") == "e\u0301/one.png"
    assert named("/home/ada/\u00e9/one.png") == "e\u0301/one.png"
    assert named("\u1ea1\u030a.png") is None
    assert items.unmatched.listed == ["line 2: several items are called '\u1ea1\u030a.png'"]


def test_an_id_counts_only_with_its_name(database, tmp_path):
    """A file that was made over other images does not label the wrong ones by their numbers."""
    make_concept(database)
    there = pool().source.names(np.arange(len(AWKWARD))).index("null.png")
    other = (there + 1) % len(AWKWARD)
    table = f"{other},null.png,yes\n{other},of another pool.png,yes\n{other},,no\n999999,,yes\n"
    imported = take(database, tmp_path, "item,name,label\n" + table)
    assert {(row[1], row[2]) for row in label_rows(database)} == {(there, "yes"), (other, "no")}
    assert imported.items.unmatched.number == 2


def test_classes_are_labels(database, tmp_path):
    """A class is a yes for its concept and a no for the others, and goes before words such as 1."""
    concepts = Concepts(database)
    for name in ("0", "1"):
        concepts.create(f"Is it a {name}", f"Is it a {name}?", positive_class=name)
    take(database, tmp_path, "item;label\r3;0\r4;1\r5;none\r")
    said = {(row[0], row[1]): row[2] for row in label_rows(database)}
    zero, one = "Is it a 0", "Is it a 1"
    assert said == {
        (zero, 3): "yes",
        (one, 3): "no",
        (zero, 4): "no",
        (one, 4): "yes",
        (zero, 5): "no",
        (one, 5): "no",
    }


def test_a_class_called_no_is_no_trap(database, tmp_path):
    """Our own four words mean what they say, whatever concepts and classes are called."""
    concepts = Concepts(database)
    for name in ("yes", "no"):
        concepts.create(name, f"Is it {name}?", positive_class=name)
    take(database, tmp_path, "item,label,concept\n1,no,no\n2,yes,no\n3,no,yes\n4,skip,yes\n")
    said = {(row[0], row[1]): row[3] for row in label_rows(database)}
    assert said == {("no", 1): "no", ("no", 2): "yes", ("yes", 3): "no", ("yes", 4): "skip"}
    with pytest.raises(InputError, match="does not say which concept"):
        take(database, tmp_path, "item,label\n1,no\n")


def test_a_file_about_another_concept_is_not_bent(database, tmp_path):
    """--concept says what an unnamed file is about, and contradicts one that names another concept."""
    seven, eight = make_concept(database), make_concept(database, "eight")
    with pytest.raises(InputError, match="line 2: it is about the concept 'eight', but --concept is 'seven'"):
        take(database, tmp_path, "item,label,concept\n1,yes,eight\n", concept=seven)
    take(database, tmp_path, "item,label,concept\n1,yes,acht\n", concept=eight)
    assert [tuple(row[:3]) for row in label_rows(database)] == [("eight", 1, "yes")]


def test_a_concept_is_found_by_its_question_and_in_any_letter_case(database, tmp_path):
    """What is written exactly goes first, and an active question before one that was reset."""
    concepts = Concepts(database)
    man, owl, reset = (
        concepts.create(q.strip("?"), q) for q in ("Is it man-made?", "Is it an owl?", "Is it red?")
    )
    small = concepts.create("is it man-made", "is it man-made?")
    red = concepts.create("Is it red (2)", "Is it red?", instead_of=reset.id)
    expected = {
        "Is it man-made": man,
        "is it man-made": small,
        "Is it man-made?": man,
        " is it man-made? ": small,
        "is  it an OWL": owl,
        "Is it red": reset,
        "Is it red?": red,
        "is it red": red,
    }
    for item, (text, meant) in enumerate(expected.items()):
        assert concept_named(database, text) == meant
        take(database, tmp_path, f"item,label,concept\n{item},yes,{text}\n")
        assert [row[0] for row in label_rows(database) if row[1] == item] == [meant.name]
    with pytest.raises(InputError, match=r"Several concepts resemble 'IS IT MAN-MADE'.*'is it man-made'"):
        concept_named(database, "IS IT MAN-MADE")
    with pytest.raises(
        InputError, match="line 2: 'IS IT MAN-MADE' could be each of the concepts 'Is it man-made'"
    ):
        take(database, tmp_path, "item,label,concept\n1,yes,IS IT MAN-MADE\n")


def test_labels_of_several_concepts_do_not_become_those_of_one(database, tmp_path):
    """As in an export of a question that the autopilot has answered, too, into another project."""
    seven = make_concept(database)
    rows = "item,label,concept\n1,yes,sieben\n2,yes,Sieben\n3,no,sieben (autopilot)\n"
    with pytest.raises(
        InputError, match=r"line 4: .*'sieben \(autopilot\)', but earlier labels .* 'sieben': "
    ):
        take(database, tmp_path, rows, concept=seven)
    assert not list(label_rows(database))


def test_concepts_that_are_put_away_are_not_meant(database, tmp_path):
    """Unless the file names them."""
    old, _ = make_concept(database, "old"), make_concept(database, "new")
    Archive(database).add(old.id)
    take(database, tmp_path, "item,label,concept\n1,yes,\n2,no,old\n")
    assert [tuple(row[:3]) for row in label_rows(database)] == [("old", 2, "no"), ("new", 1, "yes")]


def test_a_later_file_changes_its_annotator_s_mind(database, tmp_path):
    """Another file's answers count from then on; the first one's, imported again, don't come back."""
    make_concept(database)
    for text in ("item,label\n1,yes\n2,no\n", "item,label\n1,no\n2,no\n"):
        last = take(database, tmp_path, text)
    assert (last.new, last.same) == (1, 1)
    again = take(database, tmp_path, "item,label\n1,yes\n2,no\n")
    assert (again.new, again.known) == (0, 1)
    assert [row[2] for row in label_rows(database)] == ["no", "no"]


def test_audited_items_stay_out_of_training(database, tmp_path):
    """What an audit asked for is never learned from, not even where a file says it too."""
    sit_down(database, make_concept(database)).says("yes", 1, purpose="audit")
    take(database, tmp_path, "item,label\n1,yes\n2,no\n")
    assert LabelLog(database).labels(1).items.tolist() == [2]
    assert [(row[1], row[2], row[3]) for row in label_rows(database)] == [(1, None, "yes"), (2, "no", "no")]


def test_people_and_files_vote_together(database, tmp_path):
    """Imported labels are an annotator's among others: contradictions are told, and tie."""
    sit_down(database, make_concept(database)).says("yes", 1)
    imported = take(database, tmp_path, "item,label\n1,no\n2,no\n")
    assert imported.contested == 1
    assert [(row[1], row[2], row[3]) for row in label_rows(database)] == [(1, None, "tied"), (2, "no", "no")]
    assert LabelLog(database).labels(1).items.tolist() == [2]


def test_contradictions_about_decided_items_are_not_in_conflict(database, tmp_path):
    """Neither if the log has the decision nor if the file has it, before or after the answer."""
    owner = sit_down(database, make_concept(database))
    for item in (1, 2, 3, 4):
        owner.says("yes", item)
    owner.says("yes", 1, purpose="decision")
    lines = ["1,no,train", "2,no,train", "2,yes,decision", "3,yes,decision", "3,no,train", "4,no,train"]
    text = "\n".join(["item,answer,purpose", *lines])
    assert take(database, tmp_path, text, annotator="bob").contested == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("parted", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_spreadsheets_of_any_kind_are_read(database, tmp_path, encoding, parted, end):
    """With a byte order mark or without, parted and ended as their program likes."""
    make_concept(database)
    lines = [["Name", " LABEL "], ["Möwe 🐦.png", "Yes"], ["null.png", "FALSE"], []]
    raw = end.join(parted.join(cells) for cells in lines).encode(encoding)
    assert take(database, tmp_path, raw).new == 2  # type: ignore[arg-type]
    assert sorted(row[2] for row in label_rows(database)) == ["no", "yes"]
