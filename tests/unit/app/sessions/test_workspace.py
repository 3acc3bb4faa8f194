from __future__ import annotations

import io
import json
import os
import re
import shutil
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from PIL import Image

from closecall.app.api.cards import card_of
from closecall.app.exchange.rows import add_labels
from closecall.app.projects.config import (
    LABELS_FILE,
    POOL_FOLDER,
    PROJECT_FILE,
    ProjectFile,
    lock_project,
)
from closecall.app.projects.folder_classes import FolderClasses, given_source
from closecall.app.projects.pool_builder import Builder
from closecall.app.projects.positive_class import guess_class
from closecall.app.projects.roles import Roles
from closecall.app.projects.uploaded_images import uploadable
from closecall.app.sessions.demo_project import DEMO, make_demo
from closecall.app.sessions.new_project import NewProject, SameProjectError
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.storage import Database, LabelLog, StorageError
from closecall.storage.imports import IMPORT
from tests.projects import digits_pool, label, new_project, open_workspace
from tests.storage_kit import ENGINES, Annotator
from tests.waiting import until


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("Is this a 7?", "7"),
        ("Is it an airplane?", "airplane"),
        ("Is it an African Elephant?", "African elephant"),
        ("Is it an elephant?", "elephant"),
        ("Is it a biplane?", None),
        ("Is it 7 or 8 years old?", None),
        ("", None),
    ],
)
def test_a_question_names_its_class(question, named):
    """The class at the question's end means yes; half a word is no class."""
    assert guess_class(question, ["7", "airplane", "plane", "elephant", "African elephant"]) == named


@pytest.mark.parametrize(
    ("new", "word"),
    [
        (NewProject("digits:200", "  "), "question"),
        (
            NewProject("digits:200", "Is it " + 200 * "a"),
            "The question is too long .200 characters at most, got 206.",
        ),
        (NewProject("", "Is it?"), "folder"),
        (NewProject("digits:200", "Is it a 12?", "12"), "12"),
        (NewProject("digits:200", "Is it a 7?", examples=[("a.png", b"no image")]), "The example “a.png”"),
        (NewProject("/nowhere/at/all", "Is it?"), "nowhere"),
    ],
)
def test_a_project_that_cannot_be_made_leaves_nothing_behind(tmp_path, new, word):
    """One sentence, and the folder is as empty as before."""
    with open_workspace(tmp_path) as workspace:
        with pytest.raises(InputError, match=word):
            workspace.create(new)
        assert list(tmp_path.iterdir()) == []


def test_recent_folders_are_those_of_the_newest_projects(tmp_path, monkeypatch):
    """Each once; not those that are gone or can't be read, nor those of projects closed to a person."""
    folders = {name: tmp_path / name for name in ("leaves", "seeds", "gone", "secret", "others")}
    may = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folders["secret"] and may(path, mode))
    with open_workspace(tmp_path / "projects") as workspace:
        asked = [*folders, "leaves", "seeds", "leaves"]
        for age, name in enumerate(asked):
            for i in range(2):
                folders[name].mkdir(exist_ok=True)
                Image.effect_noise((16, 16), 20 + i).save(folders[name] / f"{i}.png")
            key = workspace.create(NewProject(str(folders[name]), f"Is it {age}?"), closed=True)
            if name == "others":
                ProjectFile.change(tmp_path / "projects" / key, owners=["bob"], annotators=["bob"])
            os.utime(tmp_path / "projects" / key / PROJECT_FILE, (age, age))
        shutil.rmtree(folders["gone"])
        assert workspace.recent_folders("ada") == [str(folders["leaves"]), str(folders["seeds"])]
        assert workspace.recent_folders("bob") == [
            str(folders[name]) for name in ("leaves", "seeds", "others")
        ]


def test_two_projects_with_the_same_question_have_their_own_folders(tmp_path):
    """A name that is taken gets a number."""
    with open_workspace(tmp_path) as workspace:
        one, other = new_project(workspace), new_project(workspace)
        assert one.key != other.key
        assert {summary.key for summary in workspace.projects()} == {one.key, other.key}


