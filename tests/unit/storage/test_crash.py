"""Writers that are killed, and writers at the same time: nothing lost, nothing twice, nothing half."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import count, islice
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from closecall.storage import AnswerRecord, Database, LabelLog, LabelState
from tests.scale import scaled
from tests.storage_kit import ENGINES, Annotator, make_concept, sit_down

KILLS = scaled(quick=5, all=16, long=500)


def processes() -> multiprocessing.context.ForkServerContext:
    """Real processes that start fast: each is forked from a server that has storage imported."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.storage_kit", "tests.postgres"])
    return context


def batch_of(ada: Annotator, number: int, name: str = "batch") -> list[AnswerRecord]:
    """The batch of that number, always the same: an answer, its correction, and an undone one."""
    ids = [f"{name}-{number:06d}-{k}" for k in range(4)]
    return [
        ada.record("yes", 2 * number, id=ids[0]),
        ada.record("no", 2 * number, id=ids[1], corrects=ids[0]),
        ada.record("skip", 2 * number + 1, id=ids[2]),
        ada.record("undo", 2 * number + 1, id=ids[3], undoes=ids[2]),
    ]


def write_until_killed(where: Path | str, session_id: str, first: int, acknowledge: Connection) -> None:
    """Store batch after batch and say of each that it is stored, once it is."""
    with Database.open(where) as database:
        log = LabelLog(database)
        session = log.session(session_id)
        assert session is not None
        ada = Annotator(log, session)
        for number in range(first, first + 100_000):
            result = ada.send(*batch_of(ada, number))
            assert len(result.acknowledged) == 4
            acknowledge.send(number)


@pytest.mark.slow
def test_kill_at_any_moment_loses_nothing(where: Path | str) -> None:
    """SIGKILL at random moments: every acknowledged batch is there, whole, and once, although the browser
    sends again what it has no word of; and the file is sound each time.
    """
    with Database.open(where, create=True) as database:
        ada = sit_down(database, make_concept(database))
    random_moment = random.Random(20)
    acknowledged = 0
    for kill in range(KILLS):
        ours, theirs = processes().Pipe(duplex=False)
        writer = processes().Process(
            target=write_until_killed, args=(where, ada.session.id, acknowledged, theirs)
        )
        writer.start()
        theirs.close()
        if kill % 4:  # else it may die while opening, recovering and migrating
            for _ in range(3):
                assert ours.poll(60)
                acknowledged = ours.recv()
        time.sleep(random_moment.uniform(0, 0.08))
        writer.kill()
        writer.join()
        while True:
            try:
                acknowledged = ours.recv()
            except EOFError:
                break
        # A server may be about to commit what a killed program sent: opening to write waits for that.
        with Database.open(where, read_only=isinstance(where, Path)) as database:
            stored = list(LabelLog(database).answers_after(ada.session.concept_id))
        if isinstance(where, Path):
            with closing(sqlite3.connect(where)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        last = len(stored) // 4 - 1
        assert [a.id for a in stored] == [a.id for n in range(last + 1) for a in batch_of(ada, n)]
        assert last - acknowledged in (0, 1) or not stored
    assert acknowledged > KILLS
    with Database.open(where) as database:
        state = LabelLog(database).state(ada.session.concept_id)
    assert state.counts.no == state.counts.answered == last + 1


def write_batches(where: Path | str, session_id: str, name: str, batches: int) -> None:
    """Store batches from two threads, sending each twice."""
    with Database.open(where, busy_timeout=60) as database:
        log = LabelLog(database)
        session = log.session(session_id)
        assert session is not None
        ada = Annotator(log, session)
        threads = [
            threading.Thread(
                target=lambda k=k: [
                    ada.send(*batch_of(ada, n, f"{name}-{k}")) for n in range(batches) for _ in range(2)
                ]
            )
            for k in range(2)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def test_writers_at_the_same_time_take_turns(where: Path | str) -> None:
    """Two processes with two threads each: all their batches are stored once and whole, and a reader that
    follows the log meanwhile never misses a row.
    """
    batches = scaled(quick=15, all=25)
    with Database.open(where, create=True) as database:
        concept = make_concept(database)
        people = [sit_down(database, concept, name) for name in ("Ada", "Bob")]
        writers = [
            processes().Process(
                target=write_batches, args=(where, who.session.id, who.session.annotator, batches)
            )
            for who in people
        ]
        for writer in writers:
            writer.start()
        log, live, seen = LabelLog(database), LabelState(concept.id), []
        while any(writer.is_alive() for writer in writers):
            new = list(log.answers_after(concept.id, live.seq))
            seen += new
            live.fold(new)
        assert [writer.exitcode for writer in writers] == [0, 0]
        seen += list(log.answers_after(concept.id, live.seq))
        live.fold(log.answers_after(concept.id, live.seq))
        expected = Counter(
            a.id
            for who in people
            for k in range(2)
            for n in range(batches)
            for a in batch_of(who, n, f"{who.session.annotator}-{k}")
        )
        assert Counter(a.id for a in seen) == expected
        assert [a.seq for a in seen] == list(range(1, len(expected) + 1))
        for start in range(0, len(seen), 4):
            assert len({a.id.rsplit("-", 1)[0] for a in seen[start : start + 4]}) == 1
        again = log.state(concept.id)
        assert (again.counts, again.seq) == (live.counts, live.seq)


@pytest.fixture(params=ENGINES)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Places for databases, without end."""
    if request.param == "postgresql":
        server = request.getfixturevalue("server")
        return (server.schema() for _ in count())
    return (folder(tmp_path / str(number)) / "labels.db" for number in count())


def folder(path: Path) -> Path:
    path.mkdir()
    return path


def create(where: Path | str, began: Connection) -> None:
    """Say that it begins, then make a database."""
    began.send(True)
    Database.open(where, create=True)


def test_kill_while_creating_leaves_all_or_nothing(places: Iterator[Path | str]) -> None:
    """A database whose creation was killed is whole, or not there and created by the next attempt."""
    random_moment = random.Random(21)
    for where in islice(places, KILLS):
        began, theirs = processes().Pipe(duplex=False)
        opener = processes().Process(target=create, args=(where, theirs))
        opener.start()
        assert began.poll(60)
        if isinstance(where, Path):
            while opener.is_alive() and not any(where.parent.iterdir()):
                time.sleep(0.001)
        time.sleep(random_moment.uniform(0, 0.04 if isinstance(where, Path) else 0.12))
        opener.kill()
        opener.join()
        with Database.open(where, create=True) as database:
            assert make_concept(database).id == 1
