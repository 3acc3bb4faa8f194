"""Python processes of our own: they run the code that runs here, whatever lies in the working folder.

A plain ``python -m`` looks for modules in the working folder first, which belongs to the user: an ``app.py``
there would run instead of ours.
"""

from __future__ import annotations

import os
import sys
from multiprocessing import get_context
from multiprocessing.context import SpawnContext
from pathlib import Path

SAFE_PATH = "PYTHONSAFEPATH"
"""Keeps the working folder out of the module path of every Python that inherits it."""


def command(*words: str, nice: int = 0) -> list[str]:
    """Return what runs ``closecall`` with these words in a process of its own; see `environment`.

    Parameters
    ----------
    *words : str
        Arguments of ``closecall``.
    nice : int
        How far the child lowers its own priority, from its first moment on.
    """
    return [sys.executable, "-P", "-m", "closecall.app.cli.in_child", str(nice), *words]


def module(name: str, *words: str) -> list[str]:
    """Return what runs the module of this name with these words in a process of its own."""
    return [sys.executable, "-P", "-m", name, *words]


def environment() -> dict[str, str]:
    """Return the environment for `command`: of ``PYTHONPATH`` what does not depend on the working folder."""
    places = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    path = os.pathsep.join(place for place in places if Path(place).is_absolute())
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, SAFE_PATH: "1", **({"PYTHONPATH": path} if path else {})}


def spawning() -> SpawnContext:
    """Return a context for worker processes, which leave the working folder out of their path, too."""
    os.environ[SAFE_PATH] = "1"
    return get_context("spawn")
