"""A team that labels one concept in this process: each annotator is a thread that answers in a session.

There are no pages and there is no network, so only the labeling sessions are measured. The results are the
processor time of an answer by category, and the growth of memory and of the log.
"""

from __future__ import annotations

import random
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import click
import numpy as np

from closecall.app.api.cards import card_of, submit
from closecall.app.display.thumbnails import Pictures
from closecall.app.engine import concept_state
from closecall.app.experiments.bench.annotator import Truth
from closecall.app.experiments.bench.experiment import Row
from closecall.app.experiments.bench.memory import anonymous_mb
from closecall.app.experiments.bench.projects import class_asked_for, truth_of
from closecall.app.experiments.bench.team.experiment import TeamExperiment
from closecall.app.experiments.bench.team.person import LOOKS, Manner
from closecall.app.projects.config import LABELS_FILE, ProjectFile
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.learning import round as learner
from closecall.core.pool.pool import Pool
from closecall.core.selection import STRATEGIES
from closecall.storage import StorageError

WARM_ROUNDS = 2
"""Number of answers that each annotator gives before measuring starts, to compile kernels and map files."""

LOOK_SECONDS = 60.0
"""Seconds between two measurements of memory."""

TRIES = 100
"""Maximum number of attempts to submit an answer to a busy database.

Each attempt waits at most for the database's busy timeout.
"""

SETTLED = 0.25
"""Share of the duration that passes before growth is measured, so that caches have filled."""


@dataclass(frozen=True)
class Look:
    """The sizes of the memory and of the log at one moment.

    Parameters
    ----------
    minutes : float
        Minutes since the start.
    answers : int
        Number of answers since the start.
    memory_mb : float or None
        Anonymous memory of this process in 10⁶ bytes; None if the system does not report it.
    remembered_mb : float
        Size in 10⁶ bytes of the scores that sessions keep for earlier hyperplanes
        (`app.engine.strategy_memory`). It is part of `memory_mb`.
    log_mb : float or None
        Size of the database's files in 10⁶ bytes; None if the database is not a file.
    """

    minutes: float
    answers: int
    memory_mb: float | None
    remembered_mb: float
    log_mb: float | None


@dataclass
class Clocks:
    """Processor times by category, in seconds. Several threads may add to them."""

    seconds: dict[str, float] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextmanager
    def on(self, place: ModuleType | type, name: str, kind: str) -> Iterator[None]:
        """Measure the processor time of a function within the context, and add it to the category `kind`.

        The function is replaced by a wrapper within the context.

        Parameters
        ----------
        place : module or type
            Module or class that has the function.
        name : str
            Name of the function.
        kind : str
            Category.
        """
        function = getattr(place, name)

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                with self._lock:
                    self.seconds[kind] = self.seconds.get(kind, 0.0) + time.thread_time() - started

        setattr(place, name, timed)
        try:
            yield
        finally:
            setattr(place, name, function)


class Sitter:
    """A simulated annotator who answers the item in view, and gets the next card from the session."""

    def __init__(self, session: LabelingSession, truth: Truth, manner: Manner, seed: int) -> None:
        self.session = session
        self.answers = self.refused = 0
        self._truth = truth
        self._manner = manner
        self._random = random.Random(seed)
        self._card = card_of(session)

    def answer(self) -> bool:
        """Answer the item in view as a browser would. Return whether there was an item to answer."""
        if self._card["next_is_coming"]:
            self._card = card_of(self.session)
        item = self._card["item"]
        if item is None:
            return False
        is_yes = self._truth([item["id"]])[0] != (self._random.random() < self._manner.noise)
        word = "yes" if is_yes else "no"
        following = self._card["next"].get(word)
        given = {
            "id": str(uuid.uuid4()),
            "item": item["id"],
            "selection": item["selection"],
            "answer": word,
            "browser_time": int(1000 * time.time()),
            "time_taken_ms": int(1000 * self._manner.pace),
            "next": following["item"]["selection"] if following else None,
        }
        self._card = self._send(given)
        self.answers += len(self._card["acked"])
        self.refused += len(self._card["refused"])
        return True

    def _send(self, given: dict[str, Any]) -> dict[str, Any]:
        """Submit an answer, and return the next card; retry while the database is busy, as a browser does."""
        for _ in range(TRIES - 1):
            try:
                return submit(self.session, [given])
            except StorageError as error:
                if error.kind != "locked":
                    raise
        return submit(self.session, [given])

    def sit(self, until: float, stop: threading.Event) -> None:
        """Answer items at the annotator's pace until `stop` is set, no item is left, or the time is `until`.

        `until` is a time of `time.monotonic`.
        """
        stop.wait(self._random.uniform(0, self._manner.pace))
        while time.monotonic() < until and not stop.is_set() and self._answer_aside():
            stop.wait(self._manner.pace * self._random.uniform(*LOOKS))

    def _answer_aside(self) -> bool:
        """Answer in a new thread; return the result of `answer`.

        Streamlit, too, starts a thread for each run of a page. This matters for memory because glibc keeps
        freed memory per thread.
        """
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(self.answer).result()


