"""The commands that take labels, predictions and classifiers in and out of a project."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import pty
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import joblib
import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image
from sklearn.svm import LinearSVC

from closecall.app.api.cards import card_of, submit
from closecall.app.exchange.model import predictions, train_model
from closecall.app.exchange.scoring import score_images
from closecall.app.projects.config import ProjectFile
from closecall.app.sessions.new_project import NewProject
from closecall.core.errors import InputError
from closecall.core.linear.svm import train
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import Concepts, Database, LabelLog
from closecall.storage.predictions import Predictions
from closecall.storage.tabular import milliseconds_of
from tests.folders import ROOT
from tests.onnx_kit import write_model
from tests.peers.imitation import Imitation
from tests.peers.trial import result
from tests.projects import answer, label, new_project, open_workspace, tamper, truth_word
from tests.storage_kit import sit_down
from tests.unit.app.cli.test_main import refused, run


@pytest.fixture
def project_folder(tmp_path):
    """A project in which items of both kinds are labeled."""
    with open_workspace(tmp_path / "projects") as workspace:
        project = new_project(workspace)
        session = project.session()
        sevens = [item for item in project.pool.ids.tolist() if truth_word(project, item) == "yes"]
        others = [item for item in project.pool.ids.tolist() if truth_word(project, item) == "no"]
        table = ["item,label", *(f"{i},yes" for i in sevens[:9]), *(f"{i},no" for i in others[:30])]
        label(session, 3)
        folder = project.folder
    file = tmp_path / "first.csv"
    file.write_text("\n".join(table))
    assert run("import", folder, file, "--annotator", "annotator").exit_code == 0
    return folder


@pytest.fixture
def empty_folder(tmp_path):
    """A project of the same question over the same items, without labels."""
    with open_workspace(tmp_path / "others") as workspace:
        return new_project(workspace).folder


def labels(folder) -> list[dict]:
    lines = [json.loads(line) for line in run("export", folder, "--format", "jsonl").output.splitlines()]
    return [{key: line[key] for key in ("item", "name", "label", "status")} for line in lines]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "label-studio"])
def test_a_project_s_labels_go_into_another(project_folder, empty_folder, tmp_path, form):
    """By the commands alone, with names; imported twice they are stored once, and both logs hold."""
    out = tmp_path / f"labels{ {'label-studio': '.json'}.get(form, '.' + form) }"
    said = run("export", project_folder, "--format", form, "--out", out)
    assert said.exit_code == 0, said.output
    first = run("import", empty_folder, out)
    assert first.exit_code == 0, first.output
    assert labels(empty_folder) == labels(project_folder)
    n = len(labels(project_folder))
    assert first.output.startswith(f"{n} labels")
    second = run("import", empty_folder, out)
    assert second.output.startswith("0 labels")
    assert f"{n} stored already" in second.output
    for folder in (project_folder, empty_folder):
        verified = json.loads(run("verify", folder, "--json").output)
        assert verified["problems"] == []
    assert verified["imported"] == n


def test_labeling_goes_on_after_an_import(project_folder):
    """The classifier learns from imported labels, nobody is asked about them, and a sitting is a sitting."""
    with open_workspace(project_folder.parent) as workspace:
        project = workspace.project(project_folder.name)
        session = project.session()
        assert session.strategy == "auto"
        assert len(session.concept.standing().labels) > 30
        answered = set(session.concept.standing().answered.tolist())
        card = card_of(session)
        assert card["item"]["id"] not in answered
        card = submit(session, [answer(card, truth_word(project, card["item"]["id"]))])
        assert card["notes"]
        assert project.log.last_selection(session.id).hyperplane_digest is not None
        label(session, 4)
    verified = json.loads(run("verify", project_folder, "--json").output)
    assert verified["problems"] == []
    assert verified["digests"] > 5


def test_verify_knows_what_a_file_said(project_folder):
    """An imported label that was changed behind the program's back is found by its id."""
    newest = "(SELECT MAX(seq) FROM answers)"
    tamper(project_folder, f"UPDATE answers SET item = item + 1 WHERE seq = {newest}")
    result = run("verify", project_folder, "--json")
    assert result.exit_code == 1
    assert "differs from its file" in " ".join(json.loads(result.output)["problems"])


def test_what_matches_nothing_is_told(empty_folder, tmp_path):
    """Held-out items, unknown ids and names: how many, and the first few in a sentence each."""
    with open_workspace(empty_folder.parent) as workspace:
        pool = workspace.project(empty_folder.name).pool
        held_out, there = int(pool.held_out.ids[0]), int(pool.ids[0])
    lines = [f"{there},,yes", f"{held_out},,no", *(f",digit x{i},no" for i in range(9))]
    file = tmp_path / "labels.csv"
    file.write_text("\n".join(["item,name,label", *lines]))
    result = run("import", empty_folder, file)
    assert result.exit_code == 0
    told = result.output.splitlines()
    assert told[0].startswith("1 label of ")
    assert told[1] == "10 without an item that can be labeled:"
    assert told[2] == f"  line 3: item {held_out} is held out to measure accuracy, and is not labeled"
    assert told[3] == "  line 4: no item is called 'digit x0'"
    assert told[-1] == "  … and 5 more"
    assert [line["item"] for line in labels(empty_folder)] == [there]


