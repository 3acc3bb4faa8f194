"""Summarize projects for the start page, without opening projects that nobody uses.

Opening a project takes its lock, starts threads and reads all its labels. The summary of a closed project
needs only the project file, the pool's manifest and a few queries. If the pool of a project is unfinished,
the project must be opened, so that its builder starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from closecall.app.display.phrases import counted, isolated
from closecall.app.display.thumbnails import Pictures
from closecall.app.projects.config import ProjectFile
from closecall.app.projects.pool_builder import what_is_gone
from closecall.app.projects.project import Project
from closecall.core.errors import InputError
from closecall.core.pool.build import Progress
from closecall.core.pool.pool import Pool
from closecall.storage import Archive, ConceptRecord, Counts, Database, LabelLog

THUMBNAILS = 5


@dataclass(frozen=True)
class ProjectSummary:
    """The summary of a project on the start page.

    Parameters
    ----------
    key : str
        Name of the project's folder.
    title, subtitle, status : str
        Texts that the page shows: the question, the pool, and the numbers of labels.
    thumbnails : sequence of str
        Data URLs of the first images.
    build : Progress or None
        Progress of the pool's build; None if the pool is complete.
    has_labels : bool
        Whether any item was answered.
    problem : str or None
        A sentence about a current problem, if there is one.
    usable : bool
        Whether the project can be opened.
    """

    key: str
    title: str
    subtitle: str = ""
    status: str = ""
    thumbnails: Sequence[str] = ()
    build: Progress | None = None
    has_labels: bool = False
    problem: str | None = None
    usable: bool = True


class Closed:
    """A project that this process has not opened, with the values that were read from it last.

    Parameters
    ----------
    folder : Path
        The project's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pool: Pool | None = None
        self._thumbnails: Sequence[str] = ()
        self._counted: tuple[tuple[int, int], Counts, float | None] | None = None

    def summary(self) -> ProjectSummary | None:
        """Return the summary, or None if the project must be opened first.

        The project must be opened if its pool is unfinished, empty or unreadable. Opening it continues the
        build, or reports the problem.

        Raises
        ------
        InputError
            If the project file can't be read.
        StorageError
            If the database can't be read.
        """
        file = ProjectFile.read(self._folder)
        pool = self._newest(file)
        if pool is None or not pool.complete or not len(pool):
            return None
        with reading(self._folder) as log:
            concept = Archive(log.database).offered()[0]
            place = concept.id, log.position()
            if self._counted is None or self._counted[0] != place:
                self._counted = place, log.tally(concept.id), accuracy_of(log, concept, pool)
            _, counts, accuracy = self._counted
        return summary(
            self._folder.name,
            concept,
            counts,
            pool=pool,
            accuracy=accuracy,
            thumbnails=self._thumbnails,
            problem=what_is_gone(pool),
        )

    def _newest(self, file: ProjectFile) -> Pool | None:
        try:
            pool = self._pool.refreshed() if self._pool else Pool.open(file.pool_path(self._folder))
            if pool is not self._pool:
                self._thumbnails = thumbnails(Pictures(pool.source), pool) if len(pool) else ()
                self._pool = pool
        except InputError:
            self._pool = None
        return self._pool


def opened_summary(project: Project) -> ProjectSummary:
    """Return the summary of an open project."""
    concept, pool = project.concepts()[0], project.pool
    return summary(
        project.key,
        concept,
        project.live_concept(concept.id).counts(),
        pool=pool,
        accuracy=accuracy_of(project.log, concept, pool),
        thumbnails=thumbnails(project.pictures, pool) if pool else (),
        progress=project.build_progress(),
        is_stopped=project.is_build_stopped(),
        problem=project.problem(),
    )


def summary(
    key: str,
    concept: ConceptRecord,
    counts: Counts,
    *,
    pool: Pool | None,
    accuracy: float | None,
    thumbnails: Sequence[str],
    problem: str | None,
    progress: Progress | None = None,
    is_stopped: bool = False,
) -> ProjectSummary:
    """Return a project's summary. The texts that the start page shows are composed from the given values."""
    unbuilt = "No items are prepared yet" if is_stopped else "The pool is being built"
    return ProjectSummary(
        key=key,
        title=concept.question,
        subtitle=_contents(pool) if pool else unbuilt,
        status=_status(counts, accuracy, growing=progress is not None and not is_stopped),
        thumbnails=thumbnails,
        build=progress,
        has_labels=counts.answered > 0,
        problem=problem,
    )


@contextmanager
def reading(folder: Path) -> Iterator[LabelLog]:
    """Open the log of a closed project for reading; see `Database.open` for errors."""
    with Database.open(ProjectFile.read(folder).labels(folder), read_only=True) as database:
        yield LabelLog(database)


def accuracy_of(log: LabelLog, concept: ConceptRecord, pool: Pool | None) -> float | None:
    """Return the newest accuracy on held-out items, 0 … 1, or None.

    If the pool doesn't have the concept's positive class, there is no accuracy, and the log is not read.
    """
    if pool is None or concept.positive_class not in pool.classes:
        return None
    return log.latest_accuracy(concept.id)


def thumbnails(pictures: Pictures, pool: Pool) -> list[str]:
    """Return up to `THUMBNAILS` thumbnails of readable items among the first 1,000 items, as data URLs."""
    step = max(1, min(len(pool), 1000) // THUMBNAILS)
    found = []
    for item in pool.ids[: step * THUMBNAILS : step]:
        try:
            found.append(pictures.thumbnail(int(item)))
        except InputError:
            continue
    return found


def _contents(pool: Pool) -> str:
    words = f"{isolated(pool.title)}, {counted(len(pool), 'item')}"
    if len(pool.held_out.ids):
        words += f", {len(pool.held_out.ids):,} more held out"
    return words + (f", {pool.n_unreadable:,} unreadable" if pool.n_unreadable else "")


def _status(counts: Counts, accuracy: float | None, *, growing: bool) -> str:
    if not counts.answered:
        return "No labels yet. Start with an example or at random."
    others = [(counts.skip, "skipped"), (counts.unsure, "unsure"), (counts.tied, "tied")]
    given = [(counts.yes, "yes"), (counts.no, "no"), *(pair for pair in others if pair[0])]
    words = ", ".join(f"{number:,} {word}" for number, word in given) + "."
    if accuracy is not None:
        words += f" {100 * accuracy:.1f} % on held-out items."
    return words + (" Labeling can continue while the pool grows." if growing else "")
