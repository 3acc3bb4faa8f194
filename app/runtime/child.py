"""Python processes of our own: they run the code that runs here, whatever lies in the working folder.

A plain ``python -m`` looks for modules in the working folder first, which belongs to the user: an ``app.py``
there would run instead of ours. A child gets the module path of the process that starts it instead.
"""

from __future__ import annotations

import json
import os
import sys
from multiprocessing import get_context
from multiprocessing.context import SpawnContext
from pathlib import Path

_RUNNER = Path(__file__).resolve().parents[1] / "cli" / "in_child.py"

SAFE_PATH = "PYTHONSAFEPATH"
"""Keeps the working folder out of the module path of every Python that inherits it."""

_PATH = [entry for entry in sys.path if Path(entry).is_absolute()]
"""As this process began: what serves pages puts their folder first later on."""


def command(*words: str, nice: int = 0) -> list[str]:
    """Return what runs ``closecall`` with these words in a process of its own; see `environment`.

    Parameters
    ----------
    *words : str
        Arguments of ``closecall``.
    nice : int
        How far the child lowers its own priority, from its first moment on.
    """
    return [sys.executable, "-P", str(_RUNNER), json.dumps(_PATH), str(nice), *words]


def environment() -> dict[str, str]:
    """Return the environment for `command`: ``PYTHONPATH`` may name the working folder, and is left out."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**kept, SAFE_PATH: "1"}


def spawning() -> SpawnContext:
    """Return a context for worker processes, which leave the working folder out of their path, too."""
    os.environ[SAFE_PATH] = "1"
    return get_context("spawn")
