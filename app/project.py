"""A project: one folder with a pool, its concepts, its label database and its indexes."""

from __future__ import annotations

import json
import os
import secrets
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from app.builder import Builder
from app.indexes import Indexes
from app.pictures import Pictures
from core.build import Progress
from core.errors import InputError
from core.pool import Pool
from core.selection import STRATEGIES
from core.svm import DEFAULT_C, DEFAULT_CLASS_WEIGHT
from storage import ConceptRecord, Concepts, Database, LabelLog

if TYPE_CHECKING:
    from app.service import LabelingSession, LiveConcept

PROJECT_FILE = "project.json"
LABELS_FILE = "labels.db"
POOL_FOLDER = "pool"
INDEX_FOLDER = "indexes"
LOCK_FILE = "serve.lock"
FORMAT = 1

LABELS = {
    "random": "Random",
    "subsample": "Subsample",
    "exhaustive": "Exhaustive",
    "h-hash": "H-Hash",
    "eh-hash": "EH-Hash",
    "bh-hash": "BH-Hash",
    "example": "Like the examples",
}
"""Strategies as the page names them."""


def label_of(strategy: str) -> str:
    """The strategy's name as the page shows it."""
    return LABELS.get(strategy, strategy.replace("-", " ").capitalize())


@dataclass(frozen=True)
class ProjectFile:
    """What a project's folder says of itself.

    Parameters
    ----------
    pool : str
        The pool's folder, relative to the project where it lies inside.
    source : str
        The SOURCE word to build the pool from; empty where the pool was there before the project.
    relative_to : str
        The folder that relative paths in `source` mean.
    format : int
        Version of this file.
    """

    pool: str
    source: str
    relative_to: str
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> ProjectFile:
        """The project file in `folder`.

        Raises
        ------
        InputError
            If there is none, if it is damaged, or of a newer version.
        """
        path = folder / PROJECT_FILE
        if not path.is_file():
            raise InputError(f"There is no project at {folder}: {PROJECT_FILE} is missing")
        try:
            said = json.loads(path.read_text("utf-8"))
            read = cls(**said)
        except (ValueError, TypeError) as error:
            raise InputError(f"The project file {path} is damaged: {error}") from None
        if read.format > FORMAT:
            raise InputError(
                f"The project {folder} has format {read.format}, this version of Marginalia reads {FORMAT}"
            )
        return read

    def write(self, folder: Path) -> None:
        """Write this into `folder`."""
        (folder / PROJECT_FILE).write_text(json.dumps(asdict(self), indent=2) + "\n", "utf-8")

    def pool_path(self, folder: Path) -> Path:
        """Where the pool of the project in `folder` lies."""
        return folder / self.pool


@dataclass(frozen=True)
class StrategyInfo:
    """A query strategy as the picker shows it; not `ready` while its index is being built."""

    name: str
    label: str
    ready: bool


