from __future__ import annotations

import contextlib
import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from closecall.app.cli.main import main
from closecall.app.display import pool_output
from closecall.app.sessions.demo_project import make_demo
from closecall.core.errors import InputError
from closecall.core.files.sizes import bytes_in_words
from closecall.core.pool.build_progress import being_built
from closecall.core.pool.build_size import dense_bytes
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage.address import with_schema
from tests.onnx_kit import write_model
from tests.projects import digits_pool, label, new_project, open_workspace
from tests.waiting import until
from tests.web_kit import picture, serving


def run(*words: object):
    return CliRunner().invoke(main, [str(word) for word in words])


def refused(*words: object) -> str:
    """Run a command that must fail with one sentence and exit code 2; the sentence."""
    result = run(*words)
    assert result.exit_code == 2, result.output
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.output
    assert lines[0].startswith("Error: ")
    return lines[0].removeprefix("Error: ")


@pytest.fixture
def project_folder(tmp_path):
    with open_workspace(tmp_path / "projects") as workspace:
        project = new_project(workspace)
        label(project.session(), 8)
        return project.folder


@pytest.fixture
def images(tmp_path):
    folder = tmp_path / "images"
    folder.mkdir()
    for i in range(12):
        Image.fromarray(np.full((8, 8), 20 * i, dtype=np.uint8)).save(folder / f"{i}.png")
    return folder


def test_a_missing_folder(tmp_path):
    """The sentence names the folder."""
    assert "nowhere" in refused("pool", "build", tmp_path / "nowhere", "--out", tmp_path / "pool")
    assert not (tmp_path / "pool").exists()


@pytest.mark.parametrize("kind", ["gist", "model"])
def test_a_pool_that_grows_needs_the_same_choice_of_classes(tmp_path, images, kind):
    """The sentence names the option that continues the pool, which then has the new images."""
    for i, name in enumerate(("a", "b", "a", "b")):
        (images / name).mkdir(exist_ok=True)
        Image.fromarray(np.full((8, 8), 15 * i + 9, dtype=np.uint8)).save(images / name / f"{i}.png")
    word = f"onnx:{write_model(tmp_path / 'model' / 'm.onnx')}:{images}" if kind == "model" else images
    whole, bare = tmp_path / "whole", tmp_path / "bare"
    assert run("pool", "build", word, "--out", whole).exit_code == 0
    assert run("pool", "build", word, "--out", bare, "--no-classes").exit_code == 0
    Image.fromarray(np.full((8, 8), 99, dtype=np.uint8)).save(images / "b" / "new.png")
    assert refused("pool", "build", word, "--out", bare).endswith(": give --no-classes to continue it")
    said = refused("pool", "build", word, "--out", whole, "--no-classes")
    assert said.endswith(": leave out --no-classes to continue it")
    assert run("pool", "build", word, "--out", bare, "--no-classes").exit_code == 0
    assert len(Pool.open(bare)) == 17
    assert run("pool", "build", word, "--out", whole).exit_code == 0
    grown = Pool.open(whole)
    assert len(grown) + len(grown.held_out.ids) == 17