def test_the_list_tells_how_far_each_project_is(tmp_path):
    """Counts and accuracy of labeled ones; a damaged one says so and hides none of the others."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        label(project.session(), 12)
        settings = json.loads((project.folder / "project.json").read_text("utf-8"))
        for key, text in {
            "broken": "{",
            "elsewhere": json.dumps(settings | {"database": "mysql://localhost/labels"}),
        }.items():
            (tmp_path / key).mkdir()
            (tmp_path / key / "project.json").write_text(text, "utf-8")
        summaries = {summary.key: summary for summary in workspace.projects("ada")}
        assert workspace.annotators("ada") == {"annotator"}
    assert "held-out" in summaries[project.key].status
    assert summaries[project.key].has_labels
    assert len(summaries[project.key].thumbnails) == 5
    assert "damaged" in summaries["broken"].problem
    assert "must begin with postgresql://, not with mysql://" in summaries["elsewhere"].problem


def test_annotators_are_those_who_have_answers(tmp_path):
    """In the program or in an imported file; not those who have only looked, nor files that name nobody."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        concept, (one, other) = project.concepts()[0], project.pool.ids[-2:].tolist()
        label(project.session(annotator="Ada"), 1)
        project.session(annotator="Bob")
        add_labels(project, concept, [{"item": one, "label": "yes", "annotator": "Eve"}], IMPORT)
        add_labels(project, concept, [{"item": other, "label": "yes"}], IMPORT)
        assert workspace.annotators("EVE") == {"Ada", "Eve"}


def test_a_folder_that_cannot_be_read_hides_no_project(tmp_path, monkeypatch):
    """Such as another user's folder, among the projects."""
    (tmp_path / "locked").mkdir()
    is_file = Path.is_file

    def refusing(path: Path) -> bool:
        if path.parent.name == "locked":
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refusing)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        assert [summary.key for summary in workspace.projects()] == [project.key]


def test_the_list_opens_no_project_that_nobody_has_entered(tmp_path):
    """It says the same of one that is closed as of one that is open, and of labels that were added since."""
    with open_workspace(tmp_path) as workspace:
        key = new_project(workspace).key
        label(workspace.project(key).session(annotator="Ada"), 12)
        open_ones = workspace.projects()
    with open_workspace(tmp_path) as workspace:
        assert workspace.projects() == workspace.projects() == open_ones
        assert workspace.opened() == []
        assert workspace.annotators("Bob") == {"Ada"}
        assert workspace.opened() == []
        with lock_project(tmp_path / key):
            (served,) = workspace.projects()
            assert "another process" in served.problem
            assert not served.usable
            with Database.open(tmp_path / key / LABELS_FILE) as database:
                log = LabelLog(database)
                sitting = Annotator(log, log.sessions()[0])
                taken = set(log.answered_items(sitting.session.concept_id).tolist())
                sitting.says("skip", next(item for item in range(200, 300) if item not in taken))
        (again,) = workspace.projects()
        assert "1 skipped" in again.status
        workspace.project(key)
        assert workspace.projects() == [again]


def test_a_project_that_takes_long_to_open_holds_up_no_other(tmp_path, monkeypatch):
    """Such as one whose database server doesn't answer; those who wait for it get the same project."""
    with open_workspace(tmp_path) as workspace:
        slow, other, opened = (new_project(workspace).key for _ in range(3))
    begun, end, open_for_real = threading.Event(), threading.Event(), OpenProject.__init__

    def opens(project: OpenProject, folder: Path, roles: Roles, **options: object) -> None:
        if folder.name == slow:
            assert not begun.is_set(), "opened twice"
            begun.set()
            assert end.wait(300)
        open_for_real(project, folder, roles, **options)

    with open_workspace(tmp_path) as workspace, ThreadPoolExecutor(4) as threads:
        there = workspace.project(opened)
        monkeypatch.setattr(OpenProject, "__init__", opens)
        waiting = [threads.submit(workspace.project, slow) for _ in range(2)]
        assert begun.wait(60)
        try:
            assert threads.submit(workspace.project, opened).result(60) is there
            assert threads.submit(workspace.project, other).result(60).key == other
        finally:
            end.set()
        assert waiting[0].result() is waiting[1].result() is workspace.project(slow)


