"""A team labeling one concept: labels per second, waits, server time, and the fate of each answer.

A project is made on a pool and served by its own process. The simulated annotators all run in this process,
each with a page and a browser's store. They talk to the server as browsers do. The server may be killed while
they label. Afterwards the log is compared with their diaries, and replayed.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.annotator import Truth
from closecall.app.experiments.bench.projects import class_asked_for, make_project, truth_of
from closecall.app.experiments.bench.serving import Server
from closecall.app.experiments.bench.team.outcome import fate, given_twice, leases_returned, waits
from closecall.app.experiments.bench.team.person import Diary, Manner, Person
from closecall.app.projects.config import ProjectFile
from closecall.app.runtime import child
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database, LabelLog

EARLY = (0.05, 0.15)
"""Shares of the time between which people who abandon their page do so."""

LEAST_LEASE_SECONDS = 15.0

LEASE_SHARE = 0.2
"""Duration of a lease as a share of the time, short enough for leases to expire before the end."""

LONGEST_SECONDS = 2.0
"""Maximum seconds from the moment when half of the team has labeled again to the next kill."""

DOWN_SECONDS = 1.0
"""Maximum seconds from a kill to the restart."""

PATIENCE_SECONDS = 300.0
"""Maximum seconds for the server to let everybody in, or to take answers again after a restart."""

BEFORE = "before"
"""Annotator of the initial labels."""


@dataclass(frozen=True)
class Plan:
    """Parameters of the measurement.

    Parameters
    ----------
    annotators : int
    minutes : float
        Minimum duration of labeling.
    kills : int
        Number of times the server is killed and restarted; labeling continues until then.
    leave : int
        Number of people who abandon their page.
    lease : float or None
        Seconds until a lease expires.
    manner : Manner
    positive : str or None
        The positive class; the pool's first class by default.
    n_labels : int
        Number of initial labels.
    database : str or None
        Address of a PostgreSQL database; a file in the project, if None.
    verify : bool
        Whether to replay the log.
    """

    annotators: int = 20
    minutes: float = 5.0
    kills: int = 0
    leave: int = 2
    lease: float | None = None
    manner: Manner = field(default_factory=Manner)
    positive: str | None = None
    n_labels: int = 0
    database: str | None = None
    verify: bool = True

    @property
    def lease_seconds(self) -> float:
        """Duration of a lease in seconds."""
        return self.lease or max(LEAST_LEASE_SECONDS, LEASE_SHARE * 60 * self.minutes)


@dataclass(frozen=True)
class Sitting:
    """Diaries of all annotators, duration of labeling, and processor time."""

    diaries: Sequence[Diary]
    seconds: float
    server_cpu_seconds: float | None
    own_cpu_seconds: float
    kills: int


def measure_team(pool: Pool, plan: Plan, folder: Path | None) -> dict[str, Any]:
    """Let the team label, on a project in `folder` if it is to be kept, and return the figures.

    Raises
    ------
    InputError
        If the pool has no such class, if `folder` exists already, or if the server does not start or takes no
        answers.
    StorageError
        If the database fails.
    """
    positive = class_asked_for(pool, plan.positive)
    if plan.leave > plan.annotators:
        raise InputError(f"leave must be at most {plan.annotators}, all annotators, got {plan.leave}")
    if folder is not None and folder.exists():
        raise InputError(f"--out must name a new folder, but {folder} exists already")
    with ExitStack() as opened:
        if folder is None:
            temporary = opened.enter_context(tempfile.TemporaryDirectory(prefix="closecall-"))
            folder = Path(temporary) / f"team-{datetime.now():%Y%m%d-%H%M%S}"
        make_project(
            pool,
            folder,
            positive,
            n_labels=plan.n_labels,
            annotator=BEFORE,
            seed=plan.manner.seed,
            database=plan.database,
            lease_seconds=plan.lease_seconds,
        )
        click.echo(f"{len(pool):,} items, {plan.n_labels:,} labels; waiting for the index.")
        _prepare_index(folder)
        server = Server(folder)
        server.start()
        try:
            sitting = asyncio.run(_sit(plan, server, folder.name, truth_of(pool, positive)))
        finally:
            server.stop()
        return {**_row(folder, plan, sitting), **_circumstances(pool, plan, sitting)}


def _prepare_index(project: Path) -> None:
    """Build the index that the server would build first, and save it if that is worthwhile."""
    with Workspace(project.parent) as workspace:
        indexes = workspace.project(project.name).indexes
        indexes.want(LabelingSession.DEFAULT)
        while (state := indexes.state(LabelingSession.DEFAULT)).fitted is None:
            if state.failure:
                raise InputError(state.failure)
            time.sleep(0.05)


async def _sit(plan: Plan, server: Server, project: str, truth: Truth) -> Sitting:
    rng, begin = random.Random(plan.manner.seed), asyncio.Event()
    seconds = 60 * plan.minutes
    people = [
        Person(
            f"annotator {number + 1}",
            server.url,
            f"project={project}",
            truth,
            plan.manner,
            begin,
            seconds * rng.uniform(*EARLY) if number < plan.leave else None,
        )
        for number in range(plan.annotators)
    ]
    tasks = [asyncio.create_task(person.sit()) for person in people]
    try:
        async with _patience("let everybody in"):
            await asyncio.gather(*(person.arrived.wait() for person in people))
        server_before, own_before, started = server.cpu_seconds, time.process_time(), time.monotonic()
        begin.set()
        for _ in range(plan.kills):
            await _kill_and_start(server, people, rng)
        await asyncio.sleep(max(0.0, seconds - (time.monotonic() - started)))
        lasted = time.monotonic() - started
        for person in people:
            person.stop()
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for person in people:
        await person.come_back()
    server_after = server.cpu_seconds
    return Sitting(
        diaries=[person.diary for person in people],
        seconds=lasted,
        server_cpu_seconds=(
            None if server_before is None or server_after is None else server_after - server_before
        ),
        own_cpu_seconds=time.process_time() - own_before,
        kills=plan.kills,
    )


async def _kill_and_start(server: Server, people: Sequence[Person], rng: random.Random) -> None:
    """Kill the server once half of the team has labeled since it started, and restart it."""
    since = time.time()
    half = sum(person.diary.left is None for person in people) / 2
    async with _patience("take answers"):
        while sum(person.has_saved_since(since) for person in people) < half:
            await asyncio.sleep(0.05)
    await asyncio.sleep(rng.uniform(0, LONGEST_SECONDS))
    server.kill()
    await asyncio.sleep(rng.uniform(0, DOWN_SECONDS))
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def _patience(what: str) -> AsyncIterator[None]:
    """Raise InputError that names what the server failed to do in time."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except TimeoutError:
        raise InputError(
            f"The server did not {what} within {PATIENCE_SECONDS:.0f} s; "
            "with --out the project has a server.log"
        ) from None


