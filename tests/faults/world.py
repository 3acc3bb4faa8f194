"""A small project on either database, ready in milliseconds, and what its log says beside what was given."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import text

from closecall.app.projects.config import LABELS_FILE, ProjectFile
from closecall.app.projects.roles import Person
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.app.verification.verify import verify_project
from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.sources import KINDS
from closecall.storage import AnswerRecord, StorageError, restore
from tests.fakes import FakeSource
from tests.faults.injection import Died, Faults
from tests.folders import fresh_folder

CLASSES = ("cat", "dog", "bird")
N_ITEMS = 96
ADA, BOB = Person("ada", is_owner=True), Person("bob", is_owner=True)
TRIES = 6
"""How often a browser or a person tries again before the test calls it stuck."""


class Pool(FakeSource):
    """Three classes that are easily told apart, a few held-out items, and pictures that cost nothing."""

    kind = "faults"

    def name(self, item: int) -> str:
        """Two out of three items are called "owl"."""
        return f"{'elk' if item % 3 == 0 else 'owl'}-{item}.png"

    def image(self, item: int, size: int) -> Any:
        """One small square, whatever is asked for."""
        return super().image(item, min(size, 8))


KINDS[Pool.kind] = Pool


@cache
def template() -> Path:
    """A project with three questions, labels by two people of which four contradict; do not change it."""
    folder = fresh_folder()
    build(
        Pool(N_ITEMS, 8, classes=CLASSES, held_out=range(N_ITEMS - 8, N_ITEMS), separation=3.0),
        folder / "pool",
    )
    with Workspace(folder / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(folder / "pool"), "Is it a cat?")))
        for name in CLASSES[1:]:
            project.add_concept(f"Is it a {name}?")
        for person, lie in ((ADA, False), (BOB, True)):
            session = project.session(annotator=person.name)
            words = [truth(project, item) for item in range(14)]
            if lie:
                words[8:] = ["no" if word == "yes" else "yes" for word in words[8:]]
            tell(session, dict(enumerate(words)))
        return project.folder


def truth(project: OpenProject, item: int, positive: str = CLASSES[0]) -> str:
    """What somebody who knows the item says to the question of a class."""
    assert project.pool is not None
    return "yes" if project.pool.classes[int(project.pool.truth([item])[0])] == positive else "no"


def tell(session: LabelingSession, words: dict[int, str]) -> None:
    """Store what somebody says of items that no strategy chose."""
    ids = (str(uuid.uuid5(uuid.UUID(session.id), str(item))) for item in words)
    given = {
        "concept_id": session.concept.record.id,
        "session_id": session.id,
        "annotator": session.annotator,
    }
    records = [
        AnswerRecord(id=name, item=item, answer=word, browser_time=1, **given)
        for name, (item, word) in zip(ids, words.items(), strict=True)
    ]
    assert len(session.project.log.append_answers(records).accepted) == len(words)


class Servers:
    """Copies of the template's labels on a PostgreSQL server, each in a database of its own."""

    _FIRST = "faults"

    def __init__(self, address: str) -> None:
        self._address = address
        self._number = 0
        self._run(f"CREATE DATABASE {self._FIRST}")
        restore(template() / LABELS_FILE, self.address(self._FIRST))

    def address(self, database: str) -> str:
        """Of the labels in a database of the server."""
        return self._address.replace("/postgres?", f"/{database}?") + "&schema=labels"

    @contextmanager
    def copy(self) -> Iterator[str]:
        """The address of a copy, which is gone with the block."""
        self._number += 1
        name = f"{self._FIRST}{self._number}"
        self._run(f"CREATE DATABASE {name} TEMPLATE {self._FIRST}")
        try:
            yield self.address(name)
        finally:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        with psycopg.connect(self._address, autocommit=True) as connection:
            connection.execute(statement)


@dataclass
class World:
    """A project that is served, by one process after another."""

    folder: Path
    faults: Faults
    project: OpenProject = field(init=False)
    restarts: int = 0
    told: str = ""

    def __post_init__(self) -> None:
        self.project = OpenProject(self.folder)

    def restart(self) -> None:
        """End the process without further ado, and let another one serve the project."""
        with suppress(Died):  # the dead store nothing more
            self.project.close()
        self.faults.restarted()
        self.project = OpenProject(self.folder)
        self.restarts += 1

    def while_closed(self, act: Callable[[], Any]) -> None:
        """Do something that nobody may do while the project is served, until it is done; serve it again."""
        self.project.close()
        for _ in range(TRIES):
            if self.once(act, serve=False) is not None:
                break
        else:
            raise AssertionError(f"stuck: {TRIES} tries did not do; the last one: {self.told}")
        self.project = OpenProject(self.folder)
        self.restarts += 1

    def insist(self, act: Callable[[], Any]) -> Any:
        """Do something as a person does who tries again after an error; returns what it gives in the end."""
        for _ in range(TRIES):
            found = self.once(act)
            if found is not None:
                return found[0]
        raise AssertionError(f"stuck: {TRIES} tries did not do; the last one: {self.told}")

    def once(self, act: Callable[[], Any], *, serve: bool = True) -> tuple[Any] | None:
        """What the server replies, if it does: it may say what went wrong, or end before it says anything."""
        replied: tuple[Any] | None
        try:
            replied = (act(),)
        except (InputError, StorageError, Died) as error:
            replied, self.told = None, repr(error)
        if self.faults.is_dead:
            replied = None
            self.faults.restarted() if not serve else self.restart()
        return replied

    def answers(self) -> list[AnswerRecord]:
        """The whole log, in its order."""
        log = self.project.log
        found = [a for concept in self.project.concepts(archived=True) for a in log.answers_after(concept.id)]
        return sorted(found, key=lambda answer: answer.seq)

    def rows(self, table: str) -> list[dict[str, Any]]:
        """A table of the database as it is."""
        with self.project.database.read() as connection:
            return [dict(row) for row in connection.execute(text(f"SELECT * FROM {table}")).mappings()]

    def check_settings(self) -> None:
        """Every session is what the database says that it is."""
        for record in self.project.log.sessions():
            session = self.project._sessions.get(record.id)
            if session is None:
                continue
            assert (session.strategy, session.parameters) == (record.strategy, record.parameters)

    def check_log(self) -> None:
        """`verify` finds nothing, once nobody serves the project."""
        self.project.close()
        try:
            assert verify_project(self.folder, as_json=True) == 0
        finally:
            self.project = OpenProject(self.folder)


@contextmanager
def made(faults: Faults, folder: Path, address: str | None) -> Iterator[World]:
    """A world in `folder`, with its labels at `address`, or in a file."""
    shutil.copytree(template(), folder)
    if address is not None:
        (folder / LABELS_FILE).unlink()
        replace(ProjectFile.read(folder), database=address).write(folder)
    world = World(folder, faults)
    try:
        yield world
    finally:
        faults.disarm()
        world.project.close()
        faults.restarted()
        shutil.rmtree(folder)
