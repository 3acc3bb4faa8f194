"""The report of ``/healthz``: whether labels can be stored, and the state of the pools.

Anyone can read the report without signing in. It therefore has counts but no names.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as TooLate
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from closecall.app.runtime.cores import computing_seconds
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.app.sessions.workspace import Workspace

log = logging.getLogger(__name__)

FRESH_SECONDS = 1.0
"""Seconds for which a report is cached."""

PATIENCE_SECONDS = 3.0
"""Seconds that a report waits for the databases. A database that takes longer counts as unreachable."""

LOADS = ("futures", "futures_shed", "selections", "selections_hurried", "turns_waiting")
"""Counts of `app.engine.load.Load.report` that the report sums over the projects."""


class Health:
    """The health of the open projects. Thread-safe.

    Parameters
    ----------
    workspace : Workspace
        The workspace with the projects.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._looked = -FRESH_SECONDS
        self._found: dict[str, Any] = {}
        self._executor = ThreadPoolExecutor(8, thread_name_prefix="health")

    def look(self) -> dict[str, Any]:
        """Return the report as JSON; `status` is "ok" if all open projects can store labels, or "trouble"."""
        with self._lock:
            if time.monotonic() - self._looked >= FRESH_SECONDS:
                self._found = self._look()
                self._looked = time.monotonic()
            return self._found | {"uptime_seconds": round(time.monotonic() - self._began)}

    def _look(self) -> dict[str, Any]:
        projects = self._workspace.opened()
        databases = Counter(self._databases(projects))
        return {
            "status": "ok" if set(databases) <= {"ok"} else "trouble",
            "version": version("closecall"),
            "projects": len(projects),
            "databases": dict(databases),
            "pools": dict(Counter(map(_pool, projects))),
            "device": self._device(projects),
            "load": _load(projects) | {"computing_seconds": round(computing_seconds(), 3)},
        }

    def _device(self, projects: Sequence[OpenProject]) -> dict[str, Any] | None:
        """Return the device that scans pools, and the number of pools by `Indexes.device_state`, or None."""
        device = self._workspace.helpers.device
        if device is None:
            return None
        states = Counter(project.indexes.device_state or "processors" for project in projects)
        return {"name": device.label, "pools": dict(states)}

    def _databases(self, projects: Sequence[OpenProject]) -> list[str]:
        """Return, for each project, "ok" or the kind of error that storing a label would raise."""
        until = time.monotonic() + PATIENCE_SECONDS
        asked = [self._executor.submit(_database, project) for project in projects]
        states = []
        for answer in asked:
            try:
                states.append(answer.result(max(0.0, until - time.monotonic())))
            except TooLate:
                answer.cancel()
                states.append("unreachable")
        return states


def _load(projects: Sequence[OpenProject]) -> dict[str, int]:
    """Return the sums of the counts in `LOADS` over the projects; see `Load.report`."""
    counts = dict.fromkeys(LOADS, 0)
    for project in projects:
        report = project.store.load.report()
        counts = {name: number + report[name] for name, number in counts.items()}
    return counts


def _database(project: OpenProject) -> str:
    try:
        project.database.check()
    except StorageError as error:
        return error.kind
    except Exception:
        log.exception("Cannot tell whether labels can be stored in %s", project.key)
        return "other"
    return "ok"


def _pool(project: OpenProject) -> str:
    try:
        if project.problem():
            return "trouble"
        pool = project.pool
    except (InputError, OSError):
        return "trouble"
    except Exception:
        log.exception("Cannot tell the state of the pool of %s", project.key)
        return "trouble"
    return "complete" if pool is not None and pool.complete else "growing"
