"""A team that labels one concept on a real server.

The results are labels per second, waiting times, the server's processor time, and whether all answers arrived
in the log.

A project is created for a pool and served by a separate process. All simulated annotators run in this
process. Each has its own page and its own ``localStorage``, and communicates with the server as a browser
does. The server may be killed and restarted during labeling. Finally, the log is replayed, and compared with
each annotator's own record of the answers (`app.experiments.bench.team.person.Diary`).
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from closecall.app.display.phrases import counted
from closecall.app.experiments.bench.annotator import Truth
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.projects import class_asked_for, truth_of
from closecall.app.experiments.bench.serving import Server
from closecall.app.experiments.bench.team.experiment import BEFORE, TeamExperiment
from closecall.app.experiments.bench.team.outcome import fate, given_twice, leases_returned, waits
from closecall.app.experiments.bench.team.person import Diary, Person
from closecall.app.projects.config import ProjectFile
from closecall.app.runtime import child
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database, LabelLog

EARLY = (0.05, 0.15)
"""Range of the times at which annotators abandon their page, as shares of the duration of labeling."""

LEAST_LEASE_SECONDS = 15.0

LEASE_SHARE = 0.2
"""Duration of a lease, as a share of the duration of labeling.

Leases of annotators who leave early therefore expire before labeling ends.
"""

LONGEST_SECONDS = 2.0
"""Maximum delay in seconds before the server is killed.

