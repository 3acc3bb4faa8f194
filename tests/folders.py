"""Folders for what tests share, or make where there are none of pytest's; gone when the process ends."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
"""Of the checkout."""

PREFIX = "closecall-tests-"


def fresh_folder() -> Path:
    """A new folder."""
    return Path(tempfile.mkdtemp(dir=_parent()))


def remove_folders() -> None:
    """All of this process; for those that end without saying so."""
    shutil.rmtree(_parent(), ignore_errors=True)


@cache
def _parent() -> Path:
    atexit.register(remove_folders)
    return Path(tempfile.mkdtemp(prefix=PREFIX))
