"""The real Label Studio: labels out, edited by two users, and back; its SDK's validator and converter."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

from closecall.app.sessions.new_project import NewProject
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import Concepts, Database, LabelLog
from closecall.storage.label_studio import control_of
from closecall.storage.rows import now_ms
from tests.peers.imitation import OWNER, SECOND
from tests.peers.label_studio import PROGRAM, Server, User, running
from tests.peers.label_studio_page import signed_in
from tests.peers.trial import Trial, Votes, says, state_of
from tests.projects import open_workspace
from tests.storage_kit import Annotator, sit_down
from tests.unit.app.cli.test_main import run
from tests.unit.app.exchange.test_exchange import empty_database, pool

pytestmark = pytest.mark.long

WIDTH, HEIGHT = 60, 40
ANSWERED, UNLABELED, DISPUTED = 6, 4, 1
"""Numbers of items with and without an answer that are exported, and the item about which two disagree."""

FORMS = ("JSON", "JSON_MIN", "CSV", "TSV")
"""Formats of the SDK's converter that hold choices."""

VALIDATE = """
import json, sys
from label_studio_sdk.converter import Converter
from label_studio_sdk.label_interface import LabelInterface

tasks, interface, out, *forms = sys.argv[1:]
config = open(interface, encoding="utf-8").read()


class Interface(LabelInterface):
    # For a whole task, the SDK's validate_task calls these two methods without an argument.
    def validate_annotation(self, *given):
        return all(map(super().validate_annotation, given or self.task["annotations"]))

    def validate_prediction(self, *given):
        return all(map(super().validate_prediction, given or self.task["predictions"]))

    def validate_task(self, task):
        self.task = task
        return super().validate_task(task)


checked = Interface(config)
checked.validate()
wrong = []
with open(tasks, encoding="utf-8") as file:
    for task in json.load(file):
        if not checked.validate_task(task):
            wrong.append(task["id"])
        for part in ("annotations", "predictions"):
            if checked.validate_task({**task, part: [{"result": [{"from_name": "unknown"}]}]}):
                wrong.append(f"{part} of task {task['id']} are not looked at")
converter = Converter(config, project_dir=None)
for form in forms:
    converter.convert(tasks, out + "/" + form, form, is_dir=False)
print(json.dumps(wrong))
"""


@pytest.fixture(scope="module")
def program() -> Path:
    return PROGRAM.needed()


@pytest.fixture(scope="module")
def server(program: Path) -> Iterator[Server]:
    with running(program) as server:
        yield server


@pytest.fixture(scope="module")
def second(server: Server) -> User:
    """The second user."""
    user, number = server.new_user("berta@example.org")
    assert number == SECOND
    return user


class Real:
    """The real one, as a `tests.peers.imitation.Peer`."""

    def __init__(self, server: Server, second: User) -> None:
        self.server, self._users, self.project = server, {OWNER: server.admin, SECOND: second}, 0

    def begin(self, interface: str, tasks: list[dict[str, Any]]) -> None:
        self.project = self.server.new_project(interface, tasks)

    def edit(self, user: int, item: int, nth: int, change: Callable[[dict[str, Any]], None]) -> None:
        annotation = self._annotation(item, nth)
        before = json.dumps(annotation)
        change(annotation)
        assert json.dumps(annotation) != before
        changed = {key: annotation[key] for key in ("result", "ground_truth", "was_cancelled")}
        self._users[user].call("PATCH", f"/api/annotations/{annotation['id']}/", changed)

    def delete(self, item: int, nth: int) -> None:
        self.server.admin.call("DELETE", f"/api/annotations/{self._annotation(item, nth)['id']}/")

    def add(self, user: int, item: int, annotation: Mapping[str, Any]) -> None:
        task = self.server.tasks(self.project)[item]["id"]
        cancelled = "?was_cancelled=1" if annotation.get("was_cancelled") else ""
        self._users[user].call("POST", f"/api/tasks/{task}/annotations/{cancelled}", annotation)

    def exported(self, *, all_tasks: bool = True) -> bytes:
        return self.server.exported(self.project, all_tasks=all_tasks)

    def now(self) -> int:
        return now_ms()

    def _annotation(self, item: int, nth: int) -> dict[str, Any]:
        annotation: dict[str, Any] = self.server.tasks(self.project)[item]["annotations"][nth]
        return annotation