@dataclass(frozen=True)
class TeamInProcess(TeamExperiment):
    """A measurement of a team that labels without pages; each annotator is a thread of this process.

    Parameters
    ----------
    annotators, minutes, manner, positive, n_labels, database, out
        See `TeamExperiment`.
    persons : int
        Number of annotators who label each item.
    """

    threads = 1

    persons: int

    def measure(self, pool: Pool) -> Iterator[list[Row]]:
        """Let the team label, print each measurement (`Look`), and yield the results as one row.

        Raises
        ------
        InputError
            If the pool does not have the class `positive`, if `out` exists already, or if the index of the
            default strategy can't be built.
        StorageError
            If the database fails.
        """
        positive = class_asked_for(pool, self.positive)
        clocks = Clocks()
        with ExitStack() as opened:
            opened.enter_context(clocks.on(concept_state, "train_concept", "training"))
            opened.enter_context(clocks.on(learner, "select_next", "selecting"))
            opened.enter_context(clocks.on(STRATEGIES[LabelingSession.DEFAULT], "remember", "remembering"))
            for size in ("_card", "_thumbnail"):
                opened.enter_context(clocks.on(Pictures, size, "drawing"))
            folder = opened.enter_context(self._project(pool, positive))
            if self.persons > 1:
                replace(ProjectFile.read(folder), overlap=self.persons, overlap_share=1.0).write(folder)
            project = opened.enter_context(Workspace(folder.parent, only=folder.name)).project(folder.name)
            row = _sit(project, self, _sit_down(project, self, truth_of(pool, positive)), clocks)
        yield [row]

    def show(self, rows: Sequence[Row]) -> None:
        """Print the row."""
        (row,) = rows
        click.echo(
            f"\n{row['annotators']} annotators without a page for {row['seconds']:.0f} s, "
            f"{row['pace_seconds']:g} s per image; {row['items']:,} items, "
            f"{row['labels_before']:,} labels before, people per item: {row['persons']}."
        )
        click.echo(
            f"  {row['answers']:,} answers, {row['refused']} refused. Each took "
            f"{row['cpu_ms_per_answer']:.1f} ms of CPU time: "
            f"{row['training_ms_per_answer']:.1f} for training, "
            f"{row['selecting_ms_per_answer']:.1f} for selecting, "
            f"{row['remembering_ms_per_answer']:.1f} for scores kept for later selections, "
            f"{row['drawing_ms_per_answer']:.1f} for drawing images, "
            f"{row['rest_ms_per_answer']:.1f} for the rest."
        )
        if row["memory_mb_per_hour"] is not None:
            log = row["log_mb_per_hour"]
            beside = "" if log is None else f", the log {log:+.1f} MB"
            click.echo(
                f"  Memory without those memories grew {row['memory_mb_per_hour']:+.1f} MB per hour{beside}."
            )


def _sit_down(project: OpenProject, team: TeamInProcess, truth: Truth) -> list[Sitter]:
    """Start a session for each annotator, give the warm-up answers, and wait for background computations."""
    strategy = LabelingSession.DEFAULT
    project.indexes.want(strategy)
    while project.pool is None or (state := project.indexes.state(strategy)).fitted is None:
        if project.pool is not None and state.failure:
            raise InputError(state.failure)
        time.sleep(0.05)
    sitters = [
        Sitter(project.session(annotator=f"annotator {number + 1}"), truth, team.manner, number)
        for number in range(team.annotators)
    ]
    for _ in range(WARM_ROUNDS):
        for sitter in sitters:
            sitter.answer()
    for sitter in sitters:
        if sitter.session.item_view.ahead is not None:
            sitter.session.item_view.ahead.wait(600)
    while sitters[0].session.concept.milestones.is_computing:
        time.sleep(0.05)
    return sitters


