"""What befalls a database while somebody labels: a clear sentence, nothing lost, and on it goes."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from closecall.app.api.cards import card_of
from closecall.app.api.submit import take
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.storage import Database
from closecall.storage.address import with_schema
from closecall.storage.errors import StorageError
from tests import postgres
from tests.folders import ROOT
from tests.projects import answer, digits_pool, truth_word
from tests.scale import thorough
from tests.storage_kit import ENGINES, as_ordinary_user, open_folder
from tests.waiting import until

PATIENCE = 0.3
"""Seconds that these databases wait for a lock, instead of five."""


@dataclass
class Bench:
    """A project, somebody who labels in it, and what can befall its database."""

    project: OpenProject
    session: LabelingSession
    server: postgres.Server | None
    card: dict[str, Any] = field(default_factory=dict)

    def says(self, *answers: dict[str, Any]) -> dict[str, Any]:
        """What the page does with what the browser hands over, see `app.pages.problems.shown_or_kept`."""
        person = self.project.roles.person(self.session.annotator)
        named = [given | {"session": self.session.id} for given in answers]
        try:
            self.card = take(self.project, self.session, named, person)
        except StorageError as error:
            return {**self.card, "acked": [], "refused": [], "message": str(error)}
        assert "://" not in (self.card["message"] or "")
        return self.card

    @property
    def stored(self) -> list[str]:
        """The ids in the log, in its order."""
        return [row.answer.id for row in self.project.log.log_rows()]

    def reconnect(self, busy_timeout: float = PATIENCE) -> None:
        """Let go of all connections, so that the next ones find what was done to the database."""
        database = self.project.database
        database._engine.dispose()
        database._busy_timeout = busy_timeout
        database._engine = database.place.engine(read_only=False, busy_timeout=busy_timeout)

    def be_patient(self) -> None:
        """What looks ahead writes, too, and a slow disk may take longer for it than `PATIENCE`."""
        self.project.database._busy_timeout = 60.0

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another program is in the middle of a write."""
        if self.server is None:
            with closing(sqlite3.connect(self.project.folder / "labels.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                yield
                other.execute("ROLLBACK")
        else:
            with psycopg.connect(self.server.address) as other:
                tables = f'"{self._schema}".answers, "{self._schema}".selections'
                other.execute(f"LOCK TABLE {tables} IN EXCLUSIVE MODE")  # reading goes on, as in SQLite
                yield
                other.rollback()

    @contextmanager
    def read_only(self) -> Iterator[None]:
        """The file, or the server's user, may be read and no more."""
        if self.server is None:
            labels = self.project.folder / "labels.db"
            with closing(sqlite3.connect(labels)) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self.project.database._engine.dispose()
            for file in (labels, self.project.folder):
                file.chmod(file.stat().st_mode & ~0o222)
            with as_ordinary_user():
                yield
            self.project.folder.chmod(0o777)
            labels.chmod(0o666)
        else:
            with psycopg.connect(self.server.address, autocommit=True) as owner:
                tables = f'ALL TABLES IN SCHEMA "{self._schema}"'
                owner.execute(f"REVOKE INSERT, UPDATE, DELETE ON {tables} FROM closecall")
                with _no_superuser(owner):
                    self.reconnect()
                    yield
                owner.execute(f"GRANT ALL ON {tables} TO closecall")
        self.reconnect()

    @property
    def _schema(self) -> str:
        return str(self.project.database.place).rpartition("schema=")[2]


@contextmanager
def _no_superuser(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Rights mean nothing to the user who owns the server, so another one keeps its own meanwhile."""
    connection.execute("CREATE ROLE deputy SUPERUSER LOGIN")
    with psycopg.connect(connection.info.dsn, user="deputy", autocommit=True) as deputy:
        deputy.execute("ALTER ROLE closecall NOSUPERUSER")
        try:
            yield
        finally:
            deputy.execute("ALTER ROLE closecall SUPERUSER")
    connection.execute("DROP ROLE deputy")


@pytest.fixture(params=ENGINES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    with open_folder() as folder:
        pool = folder / "pool"
        shutil.copytree(digits_pool(), pool)
        server = None if request.param == "sqlite" else request.getfixturevalue("server")
        address = with_schema(server.address, f"trouble-{folder.name}") if server else None
        with Workspace(folder / "projects", database=address) as workspace:
            project = workspace.project(workspace.create(NewProject(str(pool), "Is this a 7?")))
            for file in (project.folder, *project.folder.iterdir()):
                file.chmod(0o777 if file.is_dir() else 0o666)
            bench = Bench(project, project.session(), server)
            bench.reconnect()
            bench.says()
            assert bench.session.item_view.ahead.wait(60)
            yield bench


def test_a_locked_database(bench: Bench) -> None:
    """The answer stays in the browser, the reason is on the card, and it is stored once the lock is gone."""
    given = answer(card_of(bench.session), "yes")
    with bench.locked():
        for _ in range(2):
            card = bench.says(given)
            assert (card["acked"], card["refused"]) == ([], [])
            assert "locked by another program" in card["message"]
            assert "0.3 s" in card["message"]
            assert card["item"]["selection"] == given["selection"]
    _goes_on(bench, given)


def test_a_read_only_database(bench: Bench) -> None:
    """It is said, and what was given meanwhile is stored when it may be written again."""
    given = answer(card_of(bench.session), "no")
    with bench.read_only():
        card = bench.says(given)
        assert (card["acked"], card["refused"]) == ([], [])
        assert "read-only" in card["message"] or "permission denied" in card["message"]
    _goes_on(bench, given)


def test_a_clock_that_is_set_back_an_hour(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's and the browser's: the log keeps its order, the session goes on, after a restart too."""
    bench.be_patient()
    said = []

    def label(n: int, *, undo: bool = False) -> None:
        for _ in range(n):
            card = card_of(bench.session)
            given = answer(card, truth_word(bench.project, card["item"]["id"]))
            assert bench.says(given)["acked"] == [given["id"]]
            said.append(given["id"])
        if undo:
            last = {"item": {"id": given["item"], "selection": None}}
            back = answer(last, "undo", undoes=given["id"])
            assert bench.says(back)["acked"] == [back["id"]]
            said.append(back["id"])

    label(4)
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 3600)
    label(4, undo=True)
    assert bench.stored == said
    state = bench.project.log.state(bench.session.concept.record.id)
    assert state.counts.answered == 7
    again = OpenProject(bench.project.folder) if bench.server is None and _closed(bench) else bench.project
    try:
        session = again.session(bench.session.id)
        shown = card_of(session)["item"]
        assert shown is not None
        assert shown["id"] not in set(state.answered_items().tolist())
        assert session.history[-1].round >= 8
    finally:
        if again is not bench.project:
            again.close()


def _closed(bench: Bench) -> bool:
    bench.project.close()
    return True


def test_where_nobody_can_even_read_the_card_says_so(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stays, with what was on it: in the browser it keeps what was given, and hands it over again."""

    def fail(*_: object) -> None:
        raise StorageError("the server cannot be reached", "unreachable")

    given = answer(card_of(bench.session), "yes")
    with monkeypatch.context() as broken:
        broken.setattr(Database, "read", fail)
        broken.setattr(Database, "write", fail)
        card = bench.says(given)
        assert (card["acked"], card["message"]) == ([], "the server cannot be reached")
    _goes_on(bench, given)


def _goes_on(bench: Bench, given: dict[str, Any]) -> None:
    """The same answer, handed over again, is stored once, and so is the next one."""
    bench.be_patient()
    card = bench.says(given)
    assert (card["acked"], card["message"]) == ([given["id"]], None)
    following = answer(card, "no")
    assert bench.says(following, given)["acked"] == [following["id"], given["id"]]
    assert bench.stored == [given["id"], following["id"]]


FULL = """
import json, shutil, sys
from pathlib import Path
from closecall.app.api.cards import card_of
from closecall.app.api.submit import take
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from tests.projects import answer

projects, ballast, pool, address = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], sys.argv[4]
ballast.write_bytes(bytes(1_000_000))
with Workspace(projects, database=address or None) as workspace:
    project = workspace.project(workspace.create(NewProject(pool, "Is this a 7?")))
    session = project.session()
    person = project.roles.person(session.annotator)
    card, given, acked, messages = card_of(session), [], [], []
    filler = ballast.with_name("filler")
    with filler.open("wb", buffering=0) as file:
        for number in range(400):
            if number == 5:  # the disk fills up, but for a few blocks
                try:
                    while True:
                        file.write(bytes(4096))
                except OSError:
                    file.truncate(max(0, filler.stat().st_size - 16384))
            one = answer(card, "yes" if number % 2 else "no", session=session.id)
            given.append(one["id"])
            card = take(project, session, [one], person)
            acked += card["acked"]
            if card["message"] is not None:
                messages.append(card["message"])
                break
    stored = [row.answer.id for row in project.log.log_rows()]
    ballast.unlink()
    card = take(project, session, [one], person)
    print(json.dumps({
        "given": given, "acked": acked, "messages": messages, "stored": stored, "again": card["acked"],
        "then": card["message"], "last": [row.answer.id for row in project.log.log_rows()],
    }))
"""


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["sqlite", thorough("postgresql")])
def test_a_full_disk(engine: str) -> None:
    """A real one: a small file system that fills up while somebody labels, under the file or the tables."""
    if engine == "postgresql" and postgres.find() is None:
        pytest.skip(postgres.NOT_RUN)
    with open_folder() as folder:
        (folder / "small").mkdir()
        if not _may_mount(folder / "small"):
            pytest.skip("needs the right to mount a small file system")
        found = _found_on_a_full_disk(engine, folder)
    assert len(found["acked"]) >= 5
    assert found["stored"] == found["acked"]
    assert "full" in found["messages"][0]
    last = found["given"][-1]
    assert found["again"] == [last]
    assert found["then"] is None
    assert found["last"] == list(dict.fromkeys([*found["acked"], last]))


def _found_on_a_full_disk(engine: str, folder: Path) -> dict[str, Any]:
    """What `FULL` says, with a disk of 8 MB at the folder's `small`."""
    script = 'mount -t tmpfs -o size=8m,mode=777 none "$1" && shift && exec "$@"'
    small, pool = folder / "small", str(digits_pool())
    arguments = {
        "sqlite": _fill(small / "projects", small, pool, ""),
        "postgresql": [sys.executable, "-m", "tests.unit.app.sessions.test_trouble", str(folder), pool],
    }[engine]
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(small), *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def _may_mount(folder: Path) -> bool:
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "none", str(folder)]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(command, capture_output=True, check=False).returncode
    )


