"""The parts of a served project that do not depend on the features of its items (their description).

When another description is put to use, a new `Project` is made, as after a restart, but it takes these parts
over: the lock, the labels, the leases, the threads, and the processes that build descriptions.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self
from weakref import WeakSet

from closecall.app.engine.leases import Leases
from closecall.app.indexes.similar import Similar
from closecall.app.projects.config import ProjectFile, lock_project
from closecall.app.projects.descriptions import Descriptions
from closecall.app.projects.page_keys import PageKeys
from closecall.app.runtime.background import Troubles, Workers
from closecall.storage import Archive, Database, LabelLog


class ProjectStore:
    """The parts of a project that stay when another description is put to use.

    Parameters
    ----------
    folder : Path
        The project's folder.
    file : ProjectFile
        Its settings when it is opened.

    Attributes
    ----------
    file : ProjectFile
        The current settings.
    page_keys : PageKeys
        The keys with which labeling pages use the HTTP API.
    searches : WeakSet of Similar
        The searches of Find similar under each description. Requests under way may still use those of a
        former description, so all searches are closed only when the project is closed.

    Raises
    ------
    InputError
        If another process serves the project.
    StorageError
        If the database can't be used.
    """

    def __init__(self, folder: Path, file: ProjectFile) -> None:
        self.file = file
        self.troubles = Troubles()
        with ExitStack() as opened:
            lock = lock_project(folder)
            opened.callback(lock.release)
            self.database = opened.enter_context(
                Database.open(file.labels(folder), alone=True, copies_in=folder)
            )
            self.log = LabelLog(self.database)
            self.archive = Archive(self.database)
            self.page_keys = PageKeys(self.database)
            self.descriptions = Descriptions(folder)
            opened.callback(self.descriptions.close)
            self.executor = Workers(os.cpu_count(), "ahead", "Looking ahead", self.troubles)
            opened.callback(self.executor.shutdown, cancel_futures=True)
            self.background = Workers(1, "background", "Work in the background", self.troubles)
            opened.callback(self.background.shutdown, cancel_futures=True)
            self.leases = Leases(file.lease_seconds)
            self.searches: WeakSet[Similar] = WeakSet()
            opened.callback(self._close_searches)
            self._opened = opened.pop_all()

    def stop_work(self) -> None:
        """Wait for the jobs that are running, and cancel those that are waiting."""
        self.background.shutdown(cancel_futures=True)
        self.executor.shutdown(cancel_futures=True)

    def _close_searches(self) -> None:
        for similar in list(self.searches):
            similar.close()

    def close(self) -> None:
        """Stop all work, close the database and release the lock."""
        self._opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
