"""Several servers of one PostgreSQL schema: who may open it, what they tell each other, and who leads."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from closecall.storage import (
    Archive,
    Claims,
    Concepts,
    Database,
    LabelLog,
    LeaseTable,
    Notice,
    StorageError,
    migrate,
)
from closecall.storage.notices import MOST_BYTES
from tests import postgres
from tests.storage_kit import Annotator, make_concept, sit_down

PATIENCE = 60.0
HOLD = (
    "import sys, time; from closecall.storage import Database; "
    "database = Database.open(sys.argv[1], **{sys.argv[2]: True} if len(sys.argv) > 2 else {}); "
    "print('opened', flush=True); time.sleep(600)"
)


@pytest.fixture
def schema(server: postgres.Server) -> str:
    """The address of a label database with one answer in it."""
    where = server.schema()
    with Database.open(where, create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    return where


@pytest.fixture
def two(schema: str) -> Iterator[tuple[Database, Database]]:
    """Two servers that have it open."""
    with Database.open(schema, shared=True) as one, Database.open(schema, shared=True) as other:
        yield one, other


@contextmanager
def another_program(schema: str, *how: str) -> Iterator[subprocess.Popen[str]]:
    """It has the schema open until it is killed."""
    words = [sys.executable, "-c", HOLD, schema, *how]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "opened\n"
        try:
            yield program
        finally:
            program.kill()


def soon(is_so: Callable[[], object]) -> None:
    """Wait until something is so, which takes a moment."""
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def ada_in(database: Database, **more: Any) -> Annotator:
    """The annotator of the fixture's session."""
    log = LabelLog(database, **more)
    return Annotator(log, log.sessions()[0])


# Who may open it


