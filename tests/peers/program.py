"""Programs that only the long tests need: these fail without them, unless they are told to do without."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import scale

UNWANTED = "none"


@dataclass(frozen=True)
class Program:
    """A program, and how the tests find and install it.

    Parameters
    ----------
    name : str
    variable : str
        Environment variable with the program's path; "none" means that the tests do without it.
    commands : tuple of str
        Paths, or names in ``PATH``.
    target : str
        Target of the Makefile that installs the program.
    install : callable
    """

    name: str
    variable: str
    commands: tuple[str, ...]
    target: str
    install: Callable[[], object]

    def find(self) -> Path | None:
        """Return the program's path, or None if it is not installed or not wanted."""
        named = os.environ.get(self.variable)
        found = map(shutil.which, (named,) if named else self.commands)
        return next((Path(path) for path in found if path), None)

    def needed(self) -> Path:
        """Return the program's path. Without it, skip the test or, with --scale=long, let it fail."""
        if found := self.find():
            return found
        if scale.current == "long" and not self._is_unwanted():
            pytest.fail(self._missing())
        pytest.skip(self._missing())

    def provide(self) -> None:
        """Install the program if it is not there; exit with 1 if this fails."""
        if self._is_unwanted():
            print(f"{self.variable}={UNWANTED}: the tests of {self.name} will NOT run.")
            return
        if self.find() is None and not os.environ.get(self.variable):
            print(f"No {self.name} found: trying to install one for the long tests.", flush=True)
            try:
                self.install()
            except (OSError, subprocess.CalledProcessError) as error:
                print(error, file=sys.stderr)
        if (path := self.find()) is None:
            sys.exit(self._missing())
        print(f"Long tests use {self.name} in {path}")

    def _is_unwanted(self) -> bool:
        return os.environ.get(self.variable) == UNWANTED

    def _missing(self) -> str:
        return (
            f"{self.name} is not installed: install it with make {self.target}, name its program in "
            f"{self.variable}, or do without it by {self.variable}={UNWANTED}"
        )
