"""The folder of projects that one server process serves."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from closecall.app.display.phrases import as_sentence
from closecall.app.projects.config import (
    LABELS_FILE,
    PROJECT_FILE,
    ProjectFile,
    checked_database,
    is_project,
    lock_project,
)
from closecall.app.projects.descriptions import FIRST
from closecall.app.projects.folders import can_be_read
from closecall.app.projects.oidc import SignIn
from closecall.app.projects.positive_class import positive_class_of
from closecall.app.projects.questions import create_concept
from closecall.app.projects.roles import OPERATOR, Person, Roles
from closecall.app.projects.uploaded_folders import UPLOAD, store_folder
from closecall.app.runtime.helpers import ALONE, Helpers
from closecall.app.runtime.malloc import Trimmer
from closecall.app.sessions.new_project import NewProject, SameProjectError, free_key, move_labels
from closecall.app.sessions.project_list import THUMBNAILS, Closed, ProjectSummary, opened_summary, reading
from closecall.app.sessions.registry import OpenProject
from closecall.core.errors import InputError
from closecall.storage import Archive, Concepts, Database, LabelLog
from closecall.storage.address import with_schema
from closecall.storage.errors import StorageError
from closecall.storage.imports import IMPORT

UNFINISHED = ".new-"
"""Prefix of the folder of a project that is being created, or whose creation was killed."""

EVERYBODY = Roles()
"""Roles in which everybody is an owner and nobody has to sign in."""

_current: Workspace | None = None


def current() -> Workspace:
    """Return the workspace that this process serves.

    Raises
    ------
    InputError
        If there is no workspace, because the pages run outside ``closecall demo`` and ``closecall serve``.
    """
    if _current is None:
        raise InputError(
            "No projects are being served: start the page with closecall demo or closecall serve"
        )
    return _current


class Workspace:
    """A folder of projects. The workspace lists, opens and creates projects.

    Parameters
    ----------
    folder : Path
        The folder of the projects; created if necessary.
    only : str or None
        Key of the only project to serve. If it is given, projects can't be created. None serves all projects.
    roles : Roles
        Roles in all projects; each project's file may name more people.
    database : str or None
        Address of a PostgreSQL database for the labels of new projects, each in its own schema.
    shared : bool
        Whether other servers serve the same projects. Their labels must be in PostgreSQL.
    helpers : Helpers
        What helps this process to search the pools.

    Attributes
    ----------
    landing : str or None
        Key of the project that is shown if the address names no project. If None, the list of projects is
        shown.
    sign_in : SignIn or None
        Settings of sign-in; None if nobody has to sign in.
    """

    def __init__(
        self,
        folder: Path,
        only: str | None = None,
        roles: Roles = EVERYBODY,
        *,
        database: str | None = None,
        shared: bool = False,
        helpers: Helpers = ALONE,
    ) -> None:
        self.shared = shared
        self.helpers = helpers
        self.folder = folder.resolve()
        self.roles = roles
        self.landing: str | None = None
        self.sign_in: SignIn | None = None
        self._only = only
        self.database = checked_database(database)
        self._open: dict[str, OpenProject] = {}
        self._closed: dict[str, Closed] = {}
        self._creating = threading.Lock()
        self._opening: dict[str, threading.RLock] = {}  # by key
        self._failed: dict[str, str] = {}  # by key: the description that could not be put to use
        self.folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        global _current
        _current = self
        self._trimmer = Trimmer()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _current
        _current = None
        self._trimmer.close()
        for project in self._open.values():
            project.close()

    def opened(self) -> list[OpenProject]:
        """Return the open projects, without waiting for a project that is being opened."""
        return list(self._open.values())

    @property
    def can_create(self) -> bool:
        """Return whether the start page may create projects."""
        return self._only is None and (self.labels_go_to_a_server or not self.shared)

    @property
    def labels_go_to_a_server(self) -> bool:
        """Return whether the labels of new projects go to a database server."""
        return self.database is not None

    @property
    def served_folder(self) -> Path:
        """Return the folder of the only served project or, if there can be several, their folder."""
        return self.folder if self._only is None else self.folder / self._only

    def served_keys(self) -> list[str]:
        """Return the keys of the served projects, ascending."""
        found = sorted(child.name for child in self.folder.iterdir() if is_project(child))
        return [key for key in found if self._only in (None, key) and not key.startswith(UNFINISHED)]

    def projects(self, name: str | None = None) -> list[ProjectSummary]:
        """Return the summaries of the projects that `name` may enter, or of all projects, ordered by key.

        A project is opened for this only if its summary requires it; see `Closed.summary`.
        """
        return [
            self._summary(key) for key in self.served_keys() if name is None or self._is_open_to(key, name)
        ]

    def annotators(self, name: str) -> set[str]:
        """Return the names of all annotators with answers in the projects that `name` may enter.

        Imported answers count. Those that were imported without an annotator's name are nobody's.
        """
        found: set[str] = set()
        for key in self.served_keys():
            with suppress(InputError, StorageError):
                if self._is_open_to(key, name):
                    with self._log(key) as log:
                        found |= log.annotators()
        return found - {IMPORT}

    def spelled(self, name: str) -> str:
        """Return the spelling of a typed name that has access, to the workspace or to one of its projects.

        Return the name itself if it is not listed, or if somebody has answered under it.
        """
        if name in self.annotators(name):
            return name
        for key in self.served_keys():
            with suppress(InputError):
                if (listed := self.roles_in(key).spelled(name)) != name:
                    return listed
        return self.roles.spelled(name)

    @contextmanager
    def _log(self, key: str) -> Iterator[LabelLog]:
        """Open the project's log for reading, whether the project is open or not."""
        if key in self._open:
            yield self._open[key].log
        else:
            with reading(self.folder / key) as log:
                yield log

    def finds(self, key: str, condition: Callable[[Database], bool]) -> bool:
        """Return whether a condition holds for a project's database, without opening the project.

        The result is False if the database can't be read.
        """
        with suppress(InputError, StorageError), self._log(key) as log:
            return condition(log.database)
        return False

    def roles_in(self, key: str) -> Roles:
        """Return the roles in the project with this key, without opening the project.

        Raises
        ------
        InputError
            If there is no such project, or its project file can't be read.
        """
        if (project := self._open.get(key)) is not None:
            return project.roles
        self._require_served(key)
        file = ProjectFile.read(self.folder / key)
        return self.roles.joined(file.owners, file.annotators)

    def _is_open_to(self, key: str, name: str) -> bool:
        try:
            roles = self.roles_in(key)
        except InputError:
            return True  # the summary says what is wrong with the project
        try:
            roles.person(name)
        except InputError:
            return False
        return True

    def project(self, key: str) -> OpenProject:
        """Return the project with this key; open it if it is not open.

        Opening may take as long as the database's connection timeout. Other projects don't wait for this.

        Raises
        ------
        InputError
            If there is no such project, or it can't be opened.
        StorageError
            If the project's database can't be used.
        """
        if (project := self._open.get(key)) is not None and not project.is_outdated:
            return project
        self._require_served(key)
        with self._lock_of(key):
            if key not in self._open:
                self._open[key] = OpenProject(
                    self.folder / key, self.roles, shared=self.shared, helpers=self.helpers
                )
                self._closed.pop(key, None)
            former = self._open[key]
            self._follow_description(key, former)
        if former.is_superseded:
            former.leave()
        return self._open[key]

    def _follow_description(self, key: str, project: OpenProject) -> None:
        """Switch to the description of the items that another server has switched to.

        If this fails, for example because a model is missing on this machine, the project reports it and
        keeps its description.
        """
        name = project.file.description
        if not project.is_outdated or self._failed.get(key) == name:
            return
        with project.troubles.noted(f"Using the description {name or FIRST}"):
            self._failed[key] = name
            self._open[key] = project.succeeded(name, is_chosen=True)
            del self._failed[key]

    def _require_served(self, key: str) -> None:
        if key not in self.served_keys():
            raise InputError(f"There is no project {key!r} here")

    def _lock_of(self, key: str) -> threading.RLock:
        """Return the lock for opening and closing a project."""
        return self._opening.setdefault(key, threading.RLock())

    def create(
        self,
        new: NewProject,
        *,
        key: str | None = None,
        by: Person = OPERATOR,
        unless_same: bool = False,
        closed: bool = False,
    ) -> str:
        """Create a project, start to build its pool, and return its key.

        With `closed`, the project is not opened, so that building its pool is left to the caller. After an
        error, the project's folder and its labels on a database server are removed again.

        Raises
        ------
        SameProjectError
            With `unless_same`, if another project asks the same question about the same items.
        InputError
            If the items can't be found, the question is empty, the pool has no class for yes, an example is
            not an image, the server serves only one project, or the person is not an owner.
        StorageError
            If the database fails.
        """
        by.require_owner("create projects")
        if self.shared and not self.labels_go_to_a_server:
            raise InputError(
                "Several servers need labels in PostgreSQL: start closecall serve with --database to create "
                "projects"
            )
        if not self.can_create:
            raise InputError(
                "This server serves one project only: start closecall serve with a folder of projects"
            )
        question, *more = new.questions()
        word = new.source_word.strip()
        if not word:
            raise InputError("A project needs items: enter a folder")
        with ExitStack() as undo:
            if new.upload:
                stored = store_folder(self.folder, question, new.upload)
                undo.callback(shutil.rmtree, stored, ignore_errors=True)
                word = word.replace(UPLOAD, str(stored))
            file, classes, source = replace(new, source_word=word, question=question).described(self._here())
            positive = positive_class_of(question, new.positive_class, classes)
            with self._creating:
                if unless_same and (same := self._same(file, question)):
                    raise SameProjectError(same)
                key = key or free_key(self.folder, question)
                place = self.folder / key
                if place.is_dir() and any(place.iterdir()):
                    raise InputError(
                        f"{place} is in the way: it is not empty, and not a project. Move it away"
                    )
                half = Path(tempfile.mkdtemp(prefix=UNFINISHED, dir=self.folder))
                undo.callback(shutil.rmtree, half, ignore_errors=True)
                file.write(half)
                with Database.open(half / LABELS_FILE, create=True) as database:
                    create_concept(Concepts(database), question, "", new.guideline, positive)
                    for other, yes in zip(more, new.more_questions.values(), strict=True):
                        create_concept(Concepts(database), other, "", "", yes)
                new.check_examples()
                if self.database:
                    move_labels(half, with_schema(self.database, key), undo)
                with self._lock_of(key):
                    half.rename(self.folder / key)
                    undo.callback(shutil.rmtree, self.folder / key, ignore_errors=True)
                    undo.callback(self._close, key)
                    if not closed:
                        self.project(key)
            if new.examples:
                self.project(key).session().add_examples(
                    [raw for _, raw in new.examples], names=[name for name, _ in new.examples], source=source
                )
            undo.pop_all()
        return key

    def use_description(self, key: str, name: str, *, by: Person = OPERATOR) -> None:
        """Switch a project to another description (set of features) of its items.

        The name "" means the project's first description. Requests under way end with the former description.
        All later requests use the new description.

        Raises
        ------
        InputError
            If the description can't be used, if there are examples but the model to describe them is missing,
            or if the person is not an owner. The description in use then stays.
        StorageError
            If the database fails.
        """
        by.require_owner("choose the description of the items")
        self.project(key).prepare(name)
        with self._lock_of(key):
            former = self.project(key)
            if former.description == name:
                return
            self._open[key] = former.succeeded(name)
        former.leave()

    def recent_folders(self, name: str) -> list[str]:
        """Return the source folders of the projects that `name` may enter, newest projects first.

        Folders that the server can't read are left out.
        """
        found: dict[str, float] = {}
        for key in self.served_keys():
            folder = self.folder / key
            with suppress(InputError, OSError):
                source = ProjectFile.read(folder).source
                if self._is_open_to(key, name) and Path(source).is_absolute() and can_be_read(source):
                    found[source] = max(found.get(source, 0.0), (folder / PROJECT_FILE).stat().st_mtime)
        return sorted(found, key=lambda source: -found[source])

    def _close(self, key: str) -> None:
        """Close a project, if it is open."""
        with self._lock_of(key):
            if project := self._open.pop(key, None):
                project.close()

    def _here(self) -> str:
        """Return the folder for relative paths: the working folder, or `folder` if that is gone."""
        try:
            return str(Path.cwd())
        except FileNotFoundError:
            return str(self.folder)

    def _same(self, file: ProjectFile, question: str) -> str | None:
        """Return the key of a project that asks this question about the items of `file`, or None."""
        items = file.pool, file.source, file.relative_to
        for key in self.served_keys():
            with suppress(InputError, StorageError):
                other = ProjectFile.read(self.folder / key)
                if (other.pool, other.source, other.relative_to) != items:
                    continue
                with self._log(key) as log:
                    if any(record.question == question for record in Archive(log.database).offered()):
                        return key
        return None

    def _summary(self, key: str) -> ProjectSummary:
        try:
            if key not in self._open:
                closed = self._closed.setdefault(key, Closed(self.folder / key))
                with suppress(InputError, StorageError):  # opening the project repairs or reports errors
                    self._require_unserved(key)
                    if summary := closed.summary():
                        return summary
            return opened_summary(self.project(key))
        except (InputError, StorageError) as error:
            return ProjectSummary(key=key, title=key, problem=as_sentence(str(error)), usable=False)

    def _require_unserved(self, key: str) -> None:
        """Raise InputError if another process serves the project, unless both processes share it."""
        with self._lock_of(key):  # otherwise, a thread that opens the project could find it locked
            if key not in self._open:
                lock_project(self.folder / key, shared=self.shared).release()


__all__ = [
    "THUMBNAILS",
    "ProjectSummary",
    "Workspace",
    "current",
    "is_project",
]