def test_an_import_names_new_annotators_that_resemble_known_ones(empty_folder, tmp_path):
    """In one line, because they are other people; nobody is named twice, or for a name of their own."""
    with open_workspace(empty_folder.parent) as workspace:
        items = workspace.project(empty_folder.name).pool.ids[:4].tolist()
    file = tmp_path / "people.csv"

    def imported(*people: str) -> list[str]:
        rows = (f"{item},yes,{name}" for item, name in zip(items, people, strict=True))
        file.write_text("\n".join(["item,label,annotator", *rows]))
        return run("import", empty_folder, file).output.splitlines()[1:]

    assert imported("ben", "Eve", "other program", "Ren\u00e9") == []
    assert imported("Ben", "EVE", "zoe", "Rene\u0301") == [
        "Ben is another person than ben; EVE is another person than Eve; "
        "Rene\u0301 is another person than Ren\u00e9."
    ]
    assert imported("Ben", "EVE", "zoe", "Rene\u0301") == ["4 stored already, and not stored again."]


def test_a_project_in_use_is_left_alone(tmp_path):
    """Whoever serves it holds it; the sentence says so."""
    file = tmp_path / "labels.csv"
    file.write_text("item,label\n1,yes\n")
    with open_workspace(tmp_path / "projects") as workspace:
        project = new_project(workspace)
        assert "already being served" in refused("import", project.folder, file)
        assert project.log.position() == 0


def test_exports_that_cannot_be(project_folder, tmp_path):
    """No binary table in the terminal, no log without room for one, no new folder, nothing overwritten."""
    assert "--out" in refused("export", project_folder, "--format", "parquet")
    assert "--out" in refused("export", project_folder, "--format", "folder")
    assert "--log" in refused("export", project_folder, "--format", "label-studio", "--log")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "not empty" in refused("export", project_folder, "--format", "folder", "--out", tmp_path / "full")
    assert "not empty" in refused("export-model", project_folder, "--out", tmp_path / "full")
    assert "--format" in refused("predict", project_folder, "--out", tmp_path / "scores.xlsx")
    missing = tmp_path / "missing"
    for words in (["export"], ["export", "--format", "folder"], ["export-model"], ["predict"]):
        said = refused(*words, project_folder, "--out", missing / "x.csv")
        assert f"There is no folder {missing}: create it first" in said
    assert not [path for path in tmp_path.iterdir() if path.suffix in (".tmp", ".half")]


@pytest.mark.parametrize(
    ("words", "writing"),
    [
        (("export-model",), "closecall.app.exchange.model._save_estimator"),
        (("export", "--format", "folder"), "closecall.app.exchange.class_folders._copy"),
    ],
)
def test_a_half_written_folder_of_a_killed_export_is_replaced(
    project_folder, tmp_path, monkeypatch, words, writing
):
    """Nothing of it gets into the folder that the next export writes."""
    command, *options = words
    export = (command, project_folder, *options, "--out", tmp_path / "out")
    halves = []

    def fails(*_: object) -> None:
        halves.extend(tmp_path.glob("*out*"))
        raise RuntimeError

    with monkeypatch.context() as broken:
        broken.setattr(writing, fails)
        assert isinstance(run(*export).exception, RuntimeError)
    assert not halves[0].exists()
    halves[0].mkdir()
    (halves[0] / "half").touch()
    result = run(*export)
    assert result.exit_code == 0, result.output
    assert "half" not in {path.name for path in (tmp_path / "out").iterdir()}
    assert not halves[0].exists()


def test_digits_become_pictures_in_folders(project_folder, tmp_path):
    """What is no file is written as PNG, readable again."""
    assert run("export", project_folder, "--format", "folder", "--out", tmp_path / "sorted").exit_code == 0
    n = sum(line["label"] in ("yes", "no") for line in labels(project_folder))
    files = list((tmp_path / "sorted").glob("*/*.png"))
    assert len(files) == n
    with Image.open(files[0]) as image:
        assert max(image.size) > 8


