"""A small project that is served without pages, and whose every move can be repeated: clocks, seeds and
threads are the test's own.

What a page would call is called here: `app.api.submit.take`, `app.sessions.review.Review`, and so on. What
the server says of answers is compared with a `tests.stateful.model.Model`, which learns what was sent and
what was stored.
"""

from __future__ import annotations

import csv
import io
import json
import random
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image, ImageDraw

from closecall.app.engine.leases import Leases
from closecall.app.exchange.exporting import export_labels
from closecall.app.exchange.model import export_model
from closecall.app.projects.config import LABELS_FILE, ProjectFile
from closecall.app.projects.questions import create_concept
from closecall.app.projects.roles import Roles
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.review import ReviewedConcept
from closecall.app.verification.verify import verify_project
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import Activity, Concepts, Database
from closecall.storage.records import STATUSES
from tests.folders import fresh_folder
from tests.pools import small_pool
from tests.stateful.model import Model, Said

CLASSES = ("bar", "dot", "ring")
EACH = 32
"""Images of each class; of them a tenth is held out."""

DAMAGED = (5, 17, 40)
"""Files that are no images: ids without a row."""

LEASE_SECONDS = 100.0


@cache
def tiny_pool(each: int = EACH) -> Path:
    """A pool of drawn shapes with held-out items and gaps, in several segments; do not change it."""
    folder, rng = fresh_folder(), random.Random(7)
    for number in range(each * len(CLASSES)):
        name = CLASSES[number % len(CLASSES)]
        path = folder / "shapes" / name / f"{name} {number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        if number in DAMAGED:
            path.write_bytes(b"no image")
            continue
        picture = Image.new("L", (32, 32), 20 + rng.randrange(60))
        draw, at, size = ImageDraw.Draw(picture), rng.randrange(4, 12), rng.randrange(8, 16)
        box = (at, at, at + size, at + size)
        if name == "bar":
            draw.rectangle((at, 2, at + 3, 30), fill=200)
        elif name == "dot":
            draw.ellipse(box, fill=220)
        else:
            draw.ellipse(box, outline=220, width=2)
        picture.save(path)
    pool = folder / "pool"
    small_pool(pool, source_from(str(folder / "shapes")))
    return pool


