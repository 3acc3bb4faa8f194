"""A project's file stays whole, and keeps an operator's edit."""

from __future__ import annotations

import json
import os

import pytest

from closecall.app.projects.config import PROJECT_FILE, ProjectFile
from closecall.core.errors import InputError
from tests.projects import new_project, open_workspace


@pytest.fixture
def project(tmp_path):
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


def said(project) -> dict:
    return json.loads((project.folder / PROJECT_FILE).read_text())


def test_what_an_operator_edits_stays_when_an_owner_sets_something(project):
    """The file is read again, and only what was set is changed."""
    file = project.folder / PROJECT_FILE
    edited = said(project) | {"owners": ["Ada"], "annotators": ["@example.org"], "overlap_share": 0.5}
    file.write_text(json.dumps(edited))
    project.set_overlap(3, 0.25)
    assert said(project) == edited | {"overlap": 3, "overlap_share": 0.25}
    assert (project.file.overlap, project.file.owners) == (3, ())
    project.set_overlap(1, 0.1)
    assert ProjectFile.read(project.folder).overlap == 1
    assert said(project)["owners"] == ["Ada"]


def test_an_edit_that_is_no_project_file_is_not_written_over(project):
    """A sentence says what is wrong with it; the setting stays as it was."""
    file = project.folder / PROJECT_FILE
    file.write_text(half := file.read_text()[:-10])
    with pytest.raises(InputError, match="is damaged"):
        project.set_overlap(3, 0.25)
    assert file.read_text() == half
    assert project.file.overlap == 1


def test_the_file_goes_to_the_disk_before_and_after_it_gets_its_name(project, monkeypatch):
    """Otherwise a power cut may leave an empty one."""
    folder, file = project.folder, project.folder / PROJECT_FILE
    before, steps = file.stat().st_ino, []

    def synced(descriptor: int) -> None:
        named = "content" if os.fstat(descriptor).st_ino != folder.stat().st_ino else "name"
        steps.append((named, file.stat().st_ino != before))

    monkeypatch.setattr(os, "fsync", synced)
    ProjectFile.change(folder, overlap=2)
    assert steps == [("content", False), ("name", True)]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("use_classes", "false"),
        ("use_classes", 0),
        ("use_classes", None),
        ("overlap", True),
        ("overlap_share", True),
        ("lease_seconds", True),
        ("format", True),
        ("source", 3),
    ],
)
def test_a_setting_of_another_type_is_refused(project, name, value):
    """The sentence names the setting and the value: the word "false" is not false, and true is not 1."""
    file = project.folder / PROJECT_FILE
    file.write_text(json.dumps(said(project) | {name: value}))
    with pytest.raises(InputError, match=rf"{name} must be .*, got {value!r}$"):
        ProjectFile.read(project.folder)