def test_the_exported_model_is_the_one_that_labels(project_folder, tmp_path):
    """Weights, estimator and manifest agree with a training of the exported labels."""
    out = tmp_path / "model"
    result = run("export-model", project_folder, "--out", out)
    assert result.exit_code == 0, result.output
    assert "pickle" in result.output
    assert sorted(path.name for path in out.iterdir()) == [
        "model.json",
        "score.py",
        "svm.joblib",
        "weights.npz",
    ]
    manifest = json.loads((out / "model.json").read_text("utf-8"))
    weights = np.load(out / "weights.npz", allow_pickle=False)
    with open_workspace(project_folder.parent) as workspace:
        project = workspace.project(project_folder.name)
        pool, concept = project.pool, project.concepts()[0]
        known = [line for line in labels(project_folder) if line["label"]]
        ids = [line["item"] for line in known]
        rows, yes = pool.rows_of(ids), [line["label"] == "yes" for line in known]
        plane = train(rows, yes, ids, C=concept.c, class_weight=concept.class_weight)
        everything = pool.rows(np.arange(len(pool)))
    assert plane.digest == manifest["digest"]
    assert np.array_equal(weights["coef"], plane.normal)
    assert float(weights["intercept"]) == plane.bias
    assert (manifest["svm"]["C"], manifest["features"]["dimension"]) == (concept.c, pool.n_features)
    assert manifest["labels"]["yes"] + manifest["labels"]["no"] == len(known)
    svm = joblib.load(out / "svm.joblib")
    assert isinstance(svm, LinearSVC)
    np.testing.assert_allclose(
        svm.decision_function(everything), plane.scores(everything), rtol=1e-9, atol=1e-9
    )
    assert svm.predict(rows).tolist() == np.where(plane.scores(rows) > 0, "yes", "no").tolist()


def test_predict_says_that_held_out_items_are_left_out():
    """As `test_predictions_are_of_every_item` finds."""
    assert "every item of PROJECT that is not held out" in " ".join(run("predict", "--help").output.split())


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_predictions_are_of_every_item(project_folder, tmp_path, form):
    """In the order of the pool, with the sign of the score, and the label where there is one."""
    out = tmp_path / f"scores.{form}"
    assert run("predict", project_folder, "--out", out).exit_code == 0
    with open_workspace(project_folder.parent) as workspace:
        project = workspace.project(project_folder.name)
        pool, concept = project.pool, project.concepts()[0]
        plane = train_model(project.database, pool, concept).hyperplane
        known = {line["item"]: line["label"] for line in labels(project_folder)}
        expected = [(item, pool.source.name(item), known.get(item)) for item in pool.ids.tolist()]
    if form == "csv":
        lines = list(csv.DictReader(out.open(newline="")))
    elif form == "jsonl":
        lines = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    else:
        lines = pyarrow.parquet.read_table(out).to_pylist()
    assert [(int(its["item"]), its["name"], its["label"] or None) for its in lines] == expected
    scores = np.array([float(its["score"]) for its in lines])
    np.testing.assert_allclose(scores, plane.scores(pool.rows(np.arange(len(pool)))), atol=1e-4)
    assert [its["predicted"] for its in lines] == ["yes" if score > 0 else "no" for score in scores]


def test_a_model_needs_both_answers(empty_folder, tmp_path):
    """The sentence counts what there is; no folder or file is left."""
    assert "0 and 0" in refused("export-model", empty_folder, "--out", tmp_path / "model")
    assert "0 and 0" in refused("predict", empty_folder, "--out", tmp_path / "scores.csv")
    assert not list(tmp_path.glob("model*")) + list(tmp_path.glob("scores*"))


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_another_model_s_predictions_stay_beside_the_labels(project_folder, empty_folder, tmp_path, form):
    """What `predict` writes is read back: listed, compared with the labels, and no label itself."""
    out = tmp_path / f"scores.{form}"
    assert run("predict", project_folder, "--out", out).exit_code == 0
    before = labels(project_folder)
    result = run("import", project_folder, out, "--predictions", "svm 1")
    assert result.exit_code == 0, result.output
    assert labels(project_folder) == before
    listed = run("predictions", project_folder).output
    assert listed.startswith("svm 1: ")
    assert f"{len(before)} of {len(before)} labels agree" in listed
    assert run("import", project_folder, out, "--predictions", "svm 1").exit_code == 0
    assert len(run("predictions", project_folder).output.splitlines()) == 1
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        (model,) = Predictions(database).all()
        stored = list(Predictions(database).of(model.id))
    assert len(stored) == model.items
    assert all((its.score > 0) == (its.label == "yes") for its in stored)
    assert "none" not in run("predictions", project_folder).output
    assert "adds some" in run("predictions", empty_folder).output
    assert "--predictions MODEL" in refused("import", empty_folder, out)