The delay begins when half of the team has labeled since the last restart.
"""

DOWN_SECONDS = 1.0
"""Maximum seconds from killing the server to restarting it."""

PATIENCE_SECONDS = 300.0
"""Maximum seconds until all annotators have a page, and until answers are accepted again after a restart."""


@dataclass(frozen=True)
class ServedTeam(TeamExperiment):
    """A measurement of a team that labels on a server, with a simulated page for each annotator.

    Parameters
    ----------
    annotators, minutes, manner, positive, n_labels, database, out
        See `TeamExperiment`.
    kills : int
        Number of times that the server is killed and restarted. Labeling lasts at least until the last
        restart.
    leave : int
        Number of annotators who abandon their page.
    lease : float or None
        Seconds until a lease expires; if None, `LEASE_SHARE` of the duration, or `LEAST_LEASE_SECONDS` if
        that is longer.
    verify : bool
        Whether to replay the log afterwards, with ``closecall verify``.
    """

    kills: int
    leave: int
    lease: float | None
    verify: bool

    @property
    def lease_seconds(self) -> float:
        """Seconds until a lease expires."""
        return self.lease or max(LEAST_LEASE_SECONDS, LEASE_SHARE * 60 * self.minutes)

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Let the team label, and yield the results as one row.

        Raises
        ------
        InputError
            If the pool has no such class, if `leave` is greater than the number of annotators, if `out`
            exists already, or if the server does not start or accepts no answers.
        StorageError
            If the database fails.
        """
        positive = class_asked_for(pool, self.positive)
        if self.leave > self.annotators:
            raise InputError(f"leave must be at most {self.annotators}, all annotators, got {self.leave}")
        with self._project(pool, positive, lease_seconds=self.lease_seconds) as folder:
            click.echo(f"{len(pool):,} items, {self.n_labels:,} labels; waiting for the index.")
            _prepare_index(folder)
            server = Server(folder)
            server.start()
            try:
                sitting = asyncio.run(_sit(self, server, folder.name, truth_of(pool, positive)))
            finally:
                server.stop()
            row = {**_row(folder, self, sitting), **_circumstances(pool, self, sitting)}
        yield [row]

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row."""
        (row,) = rows
        before = f", {row['labels_before']:,} labels before" if row["labels_before"] else ""
        click.echo(
            f"\n{row['annotators']} annotators for {row['seconds']:.0f} s, {row['pace_seconds']:g} s per "
            f"image; {row['items']:,} items{before}; {row['database']}:"
        )
        cpu = row["cpu_ms_per_answer"]
        cost = "the CPU time of the server is unknown"
        if cpu is not None:
            cost = f"each took {cpu:.0f} ms of CPU time on the server"
        click.echo(f"  {row['answers']:,} answers, {row['labels_per_second']:.1f} per second; {cost}.")
        if row["p95_ms"] is not None:
            click.echo(
                f"  From an answer to the next image {row['p50_ms']:.0f} ms in the median, "
                f"{row['p95_ms']:.0f} ms in 95 of 100; {100 * row['waited_share']:.0f} % had to wait for it. "
                f"Stored and acknowledged after {row['saved_p50_ms']:.0f} and {row['saved_p95_ms']:.0f} ms."
            )
        click.echo(
            f"  {row['lost']} lost, {row['duplicated']} stored twice, {row['misplaced']} stored with another "
            f"answer, {row['refused']} refused; {row['given_twice']} items given to two people."
        )
        if row["left"]:
            click.echo(
                f"  {row['left']} left without notice; {row['leases_returned']} of their "
                f"{row['leases_abandoned']} leases expired."
            )
        if row["kills"]:
            click.echo(f"  The server was killed {row['kills']} times; {row['reloads']} pages were reloaded.")
        if "verify" in row:
            problems = row["verify"]["problems"]
            held = (
                "The log holds."
                if not problems
                else f"{counted(len(problems), 'disagreement')} in the log: {problems[0]}"
            )
            click.echo(f"  {held}")


@dataclass(frozen=True)
class Sitting:
    """The results of labeling, before they are compared with the log.

    Parameters
    ----------
    diaries : sequence of Diary
        Diaries of all annotators.
    seconds : float
        Duration of labeling.
    server_cpu_seconds : float or None
        Processor time of the server during labeling; None if the system does not report it.
    own_cpu_seconds : float
        Processor time of this process, which runs the simulated annotators.
    kills : int
        Number of times that the server was killed.
    """

    diaries: Sequence[Diary]
    seconds: float
    server_cpu_seconds: float | None
    own_cpu_seconds: float
    kills: int


def _prepare_index(project: Path) -> None:
    """Build the index of the default strategy before the server starts, so that the server can load it.

    An index that is quick to build is not saved, so the server builds it again.
    """
    with Workspace(project.parent) as workspace:
        indexes = workspace.project(project.name).indexes
        indexes.want(LabelingSession.DEFAULT)
        while (state := indexes.state(LabelingSession.DEFAULT)).fitted is None:
            if state.failure:
                raise InputError(state.failure)
            time.sleep(0.05)


async def _sit(team: ServedTeam, server: Server, project: str, truth: Truth) -> Sitting:
    rng, begin = random.Random(team.manner.seed), asyncio.Event()
    seconds = 60 * team.minutes
    people = [
        Person(
            f"annotator {number + 1}",
            server.url,
            f"project={project}",
            truth,
            team.manner,
            begin,
            seconds * rng.uniform(*EARLY) if number < team.leave else None,
        )
        for number in range(team.annotators)
    ]
    tasks = [asyncio.create_task(person.sit()) for person in people]
    try:
        async with _patience("let everybody in"):
            await asyncio.gather(*(person.arrived.wait() for person in people))
        server_before, own_before, started = server.cpu_seconds, time.process_time(), time.monotonic()
        begin.set()
        for _ in range(team.kills):
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
        kills=team.kills,
    )


async def _kill_and_start(server: Server, people: Sequence[Person], rng: random.Random) -> None:
    """Kill and restart the server once half of the annotators who have not left have saved an answer.

    Only answers after this call count. There are random delays before the kill and before the restart.
    """
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
    """Raise InputError if the server does not do `what` within `PATIENCE_SECONDS`."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except TimeoutError:
        raise InputError(
            f"The server did not {what} within {PATIENCE_SECONDS:.0f} s; "
            "with --out the project has a server.log"
        ) from None


def _row(project: Path, team: ServedTeam, sitting: Sitting) -> dict[str, Any]:
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
        "given_twice": len(given_twice(diaries, team.lease_seconds)),
        **leases_returned(diaries, selections, team.lease_seconds),
        "left": sum(diary.left is not None for diary in diaries),
        "reloads": sum(diary.reloads for diary in diaries),
        "refused": sum(len(diary.refused) for diary in diaries),
        "kills": sitting.kills,
        **({"verify": _verified(project)} if team.verify else {}),
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


def _circumstances(pool: Pool, team: ServedTeam, sitting: Sitting) -> dict[str, Any]:
    return {
        "items": len(pool),
        "labels_before": team.n_labels,
        "pace_seconds": team.manner.pace,
        "seconds": sitting.seconds,
        "lease_seconds": team.lease_seconds,
        "database": "postgresql" if team.database else "sqlite",
    }
