"""Opening, migrating and writing: what goes wrong is said in one sentence, and nothing is lost."""

from __future__ import annotations

import ast
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, event, inspect, text

from closecall.storage import Concepts, Database, LabelLog, StorageError, migrate, restore
from closecall.storage.models import Base
from closecall.storage.place import place_of
from tests.folders import ROOT
from tests.storage_kit import (
    Annotator,
    as_ordinary_user,
    count_rows,
    make_concept,
    no_room,
    open_folder,
    sit_down,
)

T = TypeVar("T", Path, str)
MOST_CONNECTIONS = 32


@pytest.fixture(autouse=True)
def run_every_migration(migrate_once: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about the migrations."""
    monkeypatch.setattr(migrate, "upgrade", migrate_once)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a label database is, with one answer in it."""
    path = tmp_path / "labels.db"
    with Database.open(path, create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    return path


def reopened(database: Database) -> Annotator:
    """The annotator of the fixture's session."""
    from closecall.storage import LabelLog

    log = LabelLog(database)
    return Annotator(log, log.sessions()[0])


@contextmanager
def refused(kind: str, *words: str) -> Iterator[None]:
    """The block raises a StorageError of that kind: one line that has all the words."""
    with pytest.raises(StorageError) as caught:
        yield
    message = caught.value.full
    assert caught.value.kind == kind, message
    assert "\n" not in message
    for word in words:
        assert word in message


def plain_sql(path: Path, *statements: str) -> None:
    """Change the database behind the program's back."""
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


# What may be wrong with a path


def test_there_must_be_a_database_unless_one_is_made(tmp_path: Path) -> None:
    """A mistyped path makes no empty database."""
    with refused("missing", str(tmp_path / "typo.db")):
        Database.open(tmp_path / "typo.db")
    with refused("missing", "folder", "nowhere"):
        Database.open(tmp_path / "nowhere" / "labels.db", create=True)
    assert list(tmp_path.iterdir()) == []
    with refused("not-a-database", "is a folder"):
        Database.open(tmp_path)


def test_other_files_are_not_touched(tmp_path: Path) -> None:
    """A text file, another program's database and an empty file are told apart from ours, and left alone."""
    note, other, empty = tmp_path / "note.txt", tmp_path / "other.db", tmp_path / "empty.db"
    note.write_text("Buy milk.")
    plain_sql(other, "CREATE TABLE milk (litres REAL)")
    empty.touch()
    before = {file: file.read_bytes() for file in (note, other, empty)}
    for file in (note, other):
        for create in (False, True):
            with refused("not-a-database", str(file)):
                Database.open(file, create=create)
    with refused("not-a-database", "empty"):
        Database.open(empty)
    assert {file: file.read_bytes() for file in before} == before


def test_a_creation_that_fails_leaves_nothing(
    where: Path | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database is there whole or not at all."""
    with monkeypatch.context() as failing:
        failing.setattr(migrate, "upgrade", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Database.open(where, create=True)
    assert list(tmp_path.iterdir()) == []
    with refused("missing"):
        Database.open(where)
    Database.open(where, create=True).close()


def test_a_truncated_file_is_called_damaged(path: Path) -> None:
    """A file cut in half is neither opened nor repaired behind one's back."""
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with refused("corrupt", str(path), "backup"), Database.open(path) as database:
        reopened(database).says("yes", 6)


@pytest.mark.parametrize("read_only", [False, True])
def test_a_half_done_transaction_of_a_killed_program_is_rolled_back(
    path: Path, tmp_path: Path, read_only: bool
) -> None:
    """Also one in the old journal mode, in which a restored database begins."""
    killed = tmp_path / "killed.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA cache_size=2")
        connection.execute("BEGIN")
        for number in range(300):
            connection.execute(
                "INSERT INTO concepts SELECT ?, ?, hex(zeroblob(400)), '', NULL, 1, NULL, 0",
                (number + 100, f"c{number}"),
            )
        for suffix in ("", "-journal"):
            shutil.copy(f"{path}{suffix}", f"{killed}{suffix}")
        connection.execute("ROLLBACK")
    with Database.open(killed, read_only=read_only) as database:
        assert count_rows(database)["concepts"] == 1
    assert not killed.with_name("killed.db-journal").exists()


def test_a_newer_database_is_refused_and_left_alone(path: Path) -> None:
    """An old program never writes into a new schema."""
    plain_sql(path, "UPDATE alembic_version SET version_num = '0999'")
    before = path.read_bytes()
    for read_only in (False, True):
        with refused("newer", "0999", migrate.SCHEMA_VERSION):
            Database.open(path, read_only=read_only)
    assert path.read_bytes() == before


def test_what_is_newer_is_refused(labels: Path | str) -> None:
    """On either engine, to read or to write."""
    with Database.open(labels) as database, database.write() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0999'")
    for read_only in (False, True):
        with refused("newer", "0999", migrate.SCHEMA_VERSION):
            Database.open(labels, read_only=read_only)


def test_a_read_only_file_or_folder_is_said_at_opening() -> None:
    """Not at the first answer; and reading it is possible all the same."""
    with open_folder() as folder:
        path = folder / "labels.db"
        with Database.open(path, create=True) as database:
            sit_down(database, make_concept(database)).says("yes", 5)
        path.chmod(0o444)
        with as_ordinary_user(), refused("read-only", str(path)):
            Database.open(path)
        path.chmod(0o666)
        folder.chmod(0o555)
        with as_ordinary_user(), refused("read-only", str(folder)):
            Database.open(path)
        with as_ordinary_user(), Database.open(path, read_only=True) as database:
            assert reopened(database).log.counts(1).yes == 1
            with refused("read-only"), database.write():
                pass
        folder.chmod(0o777)


def test_reading_only_changes_nothing(labels: Path | str) -> None:
    """A reader beside a server sees what it commits, and cannot write itself."""
    with Database.open(labels) as served, Database.open(labels, read_only=True) as reader:
        reopened(served).says("no", 6)
        assert reopened(reader).log.counts(1).no == 1
        with refused("read-only", "reading only"):
            reopened(reader).says("yes", 7)


def test_reading_makes_no_database(where: Path | str) -> None:
    """Also where one is to be made if there is none."""
    with refused("missing", str(place_of(where))):
        Database.open(where, create=True, read_only=True)
    with refused("missing", str(place_of(where))):
        Database.open(where)


def test_odd_file_names_are_only_names(tmp_path: Path) -> None:
    """What means something in an address means nothing in a path."""
    path = tmp_path / "a?mode=memory&b#c%20d ä.db"
    with Database.open(path, create=True) as database:
        make_concept(database)
    assert path.is_file()


# Locks and full disks


def test_a_lock_held_by_another_program_is_waited_for_then_told(path: Path) -> None:
    """Nothing is stored meanwhile, and the same answer goes in once the lock is gone."""
    with Database.open(path, busy_timeout=0.2) as database:
        ada = reopened(database)
        record = ada.record("no", 6)
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with refused("locked", "another program", "0.2 s"):
                ada.send(record)
            assert ada.log.counts(1).yes == 1
            other.execute("ROLLBACK")
        assert ada.send(record).acknowledged == (record.id,)


def test_who_waits_for_a_writer_that_waits_is_told_what_for(path: Path) -> None:
    """Of many that write to a locked database only one waits for the lock, and the others for that one."""
    with Database.open(path, busy_timeout=0.2) as database:
        ada = reopened(database)
        record = ada.record("no", 6)

        def refuse(_: int) -> None:
            with refused("locked", "another program"):
                ada.send(record)

        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refuse(0)
            with ThreadPoolExecutor(3) as pool:
                assert len(list(pool.map(refuse, range(6)))) == 6
            other.execute("ROLLBACK")
        assert ada.send(record).acknowledged == (record.id,)


def test_opening_a_locked_database_says_so(path: Path) -> None:
    """Now, not at the first answer; also where the lock keeps even readers out."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with refused("locked", str(path), "waited 0.1 s"):
            Database.open(path, busy_timeout=0.1)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with refused("locked", str(path), "waited 0.1 s"):
            Database.open(path, busy_timeout=0.1)


@pytest.mark.parametrize("read_only", [True, False])
def test_no_connection_waits_longer_than_the_busy_timeout(
    path: Path, monkeypatch: pytest.MonkeyPatch, read_only: bool
) -> None:
    """Neither the check whose database it is, nor rolling back what a killed program began."""
    connect, timeouts = sqlite3.connect, set()

    def noted(*words: Any, timeout: float, **more: Any) -> sqlite3.Connection:
        timeouts.add(timeout)
        return connect(*words, timeout=timeout, **more)

    path.with_name(f"{path.name}-journal").touch()
    monkeypatch.setattr(sqlite3, "connect", noted)
    Database.open(path, read_only=read_only, busy_timeout=0.25).close()
    assert timeouts == {0.25}


def test_a_writer_of_the_same_process_is_waited_for(labels: Path | str) -> None:
    """Threads take turns, and one that hangs does not hang the others for ever."""
    with Database.open(labels, busy_timeout=0.2) as database:
        ada = reopened(database)
        with database.write(), ThreadPoolExecutor(1) as pool, refused("locked", "busy"):
            pool.submit(ada.says, "no", 6).result()
        ada.says("no", 6)


def test_who_gets_no_connection_is_told_that_the_database_is_busy(labels: Path | str) -> None:
    """Soon, as one who waits for a lock is, and work goes on as soon as a connection is free."""
    with Database.open(labels, busy_timeout=0.1) as database:
        ada = reopened(database)
        with ExitStack() as held:
            for _ in range(MOST_CONNECTIONS):
                held.enter_context(database.read())
            with refused("locked", "no connection", "0.1 s"):
                count_rows(database)
            with refused("locked", "no connection"):
                ada.says("no", 6)
            with refused("locked", "no connection"):
                database.check()
        ada.says("no", 6)
        database.check()


def test_a_full_disk_is_over_as_soon_as_there_is_room(
    labels: Path | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A health check need not wait for a write; the attempt leaves nothing behind."""
    with Database.open(labels) as database:
        before = count_rows(database)
        database._trouble = StorageError("the disk is full", "full")
        with monkeypatch.context() as full:
            if isinstance(labels, Path):
                full.setattr("closecall.storage.sqlite.TemporaryFile", no_room)
            else:
                full.setattr("closecall.storage.postgres._ROOM", DISK_FULL)
            for _ in range(2):
                with refused("full", "the disk", "is full"):
                    database.check()
        for _ in range(2):
            database.check()
        assert database._trouble is None
        assert count_rows(database) == before
        with database.read() as connection:
            tables = set(inspect(connection).get_table_names())
        assert tables == {*Base.metadata.tables, "alembic_version"}
    if isinstance(labels, Path):
        assert [file.name for file in labels.parent.iterdir()] == [labels.name]


DISK_FULL = """DO $$ BEGIN RAISE EXCEPTION 'could not extend file' USING ERRCODE = '53100'; END $$"""


def test_an_error_in_the_middle_writes_nothing(labels: Path | str) -> None:
    """A transaction is whole or not at all."""
    with Database.open(labels) as database:
        before = count_rows(database)
        with refused("invalid", "question"), database.write() as connection:
            connection.exec_driver_sql("INSERT INTO concepts SELECT 9, 'x', 'x?', '', NULL, 1, NULL, 0")
            connection.exec_driver_sql("INSERT INTO concepts (id, name) VALUES (10, 'y')")
        assert count_rows(database) == before


def test_a_full_database_loses_nothing_that_was_acknowledged(path: Path) -> None:
    """A batch that finds no room is refused whole; with room again it goes in."""
    with Database.open(path) as database:
        ada = reopened(database)
        pages = 1_000_000

        def limit(connection: sqlite3.Connection, _record: object) -> None:
            connection.execute(f"PRAGMA max_page_count={pages}")

        event.listen(database._engine, "connect", limit)
        with database.read() as connection:
            pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one()) + 2
        database._engine.dispose()
        acknowledged = 1
        batch = [ada.record("yes", item) for item in range(100, 1_100)]
        with refused("full", "disk is full"):
            for start in range(0, len(batch), 10):
                acknowledged += len(ada.send(*batch[start : start + 10]).acknowledged)
        assert 1 < acknowledged < 1_000
        assert count_rows(database)["answers"] == acknowledged
        pages = 1_000_000
        database._engine.dispose()
        assert len(ada.send(*batch).refused) == 0
        assert count_rows(database)["answers"] == 1 + len(batch)


FULL_DISK = """
import json, sys
from pathlib import Path
from closecall.storage import Database, StorageError
from tests.storage_kit import count_rows, make_concept, sit_down

disk = Path(sys.argv[1])
ballast = disk / "ballast"
ballast.write_bytes(bytes(300_000))
database = Database.open(disk / "labels.db", create=True)
ada = sit_down(database, make_concept(database))
acknowledged, kinds = 0, []
batch = [ada.record("yes", item) for item in range(5_000)]
try:
    for start in range(0, len(batch), 10):
        acknowledged += len(ada.send(*batch[start : start + 10]).acknowledged)
except StorageError as error:
    kinds.append(error.kind)
stored = count_rows(database)["answers"]
checks = []
for left in (ballast, None):
    try:
        database.check()
        checks.append("ok")
    except StorageError as error:
        checks.append(error.kind)
    if left:
        left.unlink()
more = len(ada.send(*batch[:acknowledged + 10]).acknowledged)
print(json.dumps([acknowledged, stored, kinds, checks, more, count_rows(database)["answers"]]))
database.close()
"""


def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    """On a real disk of 2 MB: a clear error, every acknowledged answer kept, and work goes on with room.

    A check says both.
    """
    mount = "mount -t tmpfs -o size=2m none "
    if (
        not shutil.which("unshare")
        or subprocess.run(
            ["unshare", "-m", "sh", "-c", f"{mount} '{tmp_path}'"], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("needs the right to mount a small file system")
    script = f'{mount} "$1" && exec \'{sys.executable}\' -c "$2" "$1"'
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), FULL_DISK],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    acknowledged, stored, kinds, checks, more, finally_stored = json.loads(ran.stdout)
    assert kinds == ["full"]
    assert checks == ["full", "ok"]
    assert 100 < acknowledged < 5_000
    assert stored == acknowledged
    assert more == finally_stored == acknowledged + 10


# Settings that the promises rest on


def test_every_connection_commits_to_the_disk(path: Path) -> None:
    """WAL with full sync, foreign keys and a busy timeout hold for each connection of each thread."""
    with Database.open(path) as database:
        barrier = threading.Barrier(4)

        def look(_: int) -> tuple[object, ...]:
            with database.read() as connection:
                barrier.wait()  # so that all four hold a connection of their own
                names = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
                return tuple(connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names)

        with ThreadPoolExecutor(4) as pool:
            assert set(pool.map(look, range(4))) == {("wal", 2, 1, 5000)}


def test_reading_does_not_wait_for_a_writer(labels: Path | str) -> None:
    """A page can be drawn while another thread is in the middle of a write."""
    with Database.open(labels) as database:
        ada = reopened(database)
        with database.write() as connection:
            connection.exec_driver_sql("UPDATE concepts SET question = 'Is it?'")
            assert ada.log.counts(1).yes == 1


# Migrations


def test_migrations_make_what_the_models_say(path: Path) -> None:
    """Alembic finds no difference, and every table is made by the same words, checks included."""
    with Database.open(path) as database, database.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, Base.metadata) == []
        migrated = _schema(connection)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        assert migrated == _schema(connection)