def test_three_round_trips(server: Server, second: User) -> None:
    """Each edit is its author's, deletions are withdrawn, nothing is doubled, and then nothing changes."""
    with empty_database() as database:
        trial = Trial(database, pool(), Real(server, second))
        trial.goes_out()
        expected = trial.is_edited()
        assert trial.comes_back().kept == 1
        assert state_of(database) == expected
        expected = trial.is_edited_again(expected)
        trial.comes_back()
        assert state_of(database) == expected
        for _ in range(3):
            trial.goes_out()
            imported = trial.comes_back()
            assert (imported.new, imported.withdrawn) == (0, 0)
            assert state_of(database) == expected


def test_times_come_along(server: Server, second: User) -> None:
    """Lead times, and the times of edits, which an import there keeps or sets."""
    with empty_database() as database:
        Trial(database, pool(), Real(server, second)).comes_back_with_times()


def test_exports_without_authors_are_refused(server: Server, second: User, tmp_path: Path) -> None:
    """As CSV, TSV and JSON-MIN are, by the names of their columns."""
    with empty_database() as database:
        trial = Trial(database, pool(), Real(server, second))
        trial.goes_out()
        for kind, suffix in (("CSV", "csv"), ("TSV", "tsv"), ("JSON_MIN", "json")):
            file = tmp_path / f"project.{suffix}"
            file.write_bytes(server.exported(trial.peer.project, kind))  # type: ignore[attr-defined]
            with pytest.raises(Exception, match="export as JSON"):
                trial.comes_back_from(file)


@pytest.fixture(scope="module")
def project_folder(server: Server) -> Path:
    """A project over image files below Label Studio's document root, with two questions."""
    images = server.documents / "herbarium, wild"
    for number in range(12):
        file = images / f"bed {number % 3}" / f"Möwe & {number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 255, (HEIGHT, WIDTH, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
    made = build(source_from(str(images), use_classes=False), server.documents.parent / "pool")
    with open_workspace(server.documents.parent / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(made.path), "Is it a leaf?")))
        project.add_concept("Is it a flower?")
        for concept in project.concepts():
            ada: Annotator = sit_down(project.database, concept, "ada")
            for item in range(ANSWERED):
                ada.says(word_of(item), item)
        sit_down(project.database, project.concepts()[0], "carl").says("yes", DISPUTED)
        return project.folder


def word_of(item: int) -> str:
    """Ada's answer to both questions."""
    return ("yes", "no")[item % 2]


def exported(project_folder: Path, tasks: Path) -> Path:
    """The tasks of an export with predictions, and with items without an answer."""
    options = ["--format", "label-studio", "--out", tasks, "--unlabeled", UNLABELED, "--classifier"]
    said = run("export", project_folder, *options)
    assert said.exit_code == 0, said.output
    root = project_folder.parents[1] / "documents"
    assert f"DOCUMENT_ROOT={root}," in said.output
    assert f"local storage {root / 'herbarium, wild'}." in said.output
    return tasks


def taken_over(server: Server, tasks: Path) -> int:
    """A project in Label Studio with these tasks, made as the documentation says."""
    interface = tasks.with_name(f"{tasks.stem}-interface.xml").read_text("utf-8")
    images = server.documents / "herbarium, wild"
    return server.new_project(interface, json.loads(tasks.read_text("utf-8")), images)


def test_images_and_predictions_are_there(
    server: Server, second: User, project_folder: Path, tmp_path: Path
) -> None:
    """By the default addresses, with the storage that the export names; predictions on unlabeled items."""
    project = taken_over(server, exported(project_folder, tmp_path / "tasks.json"))
    there = server.tasks(project)
    assert len(there) == ANSWERED + UNLABELED
    for task in there.values():
        address = task["data"]["image"]
        original = server.documents / "herbarium, wild" / task["data"]["name"]
        assert second.raw("GET", address) == original.read_bytes()
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "closecall"
        assert 0.5 <= prediction["score"] <= 1
        assert {each["value"]["choices"][0] for each in prediction["result"]} <= {"yes", "no"}
        assert len(prediction["result"]) == 2
    assert sum(not task["annotations"] for task in there.values()) == UNLABELED
    assert quote("herbarium, wild/") in there[0]["data"]["image"]
    file = tmp_path / "project.json"
    file.write_bytes(server.exported(project))
    again = run("import", project_folder, file)
    assert again.output.startswith("0 labels"), again.output