def _row(project: Path, plan: Plan, sitting: Sitting) -> dict[str, Any]:
    diaries = sitting.diaries
    presses = [press for diary in diaries for press in diary.presses]
    with Database.open(ProjectFile.read(project).labels(project), read_only=True) as database:
        log, concept = LabelLog(database), Concepts(database).all()[0]
        answers = [answer for answer in log.answers_after(concept.id) if answer.annotator != BEFORE]
        selections = list(log.selections(concept.id))
    each = 1000 / max(1, len(answers))
    cpu = sitting.server_cpu_seconds
    return {
        "annotators": len(diaries),
        **fate(diaries, answers, {selection.id: selection for selection in selections}),
        "labels_per_second": len(answers) / sitting.seconds,
        **waits(presses),
        "cpu_ms_per_answer": None if cpu is None else cpu * each,
        "client_cpu_ms_per_answer": sitting.own_cpu_seconds * each,
        "payloads_per_answer": sum(len(diary.heard_at) for diary in diaries) / max(1, len(answers)),
        "given_twice": len(given_twice(diaries, plan.lease_seconds)),
        **leases_returned(diaries, selections, plan.lease_seconds),
        "left": sum(diary.left is not None for diary in diaries),
        "reloads": sum(diary.reloads for diary in diaries),
        "refused": sum(len(diary.refused) for diary in diaries),
        "kills": sitting.kills,
        **({"verify": _verified(project)} if plan.verify else {}),
    }


def _verified(project: Path) -> dict[str, Any]:
    run = subprocess.run(
        child.command("verify", str(project), "--json"),
        env=child.environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if not run.stdout:
        raise InputError(f"verify says nothing: {run.stderr.strip()}")
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def _circumstances(pool: Pool, plan: Plan, sitting: Sitting) -> dict[str, Any]:
    return {
        "items": len(pool),
        "labels_before": plan.n_labels,
        "pace_seconds": plan.manner.pace,
        "seconds": sitting.seconds,
        "lease_seconds": plan.lease_seconds,
        "database": "postgresql" if plan.database else "sqlite",
    }