class AtOnce(Executor):
    """Does what it is given before it returns."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001 (kept for the caller)
            future.set_exception(error)
        return future


class Later(Executor):
    """Keeps what it is given until `work` is called, as a thread that has no time yet; errors are kept."""

    def __init__(self) -> None:
        self._jobs: list[tuple[Future[Any], Callable[[], Any]]] = []
        self.errors: list[BaseException] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._jobs.append((future, lambda: fn(*args, **kwargs)))
        return future

    def go_on(self) -> None:
        """Let a job go on; see `closecall.app.runtime.background.Workers`."""

    def work(self) -> None:
        """Do all of it."""
        while self._jobs:
            future, job = self._jobs.pop(0)
            try:
                future.set_result(job())
            except BaseException as error:  # noqa: BLE001 (raised later, by the test)
                self.errors.append(error)


class Served:
    """One project, opened and closed as often as is wanted.

    Parameters
    ----------
    folder : Path
        An empty one.
    questions : int
        How many concepts there are, at most as many as classes.
    owners : sequence of str
        Names; everybody is an owner where nobody is named.
    overlap, overlap_share : int, float
        As in the project's file.
    segments : int or None
        How many of the pool's segments are there at first; all, if None.
    each : int
        Images of each class.
    seed : int
        Of everything that is drawn by chance.
    """

    def __init__(
        self,
        folder: Path,
        *,
        questions: int = 1,
        owners: tuple[str, ...] = (),
        overlap: int = 1,
        overlap_share: float = 0.5,
        segments: int | None = None,
        each: int = EACH,
        seed: int = 0,
    ) -> None:
        self.folder, self.model = folder, Model()
        self._given = tiny_pool(each)
        self.owners = owners
        self.seconds = 0.0
        self._chance = random.Random(seed)
        self._patched = ExitStack()
        self._patched.enter_context(mock.patch("secrets.randbelow", self._chance.randrange))
        self._patched.enter_context(mock.patch("uuid.uuid4", self._new_uuid))
        self._patched.enter_context(mock.patch("closecall.app.projects.project_store.Leases", self._leases))
        self._pool = shutil.copytree(self._given, folder / "pool")
        self._whole = Manifest.read(self._pool)
        self.grow(len(self._whole.segments) if segments is None else segments)
        ProjectFile(
            "pool",
            "",
            str(folder),
            owners=list(owners),
            overlap=overlap,
            overlap_share=overlap_share,
            lease_seconds=LEASE_SECONDS,
        ).write(folder)
        with Database.open(folder / LABELS_FILE, create=True) as database:
            for name in CLASSES[:questions]:
                create_concept(Concepts(database), f"Is it a {name}?", "", "", name)
        self._read = self._compared = 0
        self.open()

    def _leases(self, seconds: float, *, activity: Activity | None) -> Leases:
        """Leases that end when this clock says so."""
        return Leases(seconds, clock=self._now, activity=activity)

    def _now(self) -> float:
        """Seconds that only ever grow, as those of a clock: no two moments are the same."""
        self.seconds += 1e-6
        return self.seconds

    def _new_uuid(self) -> uuid.UUID:
        """Another id, the same in each repetition: where all else is equal, order is by ids."""
        return uuid.UUID(int=self._chance.getrandbits(128), version=4)

    def open(self) -> None:
        """Serve it."""
        self.project = OpenProject(self.folder, Roles.of(self.owners))
        self.project.executor = AtOnce()
        self.project.background = self.later = Later()

    def close(self) -> None:
        """Stop serving it."""
        self.project.close()

    def end(self) -> None:
        """Stop, and leave everything as it was before."""
        self.close()
        self._patched.close()

    def restart(self) -> None:
        """As another process."""
        self.close()
        self.open()

    @property
    def pool(self) -> Pool:
        """The newest snapshot."""
        assert self.project.pool is not None
        return self.project.pool

    @property
    def n_segments(self) -> int:
        """How many there will be."""
        return len(self._whole.segments)

    def grow(self, segments: int) -> None:
        """Publish that many of the pool's segments, as its builder would."""
        parts = self._whole.segments[:segments]
        complete = len(parts) == len(self._whole.segments)
        replace(self._whole, segments=parts, complete=complete).write(self._pool)

    def grow_by_one(self) -> None:
        """Publish one segment more, if there is one, and wait until the project has it."""
        before = len(self.pool)
        if self.pool.version < self.n_segments:
            self.grow(self.pool.version + 1)
            self.wait_until(lambda: len(self.pool) > before)

    def wait_for(self, strategy: str) -> None:
        """Until the strategy answers for itself, over the whole of the pool as it is now."""
        indexes = self.project.indexes
        indexes.want(strategy)

        def is_ready() -> bool:
            fitted = indexes.get(strategy)
            return fitted is not None and fitted.n_items == len(self.pool)

        self.wait_until(is_ready)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        """Until the threads of the project have done it; ten minutes at most: a first run compiles."""
        patience = time.monotonic() + 600
        while not is_so():
            assert time.monotonic() < patience
            self.project.indexes.want("exhaustive")  # wakes the thread that looks after the pool
            time.sleep(0.001)

    def truth(self, item: int, concept: int) -> str:
        """What somebody who knows the shape says."""
        question = self.project.concept_store.get(concept).question
        shape = CLASSES[int(self.pool.truth(np.array([item]))[0])]
        return "yes" if shape in question else "no"

    def impossible(self, kind: str, place: int) -> int | None:
        """An item that nobody can be asked about, if there is one of this kind."""
        whole, of = Pool.open(self._given), len(self.pool.source)
        held_out, ids = whole.held_out.ids.tolist(), set(whole.ids.tolist())
        gaps = sorted(set(range(of)) - ids - set(held_out))
        found = {
            "far": [10**9, 2**31, 2**63 - 1, of],
            "held out": held_out,
            "gap": gaps,
            "later": sorted(ids - set(self.pool.ids.tolist())),
            "negative": [-1, -(2**63)],
        }[kind]
        return found[place % len(found)] if found else None

    # What is in the database

    def read(self) -> list[Said]:
        """The lines that joined the log since; the model does not have them yet."""
        with self.project.database.read() as connection:
            rows = connection.exec_driver_sql(
                "SELECT seq, id, concept_id, session_id, annotator, item, answer, purpose, undoes, corrects, "
                f"selection_id FROM answers WHERE seq > {self._read} ORDER BY seq"
            ).all()
        if rows:
            self._read = rows[-1][0]
        return [Said(*row[1:]) for row in rows]

    def is_drawn_for_audit(self, selection: str | None) -> bool:
        """Whether the log says of this selection that it was drawn for the audit."""
        if selection is None:
            return False
        with self.project.database.read() as connection:
            found = connection.exec_driver_sql(
                f"SELECT parameters FROM selections WHERE id = '{selection}'"
            ).all()
        return "audit" in json.loads(found[0][0])

    def shown_in(self, selection: str | None) -> str | None:
        """The session that a selection was shown in."""
        if selection is None:
            return None
        with self.project.database.read() as connection:
            found = connection.exec_driver_sql(f"SELECT session_id FROM selections WHERE id = '{selection}'")
            return str(found.scalar_one())

    def compare(self, *, everything: bool = True) -> None:
        """Assert that the database means what the model means, by every way in which the program asks it.

        Not `everything`: of the questions that the last lines of the log are about.
        """
        touched = {said.concept for said in self.model.log[self._compared :]}
        for concept in self.project.concepts(archived=True):
            if everything or concept.id in touched:
                self._compare(concept.id)
        self._compared = len(self.model.log)

    def _compare(self, concept: int) -> None:
        model, live = self.model, self.project.live_concept(concept)
        items = model.items(concept)
        folded = self.project.log.state(concept)
        for state in (live.catch_up(), folded):
            assert {i: state.status(i) for i in state.answered_items().tolist()} == {
                i: its.status for i, its in items.items()
            }
            labels = state.labels()
            assert dict(zip(labels.items.tolist(), labels.yes.tolist(), strict=True)) == model.labels(concept)
            assert _asdict(state.counts) == model.counts(concept)
            assert state.audited_items().tolist() == sorted(i for i, its in items.items() if its.is_audited)
            assert state.standing().skipped.tolist() == sorted(
                i for i, its in items.items() if its.status == "skip"
            )
            for item, its in items.items():
                assert dict(state.votes(item)) == its.votes
                assert state.decision(item) == its.decision
            for persons, name in ((2, "Ada"), (3, "Bob")):
                assert state.wanted(persons, name).tolist() == model.wanted(concept, persons, name)
        shared = ReviewedConcept(self.project, live)
        answers = shared.answers()
        table = answers.items
        assert {
            int(item): (STATUSES[status], bool(contested))
            for item, status, contested in zip(table.item, table.status, table.is_contested, strict=True)
        } == {item: (its.status, its.is_contested) for item, its in items.items()}
        said = {
            (answers.annotators[who], int(item), bool(decides))
            for who, item, decides, holds in zip(
                answers.annotator, answers.item, answers.is_decision, answers.in_force, strict=True
            )
            if holds and not decides
        }
        assert said == {(name, item, False) for item, its in items.items() for name in its.votes}

    # What is done with a project beside labeling it

    def verify(self) -> None:
        """Assert that ``verify`` finds nothing."""
        out = io.StringIO()
        with redirect_stdout(out), redirect_stderr(io.StringIO()):  # there the log may say more
            verify_project(self.folder, as_json=True)
        problems = json.loads(out.getvalue())["problems"]
        assert problems == [], problems

    def export(self) -> None:
        """Assert that ``export`` writes what the model means, and that ``export-model`` has a classifier."""
        out = self.folder / "exported"
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            for form in ("csv", "jsonl", "label-studio"):
                export_labels(self.folder, form=form, concept=None, log=False, out=out / f"x.{form}")
            export_labels(self.folder, form="csv", concept=None, log=True, out=out / "log.csv")
            concepts = self.project.concepts(archived=True)
            with (out / "x.csv").open(newline="") as file:
                rows = list(csv.DictReader(file))
            for concept in concepts:
                own = {
                    int(row["item"]): (row["status"], row["label"])
                    for row in rows
                    if row["concept"] == concept.name
                }
                assert {item: status for item, (status, _) in own.items()} == {
                    item: its.status for item, its in self.model.items(concept.id).items()
                }
                if set(self.model.labels(concept.id).values()) == {True, False}:
                    export_model(self.folder, concept.name, out / f"model {concept.id}")


def _asdict(counts: Any) -> dict[str, int]:
    return {name: getattr(counts, name) for name in ("yes", "no", "tied", "unsure", "skip", "labels")}


@contextmanager
def served(folder: Path, **options: Any) -> Iterator[Served]:
    """A `Served` that ends with the block."""
    made = Served(folder, **options)
    try:
        yield made
    finally:
        made.end()
