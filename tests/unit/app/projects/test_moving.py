"""A project is its folder: wherever that is carried, it opens, and goes on where its log ends."""

from __future__ import annotations

import shutil
import time

import pytest
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.storage.address import with_schema
from tests.projects import answer
from tests.storage_kit import ENGINES


@pytest.fixture(params=ENGINES)
def database(request, tmp_path) -> str | None:
    """Where the labels of new projects are: in their folders, or on a server."""
    if request.param == "sqlite":
        return None
    return with_schema(request.getfixturevalue("server").address, f"moving-{tmp_path.name}")


def make(folder, images, database) -> tuple[str, str]:
    """A project on images of its own, with four answers; its key, and its session's id."""
    images.mkdir(parents=True)
    for number in range(24):
        Image.effect_noise((20, 20), 40 + number).save(images / f"{number}.png")
    with Workspace(folder, database=database) as workspace:
        project = workspace.project(workspace.create(NewProject(str(images), "Is it a leaf?")))
        until = time.monotonic() + 120
        while project.pool is None or not project.pool.complete:
            assert time.monotonic() < until
            time.sleep(0.05)
        session = project.session()
        say(project, session.id, 4)
        return project.key, session.id


def say(project: OpenProject, session_id: str, times: int) -> list[str]:
    """Answer what is shown; which items those were."""
    session, seen = project.session(session_id), []
    for _ in range(times):
        card = card_of(session)
        given = answer(card, "yes" if len(seen) % 2 else "no")
        seen.append(card["item"]["alt"])
        assert submit(session, [given])["acked"] == [given["id"]]
    return seen


def test_a_project_that_was_moved_goes_on(tmp_path, built_here, database):
    """To another folder, under another name: the same session, items, indexes and pictures."""
    key, session = make(tmp_path / "here", tmp_path / "images", database)
    (tmp_path / "there" / "deep").mkdir(parents=True)
    shutil.move(tmp_path / "here" / key, tmp_path / "there" / "deep" / "another name")
    with Workspace(tmp_path / "there" / "deep") as workspace:
        project = workspace.project("another name")
        (concept,) = project.concepts()
        assert project.live_concept(concept.id).counts().answered == 4
        assert project.problem() is None
        assert card_of(project.session(session))["item"]["src"].startswith("data:image/")
        say(project, session, 3)
        assert project.live_concept(concept.id).counts().answered == 7


def test_a_project_opens_on_a_machine_without_its_images(tmp_path, built_here, database):
    """Labels, review and training are there; what can't be shown is said, until the images are back."""
    key, session = make(tmp_path / "here", tmp_path / "images", database)
    shutil.copytree(tmp_path / "here" / key, tmp_path / "there" / key)
    shutil.rmtree(tmp_path / "here")
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    with Workspace(tmp_path / "there") as workspace:
        project = workspace.project(key)
        (concept,) = project.concepts()
        assert project.live_concept(concept.id).counts().answered == 4
        card = card_of(project.session(session))
        assert (card["item"]["src"], card["item"]["problem"]) == ("", "The file no longer exists.")
        assert str(tmp_path / "images") in card["message"]
        say(project, session, 1)
        (tmp_path / "elsewhere").rename(tmp_path / "images")
        card = card_of(project.session(session))
        assert (card["message"], card["item"]["src"][:11]) == (None, "data:image/")
    (tmp_path / "images").rename(tmp_path / "elsewhere")
    (tmp_path / "images").symlink_to(tmp_path / "elsewhere")
    with Workspace(tmp_path / "there") as workspace:
        card = card_of(workspace.project(key).session(session))
        assert (card["message"], card["item"]["src"][:11]) == (None, "data:image/")


@pytest.mark.parametrize("key", ["..", ".", "", "../digits", "a/../b", "/etc", "a\0b", "x" * 300, "%2e%2e"])
def test_a_project_is_named_by_its_folder_alone(tmp_path, key):
    """Nothing in an address leads out of the folder that is served, or fails otherwise than by a sentence."""
    (tmp_path / "project.json").write_text("{}")
    with (
        Workspace(tmp_path / "projects") as workspace,
        pytest.raises(InputError, match="no project"),
    ):
        workspace.project(key)