def test_predictions_replace_those_of_their_model_or_nothing(project_folder, tmp_path):
    """A file with an item twice, or about nothing, leaves what was there."""
    file = tmp_path / "scores.csv"
    with open_workspace(project_folder.parent) as workspace:
        items = workspace.project(project_folder.name).pool.ids[:3].tolist()
    file.write_text("item,score\n" + "".join(f"{item},0.{item}\n" for item in items))
    assert run("import", project_folder, file, "--predictions", "net").output.startswith("3 predictions")
    for text, word in (
        (f"item,score\n{items[0]},1\n{items[0]},2\n", "already"),
        ("item,score\n99999,1\n", "none of this project's items"),
        ("item,score\n", "no predictions"),
        (f"item,predicted\n{items[0]},skip\n", "yes or no"),
    ):
        file.write_text(text)
        assert word in refused("import", project_folder, file, "--predictions", "net")
        assert run("predictions", project_folder).output.startswith("net: 3 items")
    file.write_text(f"item,class\n{items[0]},7\n{items[1]},3\n")
    assert run("import", project_folder, file, "--predictions", "net").exit_code == 0
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        (model,) = Predictions(database).all()
        assert [tuple(its) for its in Predictions(database).of(model.id)] == [
            (items[0], None, "yes"),
            (items[1], None, "no"),
        ]


def stored(folder, model) -> list[tuple]:
    """What the project has of a model."""
    with Database.open(folder / "labels.db", read_only=True) as database:
        (found,) = (its for its in Predictions(database).all() if its.model == model)
        return [tuple(its) for its in Predictions(database).of(found.id)]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_another_model_s_predictions_go_out_again(project_folder, empty_folder, tmp_path, form):
    """Scores to the last bit, words, or both, with names; imported elsewhere they are the same."""
    with open_workspace(project_folder.parent) as workspace:
        pool = workspace.project(project_folder.name).pool
        items = np.sort(pool.ids)[:5].tolist()
        names = pool.source.names(np.array(items))
    scores = [0.1 + 0.2, -1e-300, None, -0.0, 1e17 / 3]
    words = ["yes", None, "no", "no", "yes"]
    file, out = tmp_path / "given.jsonl", tmp_path / f"out.{form}"
    lines = [{"item": i, "score": s, "predicted": w} for i, s, w in zip(items, scores, words, strict=True)]
    file.write_text("\n".join(map(json.dumps, lines[::-1])))
    assert run("import", project_folder, file, "--predictions", "net").exit_code == 0
    said = run("export", project_folder, "--predictions", " net", "--format", form, "--out", out)
    assert said.output == f"5 predictions of net for 'Is this a 7' in {out}\n"
    before = labels(empty_folder)
    assert run("import", empty_folder, out, "--predictions", "theirs").exit_code == 0
    expected = list(zip(items, scores, words, strict=True))
    assert stored(project_folder, "net") == stored(empty_folder, "theirs") == expected
    assert labels(empty_folder) == before
    if form != "parquet":
        printed = run("export", project_folder, "--predictions", "net", "--format", form)
        assert printed.stdout_bytes == out.read_bytes()
        assert all(name in printed.output for name in names)


def test_predictions_that_cannot_go_out(project_folder, tmp_path):
    """Of an unknown model, of several concepts, or in a form that holds labels."""
    file = tmp_path / "scores.csv"
    with open_workspace(project_folder.parent) as workspace:
        project = workspace.project(project_folder.name)
        item = int(project.pool.ids[0])
        names = [project.concepts()[0].name, project.add_concept("Is this a 3?").name]
    file.write_text(f"item,score\n{item},1\n")
    words = ["export", project_folder, "--predictions"]
    assert refused(*words, "net").endswith("it has none")
    for name in names:
        assert run("import", project_folder, file, "--predictions", "net", "--concept", name).exit_code == 0
    assert refused(*words, "nut").endswith("no predictions of 'nut' in this project; it has 'net'")
    assert "net' has predictions for 2 concepts: choose one with --concept" in refused(*words, "net")
    assert run(*words, "net", "--concept", names[1]).exit_code == 0
    assert "zebra" in refused(*words, "net", "--concept", "zebra")
    assert "--log" in refused(*words, "net", "--log")
    out = ["--out", tmp_path / "out"]
    assert "--format folder contains labels" in refused(*words, "net", "--format", "folder", *out)
    assert "--out" in refused(*words, "net", "--format", "parquet")
    assert not (tmp_path / "out").exists()


def test_label_studio_s_predictions(project_folder, tmp_path):
    """Choices with a score, as its machine learning backends give them."""
    with open_workspace(project_folder.parent) as workspace:
        item = int(workspace.project(project_folder.name).pool.ids[0])
    result = {"from_name": "x", "to_name": "y", "type": "choices", "value": {"choices": ["no"]}}
    task = {
        "data": {"item": item},
        "predictions": [{"model_version": "1", "score": 0.25, "result": [result]}],
    }
    file = tmp_path / "tasks.json"
    file.write_text(json.dumps([task]))
    assert run("import", project_folder, file, "--predictions", "backend").exit_code == 0
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        (model,) = Predictions(database).all()
        assert [tuple(its) for its in Predictions(database).of(model.id)] == [(item, 0.25, "no")]


