"""The parts of a served project that do not depend on the features of its items (their description).

When the project switches to another description, a new `Project` is made, which takes over these parts: the
lock, the labels, the leases, the threads, and the processes that build descriptions.
"""

from __future__ import annotations

import math
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from closecall.app.engine.leases import Leases, renew_seconds
from closecall.app.engine.load import Load
from closecall.app.engine.shared_leases import SharedLeases
from closecall.app.indexes.similar import Similar
from closecall.app.projects.config import ProjectFile, lock_project
from closecall.app.projects.descriptions import Descriptions
from closecall.app.projects.page_keys import PageKeys
from closecall.app.projects.webhooks import WebhookSender
from closecall.app.runtime.background import Troubles, Watch, Workers
from closecall.app.runtime.cores import CORES
from closecall.app.runtime.helpers import ALONE, Helpers
from closecall.app.runtime.news import News
from closecall.app.runtime.turns import Turns
from closecall.core.errors import InputError
from closecall.storage import Activity, Archive, Claims, Database, LabelLog, LeaseTable, Notice, StorageError
from closecall.storage.rows import now_ms

LEAST_PAUSE = 0.1
"""Minimum number of seconds between two stores of the sessions' activity."""

PAUSE_AFTER_FAILURE = 60.0
"""Seconds during which no activity is stored after the database has failed."""


class ProjectStore:
    """The parts of a project that stay the same when the project switches to another description.

    Parameters
    ----------
    folder : Path
        The project's folder.
    file : ProjectFile
        The project's settings when it is opened.
    shared : bool
        Whether other servers serve the project, too.
    helpers : Helpers
        What helps this process to search the pool.

    Attributes
    ----------
    file : ProjectFile
        The current settings.
    page_keys : PageKeys
        The keys with which labeling pages use the HTTP API.
    news : News
        Tells pages and threads what happens to the project.
    claims : Claims or None
        This server's claims of sessions; None if it is the only server.
    sender : WebhookSender
        Sends the project's events to its webhooks.
    load : Load
        The load of the server, and the turns of all look-aheads.
    searches : WeakSet of Similar
        The searches of Find similar under each description. Requests under way may still use the searches of
        a former description, so all searches are closed only when the project is closed.

    Raises
    ------
    InputError
        If another process serves the project, or if it is `shared` but its labels are in a file.
    StorageError
        If the database can't be used.
    """

    def __init__(
        self, folder: Path, file: ProjectFile, *, shared: bool = False, helpers: Helpers = ALONE
    ) -> None:
        if shared and not file.database:
            raise InputError(
                f"Several servers need labels in PostgreSQL, but those of {folder} are in a file: move them "
                f"with closecall backup, then closecall restore --database"
            )
        self.folder = folder
        self.file = file
        self.is_shared = shared
        self.helpers = helpers
        self._changing = threading.Lock()
        self._retry_at = -math.inf  # when activity may be stored
        self.troubles = Troubles()
        self.news = News()
        with ExitStack() as opened:
            lock = lock_project(folder, shared=shared)
            opened.callback(lock.release)
            self.database = opened.enter_context(
                Database.open(file.labels(folder), alone=not shared, shared=shared, copies_in=folder)
            )
            self.claims = Claims(self.database) if shared else None
            self.log = LabelLog(self.database, claims=self.claims)
            self.activity = Activity(self.database)
            if not shared:
                opened.callback(self._store_activity, at_last=True)
                pause = max(LEAST_PAUSE, renew_seconds(file.lease_seconds))
                watch = Watch("activity", self._store_activity, pause)
                self.activity.urgent = watch.wake
                watch.start()
                opened.callback(watch.close)
            self.archive = Archive(self.database)
            self.page_keys = PageKeys(self.database)
            leader = opened.enter_context(self.database.leads("webhooks"))
            self.sender = WebhookSender(self.database, folder.name, self.troubles, leads=leader.is_held)
            self.sender.start()
            opened.callback(self.sender.close)
            self.database.follow(self._told, self._missed)
            self.descriptions = Descriptions(folder)
            opened.callback(self.descriptions.close)
            self.load = Load(Turns(CORES))
            self.executor = Workers(CORES, "ahead", "Looking ahead", self.troubles)
            opened.callback(self.executor.shutdown, cancel_futures=True)
            self.background = Workers(1, "background", "Work in the background", self.troubles)
            opened.callback(self.background.shutdown, cancel_futures=True)
            self.leases = self.new_leases("label")
            self.searches: WeakSet[Similar] = WeakSet()
            opened.callback(self._close_searches)
            self._opened = opened.pop_all()

    def new_leases(self, scope: str) -> Leases:
        """Return new leases, shared by all servers but independent of leases with another `scope`."""
        if not self.is_shared:
            activity = self.activity if scope == "label" else None
            return Leases(self.file.lease_seconds, activity=activity)
        return SharedLeases(LeaseTable(self.database, scope), self.file.lease_seconds, self.log.hear)

    def take_up_leases(self) -> None:
        """Give sessions back the leases that they had in an earlier process (`app.engine.leases`)."""
        last, heard = self.log.last_shown(), self.activity.times()
        if last is None:
            return
        times, now = [last.created, *map(abs, heard.values())], now_ms()
        end = max([when for when in times if when <= now] or times)  # the clock may once have been ahead
        since = end - int(1000 * self.file.lease_seconds)
        active = [session for session, when in heard.items() if when >= since]
        self.leases.restore(
            (record.session_id, record.item)
            for record in self.log.in_hand(since, active)
            if record.created > -heard.get(record.session_id, 0)  # else the page was closed
        )
        with suppress(StorageError):  # the next start deletes them
            self.activity.forget(since)

    def _store_activity(self, *, at_last: bool = False) -> None:
        """Store the sessions' activity, in a separate thread: no request waits while the file is locked.

        After a failure, nothing is stored for `PAUSE_AFTER_FAILURE` seconds, except `at_last`.
        """
        if not at_last and time.monotonic() < self._retry_at:
            return
        with self.troubles.noted("Storing activity"):
            try:
                self.activity.store()
            except StorageError:  # what fails now is stored later
                self._retry_at = time.monotonic() + PAUSE_AFTER_FAILURE

    def _told(self, notice: Notice) -> None:
        """Pass on a notice of a change that was committed to the database."""
        if notice.kind == "answers":
            self.log.hear()
            self.sender.wake()
        if notice.kind == "session" and self.claims is not None:
            self.claims.doubt(str(notice.data.get("session")))
        self.news.publish(notice.kind, **{**notice.data, "elsewhere": not notice.is_own})

    def _missed(self) -> None:
        """Let everything be read again, because notices of other servers' changes may have been lost."""
        self.log.hear()
        self.news.publish("missed")

    def tell(self, kind: str, **data: Any) -> None:
        """Publish news, here and on other servers, that does not belong to a change in the database.

        Raises
        ------
        StorageError
            If several servers share the project, and the database fails.
        """
        if not self.is_shared:
            self.news.publish(kind, **data, elsewhere=False)
            return
        with self.database.write(losable=True) as connection:
            self.database.announce(connection, kind, **data)

    def change(self, **settings: Any) -> None:
        """Change settings of the project, here and in its file, and notify the other servers.

        Raises
        ------
        StorageError
            If several servers share the project, and the database fails.
        """
        with self._changing:
            ProjectFile.change(self.folder, **settings)
            self.file = replace(self.file, **settings)
            self.tell("settings")

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
