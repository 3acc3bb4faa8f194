"""A shared lock is held by many together, or a file lock by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from filelock import FileLock, Timeout

from closecall.app.runtime.shared_lock import SharedLock


def test_it_keeps_out_who_wants_the_file_alone(tmp_path: Path) -> None:
    """And the other way round; released twice is released once."""
    path = tmp_path / "serve.lock"
    one, two = SharedLock(path), SharedLock(path)
    assert one.acquire(0)
    with two:
        assert two.acquire(0)
    one.release()
    one.release()
    with FileLock(path, timeout=0):
        assert not one.acquire(0.1)
    with one:
        assert one.acquire(0)
        with pytest.raises(Timeout):
            FileLock(path, timeout=0).acquire()


def test_what_cannot_be_locked_is_an_error(tmp_path: Path) -> None:
    """As of a folder that is not there."""
    with pytest.raises(OSError, match="No such file"):
        SharedLock(tmp_path / "nowhere" / "serve.lock").acquire(0)
