from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from closecall.storage import Database
from tests import postgres
from tests.storage_kit import ENGINES, make_concept, sit_down

SEED = 3
"""Of every new session: with it, sevens are among the first dozen digits that come at random."""


@pytest.fixture(autouse=True, scope="module")
def sessions_with_one_seed() -> Iterator[None]:
    """New sessions draw their seed at random; in tests they all have the same."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("closecall.app.sessions.registry.secrets.randbelow", lambda _: SEED)
        yield


@pytest.fixture(autouse=True)
def builders_that_push_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools are built with others before them in the line for a core; tests would wait for that."""
    monkeypatch.setattr("closecall.app.projects.pool_builder.NICE", 0)


@pytest.fixture(scope="session")
def server() -> Iterator[postgres.Server]:
    """A PostgreSQL server for this worker; its commits do not wait for the disk."""
    if postgres.find() is None:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{postgres.NOT_RUN}, which is a failure under CI=true")
        pytest.skip(postgres.NOT_RUN)
    with postgres.running() as started:
        yield started


@pytest.fixture(params=ENGINES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Where a label database may be made: a file, then a schema of a PostgreSQL server."""
    if request.param == "sqlite":
        return tmp_path / "labels.db"
    return request.getfixturevalue("server").schema()


@pytest.fixture(scope="module", params=ENGINES)
def where_for_all(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path | str:
    """The same, for all tests of a file together."""
    if request.param == "sqlite":
        return tmp_path_factory.mktemp("labels") / "labels.db"
    return request.getfixturevalue("server").schema()


@pytest.fixture
def labels(where: Path | str) -> Path | str:
    """Where a label database is, with one answer in it, closed."""
    with Database.open(where, create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    return where