def test_a_folder_without_images(tmp_path):
    """The sentence names the folder, and no pool is begun."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "notes.txt").write_text("no image")
    assert "empty" in refused("pool", "build", tmp_path / "empty", "--out", tmp_path / "pool")
    assert not (tmp_path / "pool").exists()


def test_a_pool_that_is_none(tmp_path):
    """The sentence names the folder."""
    assert str(tmp_path) in refused("pool", "info", tmp_path)


@pytest.fixture
def copied_pool(tmp_path):
    import shutil

    return Path(shutil.copytree(digits_pool(), tmp_path / "pool"))


def test_a_corrupt_manifest(copied_pool):
    """A manifest with one changed character is not believed."""
    manifest = copied_pool / "pool.json"
    manifest.write_text(manifest.read_text("utf-8").replace("digits", "digitz"), "utf-8")
    assert "pool.json" in refused("pool", "info", copied_pool)


def test_a_truncated_features_file(copied_pool):
    """The sentence names the file."""
    features = max(copied_pool.rglob("*.npy"), key=lambda path: path.stat().st_size)
    with features.open("r+b") as file:
        file.truncate(features.stat().st_size - 100)
    assert features.name in refused("pool", "info", copied_pool)


@pytest.mark.parametrize(
    ("embeddings", "word"),
    [
        (np.ones((11, 4), dtype=np.float32), "11"),
        (np.full((12, 4), np.nan, dtype=np.float32), "NaN"),
        (np.zeros((12, 4), dtype=np.float32), "zero"),
        (np.ones(12, dtype=np.float32), "shape"),
        (np.array([{"a": 1}] * 12, dtype=object), "Python objects"),
    ],
)
def test_embeddings_that_do_not_fit(tmp_path, images, embeddings, word):
    """Another length, NaN, zero rows, one dimension, pickles: each has its sentence."""
    np.save(tmp_path / "e.npy", embeddings, allow_pickle=True)
    sentence = refused("pool", "build", f"arrays:{tmp_path / 'e.npy'},{images}", "--out", tmp_path / "pool")
    assert word in sentence


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b"\xff\xff\xff\x7f" + bytes(12), "row 0 has 2,147,483,647 numbers"),
        (b"\x01\x00\x00\x00\x00\x00\x80\x3f" * 3 + b"\x01\x00", "row 3 has 2 of its 8 bytes"),
        (b"\x01\x00\x00\x00\x00\x00\xc0\x7f", "row 0 of"),
    ],
)
def test_vectors_that_do_not_fit(tmp_path, raw, words):
    """Empty, a huge header, cut short, NaN: each has its sentence, and no pool is made."""
    (tmp_path / "x.fvecs").write_bytes(raw)
    assert words in refused("pool", "build", f"vectors:{tmp_path / 'x.fvecs'}", "--out", tmp_path / "pool")
    assert not (tmp_path / "pool").exists()


def test_a_database_of_a_newer_version(project_folder):
    """It is not touched; the sentence says that it is newer."""
    import sqlite3

    with contextlib.closing(sqlite3.connect(project_folder / "labels.db")) as database:
        database.execute("UPDATE alembic_version SET version_num = '9999'")
        database.commit()
    before = (project_folder / "labels.db").read_bytes()
    assert "newer" in refused("serve", project_folder, "--headless", "--port", free_port())
    assert (project_folder / "labels.db").read_bytes() == before


def test_a_database_that_is_none(project_folder):
    """A file of another kind is named, and left as it is."""
    (project_folder / "labels.db").write_bytes(b"these are not labels" * 100)
    assert "labels.db" in refused("serve", project_folder, "--headless", "--port", free_port())


def test_a_port_in_use(project_folder):
    """The sentence names the port."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert str(port) in refused("serve", project_folder, "--headless", "--port", port)


