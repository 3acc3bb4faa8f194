"""Progress of building a pool, reported to a callback and, in a small file, to other processes."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from closecall.core.errors import InputError
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.pool.manifest import MANIFEST, Manifest

PROGRESS = "progress.json"
LOCK = "build.lock"
WRITE_SECONDS = 1.0
RATE_SECONDS = 15.0
"""Seconds over which the rate is averaged: long enough for a steady rate, short enough to follow changes."""

LEAST_RATE_SECONDS = 0.5
"""Seconds after the first step before a rate is reported, because startup is not representative."""


@dataclass(frozen=True)
class Progress:
    """Progress of a build.

    Parameters
    ----------
    done, total : int
        Number of processed items and number of all items. Both include held-out and unreadable items.
    per_second : float or None
        Items per second over the last 15 s; None while unknown.
    seconds_left : float or None
        Estimated time left; None while unknown.
    state : {"building", "done", "stopped"}
        "stopped" means that the pool is incomplete and no process is building it.
    rows : int
        Number of rows that `Pool.open` would find.
    message : str
        Why the build stopped, if known.
    """

    done: int
    total: int
    per_second: float | None = None
    seconds_left: float | None = None
    state: Literal["building", "done", "stopped"] = "building"
    rows: int = 0
    message: str = ""


class Reporter:
    """Reporter of a build's progress to a callback and to a file in the pool's folder.

    Parameters
    ----------
    pool : Path
        Folder of the pool.
    manifest : Manifest
        State of the pool when the build starts.
    callback : callable or None
        Called with a `Progress` in the builder's thread at every step.

    Raises
    ------
    InputError
        If the disk is full or cannot be written. Every method may raise this error.
    """

    def __init__(self, pool: Path, manifest: Manifest, callback: Callable[[Progress], None] | None) -> None:
        self._path = pool / PROGRESS
        self._callback = callback
        self._last = Progress(_through(manifest), manifest.items, rows=manifest.rows)
        self._steps: deque[tuple[float, int]] = deque()
        self._written = -WRITE_SECONDS
        self._tell(self._last)

    def step(self, done: int) -> None:
        """Report that `done` more items are processed."""
        now = time.monotonic()
        self._steps.append((now, self._last.done + done))
        while now - self._steps[0][0] > RATE_SECONDS and len(self._steps) > 2:
            self._steps.popleft()
        began, before = self._steps[0]
        known = now - began >= LEAST_RATE_SECONDS
        rate = (self._steps[-1][1] - before) / (now - began) if known else None
        left = self._last.total - self._steps[-1][1]
        self._tell(
            replace(
                self._last,
                done=self._steps[-1][1],
                per_second=rate,
                seconds_left=left / rate if rate else None,
            )
        )

    def published(self, manifest: Manifest) -> None:
        """Report that the pool now has the rows of `manifest`."""
        self._tell(replace(self._last, rows=manifest.rows), write=True)

    def ended(self, manifest: Manifest, message: str = "") -> None:
        """Report that the build is complete, or stopped because of `message`."""
        if manifest.complete:
            end = replace(self._last, done=manifest.items, seconds_left=0.0, state="done", rows=manifest.rows)
        else:
            end = Progress(
                _through(manifest), manifest.items, state="stopped", rows=manifest.rows, message=message
            )
        self._tell(end, write=True)

    def _tell(self, progress: Progress, write: bool = False) -> None:
        self._last = progress
        if write or time.monotonic() - self._written >= WRITE_SECONDS:
            with disk_trouble(self._path.parent):
                replace_file(self._path, json.dumps(asdict(progress)).encode(), lasting=False)
            self._written = time.monotonic()
        if self._callback:
            self._callback(progress)


def read_progress(pool: Path | str) -> Progress | None:
    """Return the build progress of the pool in the folder `pool`, or None if there is no pool.

    Any process may be building the pool.

    Raises
    ------
    InputError
        If the manifest is damaged.
    """
    pool = Path(pool)
    if not (pool / MANIFEST).is_file():
        return None
    manifest = Manifest.read(pool)
    reported = Progress(_through(manifest), manifest.items, rows=manifest.rows)
    with suppress(OSError, ValueError, TypeError):  # the progress file is optional
        reported = Progress(**json.loads((pool / PROGRESS).read_bytes()))
    if manifest.complete:
        return Progress(
            manifest.items,
            manifest.items,
            per_second=reported.per_second,
            seconds_left=0.0,
            state="done",
            rows=manifest.rows,
        )
    if being_built(pool):
        return replace(reported, state="building", message="")
    message = reported.message if reported.state == "stopped" else ""
    return Progress(_through(manifest), manifest.items, state="stopped", rows=manifest.rows, message=message)


def being_built(pool: Path) -> bool:
    """Return whether some process is building the pool."""
    if not (pool / LOCK).exists():
        return False
    lock = FileLock(pool / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:  # nobody can build in a read-only folder
        return False
    lock.release()
    return False


def lock_for_building(
    pool: Path, *, wait: bool = False, stop: threading.Event | None = None
) -> FileLock | None:
    """Acquire the lock that a process holds while it builds the pool.

    If `wait` is true, wait while another process holds the lock. If `stop` is set meanwhile, return None.

    Raises
    ------
    InputError
        If another process holds the lock and `wait` is False.
    """
    lock, stop = FileLock(pool / LOCK), stop or threading.Event()
    while not stop.is_set() or not wait:
        try:
            lock.acquire(timeout=0.5, poll_interval=0.02)  # `being_built` may hold it briefly
        except Timeout:
            if not wait:
                raise InputError(
                    f"The pool {pool} is being built by another process: wait for it, or stop it"
                ) from None
        else:
            return lock
    return None


def _through(manifest: Manifest) -> int:
    """Return the number of published items, including unreadable ones."""
    return sum(part.rows + part.unreadable for part in manifest.parts)