def test_predictions_come_in_blocks(project_folder):
    """The first rows are there before the pool was scored to its end."""
    with open_workspace(project_folder.parent) as workspace:
        project = workspace.project(project_folder.name)
        plane = train_model(project.database, project.pool, project.concepts()[0]).hyperplane
        rows = predictions(project.pool, plane, {})
        assert next(iter(rows))[0] == project.pool.ids[0]


def test_imports_count_as_labels_in_the_database(project_folder):
    """The view that exports read and the fold that trains agree about them."""
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        (concept,) = Concepts(database).all()
        trained = LabelLog(database).labels(concept.id)
        purposes = {answer.purpose for answer in LabelLog(database).answers_after(concept.id)}
    exported = {its["item"]: its["label"] == "yes" for its in labels(project_folder) if its["label"]}
    assert exported == dict(zip(trained.items.tolist(), trained.yes.tolist(), strict=True))
    assert purposes == {"train", "import"}


def test_label_studio_gets_the_images_that_no_file_has(project_folder, tmp_path):
    """Digits are drawn: each task has its picture, which any browser shows."""
    out = tmp_path / "tasks.json"
    said = run("export", project_folder, "--format", "label-studio", "--out", out)
    assert said.exit_code == 0
    assert "LOCAL_FILES" not in said.output
    for task in json.loads(out.read_text("utf-8")):
        head, _, content = task["data"]["image"].partition(",")
        assert head in ("data:image/png;base64", "data:image/jpeg;base64")
        with Image.open(io.BytesIO(base64.b64decode(content))) as image:
            assert max(image.size) > 8


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "label-studio"])
def test_nothing_is_overwritten_without_force(project_folder, tmp_path, form):
    """One sentence names the option, and the file stays as it was."""
    out = tmp_path / "labels"
    out.write_text("mine")
    export = ("export", project_folder, "--format", form, "--out", out)
    assert refused(*export) == f"{out} exists already: add --force to overwrite it"
    assert out.read_text() == "mine"
    assert not (tmp_path / "labels-interface.xml").exists()
    assert run(*export, "--force").exit_code == 0
    assert out.read_bytes() != b"mine"
    if form == "label-studio":
        out.unlink()
        assert f"{tmp_path / 'labels-interface.xml'} exists already" in refused(*export)
    else:
        predict = ("predict", project_folder, "--format", form, "--out", out)
        assert "add --force" in refused(*predict)
        assert run(*predict, "--force").exit_code == 0
        assert run("import", project_folder, out, "--format", form, "--predictions", "net").exit_code == 0
        predicted = ("export", project_folder, "--predictions", "net", "--format", form, "--out", out)
        assert "add --force" in refused(*predicted)
        assert run(*predicted, "--force").exit_code == 0


SPREADSHEET_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")


def test_a_byte_order_mark_is_for_spreadsheets(project_folder, tmp_path):
    """It begins a CSV file, is not part of the first heading, and is refused elsewhere.

    Such a file has the same times in a form that spreadsheets read as times, and everything else alike.
    """
    out, plain = tmp_path / "labels.csv", tmp_path / "plain.csv"
    for words in (("export",), ("export", "--log"), ("predict",)):
        assert run(words[0], project_folder, *words[1:], "--out", out, "--bom", "--force").exit_code == 0
        assert out.read_bytes().startswith(b"\xef\xbb\xbf")
        if words[0] == "export":
            assert run("import", project_folder, out).output.startswith("0 labels")
            assert run(words[0], project_folder, *words[1:], "--out", plain, "--force").exit_code == 0
            with plain.open(newline="") as one, out.open(newline="", encoding="utf-8-sig") as other:
                for bare, line in zip(csv.DictReader(one), csv.DictReader(other), strict=True):
                    times = {name for name, cell in bare.items() if cell != line[name]}
                    assert times == {name for name in bare if name.endswith(("_time", "_at")) and bare[name]}
                    assert all(SPREADSHEET_TIME.fullmatch(line[name]) for name in times)
                    assert all(milliseconds_of(bare[name]) == milliseconds_of(line[name]) for name in times)
    assert "--bom is for csv" in refused("export", project_folder, "--format", "jsonl", "--bom")
    assert "--bom is for csv" in refused("predict", project_folder, "--format", "jsonl", "--bom")


def test_options_of_label_studio_need_its_format(project_folder):
    """The sentence names the option."""
    assert refused("export", project_folder, "--classifier").startswith("--classifier needs --format label")
    assert refused("export", project_folder, "--unlabeled", "3").startswith(
        "--unlabeled needs --format label"
    )


def back_from_label_studio(project_folder: Path, tasks: Path) -> tuple[Path, int]:
    """A file in which user 3 has answered yes about an item without an answer; and the item."""
    export = ("export", project_folder, "--format", "label-studio", "--out", tasks, "--unlabeled", "1")
    assert run(*export).exit_code == 0
    peer = Imitation()
    peer.begin("", json.loads(tasks.read_text("utf-8")))
    (item,) = (
        each["data"]["item"] for each in json.loads(tasks.read_text("utf-8")) if not each["annotations"]
    )
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        (concept,) = Concepts(database).all()
    peer.add(3, item, {"result": [result(concept.name, "yes")], "lead_time": 2.5})
    back = tasks.with_name("project.json")
    back.write_bytes(peer.exported())
    return back, item