def other_process(*words):
    """A command that serves, at a free port, in a process of its own that has ended."""
    command = [*words, "--headless", "--port", free_port()]
    return subprocess.run(
        [sys.executable, "-m", "closecall.app.cli", *map(str, command)],
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_a_project_that_is_being_served(tmp_path):
    """Another process is told so; the one that serves goes on."""
    with open_workspace(tmp_path / "projects") as workspace:
        project = new_project(workspace)
        label(project.session(), 2)
        other = other_process("serve", project.folder)
        assert other.returncode == 2
        assert "already being served" in other.stderr
        assert len(other.stderr.strip().splitlines()) == 1
        label(project.session(), 2)


def test_a_demo_that_is_being_served(tmp_path):
    """The sentence says how to have another one."""
    with open_workspace(tmp_path / "demo") as workspace:
        key = make_demo(workspace, 300)
        workspace.project(key)
        other = other_process("demo", "--items", 300, "--data", tmp_path / "demo")
    assert other.returncode == 2
    assert "already being served" in other.stderr
    assert other.stderr.strip().endswith("or choose another folder for the demo with --data")


def test_no_project_to_serve(tmp_path):
    """The sentence names what was given."""
    assert "nothing" in refused("serve", tmp_path / "nothing", "--headless")


def test_the_demo_does_not_shrink(tmp_path):
    """A demo with fewer items than are there says what to do instead."""
    with open_workspace(tmp_path) as workspace:
        make_demo(workspace, 200)
        with pytest.raises(InputError, match="more than"):
            make_demo(workspace, 100)


def test_the_demo_s_help_names_the_sizes_that_it_takes():
    """The option's limits, and no other limit in words."""
    said = " ".join(run("demo", "--help").output.split())
    assert "100<=x<=100000000" in said
    assert not re.search("up to|at most|million", said)
    assert "100000001" in run("demo", "--items", 100_000_001).stderr


def test_export_gives_each_label_once(project_folder):
    """CSV and JSON Lines have one row an item; the log has one an answer."""
    labels = [
        json.loads(line) for line in run("export", project_folder, "--format", "jsonl").output.splitlines()
    ]
    assert len(labels) == len({row["item"] for row in labels}) == 8
    assert all(row["name"].startswith("digit") for row in labels)
    table = run("export", project_folder, "--format", "csv").output.splitlines()
    assert len(table) == 9
    assert len(run("export", project_folder, "--format", "jsonl", "--log").output.splitlines()) == 8
    assert "zebra" in refused("export", project_folder, "--concept", "zebra")


def test_backup_and_restore_bring_back_the_labels(project_folder, tmp_path):
    """What was labeled after the backup is set aside, not destroyed."""
    copy = tmp_path / "labels.backup"
    assert run("backup", project_folder, copy).exit_code == 0
    assert "exists" in refused("backup", project_folder, copy)
    with open_workspace(project_folder.parent) as workspace:
        label(workspace.project(project_folder.name).session(), 3)
    assert "exists" in refused("restore", copy, project_folder)
    assert run("restore", copy, project_folder, "--force").exit_code == 0
    assert len(run("export", project_folder, "--format", "jsonl").output.splitlines()) == 8
    assert list(project_folder.glob("labels.db.replaced-*"))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.thorough
def test_a_server_that_is_told_to_stop_ends_its_builder_too(tmp_path):
    """SIGTERM is as good as Ctrl+C: no process is left behind, and what was built is kept."""
    command = ["demo", "--items", "500000", "--headless", "--port", free_port(), "--data", tmp_path]
    server = subprocess.Popen(
        [sys.executable, "-m", "closecall.app.cli", *map(str, command)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    pool = tmp_path / "digits" / "pool"
    try:
        until(lambda: being_built(pool))
        server.terminate()
        server.wait(timeout=300)
        assert not being_built(pool)
    finally:
        server.kill()
        server.wait()


def test_labels_of_other_images_are_not_restored(project_folder, tmp_path):
    """A backup of another project changes nothing, even by force."""
    images = tmp_path / "images"
    images.mkdir()
    for i in range(12):
        Image.effect_noise((16, 16), 40 + i).save(images / f"{i}.png")
    other = tmp_path / "other"
    assert run("new", other, "--images", images, "--question", "Is it noise?").exit_code == 0
    copy = tmp_path / "labels.backup"
    assert run("backup", project_folder, copy).exit_code == 0
    assert run("pool", "build", images, "--out", other / "pool").exit_code == 0
    before = (other / "labels.db").read_bytes()
    assert "other items" in refused("restore", copy, other, "--force")
    assert (other / "labels.db").read_bytes() == before


def test_a_project_can_be_made_and_a_pool_is_none(project_folder, tmp_path):
    """What `new` makes can be served; a pool's folder cannot, and the sentence says what to do."""
    made = tmp_path / "mine"
    assert run("new", made, "--images", digits_pool(), "--question", "Is it a 3?").exit_code == 0
    with open_workspace(tmp_path) as workspace:
        assert workspace.project("mine").concepts()[0].positive_class == "3"
    assert "exists already" in refused("new", made, "--images", digits_pool(), "--question", "Is it?")
    assert "closecall new" in refused("serve", digits_pool(), "--headless", "--port", free_port())


@pytest.mark.parametrize(
    ("words", "answer", "taken"),
    [
        (("Is there a fox?",), None, False),
        (("Is there a fox?",), "n", False),
        (("Is there a fox?",), "y", True),
        (("Is there a fox?", "--classes"), None, True),
        (("Is it a cat?",), None, True),
        (("Is it a cat?", "--no-classes"), None, False),
        (("Is there a fox?", "--positive", "cat"), None, True),
    ],
)
def test_new_says_what_it_took_for_classes(tmp_path, monkeypatch, words, answer, taken):
    """Subfolders are named; where the question names none of them, somebody at a terminal is asked."""
    for kind in ("cat", "dog"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        for i in range(12):
            Image.new("L", (8, 8), 20 * i).save(tmp_path / "images" / kind / f"{i}.png")
    monkeypatch.setattr("closecall.app.cli.new._somebody_answers", lambda: answer is not None)
    made = ["new", tmp_path / "mine", "--images", tmp_path / "images", "--question", *words]
    result = CliRunner().invoke(main, [str(word) for word in made], input=answer)
    assert result.exit_code == 0, result.output
    assert "cat, dog" in result.output
    assert ("Are these subfolders classes" in result.output) is (answer is not None)
    assert ("Subfolders are classes:" in result.output) is taken
    assert json.loads((tmp_path / "mine" / "project.json").read_text())["use_classes"] is taken


def photographs(folder: Path, **classes: int) -> Path:
    """A folder with some images of each class."""
    for name, number in classes.items():
        (folder / name).mkdir(parents=True)
        for i in range(number):
            Image.effect_noise((16, 16), 40 + i).save(folder / name / f"{i}.png")
    return folder


def test_new_prepares_the_images_and_import_and_restore_work_at_once(tmp_path):
    """With the images prepared, and also before: labels are matched to the list, which is there."""
    images = photographs(tmp_path / "images", Faces=20, cup=20)
    (tmp_path / "labels.csv").write_text("name,label\nFaces/3.png,yes\ncup/4.png,no\n")
    done, begun, copy = tmp_path / "done", tmp_path / "begun", tmp_path / "labels.backup"
    question = ("--question", "Is it a face?", "--no-classes")
    made = run("new", done, "--images", images, *question)
    assert made.exit_code == 0, made.output
    assert "Preparing 40 images." in made.output
    assert "40 items to label" in made.output
    assert made.output.splitlines()[-1] == f"Created. Label with: closecall serve {done}"
    assert run("pool", "info", done / "pool").output.count("(complete)") == 1
    assert run("new", begun, "--images", images, *question, "--no-build").exit_code == 0
    for project in (done, begun):
        assert "2 labels" in run("import", project, tmp_path / "labels.csv").output
        assert "2 stored already" in run("import", project, tmp_path / "labels.csv").output
    assert run("backup", done, copy).exit_code == 0
    assert run("restore", copy, begun, "--force").exit_code == 0
    with open_workspace(tmp_path) as workspace:
        project = workspace.project("begun")
        until(lambda: project.pool is not None and project.pool.complete)
        counts = project.live_concept(project.concepts()[0].id).counts()
        assert (counts.yes, counts.no) == (1, 1)


def test_new_stores_features_in_half_the_space(tmp_path):
    """Also if the server prepares the images; where it can't be, there is no project."""
    images = photographs(tmp_path / "images", Faces=20, cup=20)
    question = ("--question", "Is it a face?", "--no-classes", "--dtype", "float16")
    done, begun = tmp_path / "done", tmp_path / "begun"
    said = run("new", done, "--images", images, *question).output
    assert f"40 items, {bytes_in_words(dense_bytes(40, 384, 'float16'))} on disk." in said
    assert run("new", begun, "--images", images, *question, "--no-build").exit_code == 0
    shutil.rmtree(begun / "pool")
    with open_workspace(tmp_path) as workspace:
        project = workspace.project("begun")
        until(lambda: project.pool is not None and project.pool.complete)
    assert [Manifest.read(folder / "pool").dtype for folder in (done, begun)] == ["float16", "float16"]
    (tmp_path / "letters.csv").write_text("text\nA letter.\nAnother letter.\n")
    letters = ("--images", f"texts:{tmp_path / 'letters.csv'}")
    assert "sparse features, which are float32" in refused("new", tmp_path / "x", *letters, *question)
    assert "leave the dtype out" in refused("new", tmp_path / "x", "--images", done / "pool", *question)
    assert not (tmp_path / "x").exists()


def test_what_is_held_out_is_not_imported_before_it_is_prepared(tmp_path):
    """As afterwards."""
    images = photographs(tmp_path / "images", Faces=20, cup=20)
    mine = tmp_path / "mine"
    words = ("new", mine, "--images", images, "--question", "Is it a face?", "--no-build")
    assert run(*words).exit_code == 0
    source = source_from(str(images))
    held = source.names(source.held_out())
    assert held
    (tmp_path / "labels.csv").write_text("name,label\n" + "".join(f"{name},yes\n" for name in held))
    assert "held out to measure accuracy" in refused("import", mine, tmp_path / "labels.csv")


@pytest.mark.parametrize("project", ["", "."])
def test_new_needs_a_name(images, project):
    """An empty one is no name, and neither is that of the working folder."""
    said = refused("new", project, "--images", images, "--question", "Is it a leaf?")
    assert said == "PROJECT must name a new folder, got an empty name or the working folder"


def test_a_stopped_new_leaves_a_project_that_serve_continues(tmp_path, monkeypatch):
    """Ctrl+C ends the preparation with exit code 130; the sentence names the command that continues."""
    begun = pool_output.build

    def stopped(*words: Any, stop: threading.Event, **more: Any) -> Any:
        stop.set()
        return begun(*words, stop=stop, **more)

    images, mine = photographs(tmp_path / "images", a=30, b=30), tmp_path / "mine"
    with monkeypatch.context() as interrupted:
        interrupted.setattr(pool_output, "build", stopped)
        result = run("new", mine, "--images", images, "--question", "Is it red?")
    assert result.exit_code == 130
    assert f"closecall serve {mine} prepares the remaining images" in result.stderr
    with open_workspace(tmp_path) as workspace:
        project = workspace.project("mine")
        until(lambda: project.pool is not None and project.pool.complete)


def test_new_on_a_full_disk_says_how_to_go_on(tmp_path, images, monkeypatch):
    """What the disk lacks is what was announced. The project is there; serving it prepares the images."""
    mine, free = tmp_path / "mine", SimpleNamespace(free=0)
    with monkeypatch.context() as full:
        full.setattr("shutil.disk_usage", lambda _: free)
        result = run("new", mine, "--images", images, "--question", "Is it red?")
    assert result.exit_code == 2
    announced = re.search(r"12 items, (.+) on disk", result.output)
    assert announced is not None
    assert f"has 0 bytes free, and the pool needs {announced[1]} more" in result.stderr
    assert result.stderr.endswith(f"the project is created, and closecall serve {mine} tries again\n")
    with open_workspace(tmp_path) as workspace:
        project = workspace.project("mine")
        until(lambda: project.pool is not None and project.pool.complete)


def test_images_of_which_none_can_be_read(tmp_path):
    """The sentence says so, and that the project exists."""
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(b"no image")
    sentence = refused("new", tmp_path / "mine", "--images", tmp_path / "images", "--question", "Is it red?")
    assert "none of the 1 items" in sentence
    assert "closecall serve" in sentence


def test_new_asks_several_questions(tmp_path):
    """Each with the class that it names; options for one of them belong to `question add`."""
    images, mine = photographs(tmp_path / "images", Faces=20, wild_cat=20, house_cat=20), tmp_path / "mine"
    asked = [word for q in ("Is it a face?", "Is it a cat?", "Is it red?") for word in ("--question", q)]
    assert "question add" in refused("new", mine, "--images", images, *asked, "--positive", "Faces")
    made = run("new", mine, "--images", images, *asked)
    assert made.exit_code == 0, made.output
    assert "'Is it a face?': yes means the class 'Faces'." in made.output
    assert "'Is it a cat?' may mean the class" in made.output
    assert "'Is it red?' names no class: accuracy on held-out items is unknown" in made.output
    listed = run("question", "list", mine).output.splitlines()
    assert listed == [
        "Is it a face: Is it a face?, yes means Faces",
        "Is it a cat: Is it a cat?",
        "Is it red: Is it red?",
    ]


def test_a_person_at_a_terminal_chooses_the_class(tmp_path, monkeypatch):
    """Where several have the question's noun; "none" is a choice, too."""
    monkeypatch.setattr("closecall.app.cli.new._somebody_answers", lambda: True)
    images, mine = photographs(tmp_path / "images", wild_cat=20, house_cat=20), tmp_path / "mine"
    words = ["new", str(mine), "--images", str(images), "--question", "Is it a cat?", "--classes"]
    made = CliRunner().invoke(main, words, input="cat\nwild_cat\n")
    assert made.exit_code == 0, made.output
    added = CliRunner().invoke(main, ["question", "add", str(mine), "Is this a cat?"], input="none\n")
    assert added.exit_code == 0, added.output
    with open_workspace(tmp_path) as workspace:
        asked = [concept.positive_class for concept in workspace.project("mine").concepts()]
    assert asked == ["wild_cat", None]


def test_a_question_is_added(tmp_path):
    """With its name, guideline and class; what can't be added is refused in a sentence."""
    images, mine = photographs(tmp_path / "images", Faces=20, cup=20), tmp_path / "mine"
    assert run("new", mine, "--images", images, "--question", "Is it red?", "--classes").exit_code == 0
    words = ("--name", "mug", "--guideline", "With a handle.", "--positive-class", "cup")
    assert "by the name 'mug'" in run("question", "add", mine, "Is it a  mug?", *words).output
    assert "yes means the class 'Faces'" in run("question", "add", mine, "Does it show FACES?").output
    nothing = run("question", "add", mine, "Is it a cup?", "--positive-class", "")
    assert "yes means" not in nothing.output
    assert "no class 'zebra'; they have cup, Faces" in refused(
        "question", "add", mine, "Is it a zebra?", "--positive-class", "zebra"
    )
    assert "already" in refused("question", "add", mine, "Is it a cup?")
    assert "the project asks 'Is it a cup?' already" in refused("question", "add", mine, "is it  a CUP?")
    assert "already" in refused("question", "add", mine, "is it a cup?", "--name", "small cup")
    assert "must have an answer" in refused("question", "add", mine, " ")
    assert "There is no project" in refused("question", "add", tmp_path / "none", "Is it?")
    with open_workspace(tmp_path) as workspace:
        mug = workspace.project("mine").concepts()[1]
        assert (mug.question, mug.guideline, mug.positive_class) == ("Is it a mug?", "With a handle.", "cup")
        assert "under Settings" in refused("question", "add", mine, "Is it green?")
        assert "Is it a cup" in run("question", "list", mine).output


def test_new_lists_a_remote_folder_once_and_shows_how_its_images_are_described(tmp_path, monkeypatch):
    """The sentences on the model come before the project is made, as in `pool build`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "*")
    model = write_model(tmp_path / "m.onnx")
    with serving({f"/set/{'cat' if i % 2 else 'dog'}/{i}.png": picture(i) for i in range(12)}) as server:
        word = f"onnx:{model}:{server.address}/set"
        words = ("new", tmp_path / "mine", "--images", word, "--question", "Is there a fox?")
        made = run(*words, "--no-build")
        assert made.exit_code == 0, made.output
        assert sorted(server.asked) == ["/set/", "/set/cat/", "/set/dog/"]
    lines = made.output.splitlines()
    about = source_from(f"onnx:{model}:digits:9").about_features()
    assert lines[0].startswith(f"Images in {server.address}/set/, by ")
    assert "12 items" in lines[0]
    assert {line for line in about if " per second" not in line} < set(lines[:-2])
    assert "serve" in lines[-2]
    assert "prepares the 12 images" in lines[-2]
    assert lines[-1].startswith("Created.")


def test_labels_in_postgresql(server, tmp_path):
    """What is made with an address keeps it, and all commands find the labels there, each project its own."""
    for name in ("mine", "yours"):
        made = run(
            *("new", tmp_path / name, "--images", digits_pool(), "--question", "Is it a 3?"),
            *("--database", with_schema(server.address, f"{tmp_path.name}-{name}")),
        )
        assert made.exit_code == 0, made.output
        assert not list((tmp_path / name).glob("labels.db*"))
    mine, copy = tmp_path / "mine", tmp_path / "labels.backup"
    with open_workspace(tmp_path) as workspace:
        label(workspace.project("mine").session(), 8)
        yours = workspace.project("yours")
        assert yours.live_concept(yours.concepts()[0].id).counts().answered == 0
    assert len(run("export", mine, "--format", "jsonl").output.splitlines()) == 8
    assert run("verify", mine).exit_code == 0
    assert run("backup", mine, copy).exit_code == 0
    assert "--force" in refused("restore", copy, mine)
    assert "labels of a project" in refused(
        *("new", tmp_path / "other", "--images", digits_pool(), "--question", "Is it a 3?"),
        *("--database", with_schema(server.address, f"{tmp_path.name}-mine")),
    )
    assert not (tmp_path / "other").exists()


def test_labels_move_to_postgresql_and_back(server, project_folder, tmp_path):
    """By a backup and a restore that names the new place; where they were before, they stay."""
    copy, address = tmp_path / "copy", with_schema(server.address, tmp_path.name)
    before = run("export", project_folder, "--log").output
    assert run("backup", project_folder, copy).exit_code == 0
    assert "labels.db" in refused("serve", project_folder, "--headless", "--database", address)
    assert run("restore", copy, project_folder, "--database", address).exit_code == 0
    (project_folder / "labels.db").rename(tmp_path / "put-away.db")
    assert run("export", project_folder, "--log").output == before
    with open_workspace(project_folder.parent) as workspace:
        label(workspace.project(project_folder.name).session(), 3)
    assert run("backup", project_folder, tmp_path / "later").exit_code == 0
    assert run("restore", tmp_path / "later", project_folder, "--database", "sqlite").exit_code == 0
    after = run("export", project_folder, "--log").output.splitlines()
    assert after[: len(before.splitlines())] == before.splitlines()
    assert len(after) == len(before.splitlines()) + 3
    assert run("verify", project_folder).exit_code == 0


def test_a_password_does_not_belong_into_an_address(project_folder, tmp_path):
    """Neither on the command line nor in the project's file; and it is not repeated."""
    secret = "postgresql://ada:s3cret@127.0.0.1:1/labels"
    for words in (["demo", "--data", tmp_path], ["serve", project_folder], ["serve", tmp_path]):
        sentence = refused(*words, "--headless", "--port", free_port(), "--database", secret)
        assert "PGPASSWORD" in sentence
        assert "s3cret" not in sentence
    assert "s3cret" not in refused("serve", project_folder, "--database", "host=db password=s3cret")
    file = project_folder / "project.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"database": secret}))
    assert "s3cret" not in refused("export", project_folder)


def test_a_database_that_does_not_answer(tmp_path):
    """The sentence names it, and no project is begun."""
    words = ["--images", digits_pool(), "--question", "Is it a 3?", "--database"]
    sentence = refused("new", tmp_path / "mine", *words, "postgresql://ada@127.0.0.1:1/labels")
    assert "postgresql://ada@127.0.0.1:1/labels?schema=mine cannot be reached" in sentence
    assert list(tmp_path.iterdir()) == []


def test_an_export_into_a_folder_that_is_not_there(project_folder, tmp_path):
    """The sentence names the file."""
    assert "nowhere" in refused("export", project_folder, "--out", tmp_path / "nowhere" / "labels.csv")


TOO_LONG = "a" * 300


@pytest.mark.parametrize(
    "words",
    [
        ("new", TOO_LONG, "--images", "{images}", "--question", "Is it a leaf?"),
        ("new", "{new}", "--images", TOO_LONG, "--question", "Is it a leaf?"),
        ("pool", "build", "{images}", "--out", TOO_LONG),
        ("export", TOO_LONG),
        ("export", "{project}", "--out", TOO_LONG),
        ("serve", TOO_LONG, "--headless"),
        ("backup", "{project}", TOO_LONG),
    ],
    ids=" ".join,
)
def test_a_name_that_is_too_long(project_folder, images, tmp_path, words):
    """The sentence says so and gives the name, whatever the name is for."""
    paths = {"project": project_folder, "images": images, "new": tmp_path / "new"}
    sentence = refused(*(word.format(**paths) for word in words))
    assert sentence.startswith("File name too long: ")
    assert "aaaa" in sentence


def all_commands(command: click.Command = main, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words that call each command, groups included."""
    below = getattr(command, "commands", None) or getattr(command, "others", {})
    return [path, *(words for name, one in below.items() for words in all_commands(one, (*path, name)))]


@pytest.mark.parametrize("words", all_commands(), ids=" ".join)
def test_a_wrong_command_line_is_one_line_that_says_where_the_help_is(words):
    """For each command, whatever is wrong; exit code 2."""
    said = refused(*words, "--nonsense")
    assert said.startswith("No such option '--nonsense'. ")
    assert said.endswith(f" See {' '.join(['closecall', *words])} --help.")


@pytest.mark.parametrize(
    ("words", "sentences"),
    [
        ("serv x", "No such command 'serv'. Did you mean 'serve'? See closecall --help."),
        ("pool buidl", "No such command 'buidl'. Did you mean 'build'? See closecall pool --help."),
        ("demo --itmes 5", "No such option '--itmes'. Did you mean '--items'? See closecall demo --help."),
        ("backup one", "Missing argument 'FILE'. See closecall backup --help."),
        ("export x --format", "Option '--format' requires an argument. See closecall export --help."),
        (
            "compare similar --bits",
            "Option '--bits' requires an argument. See closecall compare similar --help.",
        ),
        (
            "serve x --port eight",
            "Invalid value for '--port': 'eight' is not a whole number. See closecall serve --help.",
        ),
        (
            "compare --prevalence much",
            "Invalid value for '--prevalence': 'much' is not a number. See closecall compare --help.",
        ),
        ("pool info one two", "Got unexpected extra argument (two). See closecall pool info --help."),
    ],
)
def test_a_mistake_in_the_command_line_is_named(words, sentences):
    assert refused(*words.split()) == sentences


@pytest.mark.parametrize("words", ["", "pool", "bench"])
def test_a_group_without_a_command_shows_its_help(words):
    """It lists the commands."""
    result = run(*words.split())
    assert result.exit_code == 2
    assert "Commands:" in result.stderr


RESUMES, SERVES = "the same command continues from there.", "the same command serves them again."
AGAIN, NEW_FOLDER = "The same command starts from the beginning.", "with --out, it needs a new folder."


@pytest.mark.parametrize(
    ("words", "begins_with", "sentence"),
    [
        ("demo", "server.asgi.require_free_port", SERVES),
        ("serve x", "server.asgi.require_free_port", SERVES),
        ("new x --images y --question z", "projects.folder_classes.given_source", AGAIN),
        ("pool build digits:9 --out y", "display.pool_output.show_build", RESUMES),
        ("pool info x", "display.pool_output.show_pool", AGAIN),
        ("pool duplicates x", "display.duplicate_output.show_duplicates", AGAIN),
        ("verify x", "verification.verify.verify_project", AGAIN),
        ("export x", "exchange.exporting.export_labels", AGAIN),
        ("import x y", "exchange.importing.import_labels", AGAIN),
        ("export-model x --out y", "exchange.model.export_model", AGAIN),
        ("backup x y", "exchange.backup.backup_labels", AGAIN),
        ("restore x y", "exchange.backup.restore_labels", AGAIN),
        ("compare --out x", "experiments.compare.comparison.run_comparison", RESUMES),
        ("compare similar --out x", "experiments.compare.similar.comparison.run_comparison", RESUMES),
        ("bench select --pool x", "experiments.bench.experiment.run", AGAIN),
        ("bench team --pool x", "experiments.bench.experiment.run", NEW_FOLDER),
    ],
)
def test_a_stopped_command_says_what_running_it_again_does(monkeypatch, words, begins_with, sentence):
    """Ctrl+C ends it with exit code 130. Only those that continue promise to."""

    def stops(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(f"closecall.app.{begins_with}", stops)
    result = run(*words.split())
    assert result.exit_code == 130
    assert result.stderr.startswith("Stopped. ")
    assert result.stderr.endswith(f"{sentence}\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("module", ["closecall.app.cli.main", "numpy"])
def test_a_command_that_is_stopped_while_it_starts(module):
    """Ctrl+C during the slow imports ends as Ctrl+C in a command does, without their traceback."""
    interrupted = f"""
import os, runpy, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["closecall", "pool", "info", "nowhere"]
runpy.run_module("closecall.app.cli", run_name="__main__", alter_sys=True)
"""
    done = subprocess.run([sys.executable, "-P", "-c", interrupted], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, f"Stopped. {AGAIN}\n")
    project = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["scripts"]["closecall"] == "closecall.app.cli.__main__:run"


def test_a_question_that_is_not_answered_stops_the_command(tmp_path, monkeypatch):
    """Ctrl+C or the end of the input, where `new` asks about subfolders; nothing is created."""
    for kind in ("cat", "dog"):
        (tmp_path / "images" / kind).mkdir(parents=True)
        Image.new("L", (8, 8)).save(tmp_path / "images" / kind / "1.png")
    monkeypatch.setattr("closecall.app.cli.new._somebody_answers", lambda: True)
    result = run("new", tmp_path / "x", "--images", tmp_path / "images", "--question", "Is there a fox?")
    assert result.exit_code == 130
    assert result.stderr.splitlines()[-1] == f"Stopped. {AGAIN}"
    assert not (tmp_path / "x").exists()


def test_a_stopped_build_ends_as_a_stopped_command(tmp_path, monkeypatch):
    """With exit code 130; what was built stays, and the same command completes it."""
    begun = pool_output.build

    def stopped(*words: Any, stop: threading.Event, **more: Any) -> Any:
        stop.set()
        return begun(*words, stop=stop, **more)

    build = ("pool", "build", "digits:300", "--out", tmp_path / "pool")
    for quiet in ((), ("--quiet",)):
        with monkeypatch.context() as interrupted:
            interrupted.setattr(pool_output, "build", stopped)
            result = run(*build, *quiet)
        assert result.exit_code == 130
        assert result.stderr.endswith(f"{RESUMES}\n")
    assert run(*build).exit_code == 0
