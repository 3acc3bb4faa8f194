"""The options of a comparison, stored in its folder.

A command with the same options continues the comparison. Other options are refused.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from closecall.core.errors import InputError
from closecall.core.files.durable import disk_trouble, replace_file
from closecall.core.pool.pool import Pool

PLAN_FILE = "comparison.json"
UNITS = "units"


class Unit(Protocol):
    """The smallest unit of work of a comparison."""

    @property
    def file(self) -> str:
        """Name of the file with the results of this unit of work, in the folder `UNITS`."""


U = TypeVar("U", bound=Unit)

_FORMER_NAME = "marginalia"  # the first comparisons stored the program's version under this key


@dataclass(frozen=True)
class Plan(ABC, Generic[U]):
    """The options that determine the results of a comparison; subclasses add their own.

    Parameters
    ----------
    pool : str
        The pool's folder.
    pool_digest : str
        See `Pool.digest`.
    closecall : str
        Version of this program.
    """

    pool: str
    pool_digest: str
    closecall: str = field(default=version("closecall"), kw_only=True)

    @property
    @abstractmethod
    def units(self) -> list[U]:
        """All units of work. The first few units cover all classes or families."""

    @abstractmethod
    def size(self, pool: Pool) -> str:
        """Return the size of the comparison as a sentence."""

    def missing(self, out: Path) -> list[U]:
        """Return the units of work whose results are not yet in a file in the folder `out`."""
        return [unit for unit in self.units if not (out / UNITS / unit.file).is_file()]

    def open_pool(self) -> Pool:
        """Open the pool.

        Raises
        ------
        InputError
            If the pool has changed since the comparison began.
        """
        pool = Pool.open(self.pool)
        if pool.digest != self.pool_digest:
            raise InputError(f"the pool {self.pool} is no longer what it was when the comparison began")
        return pool

    def settle(self, out: Path, names: Sequence[str]) -> None:
        """Store the options in the folder `out`, or check that they equal the options stored there.

        Only the path of the pool may differ. `names` are the classes of the pool, for the error message.

        Raises
        ------
        InputError
            If other options are stored in the folder, or if the stored options can't be read.
        """
        path = out / PLAN_FILE
        if path.exists():
            self._compare_with(type(self).read(out), out, names)
            return
        with disk_trouble(path):
            (out / UNITS).mkdir(parents=True, exist_ok=True)
            replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, out: Path) -> Self:
        """Read the options stored in the folder `out`.

        Raises
        ------
        InputError
            If no options are stored there, or if they can't be read.
        """
        path = out / PLAN_FILE
        try:
            stored = json.loads(path.read_text("utf-8"))
            if _FORMER_NAME in stored:
                stored["closecall"] = stored.pop(_FORMER_NAME)
            words: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in cls._understood(stored, out).items()
            }
            return cls(**words)
        except FileNotFoundError as error:
            raise InputError(f"there is no comparison in {out}, it has no {PLAN_FILE}") from error
        except (ValueError, TypeError, AttributeError, KeyError) as error:
            raise InputError(f"{path} is damaged, or of another version: choose another folder") from error

    @classmethod
    def _understood(cls, stored: dict[str, Any], out: Path) -> dict[str, Any]:  # noqa: ARG003
        """Convert stored options of an earlier version to options of this version.

        Raises
        ------
        InputError
            If a stored option has another meaning in this version.
        """
        return stored

    def _compare_with(self, there: Self, out: Path, names: Sequence[str]) -> None:
        for word in fields(self):
            # The pool's folder may have moved. The digest tells whether the pool is the same.
            if getattr(self, word.name) != getattr(there, word.name) and word.name != "pool":
                mine, other = self._in_words(word.name, names), there._in_words(word.name, names)
                raise InputError(
                    f"{out} has a comparison with {word.name} {other}, not {mine}: give the same options to "
                    f"continue it, or choose another folder"
                )

    def _in_words(self, name: str, names: Sequence[str]) -> str:  # noqa: ARG002
        return in_words(getattr(self, name))


def in_words(value: Any) -> str:
    """Format the value of an option for a sentence: a sequence as a list with commas, or "none" if empty."""
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
