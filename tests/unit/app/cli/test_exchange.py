"""The commands that take labels, predictions and classifiers in and out of a project."""

from __future__ import annotations

import base64
import csv
import io
import json

import joblib
import numpy as np
import pyarrow.parquet
import pytest
from PIL import Image
from sklearn.svm import LinearSVC

from closecall.app.api.cards import card_of, submit
from closecall.app.exchange.model import predictions, train_model
from closecall.core.linear.svm import train
from closecall.storage import Concepts, Database, LabelLog
from closecall.storage.predictions import Predictions
from tests.projects import answer, label, new_project, open_workspace, tamper, truth_word
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
        assert session.strategy == "margin-index"
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


def test_a_project_in_use_is_left_alone(tmp_path):
    """Whoever serves it holds it; the sentence says so."""
    file = tmp_path / "labels.csv"
    file.write_text("item,label\n1,yes\n")
    with open_workspace(tmp_path / "projects") as workspace:
        project = new_project(workspace)
        assert "already being served" in refused("import", project.folder, file)
        assert project.log.position() == 0


def test_exports_that_cannot_be(project_folder, tmp_path):
    """No binary table in the terminal, no log where there is no room for one, nothing overwritten."""
    assert "--out" in refused("export", project_folder, "--format", "parquet")
    assert "--out" in refused("export", project_folder, "--format", "folder")
    assert "--log" in refused("export", project_folder, "--format", "label-studio", "--log")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    assert "not empty" in refused("export", project_folder, "--format", "folder", "--out", tmp_path / "full")
    assert "not empty" in refused("export-model", project_folder, "--out", tmp_path / "full")
    assert "--format" in refused("predict", project_folder, "--out", tmp_path / "scores.xlsx")
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