def _schema(connection) -> dict[str, set[str]]:  # type: ignore[no-untyped-def]
    rows = connection.exec_driver_sql(
        "SELECT name, sql FROM sqlite_master WHERE type IN ('table', 'index') AND sql IS NOT NULL"
    )
    return {
        name: {line.strip().rstrip(",") for line in sql.splitlines()}
        for name, sql in rows
        if name not in ("alembic_version", "sqlite_sequence")
    }


def test_the_newest_version_is_the_last_migration() -> None:
    """The number that opening compares with is the one that the migrations end in."""
    scripts = ScriptDirectory(str(migrate.SCRIPTS))
    assert scripts.get_heads() == [migrate.SCHEMA_VERSION]
    assert all(script.revision.isdigit() and len(script.revision) == 4 for script in scripts.walk_revisions())


def test_migrations_share_what_they_both_do() -> None:
    """No function but `upgrade` is in two of them."""
    steps = [ast.parse(step.read_text("utf-8")) for step in migrate.SCRIPTS.glob("versions/*.py")]
    names = [node.name for step in steps for node in step.body if isinstance(node, ast.FunctionDef)]
    assert [name for name in set(names) - {"upgrade"} if names.count(name) > 1] == []


@contextmanager
def schema_was(version: str, tmp_path: Path) -> Iterator[None]:
    """The program knows no newer schema meanwhile."""
    scripts = tmp_path / "before"
    scripts.mkdir()
    for part in migrate.SCRIPTS.iterdir():
        if part.is_file():
            shutil.copy(part, scripts)
    (scripts / "versions").mkdir()
    for step in migrate.SCRIPTS.glob("versions/*.py"):
        if step.name[:4] <= version:
            shutil.copy(step, scripts / "versions")
    with pytest.MonkeyPatch.context() as then:
        then.setattr(migrate, "SCRIPTS", scripts)
        then.setattr(migrate, "SCHEMA_VERSION", version)
        yield