class Project:
    """A project that this process serves; it holds the project's lock until it is closed.

    Parameters
    ----------
    folder : Path
        The project's folder.

    Raises
    ------
    InputError
        If the folder is no project, or if another process serves it.
    StorageError
        If the database can't be used.
    """

    def __init__(self, folder: Path) -> None:
        from app.service import LabelingSession, LiveConcept

        self.folder = folder
        self.key = folder.name
        self.file = ProjectFile.read(folder)
        self._lock_file = lock_project(folder)
        try:
            self.database = Database.open(folder / LABELS_FILE)
            self.log = LabelLog(self.database)
            self.concept_store = Concepts(self.database)
            self.builder = self._make_builder()
            self.indexes = Indexes(self._open_pool, folder / INDEX_FOLDER)
            self.indexes.start()
        except BaseException:
            self._lock_file.release()
            raise
        self.shown: dict[str, int] = {}
        self._pictures: Pictures | None = None
        self._live_concepts: dict[int, LiveConcept] = {}
        self._sessions: dict[str, LabelingSession] = {}
        self._session_type, self._concept_type = LabelingSession, LiveConcept
        self._lock = threading.RLock()

    def close(self) -> None:
        """Stop what runs in the background and let another process have the project."""
        self.indexes.close()
        if self.builder:
            self.builder.stop()
        self.database.close()
        self._lock_file.release()

    @property
    def pool_path(self) -> Path:
        """The pool's folder."""
        return self.file.pool_path(self.folder)

    @property
    def pool(self) -> Pool | None:
        """The newest snapshot of the pool; None before its first items."""
        return self.indexes.pool

    @property
    def pictures(self) -> Pictures:
        """Renders items; needs a pool."""
        with self._lock:
            if self._pictures is None:
                assert self.pool is not None
                self._pictures = Pictures(self.pool.source)
            return self._pictures

    def problem(self) -> str | None:
        """What hinders the pool, in one sentence; None while all is well."""
        return (self.builder.problem() if self.builder else None) or self.indexes.problem

    def build_progress(self) -> Progress | None:
        """The pool's growth, or None when it is complete."""
        if self.pool is not None and self.pool.complete:
            return None
        return self.builder.progress() if self.builder else None

    def strategies(self) -> list[StrategyInfo]:
        """All query strategies, in the fixed order of the page."""
        return [StrategyInfo(name, label_of(name), self.indexes.get(name) is not None) for name in STRATEGIES]

    def concepts(self) -> list[ConceptRecord]:
        """The project's concepts, oldest first."""
        return self.concept_store.all()

    def add_concept(
        self, question: str, *, name: str = "", guideline: str = "", positive_class: str | None = None
    ) -> ConceptRecord:
        """A new yes/no question over the same pool."""
        return create_concept(self.concept_store, question, name, guideline, positive_class)

    def last_accuracy(self, concept_id: int) -> float | None:
        """The newest held-out accuracy of the concept, 0 … 1; None where truth is unknown."""
        newest = [self.log.last_selection(session.id) for session in self.log.sessions(concept_id)]
        known = [selection for selection in newest if selection and selection.accuracy is not None]
        return max(known, key=lambda selection: selection.seq).accuracy if known else None

    def live_concept(self, concept_id: int) -> LiveConcept:
        """The concept's state in this process, shared by its sessions."""
        with self._lock:
            if concept_id not in self._live_concepts:
                record = self.concept_store.get(concept_id)
                self._live_concepts[concept_id] = self._concept_type(self, record)
            return self._live_concepts[concept_id]

    def session(
        self, session_id: str | None = None, concept_id: int | None = None, annotator: str = "annotator"
    ) -> LabelingSession:
        """The session of this id, reopened where its log ends; a new one where there is none."""
        with self._lock:
            if session_id in self._sessions:
                return self._sessions[session_id]
            record = self.log.session(session_id) if session_id else None
            if record is None or (concept_id is not None and record.concept_id != concept_id):
                chosen = concept_id if concept_id is not None else self.concept_store.all()[0].id
                record = self.log.start_session(
                    chosen, annotator, self._session_type.DEFAULT, seed=secrets.randbelow(2**31)
                )
            session = self._session_type(self, record)
            self._sessions[record.id] = session
            return session

    def known_session(self, session_id: str) -> LabelingSession | None:
        """The session of this id; None where it belongs to another database."""
        with self._lock:
            known = session_id in self._sessions or self.log.session(session_id) is not None
            return self.session(session_id) if known else None

    def _make_builder(self) -> Builder | None:
        if not self.file.source:
            return None
        builder = Builder(self.pool_path, self.file.source, Path(self.file.relative_to))
        try:
            complete = Pool.open(self.pool_path).complete
        except InputError:
            complete = False
        if not complete:
            builder.start()
        return builder

    def _open_pool(self) -> Pool | None:
        if self.file.source and not (self.pool_path / "pool.json").exists():
            return None
        pool = Pool.open(self.pool_path)
        return pool if len(pool) else None


def create_concept(
    concepts: Concepts, question: str, name: str, guideline: str, positive_class: str | None
) -> ConceptRecord:
    """Add a yes/no question with the SVM's default parameters; without a name the question names it."""
    return concepts.create(
        name or question.strip(" ?"),
        question,
        guideline=guideline.strip(),
        positive_class=positive_class,
        c=DEFAULT_C,
        class_weight=DEFAULT_CLASS_WEIGHT,
    )


def is_project(folder: Path) -> bool:
    """Whether `folder` holds a project."""
    return (folder / PROJECT_FILE).is_file()


def lock_project(folder: Path) -> FileLock:
    """The lock that whoever serves the project holds; an InputError where another process has it."""
    lock = FileLock(folder / LOCK_FILE)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(
            f"The project {folder} is already being served by another process: stop that one first"
        ) from None
    except OSError as error:
        raise InputError(
            f"The project {folder} cannot be locked for serving: {os.strerror(error.errno or 0)}"
        ) from None
    return lock
