"""How far the building of a pool is: told in the builder's own process, and to others by a small file."""

from __future__ import annotations

import json
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
"""The rate is taken over this long: steady enough to read, quick enough to follow a busy machine."""

LEAST_RATE_SECONDS = 0.5
"""No rate is told before this long after the first step: starting up is no measure of what follows."""


@dataclass(frozen=True)
class Progress:
    """How far a build is.

    Parameters
    ----------
    done, total : int
        Items that have been through, of all items of the source; held-out and unreadable ones count.
    per_second : float or None
        Items a second, lately; None while unknown.
    seconds_left : float or None
    state : {"building", "done", "stopped"}
        Stopped: not complete, and no process is building.
    rows : int
        Rows that `Pool.open` would find.
    message : str
        Why the build stopped, where that is known.
    """

    done: int
    total: int
    per_second: float | None = None
    seconds_left: float | None = None
    state: Literal["building", "done", "stopped"] = "building"
    rows: int = 0
    message: str = ""


class Reporter:
    """Tells a callback and the pool's folder how the build goes, and forgets neither rate nor failure.

    Parameters
    ----------
    pool : Path
    manifest : Manifest
        Where the build begins.
    callback : callable taking a Progress, or None
        Called in the builder's thread at every step.

    Raises
    ------
    InputError
        If the disk is full or can't be written; every method may.
    """

    def __init__(self, pool: Path, manifest: Manifest, callback: Callable[[Progress], None] | None) -> None:
        self._path = pool / PROGRESS
        self._callback = callback
        self._last = Progress(_through(manifest), manifest.items, rows=manifest.rows)
        self._steps: deque[tuple[float, int]] = deque()
        self._written = -WRITE_SECONDS
        self._tell(self._last)

    def step(self, done: int) -> None:
        """`done` more items have been through."""
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
        """The pool has these rows now."""
        self._tell(replace(self._last, rows=manifest.rows), write=True)

    def ended(self, manifest: Manifest, message: str = "") -> None:
        """The builder has nothing more to do, or gives up."""
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
    """How far the pool in this folder is, whichever process builds it; None where there is no pool.

    Raises
    ------
    InputError
        If the manifest is damaged.
    """
    pool = Path(pool)
    if not (pool / MANIFEST).is_file():
        return None
    manifest = Manifest.read(pool)
    said = Progress(_through(manifest), manifest.items, rows=manifest.rows)
    with suppress(OSError, ValueError, TypeError):  # what the builder last said is a help, never needed
        said = Progress(**json.loads((pool / PROGRESS).read_bytes()))
    if manifest.complete:
        return Progress(
            manifest.items,
            manifest.items,
            per_second=said.per_second,
            seconds_left=0.0,
            state="done",
            rows=manifest.rows,
        )
    if being_built(pool):
        return replace(said, state="building", message="")
    message = said.message if said.state == "stopped" else ""
    return Progress(_through(manifest), manifest.items, state="stopped", rows=manifest.rows, message=message)


def being_built(pool: Path) -> bool:
    """Whether some process is building the pool now."""
    if not (pool / LOCK).exists():
        return False
    lock = FileLock(pool / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    except OSError:  # a folder that can't be written: nobody builds there
        return False
    lock.release()
    return False


def lock_for_building(pool: Path) -> FileLock:
    """The lock, held, that says that this process builds the pool.

    Raises
    ------
    InputError
        If another process does.
    """
    lock = FileLock(pool / LOCK)
    try:
        lock.acquire(timeout=0.5, poll_interval=0.02)  # `being_built` of others holds it for an instant
    except Timeout:
        raise InputError(
            f"The pool {pool} is being built by another process: wait for it, or stop it"
        ) from None
    return lock


def _through(manifest: Manifest) -> int:
    """Items that are published, unreadable ones included."""
    return sum(part.rows + part.unreadable for part in manifest.parts)
