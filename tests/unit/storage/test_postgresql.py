"""What is PostgreSQL's own: addresses, schemas, locks, servers that go away, and backends that are killed."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg import errors
from sqlalchemy import Connection

from closecall.storage import AnswerRecord, Database, LabelLog, StorageError, address, transfer
from closecall.storage.models import Base
from closecall.storage.place import LabelFile, place_of
from tests import postgres
from tests.scale import scaled
from tests.storage_kit import Annotator, count_rows, make_concept, sit_down
from tests.waiting import until

KILLS = scaled(quick=1, all=3, long=20)  # each takes seconds until the server has recovered


@pytest.fixture
def schema(server: postgres.Server) -> str:
    """The address of a label database with one answer in it."""
    where = server.schema()
    with Database.open(where, create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    return where


@pytest.fixture
def mortal(server: postgres.Server) -> Iterator[postgres.Server]:
    """A server that a test may end."""
    with postgres.running() as started:
        yield started


@pytest.fixture
def durable(server: postgres.Server) -> Iterator[postgres.Server]:
    """The same, but one that writes to the disk when it says so."""
    with postgres.running(durable=True) as started:
        yield started


def name_of(where: str) -> str:
    """The name of the schema at an address."""
    _, name = address.parse(where)
    assert name is not None
    return name


def refused(where: str, **options: object) -> StorageError:
    """What opening it raises: one line."""
    with pytest.raises(StorageError) as caught:
        Database.open(where, **options)
    assert "\n" not in caught.value.full
    return caught.value


# Addresses


@pytest.mark.parametrize(
    ("sentence", "without"),
    [
        ("postgresql://a@db.example:5432/x?schema=y is busy; try again", "the database is busy; try again"),
        ("It failed: postgresql+psycopg://h/x: it ended.", "It failed: the database: it ended."),
        ("see (postgres://h/x), or postgresql://h/y.", "see (the database), or the database."),
        ("labels.db is locked", "labels.db is locked"),
        (
            'postgresql://h/x cannot be reached: server at "h", port 1\nfailed',
            "the database cannot be reached",
        ),
    ],
)
def test_an_errors_words_have_no_address(sentence, without):
    """Nor the host and port in a reason that PostgreSQL's library gives; who runs the server reads both."""
    error = pickle.loads(pickle.dumps(StorageError(sentence, "full")))
    assert (str(error), error.full, error.kind) == (without, sentence, "full")
    assert (sentence in "".join(traceback.format_exception(error))) or "\n" in sentence


@pytest.mark.parametrize(
    "wrong", ["mysql://host/labels", "postgresql://host:port/labels", "postgresql://h/d?schema=" + "x" * 64]
)
def test_an_address_that_is_none_is_said(wrong: str) -> None:
    """In a sentence, before anything is connected to."""
    assert refused(wrong).kind == "invalid"


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://ada:s3cret@host:5433/labels",
        "postgres://ada@host:5433/labels?password=s3cret",
        "postgresql+psycopg://ada:s3cret@host:5433/labels?sslpassword=s3cret",
        "postgresql://ada@host:5433/labels?oauth_client_secret=s3cret",
        "postgresql://ada@host:5433/labels?scram_client_key=s3cret&scram_server_key=s3cret",
    ],
)
def test_a_password_is_never_told(given: str) -> None:
    """Whatever form the address has, what is kept and printed says where, and no secret."""
    assert address.has_password(given)
    assert address.with_schema(given, "herbarium") == "postgresql://ada@host:5433/labels?schema=herbarium"
    assert not address.has_password(address.with_schema(given, "herbarium"))
    assert "s3cret" not in str(place_of(given))


def test_every_secret_that_libpq_has_counts_as_one() -> None:
    """Its own list marks them; a newer one would be kept in a project's file otherwise."""
    known = {option.keyword.decode(): option.dispchar for option in psycopg.pq.Conninfo.get_defaults()}
    secret = [name for name, shown in known.items() if shown == b"*" or name.startswith("scram_")]
    assert secret
    for name in secret:
        assert address.has_password(f"postgresql://ada@host/labels?{name}=s3cret"), name
    assert not address.has_password("postgresql://ada@host/labels?sslmode=require&sslkey=/a/file")


