"""Logs of projects that were labeled while their pool grew."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.similar.query import Like
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from tests.pools import small_parts
from tests.projects import open_workspace, verified
from tests.similar import answer_truly, settled

WORD = "digits:600"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenProject]:
    """A project on a pool whose build stopped after its first segment, of 100 items."""
    small_parts(monkeypatch, first=100, segment=150, chunk=50)
    stop, path = threading.Event(), tmp_path / "pool"
    build(source_from(WORD), path, progress=lambda made: stop.set() if made.rows else None, stop=stop)
    assert len(Pool.open(path)) == 100
    with open_workspace(tmp_path / "projects") as workspace:
        yield workspace.project(workspace.create(NewProject(str(path), "Is this a 7?")))


def grow(project: OpenProject) -> None:
    """Finish the pool, as another process does."""
    n_rows = len(build(source_from(WORD), project.pool_path))
    while project.pool is None or len(project.pool) < n_rows:
        time.sleep(0.01)


def test_a_search_for_an_item_that_is_newer_than_the_index_is_repeated(project, monkeypatch):
    """The index has the first items only; the query's features are those of the newest pool."""
    monkeypatch.setattr("closecall.app.indexes.similar.is_due", lambda *_: False)
    similar = project.similar_to(project.session())
    similar.set_method("scan")
    similar.look_for(Like(item=int(project.pool.ids[0])), 0)
    settled(similar)
    grow(project)
    newest = int(project.pool.ids[-1])
    similar.look_for(Like(item=newest), 0)
    answer_truly(similar, settled(similar), 3)
    records = [one for one in project.log.selections(1) if one.parameters["similar"]["like"] == str(newest)]
    assert {(one.parameters["similar"]["method"], one.items_total) for one in records} == {("scan", 100)}
    assert verified(project)["choices"] >= 2