def users_of(project_folder: Path) -> dict[str, str]:
    """The users of Label Studio whose annotators the project knows."""
    settings = json.loads((project_folder / "project.json").read_text("utf-8"))
    return dict(settings.get("label_studio_users", {}))


def test_a_user_is_named_once(project_folder, tmp_path):
    """The name is kept with the project: later imports need no option, and exports name the user."""
    tasks = tmp_path / "tasks.json"
    back, item = back_from_label_studio(project_folder, tasks)
    sentence = refused("import", project_folder, back)
    assert sentence.endswith("has answers of user 3 of Label Studio: say who that is, with --user 3=NAME")
    assert "as in 3=berta" in refused("import", project_folder, back, "--user", "berta")
    assert run("import", project_folder, back, "--user", "3=berta").output.startswith("1 label ")
    assert users_of(project_folder) == {"3": "berta"}
    assert run("import", project_folder, back).output.startswith("0 labels")
    export = ("export", project_folder, "--format", "label-studio", "--out", tasks, "--force")
    assert run(*export).exit_code == 0
    of_item = {each["data"]["item"]: each for each in json.loads(tasks.read_text("utf-8"))}
    (annotation,) = of_item[item]["annotations"]
    assert (annotation["completed_by"], annotation["lead_time"]) == (3, 2.5)
    assert json.loads(run("verify", project_folder, "--json").output)["problems"] == []


@pytest.mark.parametrize(
    ("in_file", "options", "decides"),
    [
        ([], [], True),
        ([], ["--owner", "ada"], False),
        ([], ["--owner", "ada", "--owner", "Berta"], True),
        (["ada"], [], False),
        (["ada"], ["--owner", "berta"], True),
    ],
)
def test_only_the_ground_truths_of_owners_are_adjudications(
    project_folder, tmp_path, in_file, options, decides
):
    """Of those in the project file and those named; of everybody, if there are none."""
    back, item = back_from_label_studio(project_folder, tmp_path / "tasks.json")
    tasks = json.loads(back.read_text("utf-8"))
    (task,) = (each for each in tasks if each["data"]["item"] == item)
    task["annotations"][0]["ground_truth"] = True
    back.write_text(json.dumps(tasks), "utf-8")
    ProjectFile.change(project_folder, owners=in_file)
    assert run("import", project_folder, back, "--user", "3=berta", *options).exit_code == 0
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        assert LabelLog(database).state(1).decision(item) == ("yes" if decides else None)