def test_servers_together_and_one_alone_keep_each_other_out(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On whatever machines: the database knows. Who was killed keeps nobody out."""
    for theirs, ours in (("shared", "alone"), ("alone", "shared"), ("alone", "alone")):
        with another_program(schema, theirs), monkeypatch.context() as impatient:
            impatient.setattr("closecall.storage.postgres._LINGERS", 0.0)
            with pytest.raises(StorageError, match="being served") as caught:
                Database.open(schema, **{ours: True})
            assert caught.value.kind == "locked"
        with Database.open(schema, **{ours: True}) as database:
            assert LabelLog(database).counts(1).yes == 1
    with another_program(schema, "shared"), Database.open(schema, shared=True) as database:
        assert LabelLog(database).counts(1).yes == 1


def test_an_older_schema_is_not_brought_up_to_date_under_a_program(
    schema: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """Servers that start together don't keep each other from it; one of them does it."""
    done: list[str] = []
    monkeypatch.setattr("closecall.storage.postgres._LINGERS", 0.0)
    newest = migrate.SCHEMA_VERSION

    def upgrade(connection: Any, _: str = "head") -> None:
        done.append(newest)
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = %s", (newest,))

    monkeypatch.setattr(migrate, "upgrade", upgrade)
    with another_program(schema), Database.open(schema, busy_timeout=60.0) as database:
        with database.write() as connection:
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0013'")
        with pytest.raises(StorageError, match="open in another program"):
            Database.open(schema, shared=True, copies_in=tmp_path, backup_before_migration=False)
    assert not done
    monkeypatch.setattr("closecall.storage.postgres._LINGERS", PATIENCE)

    def open_it(_: int) -> Database:
        return Database.open(
            schema, shared=True, copies_in=tmp_path, backup_before_migration=False, busy_timeout=60.0
        )

    with ThreadPoolExecutor(3) as pool:
        opened = list(pool.map(open_it, range(3)))
    assert {database.schema_version for database in opened} == {newest}
    assert done == [newest]
    for database in opened:
        database.close()


# What they tell each other


def test_what_a_server_commits_the_others_are_told(two: tuple[Database, Database]) -> None:
    """Once it is committed; not what was rolled back, and nobody hears of their own changes twice."""
    one, other = two
    heard: dict[str, list[Notice]] = {"one": [], "other": []}
    one.follow(heard["one"].append)
    other.follow(heard["other"].append)
    soon(lambda: one.is_told and other.is_told)
    answer = ada_in(one).says("no", 6)
    Concepts(one).set_audit_share(1, 0.5)
    with pytest.raises(ZeroDivisionError), one.write() as connection:  # noqa: PT012 (it is rolled back)
        one.announce(connection, "answers", concept=1, items=[7])
        raise ZeroDivisionError
    Archive(one).add(1)
    told = [
        ("answers", {"concept": 1, "items": [answer.item]}),
        ("concept", {"concept": 1}),
        ("concept", {"concept": 1}),
    ]
    assert [(notice.kind, notice.data) for notice in heard["one"]] == told
    soon(lambda: len(heard["other"]) == 3)
    assert [(notice.kind, notice.data) for notice in heard["other"]] == told
    assert {notice.is_own for notice in heard["one"]} == {True}
    assert {notice.is_own for notice in heard["other"]} == {False}


def test_a_long_notice_leaves_its_items_out() -> None:
    """PostgreSQL takes 8,000 bytes; what can't be read is no notice."""
    notice = Notice("answers", {"concept": 1, "items": list(range(5000))})
    sent = notice.message("ada's server")
    assert len(sent) < MOST_BYTES
    assert Notice.of(sent, "bob's server") == Notice("answers", {"concept": 1, "items": None}, is_own=False)
    assert Notice.of(sent, "ada's server") is None
    for wrong in ("", "[]", "{}", '{"kind": 1, "server": 2}'):
        assert Notice.of(wrong, "bob's server") is None


def test_the_log_of_another_server_is_read_when_it_has_grown(two: tuple[Database, Database]) -> None:
    """A token stands for what was read; a position that is known changes nothing."""
    one, other = two
    log = LabelLog(other)
    assert log.newest is not log.newest  # nobody listens yet
    other.follow(lambda notice: log.hear() if notice.kind == "answers" else None)
    soon(lambda: other.is_told)
    before = log.newest
    assert before is log.newest
    stored = ada_in(one).says("no", 6)
    soon(lambda: log.newest is not before)
    log.hear(stored.seq)
    again = log.newest
    log.hear(stored.seq)
    assert log.newest is again
    log.hear(stored.seq + 1)
    assert log.newest is not again


# Claims


def test_a_session_is_one_servers(two: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its number grows with each change of servers; the log refuses what the former server writes."""
    monkeypatch.setattr("closecall.storage.session_claims.CONFIRM_SECONDS", 0.0)
    one, other = two
    mine, theirs = Claims(one), Claims(other)
    ada = ada_in(one, claims=mine)
    name = ada.session.id
    assert [mine.hold(name), mine.hold(name), theirs.hold(name)] == [1, 1, 2]
    with pytest.raises(StorageError) as caught:
        ada.is_shown(6)
    assert (caught.value.kind, caught.value.passes) == ("moved", True)
    shown = ada_in(other, claims=theirs).is_shown(6)
    for answer in (ada.record("no", 6, selection_id=shown.id), ada.record("yes", 6, selection_id=shown.id)):
        with pytest.raises(StorageError, match="another server"):
            ada.send(answer)
    assert ada.send(ada.record("yes", 7, purpose="decision")).accepted  # no selection can be doubled
    assert [mine.hold(name), theirs.hold(name), theirs.hold(name)] == [3, 4, 4]
    assert mine.is_attended(name, 60)
    assert not theirs.is_attended(name, 60)
    assert not mine.is_attended(name, -1)
    other.close()
    soon(lambda: not mine.is_attended(name, 60))


def test_leases_expire_by_the_databases_clock(two: tuple[Database, Database]) -> None:
    """Whatever the clocks of the servers say."""
    one, other = (LeaseTable(database, "label") for database in two)
    with one.change() as change:
        change.put("ada", {3}, change.then.now)
    then = other.read()
    assert (then.rows["ada"].items, 0 <= then.now - then.rows["ada"].heard < 60_000) == ({3}, True)
    assert abs(then.now - 1000 * time.time()) < 60_000  # here, it is the same clock
    assert other.renew("ada") == {3}
    assert one.read().rows["ada"].heard > then.rows["ada"].heard
    assert other.renew("bob") is None
    soon(lambda: one.idle(0.05, 0.0) == ["ada"])
    one.drop(["ada"], 0.05)
    assert not other.read().rows


# Who leads


def test_one_server_leads_until_it_is_gone(
    server: postgres.Server, two: tuple[Database, Database], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lost connection is a lost lead; without other servers, one leads always."""
    monkeypatch.setattr("closecall.storage.leading.CHECK_SECONDS", 0.0)
    one, other = two
    with one.leads("webhooks") as mine, other.leads("webhooks") as theirs:
        assert [mine.is_held(), theirs.is_held(), other.leads("audits").is_held()] == [True, False, True]
        with psycopg.connect(server.address, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (mine._connection.info.backend_pid,))
        soon(theirs.is_held)
        assert not mine.is_held()
    with one.leads("webhooks") as mine:
        soon(mine.is_held)


def test_a_server_alone_leads_in_everything(where: Any) -> None:
    """Nobody else could."""
    with Database.open(where, create=True) as database, database.leads("webhooks") as lead:
        assert lead.is_held()
        assert database.is_told