def _fill(projects: Path, small: Path, pool: str, address: str) -> list[str]:
    """The command that labels until `small` is full."""
    return [sys.executable, "-c", FULL, str(projects), str(small / "ballast"), pool, address]


def _label_in_tables(folder: Path, pool: str) -> None:
    """In a mount namespace of its own, where `small` is a disk of 8 MB: a server has its tables there."""
    small = folder / "small"
    with postgres.running() as server:
        tables = small / "tables"
        tables.mkdir()
        tables.chmod(0o777)
        if os.geteuid() == 0:
            shutil.chown(tables, server.folder.owner())
            tables.chmod(0o700)
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{tables}'")
            connection.execute("ALTER ROLE closecall SET default_tablespace = small")
        address = with_schema(server.address, "full")
        subprocess.run(_fill(folder / "projects", small, pool, address), check=True)


if __name__ == "__main__":
    _label_in_tables(Path(sys.argv[1]), sys.argv[2])


def test_the_list_of_projects_has_no_addresses_of_databases(tmp_path):
    """A project whose database can't be reached is listed with a reason, which everybody sees."""
    with Workspace(tmp_path) as workspace:
        key = workspace.create(NewProject("digits:50", "Is this a 7?"))
    file = tmp_path / key / "project.json"
    moved = json.loads(file.read_text("utf-8")) | {"database": "postgresql://127.0.0.1:1/labels?schema=a"}
    file.write_text(json.dumps(moved), "utf-8")
    with Workspace(tmp_path) as workspace:
        (summary,) = workspace.projects()
    assert not summary.usable
    assert summary.problem == "The database cannot be reached"


def test_images_that_cannot_be_prepared_are_no_trouble_of_the_background(tmp_path, monkeypatch):
    """Each request for one gives the reason, and training is prepared all the same."""
    with Workspace(tmp_path) as workspace:
        key = workspace.create(NewProject("digits:50", "Is this a 7?"))
        until(lambda: (pool := workspace.project(key).pool) is not None and pool.complete)
    loaded = []
    monkeypatch.setattr("closecall.app.projects.project.load_training", lambda: loaded.append(True))
    monkeypatch.setattr("closecall.core.sources.digits.DRAWING", 1000)
    with Workspace(tmp_path) as workspace:
        project = workspace.project(key)
        project.background.submit(lambda: None).result(60)  # after what a project does when it is opened
        assert loaded
        assert project.troubles.first is None
        with pytest.raises(InputError, match="were drawn by version"):
            project.pictures.card(60)