@pytest.fixture
def before_searches(tmp_path: Path) -> Path:
    """A file of schema 0003, as the program was before items could be found by name, with rows in it."""
    return made_before_searches(tmp_path / "before.db", tmp_path)


def made_before_searches(where: T, tmp_path: Path) -> T:
    """Make such a database."""
    with schema_was("0003", tmp_path), Database.open(where, create=True) as database:
        ada = sit_down(database, make_concept(database))
        for item in range(5):
            shown = ada.is_shown(
                item, parameters={"k": 40, "of": ["ä", None]}, leased=(3, 9), margin=item / 7
            )
            ada.says("yes" if item % 2 else "no", item, selection_id=shown.id)
        with pytest.raises(StorageError, match="why"):
            ada.is_shown(7, why="search")
        with pytest.raises(StorageError, match="purpose"):
            ada.says("yes", 1, purpose="decision")
    return where


def test_what_is_older_keeps_every_row(where: Path | str, tmp_path: Path) -> None:
    """On either engine items may be found by name and decided about from then on; what was there stays."""
    made_before_searches(where, tmp_path)
    with Database.open(where, copies_in=tmp_path) as database:
        assert database.schema_version == migrate.SCHEMA_VERSION
        ada = reopened(database)
        rows = list(ada.log.log_rows())
        assert [(row.answer.item, row.answer.answer) for row in rows] == [
            (item, "yes" if item % 2 else "no") for item in range(5)
        ]
        assert rows[4].selection.margin == 4 / 7
        assert rows[4].selection.parameters == {"k": 40, "of": ["ä", None]}
        assert ada.is_shown(7, why="search", strategy="search").seq > 5
        assert ada.is_shown(8, why="overlap").seq > 6
        assert ada.is_shown(9, why="words").seq > 7
        assert ada.is_shown(10, why="lasso").seq > 8
        assert ada.says("no", 1, purpose="decision").seq > 5
        assert ada.log.counts(1).no == 4
        for statement in ("UPDATE selections SET item = 1", "DELETE FROM selections WHERE seq = 2"):
            with refused("invalid", "append-only"), database.write() as connection:
                connection.exec_driver_sql(statement)