def test_a_creation_that_was_killed_is_no_project(tmp_path):
    """It leaves a folder that looks like one."""
    with open_workspace(tmp_path) as workspace:
        key = new_project(workspace).key
        shutil.copytree(tmp_path / key, tmp_path / ".new-x1y2")
        assert workspace.served_keys() == [key]
        with pytest.raises(InputError, match=r"There is no project '\.new-x1y2' here"):
            workspace.project(".new-x1y2")


def test_what_is_in_the_way_of_the_demo_is_named_and_stays(tmp_path):
    (tmp_path / "digits").mkdir()
    (tmp_path / "digits" / "mine.txt").write_text("mine")
    with Workspace(tmp_path) as workspace, pytest.raises(InputError, match="digits is in the way: it is not"):
        make_demo(workspace, 100)
    assert [path.name for path in tmp_path.rglob("*")] == ["digits", "mine.txt"]


def test_a_complete_demo_grows(tmp_path, monkeypatch):
    """Its builder starts, also if an earlier one was killed before it had begun."""
    started: list[str] = []
    monkeypatch.setattr(Builder, "start", lambda builder: started.append(builder._words[2]))
    with open_workspace(tmp_path) as workspace:
        workspace.create(NewProject("digits:600", "Is this a 7?"), key=DEMO)
    shutil.copytree(digits_pool(), tmp_path / DEMO / POOL_FOLDER)
    for items, sources in [(600, []), (700, ["digits:700"]), (700, ["digits:700"])]:
        started.clear()
        with open_workspace(tmp_path) as workspace:
            make_demo(workspace, items)
        assert started == sources


@pytest.mark.thorough
def test_the_list_sees_to_it_that_a_pool_is_built(tmp_path):
    """A builder that ended with its server goes on when somebody looks at the start page."""
    with open_workspace(tmp_path) as workspace:
        key = workspace.create(NewProject("digits:300", "Is this a 7?"))
    with open_workspace(tmp_path) as workspace:
        (summary,) = workspace.projects()
        patience = time.monotonic() + 600
        while summary.build or not summary.thumbnails:
            assert time.monotonic() < patience
            time.sleep(0.05)
            (summary,) = workspace.projects()
        pool = workspace.project(key).pool
        assert pool is not None
        assert pool.complete


def test_a_server_of_one_project_shows_and_makes_no_other(tmp_path):
    """Its neighbours can be neither read nor joined."""
    with open_workspace(tmp_path) as workspace:
        mine, other = new_project(workspace).key, new_project(workspace).key
    with Workspace(tmp_path, only=mine) as workspace:
        assert [summary.key for summary in workspace.projects()] == [mine]
        with pytest.raises(InputError, match="no project"):
            workspace.project(other)
        with pytest.raises(InputError, match="one project"):
            workspace.create(NewProject(str(digits_pool()), "Is it a 3?"))


def test_the_same_question_about_the_same_items_is_asked_twice_only_on_purpose(tmp_path):
    """The error names the project that has it; other words and other items are no reason to ask."""
    pool, copy = digits_pool(), tmp_path / "copy"
    shutil.copytree(pool, copy)
    with open_workspace(tmp_path / "projects") as workspace:

        def create(question, path=pool, unless_same=True):
            return workspace.create(NewProject(str(path), question), unless_same=unless_same)

        first = create("Is it a 3?")
        with pytest.raises(SameProjectError) as error:
            create(" Is it  a 3?")
        assert error.value.key == first
        others = {create("Is it a 4?"), create("Is it a 3?", copy), create("Is it a 3?", unless_same=False)}
        assert len(others | {first}) == len(workspace.projects()) == 4
    with open_workspace(tmp_path / "projects") as workspace, pytest.raises(SameProjectError):
        create("Is it a 4?")