def at_a_terminal(typed: str, *words: object) -> subprocess.CompletedProcess[str]:
    """Run a command while somebody types these lines at its terminal, and then ends the input."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode() + b"\x04")
        command = [sys.executable, "-m", "closecall.app.cli", *map(str, words)]
        return subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    finally:
        os.close(ours)
        os.close(theirs)


def test_a_user_is_asked_for_at_a_terminal(project_folder, tmp_path):
    """Until the name can be one, and only once: the name is kept with the project."""
    back, _ = back_from_label_studio(project_folder, tmp_path / "tasks.json")
    question = "Which annotator is user 3 of Label Studio:"
    ended = at_a_terminal("\n", "import", project_folder, back)
    assert ended.returncode != 0
    assert "Traceback" not in ended.stderr
    assert users_of(project_folder) == {}
    asked = at_a_terminal("\n  \nautopilot\n Berta  Möwe \n", "import", project_folder, back)
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout.count(question) == 4
    assert "'autopilot' is the simulated annotator: choose another name" in asked.stdout
    assert "1 label of " in asked.stdout
    assert users_of(project_folder) == {"3": "Berta Möwe"}
    again = at_a_terminal("", "import", project_folder, back)
    assert again.returncode == 0, again.stderr
    assert question not in again.stdout


def test_label_studio_finds_the_images_below_its_document_root(tmp_path):
    """By the addresses that go out, whatever the files are called: `d` is a path below the printed root."""
    images = tmp_path / "herbarium, wild & 100%" / "über"
    for number, name in enumerate(("a b.png", "Möwe?&#1.png", "sub+1/100%25=d.png", "sub+1/~'x'.png")):
        (images / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (8, 8), 60 * number).save(images / name)
    made = build(source_from(str(images), use_classes=False), tmp_path / "pool")
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(made.path), "Is it a leaf?")))
        ada = sit_down(project.database, project.concepts()[0], "ada")
        for item in range(len(made)):
            ada.says("yes", item)
        folder = project.folder
    tasks = tmp_path / "tasks.json"
    said = run("export", folder, "--format", "label-studio", "--out", tasks)
    assert said.exit_code == 0, said.output
    assert f"DOCUMENT_ROOT={images.parent}," in said.output
    assert f"local storage {images}." in said.output
    for task in json.loads(tasks.read_text("utf-8")):
        address = urlsplit(task["data"]["image"])
        assert (address.scheme, address.netloc, address.path) == ("", "", "/data/local-files/")
        (path,) = parse_qs(address.query, strict_parsing=True)["d"]
        original = made.source.original(task["data"]["item"])
        assert images.parent / path == original
        assert address.fragment == ""
        assert address.query.isascii()


def test_unlabeled_items_go_out_with_predictions(project_folder, tmp_path):
    """The closest calls among those without an answer, with what the classifier and another model say."""
    scores, tasks = tmp_path / "scores.csv", tmp_path / "tasks.json"
    assert run("predict", project_folder, "--out", scores).exit_code == 0
    assert run("import", project_folder, scores, "--predictions", "net").exit_code == 0
    options = ["--unlabeled", "5", "--classifier", "--predictions", "net"]
    said = run("export", project_folder, "--format", "label-studio", "--out", tasks, *options)
    assert said.exit_code == 0, said.output
    made = json.loads(tasks.read_text("utf-8"))
    with scores.open(newline="") as stream:
        lines = {int(its["item"]): its for its in csv.DictReader(stream)}
    nearest = sorted((abs(float(its["score"])), item) for item, its in lines.items() if not its["label"])
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        answered = set(LabelLog(database).answered_items(1).tolist())
    expected = [item for _, item in nearest if item not in answered][:5]
    assert sorted(each["data"]["item"] for each in made if not each["annotations"]) == sorted(expected)
    for task in made:
        line = lines[task["data"]["item"]]
        net, own = task["predictions"]
        assert (net["model_version"], own["model_version"]) == ("net", "closecall")
        for prediction in (net, own):
            (its,) = prediction["result"]
            assert its["value"]["choices"] == [line["predicted"]]
            assert its["meta"]["score"] == pytest.approx(float(line["score"]), abs=1e-4)
            assert 0 <= prediction["score"] <= 1
    net = [{**task, "predictions": task["predictions"][:1]} for task in made]
    tasks.write_text(json.dumps(net))
    assert run("import", project_folder, tasks, "--predictions", "back").exit_code == 0
    before = {item: rest for item, *rest in stored(project_folder, "net")}
    assert all(before[item] == rest for item, *rest in stored(project_folder, "back"))


def test_where_a_question_has_no_classifier_another_is_suggested(project_folder, tmp_path):
    """Which then goes out alone; where no question has one, there is none to suggest."""
    tasks = ["--format", "label-studio", "--out", tmp_path / "tasks.json"]
    with open_workspace(project_folder.parent) as workspace:
        project = workspace.project(project_folder.name)
        one, other = project.concepts()[0].name, project.add_concept("Is this a 3?").name
    sentence = refused("export", project_folder, *tasks, "--classifier")
    assert f"{other!r} has no classifier yet" in sentence
    assert f"--concept ({one!r})" in sentence
    assert "--concept" not in refused("export", project_folder, *tasks, "--classifier", "--concept", other)
    assert run("export", project_folder, *tasks, "--classifier", "--concept", one).exit_code == 0


def test_verify_knows_answers_that_kept_their_ids(project_folder, empty_folder, tmp_path):
    """Their ids say nothing of their content; the session's digest does."""
    out = tmp_path / "labels.csv"
    assert run("export", project_folder, "--out", out).exit_code == 0
    assert run("import", empty_folder, out).exit_code == 0
    verified = json.loads(run("verify", empty_folder, "--json").output)
    assert verified["problems"] == []
    assert verified["imported"] > 30
    newest = "(SELECT MAX(seq) FROM answers)"
    tamper(empty_folder, f"UPDATE answers SET item = item + 1 WHERE seq = {newest}")
    result = run("verify", empty_folder, "--json")
    assert result.exit_code == 1
    assert "differs from its file labels.csv" in " ".join(json.loads(result.output)["problems"])


def photos(folder: Path) -> Path:
    """A folder with a dozen images of two kinds, of several formats and sizes."""
    rng = np.random.default_rng(7)
    folder.mkdir()
    for number in range(12):
        pixels = rng.integers(0, 255, (30 + number, 50, 3), dtype=np.uint8)
        pixels[:, :: 2 + number % 2] = 255
        Image.fromarray(pixels).save(folder / f"{number}.{('png', 'jpg', 'webp')[number % 3]}")
    return folder


