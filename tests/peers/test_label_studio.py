"""The real Label Studio: labels out, edited by two users, and back; its SDK's validator and converter."""

from __future__ import annotations

import csv
import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from closecall.app.sessions.new_project import NewProject
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import Concepts, Database
from tests.peers.imitation import OWNER, SECOND
from tests.peers.label_studio import NOT_RUN, Server, User, find, running
from tests.peers.trial import Trial, state_of
from tests.projects import open_workspace
from tests.storage_kit import Annotator, sit_down
from tests.unit.app.cli.test_main import run
from tests.unit.app.exchange.test_exchange import empty_database, pool

pytestmark = pytest.mark.long

VALIDATE = """
import json, sys
from label_studio_sdk.converter import Converter
from label_studio_sdk.label_interface import LabelInterface

tasks, interface, out = sys.argv[1:]
config = open(interface, encoding="utf-8").read()
checked = LabelInterface(config)
checked.validate()
wrong = []
with open(tasks, encoding="utf-8") as file:
    for task in json.load(file):
        if not checked.validate_task({"data": task["data"]}):
            wrong.append(task["id"])
        for annotation in task["annotations"]:
            if not checked.validate_annotation(annotation):
                wrong.append(annotation)
        for prediction in task["predictions"]:
            wrong += checked.validate_prediction(prediction, return_errors=True)
converter = Converter(config, project_dir=None)
for form in ("JSON", "JSON_MIN", "CSV", "TSV"):
    converter.convert(tasks, out + "/" + form, form, is_dir=False)
print(json.dumps(wrong))
"""


@pytest.fixture(scope="module")
def program() -> Path:
    found = find()
    if found is None:
        pytest.skip(NOT_RUN)
    return found


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
        pixels = np.random.default_rng(number).integers(0, 255, (40, 60, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
    made = build(source_from(str(images), use_classes=False), server.documents.parent / "pool")
    with open_workspace(server.documents.parent / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(made.path), "Is it a leaf?")))
        project.add_concept("Is it a flower?")
        for concept in project.concepts():
            ada: Annotator = sit_down(project.database, concept, "ada")
            for item in range(6):
                ada.says(("yes", "no")[item % 2], item)
        return project.folder


def test_images_and_predictions_are_seen_there(
    server: Server, second: User, project_folder: Path, tmp_path: Path
) -> None:
    """By the default addresses, with the storage that the export names; predictions on unlabeled items."""
    tasks = tmp_path / "tasks.json"
    options = ["--format", "label-studio", "--out", tasks, "--unlabeled", "4", "--classifier"]
    said = run("export", project_folder, *options)
    assert said.exit_code == 0, said.output
    assert f"DOCUMENT_ROOT={server.documents}," in said.output
    images = server.documents / "herbarium, wild"
    assert f"local storage {images}." in said.output
    interface = (tmp_path / "tasks-interface.xml").read_text("utf-8")
    project = server.new_project(interface, json.loads(tasks.read_text("utf-8")), images)
    there = server.tasks(project)
    assert len(there) == 10
    for task in there.values():
        address = task["data"]["image"]
        assert second.raw("GET", address) == (images / task["data"]["name"]).read_bytes()
        (prediction,) = task["predictions"]
        assert prediction["model_version"] == "closecall"
        assert 0.5 <= prediction["score"] <= 1
        assert {each["value"]["choices"][0] for each in prediction["result"]} <= {"yes", "no"}
        assert len(prediction["result"]) == 2
    assert sum(not task["annotations"] for task in there.values()) == 4
    assert quote("herbarium, wild/") in there[0]["data"]["image"]
    file = tmp_path / "project.json"
    file.write_bytes(server.exported(project))
    again = run("import", project_folder, file)
    assert again.output.startswith("0 labels"), again.output


def test_the_sdk_finds_no_fault(program: Path, project_folder: Path, tmp_path: Path) -> None:
    """Its validator in whole tasks, and its converter in any format that holds choices."""
    tasks = tmp_path / "tasks.json"
    options = ["--format", "label-studio", "--out", tasks, "--unlabeled", "4", "--classifier"]
    assert run("export", project_folder, *options).exit_code == 0
    arguments = [tasks, tmp_path / "tasks-interface.xml", tmp_path]
    python = program.resolve().parent / "python"
    done = subprocess.run(
        [python, "-c", VALIDATE, *arguments], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    (converted,) = (tmp_path / "CSV").glob("*.csv")
    with converted.open(newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    with Database.open(project_folder / "labels.db", read_only=True) as database:
        names = [concept.name for concept in Concepts(database).all()]
    assert sum(line[f"concept:{names[0]}"] in ("yes", "no") for line in lines) == 6