def test_odd_names_are_only_names(server: postgres.Server) -> None:
    """A schema may be called whatever a folder may."""
    for name in ('a "b"; DROP SCHEMA public', "50 % ä's", "Upper&Lower=?"):
        where = address.with_schema(server.address, name)
        with Database.open(where, create=True) as database:
            make_concept(database)
            assert count_rows(database)["concepts"] == 1
        with psycopg.connect(server.address) as connection:
            found = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (name,)).fetchall()
        assert found == [(1,)]


def test_projects_of_one_database_do_not_meet(server: postgres.Server, schema: str) -> None:
    """Each schema has its own rows, and counts them for itself."""
    with Database.open(server.schema(), create=True) as other, Database.open(schema) as database:
        assert sit_down(other, make_concept(other)).says("no", 9).seq == 1
        assert [a.item for a in LabelLog(database).answers_after(1)] == [5]
        with other.write():  # one project's writer keeps no other's waiting
            Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)


# What is there already


def test_another_programs_tables_are_left_alone(server: postgres.Server) -> None:
    """A schema with other tables is neither taken nor added to."""
    where = server.schema()
    with psycopg.connect(server.address) as connection:
        connection.execute(f'CREATE SCHEMA "{name_of(where)}"')
        connection.execute(f'CREATE TABLE "{name_of(where)}".milk (litres REAL)')
    assert refused(where, create=True).kind == "not-a-database"


def test_an_empty_schema_is_filled(server: postgres.Server) -> None:
    """Whoever may not make schemas is given one."""
    where = server.schema()
    with psycopg.connect(server.address) as connection:
        connection.execute("CREATE ROLE clerk LOGIN")
        connection.execute(f'CREATE SCHEMA "{name_of(where)}" AUTHORIZATION clerk')
    clerk = where.replace("closecall@", "clerk@")
    with Database.open(clerk, create=True) as database:
        make_concept(database)
    assert refused(server.schema().replace("closecall@", "clerk@"), create=True).kind == "read-only"


def test_who_may_only_read_is_told_at_opening(server: postgres.Server, schema: str) -> None:
    """Not at the first answer; and reading it is possible all the same."""
    with psycopg.connect(server.address) as connection:
        connection.execute("CREATE ROLE reader LOGIN")
        connection.execute(f'GRANT USAGE ON SCHEMA "{name_of(schema)}" TO reader')
        connection.execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA "{name_of(schema)}" TO reader')
    reader = schema.replace("closecall@", "reader@")
    error = refused(reader)
    assert (error.kind, "reader" in error.full) == ("read-only", True)
    with Database.open(reader, read_only=True) as database:
        assert LabelLog(database).counts(1).yes == 1


def test_a_database_that_is_not_there(server: postgres.Server) -> None:
    """A mistyped database or server makes nothing, and the sentence says what the server said."""
    typo = server.address.replace("/postgres", "/postgrse")
    assert "postgrse" in refused(typo, create=True).full
    unreachable = refused("postgresql://127.0.0.1:1/labels")
    assert unreachable.kind == "unreachable"
    assert "127.0.0.1" in unreachable.full
    assert str(unreachable) == "the database cannot be reached"


def test_migrations_make_what_the_models_say(server: postgres.Server) -> None:
    """Alembic finds no difference, and columns, constraints and indexes are the same, checks included."""
    migrated, modelled = place_of(server.schema()), place_of(server.schema())
    with Database.open(migrated, create=True) as database, database.read() as connection:
        assert compare_metadata(MigrationContext.configure(connection), Base.metadata) == []
        made = described(connection)
    engine = modelled.engine(read_only=False, busy_timeout=5)
    with engine.connect() as connection:
        connection.execution_options(**modelled.writing)
        with connection.begin():
            modelled.make(connection)
            Base.metadata.create_all(connection)
            assert made == described(connection)
    engine.dispose()


def described(connection: Connection) -> set[tuple[str, ...]]:
    """All that the schema's tables are made of."""
    found = connection.exec_driver_sql(DESCRIPTION).all()
    assert len(found) > 100
    return {tuple(map(str, row)) for row in found}