@pytest.mark.parametrize("kind", ["gist", "edges", "model"])
def test_the_exported_model_scores_other_images(kind, tmp_path):
    """As the pool's own were scored: the features are computed alike. What can't be read is listed."""
    images = photos(tmp_path / "images")
    word = {"gist": str(images), "edges": f"edges:{images}"}.get(kind)
    if word is None:
        word = f"onnx:{write_model(tmp_path / 'model' / 'small.onnx')}:{images}"
    made = build(source_from(word, use_classes=False), tmp_path / "pool")
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(made.path), "Is it a leaf?")))
        ada = sit_down(project.database, project.concepts()[0], "ada")
        for item in range(6):
            ada.says(("yes", "no")[item % 2], item)
        folder = project.folder
    scores, out = tmp_path / "scores.csv", tmp_path / "classifier"
    assert run("predict", folder, "--out", scores).exit_code == 0
    said = run("export-model", folder, "--out", out)
    assert said.exit_code == 0, said.output
    assert f"python {out / 'score.py'} IMAGE" in said.output
    with scores.open(newline="") as stream:
        expected = {its["name"]: its for its in csv.DictReader(stream)}
    (tmp_path / "broken.png").write_bytes(b"no image")
    named = [*sorted(images.iterdir()), tmp_path / "broken.png", tmp_path / "nosuch.png"]
    done = subprocess.run(
        [sys.executable, out / "score.py", *named], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 1
    broken, absent = done.stderr.splitlines()
    assert broken.startswith(f"{tmp_path / 'broken.png'} can't be scored: ")
    assert absent == f"{tmp_path / 'nosuch.png'} can't be scored: there is no such file"
    lines = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(lines) == 12
    for line in lines:
        its = expected[Path(line["image"]).name]
        assert float(line["score"]) == pytest.approx(float(its["score"]), rel=1e-4, abs=1e-5)
        assert line["predicted"] == its["predicted"]
    if kind == "model":
        (tmp_path / "model" / "small.onnx").rename(tmp_path / "model" / "moved.onnx")
        moved = list(score_images(out, named[:1], tmp_path / "model" / "moved.onnx"))
        assert moved[0].score == pytest.approx(float(expected[named[0].name]["score"]), rel=1e-4)
        write_model(tmp_path / "other" / "small.onnx", seed=1)
        with pytest.raises(InputError, match="another model"):
            list(score_images(out, named, tmp_path / "other" / "small.onnx"))


@pytest.mark.parametrize("command", ["score.py", "predict", "export"])
@pytest.mark.parametrize("read", [0, 1])
def test_a_reader_of_a_table_may_end_early(project_folder, empty_folder, tmp_path, command, read):
    """As `head` does: after nothing or one line, and nobody complains. Tables fill a buffer or don't."""
    if command == "score.py":
        assert run("export-model", project_folder, "--out", tmp_path / "model").exit_code == 0
        Image.new("L", (32, 32), 77).save(tmp_path / "grey.png")
        words = [tmp_path / "model" / "score.py", *[tmp_path / "grey.png"] * 2000]
    else:
        # Of a project without labels, an export is one line.
        words = ["-m", "closecall.app.cli", command, project_folder if command == "predict" else empty_folder]
    process = subprocess.Popen(
        [sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert all("," in process.stdout.readline() for _ in range(read))
    process.stdout.close()
    assert process.stderr.read() == ""
    process.wait()


def test_a_model_of_other_features_scores_no_images(tmp_path):
    """Nothing is written that could not run."""
    vectors = np.random.default_rng(0).standard_normal((20, 4)).astype(np.float32)
    np.save(tmp_path / "vectors.npy", vectors)
    made = build(source_from(f"vectors:{tmp_path / 'vectors.npy'}"), tmp_path / "pool")
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(made.path), "Is it a leaf?")))
        ada = sit_down(project.database, project.concepts()[0], "ada")
        for item in range(6):
            ada.says(("yes", "no")[item % 2], item)
        folder = project.folder
    said = run("export-model", folder, "--out", tmp_path / "classifier")
    assert said.exit_code == 0, said.output
    assert "score.py" not in said.output
    assert not (tmp_path / "classifier" / "score.py").exists()
    with pytest.raises(InputError, match="which images don't have"):
        list(score_images(tmp_path / "classifier", []))


def test_weights_have_the_names_that_the_documentation_gives(project_folder, tmp_path):
    """In the file, in its manifest, and on the page about import and export."""
    assert run("export-model", project_folder, "--out", tmp_path / "classifier").exit_code == 0
    page = (ROOT / "docs" / "exchange.md").read_text("utf-8")
    (line,) = (line for line in page.splitlines() if line.startswith("| `weights.npz`"))
    named = set(re.findall("`([^`]+)`", line)) - {"weights.npz"}
    with np.load(tmp_path / "classifier" / "weights.npz", allow_pickle=False) as weights:
        assert set(weights.files) == named
    manifest = json.loads((tmp_path / "classifier" / "model.json").read_text("utf-8"))
    assert all(name in manifest["files"]["weights.npz"] for name in named)
    listed = set(re.findall(r"^\| `([\w.]+)` \|", page, re.MULTILINE))
    assert {path.name for path in (tmp_path / "classifier").iterdir()} <= listed