def test_a_database_from_before_searches_keeps_every_row(before_searches: Path) -> None:
    """Its selections are made again with all that guards them; from then on an item may be found by name."""
    with closing(sqlite3.connect(before_searches)) as connection:
        rows = connection.execute("SELECT * FROM selections ORDER BY seq").fetchall()
        log = connection.execute("SELECT * FROM log ORDER BY seq").fetchall()
        guards = connection.execute(GUARDS).fetchall()
    with Database.open(before_searches) as database:
        ada = reopened(database)
        assert ada.log.counts(1).yes == 2
        found = ada.is_shown(7, why="search", strategy="search")
        assert found.seq == 6
        assert ada.log.selection(found.id) == found
        assert ada.says("yes", 7, selection_id=found.id).seq == 6
        assert ada.is_shown(8, why="overlap").seq == 7
        assert ada.is_shown(9, why="words").seq == 8
        assert ada.is_shown(10, why="lasso").seq == 9
        assert ada.says("no", 1, purpose="decision").seq == 7
        assert ada.log.counts(1).no == 4
        with database.read() as connection:
            migrated = _schema(connection)
    with closing(sqlite3.connect(before_searches)) as connection:
        assert connection.execute("SELECT * FROM selections ORDER BY seq").fetchall()[:5] == rows
        assert connection.execute("SELECT * FROM log ORDER BY seq").fetchall()[:5] == log
        assert connection.execute(GUARDS).fetchall() == guards
        assert len(guards) > 5
        for statement in (
            "UPDATE selections SET item = 1",
            "DELETE FROM selections WHERE seq = 2",
            "UPDATE answers SET item = 1",
            "DELETE FROM answers WHERE seq = 2",
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        assert migrated == _schema(connection)


def test_hashing_strategies_of_before_have_the_names_of_their_weighted_forms(
    where: Path | str, tmp_path: Path
) -> None:
    """In sessions, selections and what was foreseen, on either engine; nothing else changes."""
    words = ("h-hash", "eh-hash:rank=dense", "bh-hash", "lbh-hash", "margin-index", "mixture:random=1")
    with schema_was("0005", tmp_path), Database.open(where, create=True) as database:
        ada = sit_down(database, make_concept(database))
        for item, word in enumerate(words):
            name = word.partition(":")[0]
            ada.log.start_session(ada.session.concept_id, "Ada", word, id=f"session-{item}")
            shown = ada.is_shown(item, strategy=name, parameters={"n": item})
            ada.log.foresee([replace(shown, id=f"foreseen-{item}", item=10 + item, round=50 + item)])
    with Database.open(where, copies_in=tmp_path) as database:
        ada = reopened(database)
        log = ada.log
        named = [
            "h-hash-weighted",
            "eh-hash-weighted",
            "bh-hash-weighted",
            "lbh-hash-weighted",
            "margin-index",
            "mixture",
        ]
        for item, name in enumerate(named):
            session = log.session(f"session-{item}")
            assert session is not None
            assert session.strategy == name + "".join(words[item].partition(":")[1:])
            foreseen = log.foreseen(f"foreseen-{item}")
            assert foreseen is not None
            assert (foreseen.item, foreseen.strategy) == (10 + item, name)
        shown = log.recent_selections(ada.session.id, 99)
        assert [(record.strategy, record.parameters) for record in shown] == [
            (name, {"n": item}) for item, name in enumerate(named)
        ]
        with pytest.raises(StorageError, match="append-only"), database.write() as connection:
            connection.execute(text("UPDATE selections SET strategy = 'other'"))


def test_a_concept_gets_the_audit_share_of_its_newest_session_that_had_one(
    where: Path | str, tmp_path: Path
) -> None:
    """In earlier versions each session had its own."""
    with schema_was("0007", tmp_path), Database.open(where, create=True) as database:
        for name, shares in {"seven": (0.3, 0.1, None), "eight": (0.3, 0.0), "nine": (None,)}.items():
            concept, log = make_concept(database, name), LabelLog(database, clock=count(1).__next__)
            for share in shares:
                parameters = {} if share is None else {"audit_share": share}
                log.start_session(concept.id, "Ada", "random", parameters=parameters)
    with Database.open(where, copies_in=tmp_path) as database:
        concepts = Concepts(database)
        assert [concepts.audit_share(concept.id) for concept in concepts.all()] == [0.1, 0, 0]


@pytest.fixture
def before_imports(tmp_path: Path) -> Path:
    """A database of schema 0004, as the program was before labels could be imported, with rows in it."""
    path = tmp_path / "before.db"
    with schema_was("0004", tmp_path), Database.open(path, create=True) as database:
        ada = sit_down(database, make_concept(database))
        for item in range(5):
            ada.says("yes" if item % 2 else "no", item, selection_id=ada.is_shown(item).id)
        ada.undoes(ada.says("yes", 8))
        ada.says("no", 9, corrects=ada.says("yes", 9, purpose="audit").id)
        with pytest.raises(StorageError, match="purpose"):
            ada.says("yes", 7, purpose="import")
    return path


def test_a_database_from_before_imports_keeps_every_row(before_imports: Path) -> None:
    """Its answers are made again with all that guards them; from then on some may come from files."""
    guards = GUARDS.replace("selections", "answers")
    with closing(sqlite3.connect(before_imports)) as connection:
        rows = connection.execute("SELECT * FROM answers ORDER BY seq").fetchall()
        labels = connection.execute("SELECT * FROM current_labels ORDER BY item").fetchall()
        guarded = connection.execute(guards).fetchall()
    with Database.open(before_imports) as database:
        assert database.backup_made is not None
        ada = reopened(database)
        with database.read() as connection:
            migrated = _schema(connection)
            read = connection.exec_driver_sql("SELECT * FROM current_labels ORDER BY item").fetchall()
            assert [tuple(row) for row in read] == labels
        assert ada.says("yes", 7, purpose="import").seq == len(rows) + 1
        assert 7 in ada.log.labels(1).items
    with closing(sqlite3.connect(before_imports)) as connection:
        assert connection.execute("SELECT * FROM answers ORDER BY seq").fetchall()[:-1] == rows
        assert connection.execute(guards).fetchall() == guarded
        assert len(guarded) > 5
        label = "SELECT label, status FROM current_labels WHERE item = ?"
        assert connection.execute(label, (7,)).fetchall() == [("yes", "yes")]
        for statement in ("UPDATE answers SET item = 1", "DELETE FROM answers WHERE seq = 2"):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(statement)
    engine = create_engine("sqlite://")
    with engine.begin() as connection:
        Base.metadata.create_all(connection)
        assert migrated == _schema(connection)


GUARDS = """
    SELECT type, name, tbl_name, sql FROM sqlite_master
    WHERE tbl_name IN ('answers', 'selections') AND type IN ('index', 'trigger') ORDER BY name
"""


THIS = migrate.SCHEMA_VERSION
NEXT = f"{int(THIS) + 1:04}"
NEXT_MIGRATION = f"""
from alembic import op
import sqlalchemy as sa
revision, down_revision = "{NEXT}", "{THIS}"

def upgrade():
    op.add_column("concepts", sa.Column("colour", sa.String(20)))
    {{more}}
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A later version of the program, with one more migration; returns that migration's file."""
    scripts = tmp_path / "scripts"
    shutil.copytree(migrate.SCRIPTS, scripts, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(migrate, "SCRIPTS", scripts)
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", NEXT)
    file = scripts / "versions" / f"{NEXT}_next.py"
    file.write_text(NEXT_MIGRATION.format(more=""))
    return file


def test_an_older_database_is_copied_and_brought_up(
    labels: Path | str, next_version: Path, tmp_path: Path
) -> None:
    """The copy made before is a whole database of the old version, which can be restored."""
    with refused("older", THIS, NEXT):
        Database.open(labels, read_only=True)
    with Database.open(labels, copies_in=tmp_path) as database:
        assert database.schema_version == NEXT
        assert reopened(database).log.counts(1).yes == 1
        copy = database.backup_made
    assert copy is not None
    assert copy.parent == tmp_path
    with closing(sqlite3.connect(copy)) as old:
        assert old.execute("SELECT version_num FROM alembic_version").fetchall() == [(THIS,)]
        assert old.execute("SELECT item, answer FROM answers").fetchall() == [(5, "yes")]
    aside = restore(copy, labels, overwrite=True)
    with Database.open(labels, backup_before_migration=False) as again:
        assert (again.schema_version, again.backup_made) == (NEXT, None)
        assert reopened(again).says("no", 6).seq == 2
    with Database.open(aside) as database:
        assert database.backup_made is None


@pytest.mark.parametrize("more", ["raise RuntimeError('halfway')", "op.execute('DELETE FROM sessions')"])
def test_a_failing_migration_changes_nothing(
    labels: Path | str, next_version: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str
) -> None:
    """An error in the middle, or rows left without what they refer to, leaves the old version as it was."""
    next_version.write_text(NEXT_MIGRATION.format(more=more))
    with pytest.raises((RuntimeError, StorageError)):
        Database.open(labels, copies_in=tmp_path)
    monkeypatch.setattr(migrate, "SCHEMA_VERSION", THIS)
    with Database.open(labels) as database, database.read() as connection:
        assert database.schema_version == THIS
        assert "colour" not in {column["name"] for column in inspect(connection).get_columns("concepts")}
        assert reopened(database).log.counts(1).yes == 1


def test_two_programs_create_the_same_database(where: Path | str) -> None:
    """Whoever comes second finds it made."""
    with ThreadPoolExecutor(4) as pool:
        opened = list(pool.map(lambda _: Database.open(where, create=True, busy_timeout=60.0), range(4)))
    assert {database.schema_version for database in opened} == {migrate.SCHEMA_VERSION}
    for database in opened:
        database.close()
