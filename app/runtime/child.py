"""Start Python processes that run this program's code, whatever the working folder contains.

A plain ``python -m`` looks for modules in the working folder first. This folder belongs to the user, and an
``app.py`` in it would run instead of this program's code.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.context import SpawnContext
from pathlib import Path

SAFE_PATH = "PYTHONSAFEPATH"
"""Environment variable that keeps the working folder out of the module path of Python processes."""


def command(*words: str, nice: int = 0) -> list[str]:
    """Return the command line of a child process that runs ``closecall``.

    Start the child with the environment that `environment` returns.

    Parameters
    ----------
    *words : str
        Arguments of ``closecall``.
    nice : int
        Number that the child adds to its niceness when it starts.
    """
    return [sys.executable, "-P", "-m", "closecall.app.cli.in_child", str(nice), *words]


def module(name: str, *words: str) -> list[str]:
    """Return the command line of a child process that runs the module `name` with these arguments."""
    return [sys.executable, "-P", "-m", name, *words]


def environment() -> dict[str, str]:
    """Return the environment for `command` and `module`; ``PYTHONPATH`` keeps only absolute folders."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(place for place in places if Path(place).is_absolute())
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, SAFE_PATH: "1", **({"PYTHONPATH": path} if path else {})}


def spawning() -> SpawnContext:
    """Return a multiprocessing context whose workers do not look for modules in the working folder."""
    os.environ[SAFE_PATH] = "1"
    return get_context("spawn")
