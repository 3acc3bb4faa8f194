"""What a comparison consists of: its words, and the units of work that follow from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from core.durable import disk_trouble, replace_file
from core.errors import InputError
from core.experiment.race import Course
from core.pool import Pool
from core.svm import ClassWeight

PLAN = "comparison.json"
UNITS = "units"

STRATEGIES = (
    "random",
    "subsample:n_scored=500",
    "subsample:n_scored=2000",
    "subsample",
    "exhaustive",
    "h-hash",
    "eh-hash",
    "bh-hash",
    "margin-index",
)
"""Who takes part by default; the small subsamples take about as long as hashing does."""


class Unit(NamedTuple):
    """The smallest piece of work: one class, one repetition, all strategies."""

    positive: int
    run: int

    @property
    def file(self) -> str:
        """The file of its results, in the folder `UNITS`."""
        return f"class-{self.positive:03d}-run-{self.run:02d}.parquet"


@dataclass(frozen=True)
class Plan:
    """The words of a comparison: all that its results follow from.

    Parameters
    ----------
    pool : str
        Its folder.
    pool_digest : str
        See `Pool.digest`.
    classes : tuple of int
        Each is the positive one in its turn.
    runs, iterations : int
        Repetitions of each class, and rounds of each.
    strategies : tuple of str
        See `core.selection.words`.
    peers : tuple of str
        See `app.compare.peers`.
    first, C, class_weight, noise, seed, limit
        See `core.experiment.race.Course`; `limit` is its `most_seconds`.
    marginalia : str
        The version of this program.
    """

    pool: str
    pool_digest: str
    classes: tuple[int, ...]
    runs: int
    iterations: int
    strategies: tuple[str, ...]
    peers: tuple[str, ...] = ()
    first: int = 5
    C: float = 1.0
    class_weight: ClassWeight = None
    noise: float = 0.0
    seed: int = 0
    limit: float = 20.0
    marginalia: str = version("marginalia")

    @property
    def names(self) -> tuple[str, ...]:
        """The lanes, in their order."""
        return (*self.strategies, *self.peers)

    @property
    def units(self) -> list[Unit]:
        """All of them, in an order in which a part of them already has all classes."""
        return [Unit(positive, run) for run in range(self.runs) for positive in self.classes]

    def course(self, unit: Unit) -> Course:
        """What is raced for in one unit."""
        return Course(
            positive=unit.positive,
            run=unit.run,
            n_first=self.first,
            C=self.C,
            class_weight=self.class_weight,
            noise=self.noise,
            seed=self.seed,
            most_seconds=self.limit,
        )

    def open_pool(self) -> Pool:
        """The pool that it is about.

        Raises
        ------
        InputError
            If it has changed meanwhile.
        """
        pool = Pool.open(self.pool)
        if pool.digest != self.pool_digest:
            raise InputError(f"the pool {self.pool} is no longer what it was when the comparison began")
        return pool

    def settle(self, out: Path, names: Sequence[str]) -> None:
        """Write the words to the folder `out`, or find the same ones there; `names` are those of classes.

        Raises
        ------
        InputError
            If others are there.
        """
        path = out / PLAN
        if path.exists():
            self._compare_with(Plan.read(out), out, names)
            return
        with disk_trouble(path):
            (out / UNITS).mkdir(parents=True, exist_ok=True)
            replace_file(path, (json.dumps(asdict(self), indent=1) + "\n").encode())

    @classmethod
    def read(cls, out: Path) -> Plan:
        """The words in the folder `out`.

        Raises
        ------
        InputError
            If there are none, or they can't be read.
        """
        path = out / PLAN
        try:
            said = json.loads(path.read_text("utf-8"))
            words: dict[str, Any] = {
                name: tuple(value) if isinstance(value, list) else value for name, value in said.items()
            }
            return cls(**words)
        except FileNotFoundError as error:
            raise InputError(f"there is no comparison in {out}, it has no {PLAN}") from error
        except (ValueError, TypeError, AttributeError) as error:
            raise InputError(f"{path} is damaged, or of another version: name another folder") from error

    def _compare_with(self, there: Plan, out: Path, names: Sequence[str]) -> None:
        for field in fields(self):
            mine, other = getattr(self, field.name), getattr(there, field.name)
            if field.name == "classes":
                mine, other = ([names[c] for c in chosen if c < len(names)] for chosen in (mine, other))
            # The pool may have been moved: its digest tells whether it is the same.
            if mine != other and field.name != "pool":
                raise InputError(
                    f"{out} holds a comparison with {field.name} {_in_words(other)}, not {_in_words(mine)}: "
                    f"give the same words to go on with it, or name another folder"
                )


def chosen_classes(pool: Pool, able: Sequence[int], words: Sequence[str]) -> tuple[int, ...]:
    """The classes that `words` name, in their order; all that are able where they name none.

    Parameters
    ----------
    pool : Pool
        Whose classes they are.
    able : sequence of int
        The classes that have enough items.
    words : sequence of str
        Names of classes, also several with commas between them.

    Raises
    ------
    InputError
        If there is no such class, or it has too few items.
    """
    names = [name.strip() for word in words for name in word.split(",") if name.strip()]
    if not names:
        return tuple(int(positive) for positive in able)
    for name in names:
        if name not in pool.classes:
            known = ", ".join(pool.classes[:20]) + (", …" if len(pool.classes) > 20 else "")
            raise InputError(f"the pool {pool.path} has no class {name!r}; it has {known}")
        if pool.classes.index(name) not in able:
            raise InputError(f"the class {name!r} has too few items in the pool {pool.path} to begin with")
    return tuple(dict.fromkeys(pool.classes.index(name) for name in names))


def _in_words(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return str(value)