def test_two_people_edit_one_in_the_page(
    server: Server, second: User, project_folder: Path, browser: Browser, tmp_path: Path
) -> None:
    """Berta sees image and prediction, changes an answer and gives one; Olga edits a third by the API.

    Back here, each edit is on its author and item, with its time, and nothing else has changed.
    """
    folder = shutil.copytree(project_folder, project_folder.with_name("edited"))
    leaf, flower = concepts_of(folder)
    tasks = exported(folder, tmp_path / "tasks.json")
    predicted = {
        task["data"]["item"]: [each["value"]["choices"][0] for each in task["predictions"][0]["result"]]
        for task in json.loads(tasks.read_text("utf-8"))
    }
    olga = Real(server, second)
    olga.project = taken_over(server, tasks)
    there = server.tasks(olga.project)
    changed, of_program = 0, 2
    given = next(item for item, task in there.items() if not task["annotations"])
    began = olga.now()
    with signed_in(browser, server.address, "berta@example.org") as page:
        page.opens(olga.project, there[changed]["id"])
        page.sees_image(WIDTH, HEIGHT)
        page.sees(["yes", "yes"])
        page.sees_prediction("closecall", predicted[changed])
        page.chooses(0, "no")
        page.presses("Update")
        page.opens(olga.project, there[given]["id"])
        page.sees_image(WIDTH, HEIGHT)
        page.sees_prediction("closecall", predicted[given])
        page.sees(predicted[given])
        page.chooses(0, "unsure")
        page.chooses(1, "yes")
        page.presses("Submit")
    olga.edit(OWNER, of_program, 0, says(leaf, "no"))
    ended = olga.now()
    expected = votes_of(folder)
    expected[leaf, changed] = ({"ada": "yes", "berta": "no"}, None)
    expected[leaf, given] = ({"berta": "unsure"}, None)
    expected[flower, given] = ({"berta": "yes"}, None)
    expected[leaf, of_program] = ({"ada": "yes", "olga": "no"}, None)
    file = tmp_path / "project.json"
    file.write_bytes(server.exported(olga.project))
    users = ["--user", "1=olga", "--user", "2=berta"]
    said = run("import", folder, file, *users)
    assert said.output.startswith("4 labels "), said.output
    assert votes_of(folder) == expected
    assert run("import", folder, file).output.startswith("0 labels")
    with Database.open(folder / "labels.db", read_only=True) as database:
        answers = [its for number in (1, 2) for its in LabelLog(database).answers_after(number)]
    made = {(its.annotator, its.item): its for its in answers if its.purpose == "import"}
    assert set(made) == {("berta", changed), ("berta", given), ("olga", of_program)}
    for its in made.values():
        assert began <= its.browser_time <= ended
    for item in (changed, given):
        taken = made["berta", item].time_taken_ms
        assert taken is not None
        assert 0 < taken < ended - began
    assert made["olga", of_program].time_taken_ms is None


def concepts_of(folder: Path) -> list[str]:
    """The names of a project's concepts."""
    with Database.open(folder / "labels.db", read_only=True) as database:
        return [concept.name for concept in Concepts(database).all()]


def votes_of(folder: Path) -> Votes:
    """Who says what in a project."""
    with Database.open(folder / "labels.db", read_only=True) as database:
        return state_of(database)


def test_the_sdk_finds_no_fault(program: Path, project_folder: Path, tmp_path: Path) -> None:
    """Its validator accepts whole tasks, and its converter finds every answer in them."""
    tasks = exported(project_folder, tmp_path / "tasks.json")
    arguments = [tasks, tmp_path / "tasks-interface.xml", tmp_path, *FORMS]
    python = program.resolve().parent / "python"
    done = subprocess.run(
        [python, "-c", VALIDATE, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    leaf, flower = map(control_of, concepts_of(project_folder))
    expected = [(item, word_of(item), word_of(item)) for item in range(ANSWERED)] + [(DISPUTED, "yes", "")]
    sent = json.loads(tasks.read_text("utf-8"))
    names = {task["data"]["item"]: task["data"]["name"] for task in sent}
    for form in FORMS:
        lines = converted(tmp_path / form, form)
        if form == "JSON":
            assert lines == sent
            continue
        found = [(int(line["item"]), line.get(leaf, ""), line.get(flower, "")) for line in lines]
        assert sorted(each for each in found if each[1]) == sorted(expected)
        assert len([each for each in found if not each[1]]) == UNLABELED
        assert all(line["name"] == names[int(line["item"])] for line in lines)


def converted(folder: Path, form: str) -> list[dict[str, Any]]:
    """The lines or records that the converter has written."""
    (file,) = (path for path in folder.iterdir() if path.is_file())
    with file.open(newline="", encoding="utf-8") as stream:
        if form.startswith("JSON"):
            records: list[dict[str, Any]] = json.load(stream)
            return records
        return list(csv.DictReader(stream, delimiter="\t" if form == "TSV" else ","))