def _sit(project: OpenProject, team: TeamInProcess, sitters: list[Sitter], clocks: Clocks) -> Row:
    before, spent, cpu = sum(s.answers for s in sitters), dict(clocks.seconds), time.process_time()
    began, stop = time.monotonic(), threading.Event()
    until = began + 60 * team.minutes
    looks: list[Look] = []

    def look() -> None:
        minutes = (time.monotonic() - began) / 60
        answers = sum(sitter.answers for sitter in sitters) - before
        remembered = project.memories.n_bytes / 1e6
        looks.append(Look(minutes, answers, anonymous_mb(), remembered, _log_mb(project)))
        _show_look(looks[-1])

    look()
    with ThreadPoolExecutor(len(sitters)) as executor:
        sitting = [executor.submit(sitter.sit, until, stop) for sitter in sitters]
        try:
            while wait(sitting, LOOK_SECONDS, FIRST_EXCEPTION).not_done:
                for one in sitting:
                    if one.done():
                        one.result()
                look()
        finally:
            stop.set()
    for sitter in sitters:
        if sitter.session.item_view.ahead is not None:
            sitter.session.item_view.ahead.wait(600)
    cpu = time.process_time() - cpu
    look()
    answers = max(1, looks[-1].answers)
    ms = {kind: 1000 * (seconds - spent.get(kind, 0.0)) / answers for kind, seconds in clocks.seconds.items()}
    cpu_ms = 1000 * cpu / answers
    return {
        "annotators": team.annotators,
        "persons": team.persons,
        "items": len(project.pool or ()),
        "labels_before": team.n_labels,
        "pace_seconds": team.manner.pace,
        "seconds": 60 * looks[-1].minutes,
        "answers": looks[-1].answers,
        "refused": sum(sitter.refused for sitter in sitters),
        "cpu_ms_per_answer": cpu_ms,
        "training_ms_per_answer": ms.get("training", 0.0),
        "selecting_ms_per_answer": ms.get("selecting", 0.0),
        "remembering_ms_per_answer": ms.get("remembering", 0.0),
        "drawing_ms_per_answer": ms.get("drawing", 0.0),
        "rest_ms_per_answer": cpu_ms - sum(ms.values()),
        **growth(looks),
        "looks": [vars(one) for one in looks],
    }


def _show_look(look: Look) -> None:
    """Print one measurement."""
    memory = ""
    if look.memory_mb is not None:
        memory = (
            f"; {look.memory_mb:,.1f} MB of memory, {look.remembered_mb:,.1f} of them memories of sessions"
        )
    log = "" if look.log_mb is None else f"; {look.log_mb:,.2f} MB of log"
    click.echo(f"  {look.minutes:6.1f} min: {look.answers:,} answers{memory}{log}")


def growth(looks: list[Look]) -> dict[str, float | None]:
    """Return the growth of memory and of the log, in 10⁶ bytes per hour, by least squares.

    `Look.remembered_mb` grows only up to a fixed limit, so it is subtracted from the memory. The
    measurements in the first part of the duration (the share `SETTLED`) are ignored. The growth is None if
    fewer than three measurements remain, or if one of their values is unknown.
    """
    late = [look for look in looks if look.minutes >= SETTLED * looks[-1].minutes]
    hours = np.array([look.minutes / 60 for look in late])

    def slope(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return float(np.polyfit(hours, known, 1)[0]) if len(known) == len(hours) >= 3 else None

    return {
        "memory_mb_per_hour": slope(
            [None if look.memory_mb is None else look.memory_mb - look.remembered_mb for look in late]
        ),
        "log_mb_per_hour": slope([look.log_mb for look in late]),
    }


def _log_mb(project: OpenProject) -> float | None:
    """Return the size of the database's files in 10⁶ bytes; None if the database is not a file."""
    if project.file.database:
        return None
    return sum(file.stat().st_size for file in project.folder.glob(f"{LABELS_FILE}*")) / 1e6