DESCRIPTION = """
    SELECT table_name, column_name, data_type, character_maximum_length::text, is_nullable
    FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
    WHERE table_schema = current_schema() AND table_type = 'BASE TABLE' AND table_name <> 'alembic_version'
    UNION ALL
    SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), NULL, NULL FROM pg_constraint
    WHERE connamespace = current_schema()::regnamespace AND conname NOT LIKE 'alembic%%'
    UNION ALL
    SELECT tablename, indexname, split_part(indexdef, ' USING ', 2), NULL, NULL FROM pg_indexes
    WHERE schemaname = current_schema() AND tablename <> 'alembic_version'
"""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.DiskFull, "full"),
        (errors.ReadOnlySqlTransaction, "read-only"),
        (errors.InsufficientPrivilege, "read-only"),
        (errors.LockNotAvailable, "locked"),
        (errors.QueryCanceled, "locked"),
        (errors.DeadlockDetected, "locked"),
        (errors.TooManyConnections, "unreachable"),
        (errors.AdminShutdown, "unreachable"),
        (errors.DataCorrupted, "corrupt"),
        (errors.NotNullViolation, "invalid"),
        (errors.UndefinedTable, "other"),
    ],
)
def test_what_the_server_says_has_a_kind(error: type[psycopg.Error], kind: str) -> None:
    """By its code, whatever its language; in one line, without the password."""
    explained = place_of("postgresql://ada:s3cret@host/labels").explain(error("the server\nsays s3cret"))
    assert (explained.kind, "s3cret" in explained.full, "\n" in explained.full) == (kind, False, False)


# Locks and lost servers


def test_a_lock_held_by_another_program_is_waited_for_then_told(schema: str) -> None:
    """Nothing is stored meanwhile, and the same answer goes in once the lock is gone."""
    with Database.open(schema, busy_timeout=0.2) as database, Database.open(schema) as other:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        record = ada.record("no", 6)
        with other.write():
            with pytest.raises(StorageError, match="another program") as caught:
                ada.send(record)
            assert (caught.value.kind, caught.value.passes) == ("locked", True)
            assert ada.log.counts(1).yes == 1
        assert ada.send(record).acknowledged == (record.id,)