def test_without_classes_every_image_can_be_labeled(tmp_path, built_here):
    """Class subfolders hold a part of the images out, unless the user says that they are no classes."""
    images = tmp_path / "images"
    for i in range(40):
        file = images / ("cats" if i % 2 else "dogs") / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((16, 16), 40 + i).save(file)
    with open_workspace(tmp_path / "projects") as workspace:
        for use_classes in (True, False):
            key = workspace.create(NewProject(str(images), "Is it a cat?", use_classes=use_classes))
            project = workspace.project(key)
            while project.pool is None or not project.pool.complete:
                threading.Event().wait(0.05)
            assert (len(project.pool) == 40) is not use_classes
            assert bool(project.pool.classes) is use_classes


@pytest.fixture
def dated(tmp_path):
    """A folder of 60 images in three folders by date."""
    for i in range(60):
        file = tmp_path / "walks" / f"2024-0{i % 3 + 1}" / f"{i}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.effect_noise((16, 16), 40 + i).save(file)
    return tmp_path / "walks"


@pytest.mark.parametrize(
    ("question", "use_classes", "held_out"),
    [("Is there a fox?", None, 0), ("Is it of 2024-02?", None, 6), ("Is there a fox?", True, 6)],
)
def test_nothing_is_held_out_for_a_question_that_no_folder_answers(
    tmp_path, built_here, dated, question, use_classes, held_out
):
    """Folders by date are no classes, unless the question names one or the user says so."""
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(
            workspace.create(NewProject(str(dated), question, use_classes=use_classes))
        )
        while project.pool is None or not project.pool.complete:
            threading.Event().wait(0.05)
        assert len(project.pool.held_out.ids) == held_out
        assert len(project.pool) == 60 - held_out
        assert bool(project.pool.classes) is bool(held_out)
        assert project.problem() is None


def test_folders_that_could_be_classes_are_named(dated):
    """Only names of folders are up for choice: a source with classes of its own has none to choose."""

    def names(word):
        return FolderClasses.of(given_source(str(word))).names

    assert names(dated) == names(f"enlarged:2:{dated}") == ("2024-01", "2024-02", "2024-03")
    assert names(dated / "2024-01") == names("digits:100") == names("enlarged:2:digits:100") == ()
    assert names(digits_pool()) == ()


def test_a_hebrew_folder_does_not_draw_in_the_number_of_its_items(tmp_path):
    """In the list of projects, marks keep the name apart from what follows it."""
    images = tmp_path / "עברית"
    images.mkdir()
    for i in range(12):
        Image.effect_noise((20, 20), 30 + i).save(images / f"{i}.png")
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(images), "Is it a leaf?")))
        until(lambda: project.pool is not None and project.pool.complete)
        subtitle = workspace.projects()[0].subtitle
    assert re.fullmatch("\u2068[^\u2069]*עברית\u2069, 12 items", subtitle)


def test_a_bad_example_is_named_and_the_others_are_added(tmp_path):
    """A GIF is as good as a PNG, as in Find similar."""
    pictures = {}
    for number, kind in enumerate(["gif", "png", "bmp"]):
        assert kind in uploadable()
        drawn = io.BytesIO()
        Image.effect_noise((20, 20), 30 + number).save(drawn, kind)
        pictures[f"good.{kind}"] = drawn.getvalue()
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(workspace.create(NewProject(str(digits_pool()), "Is it a 7?")))
        session = project.session()
        files = pictures | {"none.png": b"", "notes.jpg": b"no image"}
        with pytest.raises(InputError) as caught:
            session.add_examples(list(files.values()), names=list(files))
        assert str(caught.value).startswith("The example “none.png” can't be used: the file is empty. The ")
        assert "example “notes.jpg” can't be used" in str(caught.value)
        assert str(caught.value).endswith(" The other 3 examples are added")
        assert len(card_of(session)["concept"]["examples"]) == 3


