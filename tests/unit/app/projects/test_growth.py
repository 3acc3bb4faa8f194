"""A project whose pool gets more items while the project is open."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from PIL import Image

from closecall.app.display.thumbnails import CARD_SIZE, data_url
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import Folder
from tests.pools import small_parts
from tests.projects import open_workspace


def add_images(folder: Path, n: int) -> None:
    """Add images to a folder that look different."""
    folder.mkdir(exist_ok=True)
    for i in range(len(list(folder.iterdir())), n):
        Image.new("RGB", (16, 16), (i, 255 - i, 7 * i % 256)).save(folder / f"{i}.png")


@pytest.fixture
def images(tmp_path):
    """A folder of 60 images."""
    add_images(tmp_path / "images", 60)
    return tmp_path / "images"


@pytest.fixture
def project(tmp_path, images, monkeypatch):
    """A project on a pool whose build stopped after its first segment, of 20 of the 60 images."""
    small_parts(monkeypatch)
    stop, path = threading.Event(), tmp_path / "pool"
    build(Folder(images), path, progress=lambda made: stop.set() if made.rows else None, stop=stop)
    assert 0 < len(Pool.open(path)) < 60
    with open_workspace(tmp_path / "projects") as workspace:
        yield workspace.project(workspace.create(NewProject(str(path), "Is it a fox?")))


def grow(project: OpenProject, images: Path) -> None:
    """Build the project's pool from the folder, as another process does, until the project has all items."""
    n_rows = len(build(Folder(images), project.pool_path))
    while len(project.pool) < n_rows:
        time.sleep(0.01)


def test_an_item_that_has_come_since_has_a_picture(project, images):
    """The project's pictures are of the pool's newest source, and earlier items look as before."""
    earlier = project.pictures.card(0)
    add_images(images, 80)
    grow(project, images)
    last = len(project.pool.source) - 1
    assert last == 79
    assert project.pictures.card(last) == data_url(project.pool.source.image(last, CARD_SIZE))
    assert project.pictures.card(0) == earlier


def test_a_build_in_progress_keeps_the_cached_pictures(project, images):
    """Its snapshots share one source, so nothing is read or drawn again."""
    pictures, source = project.pictures, project.pool.source
    grow(project, images)
    assert len(project.pool) == 60
    assert project.pool.source is source
    assert project.pictures is pictures