def test_a_program_that_hangs_in_the_middle_of_a_write_lets_go(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server ends its transaction, and the others go on."""
    with Database.open(schema) as hung, Database.open(schema) as database:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        monkeypatch.setattr("closecall.storage.postgres._HUNG", "100ms")
        with pytest.raises(StorageError) as caught, hung.write():  # noqa: PT012 (only this one hangs)
            monkeypatch.setattr("closecall.storage.postgres._HUNG", "60s")
            ada.says("no", 6)
        assert caught.value.passes
        assert [a.item for a in ada.log.answers_after(1)] == [5, 6]


def test_one_program_serves_a_schema(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one is told so, on whatever machine; who reads keeps nobody out, and who was killed neither."""
    serve = (
        "import sys, time; from closecall.storage import Database; "
        "database = Database.open(sys.argv[1], alone=True); print('serves', flush=True); time.sleep(600)"
    )
    with Database.open(schema, read_only=True):
        words = [sys.executable, "-c", serve, schema]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "serves\n"
            with monkeypatch.context() as impatient:
                impatient.setattr("closecall.storage.postgres._LINGERS", 0.0)
                error = refused(schema, alone=True)
            assert (error.kind, "already being served" in error.full) == ("locked", True)
            other.kill()
        monkeypatch.setattr("closecall.storage.postgres._LINGERS", 60.0)
        with Database.open(schema, alone=True) as database, Database.open(schema, alone=True):
            assert LabelLog(database).counts(1).yes == 1


def test_labels_are_removed_once_their_last_connection_is_closed(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server notices late that a connection was closed; nobody waits for another program's, though."""
    place = place_of(schema)
    assert not isinstance(place, LabelFile)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("closecall.storage.postgres._US", "closecall of another process")
        other = Database.open(schema)
    with other, monkeypatch.context() as patient:
        patient.setattr("closecall.storage.postgres._LINGERS", 600.0)
        with pytest.raises(StorageError, match="open in another program"):
            transfer.remove(place, container=True)
    with ThreadPoolExecutor(1) as background:
        with Database.open(schema):
            monkeypatch.setattr("closecall.storage.postgres._LINGERS", 0.2)
            with pytest.raises(StorageError, match="open in another program"):
                transfer.remove(place, container=True)
            monkeypatch.setattr("closecall.storage.postgres._LINGERS", 60.0)
            removed = background.submit(transfer.remove, place, container=True)
            with pytest.raises(TimeoutError):
                removed.result(timeout=0.3)
        removed.result()
    assert not place.has_container()


def test_values_that_the_engine_refuses_are_invalid(schema: str) -> None:
    """As in SQLite: one sentence, and nothing stored."""
    with Database.open(schema) as database:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        for fields in ({"strategy": "\0"}, {"session_id": "nobody's session"}, {"margin": -1.0}):
            with pytest.raises(StorageError) as caught:
                ada.is_shown(6, **fields)
            assert caught.value.kind == "invalid"
        answer = ada.record("yes", 2**63 - 1, concept_id=2**40)
        assert [refusal.kind for refusal in ada.send(answer).refused] == ["unknown-concept"]
        assert ada.says("yes", 2**63 - 1, browser_time=-(2**63) + 1).item == 2**63 - 1


def test_a_server_that_was_started_again_is_no_error(mortal: postgres.Server) -> None:
    """Connections that it has lost are made anew; while it is away, that is said, and nothing is lost."""
    with Database.open(mortal.schema(), create=True) as database:
        ada = sit_down(database, make_concept(database))
        ada.says("yes", 5)
        mortal.stop()
        mortal.start()
        record = ada.record("no", 6)
        assert ada.send(record).acknowledged == (record.id,)
        mortal.stop()
        later = ada.record("no", 7)
        with pytest.raises(StorageError) as caught:
            ada.send(later)
        assert (caught.value.kind, caught.value.passes) == ("unreachable", True)
        mortal.start()
        assert ada.send(record, later).acknowledged == (later.id, record.id)
        assert [a.item for a in ada.log.answers_after(1)] == [5, 6, 7]


def test_an_answer_whose_acknowledgement_was_lost_is_stored_once(
    schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server has committed and the word of it does not arrive: sent again, it is known."""
    with Database.open(schema) as database:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        record = ada.record("no", 6)
        commit = database._engine.dialect.do_commit

        def committed_unheard(connection: object) -> None:
            commit(connection)
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        with monkeypatch.context() as lost:
            lost.setattr(database._engine.dialect, "do_commit", committed_unheard)
            with pytest.raises(StorageError) as caught:
                ada.send(record)
        assert caught.value.kind == "unreachable"
        assert [a.id for a in ada.send(record).known] == [record.id]
        assert [a.item for a in ada.log.answers_after(1)] == [5, 6]


@pytest.mark.slow
def test_killing_backends_loses_nothing_that_was_acknowledged(durable: postgres.Server) -> None:
    """SIGKILL of the server's processes in the middle of writes, while two people send again what they have
    no word of: every acknowledged answer is there, once and in order, and every batch whole.
    """
    with Database.open(durable.schema(), create=True) as database:
        concept = make_concept(database)
        people = [sit_down(database, concept, name) for name in ("Ada", "Bob")]
        acknowledged: dict[str, list[str]] = {"Ada": [], "Bob": []}
        lost, stop = [0], threading.Event()

        def label(who: Annotator) -> None:
            item = 0
            while not stop.is_set():
                batch = [who.record("yes", item + k) for k in range(3)]
                item += 3
                send(who, batch)

        def send(who: Annotator, batch: list[AnswerRecord]) -> None:
            while True:
                try:
                    acknowledged[who.session.annotator] += who.send(*batch).acknowledged
                    return
                except StorageError as error:
                    if not error.passes:
                        raise
                    lost[0] += 1
                    time.sleep(0.005)

        threads = [threading.Thread(target=label, args=(who,)) for who in people]
        for thread in threads:
            thread.start()
        for _ in range(KILLS):
            stored = len(acknowledged["Ada"])
            until(lambda stored=stored: len(acknowledged["Ada"]) > stored + 30)
            before = lost[0]
            os.kill(a_backend(durable), signal.SIGKILL)
            until(lambda before=before: lost[0] > before)
        stop.set()
        for thread in threads:
            thread.join()
        stored_answers = list(LabelLog(database).answers_after(concept.id))
        assert len({a.id for a in stored_answers}) == len(stored_answers)
        for who in people:
            own = [a.id for a in stored_answers if a.annotator == who.session.annotator]
            assert own == acknowledged[who.session.annotator]
        for start in range(0, len(stored_answers), 3):
            assert len({a.annotator for a in stored_answers[start : start + 3]}) == 1


def a_backend(server: postgres.Server) -> int:
    """The process of one of our connections."""
    while True:
        try:
            with psycopg.connect(server.address) as connection:
                found = connection.execute(
                    "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'closecall%' LIMIT 1"
                ).fetchone()
        except psycopg.OperationalError:
            found = None  # it recovers from the last kill
        if found:
            return int(found[0])
        time.sleep(0.01)


def wait_until(condition, seconds: float = 300) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.005)
