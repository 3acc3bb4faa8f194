"""A team that labels one concept on a real server.

The results are labels per second, waiting times, the server's processor time, and whether all answers arrived
in the log.

A project is created for a pool. A separate process serves the project; with PostgreSQL, several processes can
serve it. All simulated annotators run in this process. Each annotator has a page, a ``localStorage`` and a
token, and makes the HTTP requests that a browser's page makes. The measurement can kill and restart servers
during labeling, and simulate network faults. Finally, the log is compared with each annotator's own record of
the answers (`app.experiments.bench.team.person.Diary`). If requested, the log is also replayed.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import Iterator, Sequence
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
from closecall.app.experiments.bench.team.sitting import Sitting, Team, sit
from closecall.app.projects.config import ProjectFile
from closecall.app.runtime import child
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Concepts, Database, LabelLog
from closecall.storage.tokens import Tokens

LEAST_LEASE_SECONDS = 15.0

LEASE_SHARE = 0.2
"""Duration of a lease, as a share of the duration of labeling.

Leases of annotators who leave early therefore expire before labeling ends.
"""


@dataclass(frozen=True)
class ServedTeam(TeamExperiment):
    """A measurement of a team that labels on a server, with a simulated page for each annotator.

    Parameters
    ----------
    annotators, minutes, manner, positive, n_labels, database, out
        See `TeamExperiment`.
    kills : int
        Number of times that a server is killed and restarted. Labeling lasts at least until the last restart.
    servers : int
        Number of servers of the project; several need a PostgreSQL database.
    trouble : float
        Share of the requests with a network fault (`app.experiments.bench.team.lossy`), 0 … 1.
    leave : int
        Number of annotators who abandon their page.
    lease : float or None
        Seconds until a lease expires. If None, the longer of two times: `LEASE_SHARE` of the duration, and
        `LEAST_LEASE_SECONDS`.
    verify : bool
        Whether to replay the log afterwards, with ``closecall verify``.
    """

    kills: int
    servers: int
    trouble: float
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
            If the pool has no such class, if `leave` is greater than the number of annotators, if there are
            several servers without PostgreSQL, if `out` exists already, or if a server does not start or
            accepts no answers.
        StorageError
            If the database fails.
        """
        positive = class_asked_for(pool, self.positive)
        if self.leave > self.annotators:
            raise InputError(f"leave must be at most {self.annotators}, all annotators, got {self.leave}")
        if self.servers > 1 and not self.database:
            raise InputError(f"{self.servers} servers need a PostgreSQL database: name it with --database")
        with self._project(pool, positive, lease_seconds=self.lease_seconds) as folder:
            click.echo(f"{len(pool):,} items, {self.n_labels:,} labels; waiting for the index.")
            _prepare_index(folder)
            team, servers = self._team(folder, truth_of(pool, positive)), _servers(folder, self.servers)
            try:
                for server in servers:
                    server.start()
                sitting = asyncio.run(sit(team, servers))
            finally:
                for server in servers:
                    server.stop()
            row = {**_row(folder, self, sitting), **_circumstances(pool, self, sitting)}
        yield [row]

    def _team(self, folder: Path, truth: Truth) -> Team:
        """Return the team, with a new token for each annotator."""
        names = [f"annotator {number + 1}" for number in range(self.annotators)]
        with Database.open(ProjectFile.read(folder).labels(folder)) as database:
            tokens = Tokens(database)
            known = {name: tokens.create(name, "label", note="bench team")[1] for name in names}
        return Team(
            project=folder.name,
            tokens=known,
            truth=truth,
            manner=self.manner,
            seconds=60 * self.minutes,
            leave=self.leave,
            kills=self.kills,
            trouble=self.trouble,
        )

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
            if row.get("computing_ms_per_answer") is not None:
                cost += (
                    f", {row['computing_ms_per_answer']:.0f} ms of it for training, selecting and measuring"
                )
        click.echo(f"  {row['answers']:,} answers, {row['labels_per_second']:.1f} per second; {cost}.")
        if row["p95_ms"] is not None:
            click.echo(
                f"  From an answer to the next image {row['p50_ms']:.0f} ms in the median, "
                f"{row['p95_ms']:.0f} ms in 95 of 100; {100 * row['waited_share']:.0f} % had to wait for it. "
                f"Stored and acknowledged after {row['saved_p50_ms']:.0f} and {row['saved_p95_ms']:.0f} ms."
            )
        if row.get("shed_share") is not None:
            click.echo(f"  {100 * row['shed_share']:.0f} % of the items that may follow were not looked for.")
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
            click.echo(f"  Servers were killed {row['kills']} times; {row['reloads']} pages were reloaded.")
        if met := row["troubles"]:
            kinds = ", ".join(f"{number} {trouble}" for trouble, number in met.items())
            click.echo(f"  {sum(met.values())} of {row['requests']:,} requests met trouble: {kinds}.")
        if "verify" in row:
            problems = row["verify"]["problems"]
            held = (
                "The log holds."
                if not problems
                else f"{counted(len(problems), 'disagreement')} in the log: {problems[0]}"
            )
            click.echo(f"  {held}")


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


def _servers(folder: Path, number: int) -> list[Server]:
    """Return the servers of a project, which are not started yet."""
    if number == 1:
        return [Server(folder)]
    return [Server(folder, f"server-{one + 1}.log", ["--shared"]) for one in range(number)]


def _row(project: Path, team: ServedTeam, sitting: Sitting) -> dict[str, Any]:
    diaries = sitting.diaries
    presses = [press for diary in diaries for press in diary.presses]
    with Database.open(ProjectFile.read(project).labels(project), read_only=True) as database:
        log, concept = LabelLog(database), Concepts(database).all()[0]
        answers = [answer for answer in log.answers_after(concept.id) if answer.annotator != BEFORE]
        selections = list(log.selections(concept.id))
    each = 1000 / max(1, len(answers))
    cpu, load = sitting.server_cpu_seconds, sitting.load
    return {
        "annotators": len(diaries),
        **fate(diaries, answers, {selection.id: selection for selection in selections}),
        "labels_per_second": len(answers) / sitting.seconds,
        **waits(presses),
        "cpu_ms_per_answer": None if cpu is None else cpu * each,
        "computing_ms_per_answer": None if load is None else load["computing_seconds"] * each,
        "shed_share": load["futures_shed"] / load["futures"] if load and load["futures"] else None,
        "client_cpu_ms_per_answer": sitting.own_cpu_seconds * each,
        "payloads_per_answer": sum(len(diary.heard_at) for diary in diaries) / max(1, len(answers)),
        "requests": sitting.requests,
        "given_twice": len(given_twice(diaries, team.lease_seconds)),
        **leases_returned(diaries, selections, team.lease_seconds),
        "left": sum(diary.left is not None for diary in diaries),
        "reloads": sum(diary.reloads for diary in diaries),
        "refused": sum(len(diary.refused) for diary in diaries),
        "kills": team.kills,
        "servers": team.servers,
        "trouble": team.trouble,
        "troubles": dict(sitting.troubles),
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