def test_examples_are_what_labeling_starts_with(tmp_path):
    """With images of a seven as examples, the first items are like them instead of random."""
    from closecall.app.display.thumbnails import encode
    from closecall.core.pool.pool import Pool

    source = Pool.open(digits_pool()).source
    sevens = [item for item in range(40) if source.truth([item])[0] == 7][:3]
    examples = [(f"{item}.png", encode(source.image(item, 100))[0]) for item in sevens]
    with open_workspace(tmp_path) as workspace:
        key = workspace.create(NewProject(str(digits_pool()), "Is it a 7?", examples=examples))
        session = workspace.project(key).session()
        card = card_of(session)
        assert card["notes"]["why"] == "example"
        assert card["notes"]["n_labels"] == 3
        assert len(card["concept"]["examples"]) == 3
        assert source.truth([card["item"]["id"]])[0] == 7


@pytest.fixture(params=ENGINES)
def database(request, tmp_path) -> str | None:
    """Where the labels of new projects are: in their folders, or on a server, each in a schema."""
    return None if request.param == "sqlite" else request.getfixturevalue("server").address


def left_on(address: str | None, schema: str) -> dict[str, int] | None:
    """How many tables and functions the schema has; None if it is not there."""
    if address is None:
        return None
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT oid FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone()
        if found is None:
            return None
        counts = [
            connection.execute(f"SELECT count(*) FROM {kind} WHERE {column} = %s", found).fetchone()
            for kind, column in (("pg_class", "relnamespace"), ("pg_proc", "pronamespace"))
        ]
        return dict(zip(("tables", "functions"), (count[0] for count in counts if count), strict=True))


@pytest.mark.parametrize(
    "step",
    [
        "closecall.app.sessions.workspace.ProjectFile.change",
        "closecall.app.sessions.workspace.Path.rename",
        "closecall.app.sessions.workspace.OpenProject.__init__",
        "closecall.app.projects.project_store.ProjectStore.take_up_leases",
        "closecall.app.sessions.labeling.LabelingSession.add_examples",
    ],
)
def test_a_project_that_fails_late_leaves_nothing(tmp_path, monkeypatch, database, step):
    """No folder, no schema, no process; the next try finds the name free."""
    builders: Counter[str] = Counter()
    monkeypatch.setattr(Builder, "start", lambda _: builders.update(["start"]))
    monkeypatch.setattr(Builder, "stop", lambda _: builders.update(["stop"]))
    picture = io.BytesIO()
    Image.new("L", (20, 20)).save(picture, "PNG")
    new, key = (
        NewProject("digits:200", "Is this a 7?", examples=[("a.png", picture.getvalue())]),
        f"new-{uuid4().hex}",
    )

    def fails(*_: object, **__: object) -> None:
        raise StorageError("The disk is full", "full")

    with Workspace(tmp_path, database=database) as workspace:
        if database is None and step.endswith("change"):
            return  # then the file is not changed
        with monkeypatch.context() as broken:
            broken.setattr(step, fails)
            with pytest.raises(StorageError, match="The disk is full"):
                workspace.create(new, key=key)
        assert list(tmp_path.iterdir()) == []
        assert left_on(database, key) is None
        assert workspace.opened() == []
        assert builders["start"] == builders["stop"]
        assert workspace.create(replace(new, examples=()), key=key) == key


def test_a_schema_that_was_there_before_stays(tmp_path, monkeypatch, server):
    """Somebody else may have made it for the labels, with rights that only they can give."""
    key = f"new-{uuid4().hex}"
    with psycopg.connect(server.address) as connection:
        connection.execute(f'CREATE SCHEMA "{key}"')

    def fails(*_: object, **__: object) -> None:
        raise StorageError("The disk is full", "full")

    with Workspace(tmp_path, database=server.address) as workspace:
        with monkeypatch.context() as broken:
            broken.setattr("closecall.app.sessions.workspace.OpenProject.__init__", fails)
            with pytest.raises(StorageError, match="The disk is full"):
                workspace.create(NewProject(str(digits_pool()), "Is this a 7?"), key=key)
        assert left_on(server.address, key) == {"tables": 0, "functions": 0}
        assert workspace.create(NewProject(str(digits_pool()), "Is this a 7?"), key=key) == key
