"""Folders for what tests share, or make where there are none of pytest's; gone when the process ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""Of the checkout."""

PREFIX = "closecall-tests-"

IN_MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Bytes that must be free there: some ten times what a run writes."""


def write_to_memory() -> None:
    """Let this process and its children keep temporary files in memory, where the machine has room for them.

    The tests wait for thousands of commits to reach the disk, which takes twice as long as the tests of the
    store themselves. A process that is killed leaves the same files in both places. If
    ``TMPDIR`` is set, it is used instead.
    """
    if "TMPDIR" not in os.environ and IN_MEMORY.is_dir() and shutil.disk_usage(IN_MEMORY).free >= ROOM:
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=IN_MEMORY)
        Path(folder).chmod(0o711)  # tests become somebody else than root, who may pass through
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ["TMPDIR"] = folder
        tempfile.tempdir = None  # it is read from the environment again


def in_memory() -> Path | None:
    """The folder of this run that is kept in memory, if there is one."""
    folder = Path(tempfile.gettempdir())
    return folder if folder.name.startswith(PREFIX) else None


def fresh_folder() -> Path:
    """A new folder."""
    return Path(tempfile.mkdtemp(dir=_parent()))


_made: dict[str, Path] = {}


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """What `make` writes to the path that it is given, which nobody may change afterwards.

    Workers of a run that keep their files in memory share it: the first one makes it, others wait.
    """
    if name not in _made:
        _made[name] = _made_here_or_elsewhere(name, make)
    return _made[name]


def _made_here_or_elsewhere(name: str, make: Callable[[Path], None]) -> Path:
    own, common = fresh_folder() / name, in_memory()
    if common is None or "PYTEST_XDIST_WORKER" not in os.environ:
        make(own)
        return own
    import fcntl  # there is one where files are kept in memory

    with (common / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (common / name).exists():
            make(own)
            own.rename(common / name)
    return common / name


def remove_folders() -> None:
    """All of this process; for those that end without saying so."""
    shutil.rmtree(_parent(), ignore_errors=True)


@cache
def _parent() -> Path:
    atexit.register(remove_folders)
    return Path(tempfile.mkdtemp(prefix=PREFIX))
