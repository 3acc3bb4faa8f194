"""The plan of a comparison of strategies, and its division into races as units of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.strategy_labels import name_of
from closecall.app.experiments.compare.peers import make_peer
from closecall.app.experiments.compare.plan import Plan, in_words
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError
from closecall.core.linear.svm import DEFAULT_C, ClassWeight
from closecall.core.pool.pool import Pool
from closecall.core.selection import covering, strategy_from
from closecall.core.selection.former import RENAMED
from closecall.core.simulation.drawing import MOST_CLASSES, SEEN_CLASSES, ItemsByClass
from closecall.core.simulation.race import Course

STRATEGIES = (
    "random",
    "subsample:n_scored=500",
    "subsample:n_scored=2000",
    "subsample",
    "exhaustive",
    "h-hash",
    "eh-hash",
    "bh-hash",
    "h-hash-weighted",
    "eh-hash-weighted",
    "bh-hash-weighted",
    "margin-index",
    "auto",
)
"""Default strategies. The small subsamples take about as long as a selection by hashing."""

NAMES_VERSION = 1
"""Version of the strategy names.

Comparisons without a recorded version were made before the names in `RENAMED` got their present meaning.
"""


class RaceUnit(NamedTuple):
    """The smallest unit of work: one race, which is one repetition for one positive class.

    All strategies take part in it.
    """

    positive: int
    run: int

    @property
    def file(self) -> str:
        """Name of the file with the race's results, in the folder `UNITS`."""
        return f"class-{self.positive:03d}-run-{self.run:02d}.parquet"


@dataclass(frozen=True)
class RacePlan(Plan[RaceUnit]):
    """The options of a comparison, which determine its results.

    Parameters
    ----------
    pool, pool_digest, closecall
        See `app.experiments.compare.plan.Plan`.
    classes : tuple of int
        Indices of the positive classes; each has its own races.
    runs, iterations : int
        Number of races for each class, and number of rounds in each race.
    strategies : tuple of str
        See `core.selection.words`.
    peers : tuple of str
        Names in `app.experiments.compare.peers.PEERS`.
    first, C, class_weight, noise, seed, limit, prevalence
        See `core.simulation.race.Course`, where `first` is called `n_first`, and `limit` is `most_seconds`.
    names_version : int
        See `NAMES_VERSION`.
    """

    classes: tuple[int, ...]
    runs: int
    iterations: int
    strategies: tuple[str, ...]
    peers: tuple[str, ...] = ()
    first: int = 5
    C: float = DEFAULT_C
    class_weight: ClassWeight = None
    noise: float = 0.0
    seed: int = 0
    limit: float = 20.0
    prevalence: float | None = None
    names_version: int = NAMES_VERSION

    @classmethod
    def of(
        cls,
        pool: Pool,
        *,
        classes: Sequence[str],
        most_classes: int | None,
        strategies: Sequence[str],
        peers: Sequence[str],
        **words: Any,
    ) -> Self:
        """Make the plan from the pool and the options of the command.

        Parameters
        ----------
        pool : Pool
            Pool whose items are labeled.
        classes : sequence of str
            See `chosen_classes`.
        most_classes : int or None
            Maximum number of classes if `classes` is empty; None for all classes. If the pool has more
            classes, this number of them is drawn at random.
        strategies, peers : sequence of str
            Names of strategies and peers. If no strategy is named, the plan has the strategies in
            `STRATEGIES` that can select from the pool.
        **words
            The other parameters of `RacePlan`.

        Raises
        ------
        InputError
            If the pool is not suitable for races, or a class, strategy or peer is unknown or can't be used.
        """
        first, iterations, seed = words["first"], words["iterations"], words["seed"]
        items = ItemsByClass(pool, first)
        if len(items) < len(pool):
            raise InputError(
                f"the class of {len(pool) - len(items)} items of the pool {pool.path} is unknown: "
                f"answers can't be simulated"
            )
        seen = min(len(items.classes), SEEN_CLASSES if len(items.classes) > MOST_CLASSES else MOST_CLASSES)
        needed = seen * first + iterations
        if needed > len(pool):
            raise InputError(
                f"{iterations} labels after {seen} × {first} first ones need {needed} items, "
                f"the pool {pool.path} has {len(pool)}"
            )
        if not (unrepeated_held_out(pool).truth >= 0).any():
            raise InputError(f"the pool {pool.path} has no held-out items of known class to measure AUROC on")
        chosen = chosen_classes(pool, items.classes.tolist(), classes)
        if most_classes is not None and not classes and len(chosen) > most_classes:
            chosen = tuple(sorted(items.positives(np.random.default_rng(seed), most_classes)))
        strategies = tuple(dict.fromkeys(strategies or covering(STRATEGIES, pool)))
        for word in strategies:
            strategy = strategy_from(word, random_state=seed)
            strategy.check()
            strategy.check_pool(pool)
        for name in peers:
            make_peer(name).check()
        return cls(
            pool=str(pool.path),
            pool_digest=pool.digest,
            classes=chosen,
            strategies=strategies,
            peers=tuple(dict.fromkeys(peers)),
            **words,
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the strategies, then of the peers (other libraries). All take part in every race."""
        return (*self.strategies, *self.peers)

    @property
    def units(self) -> list[RaceUnit]:
        """All units, beginning with one for each class."""
        return [RaceUnit(positive, run) for run in range(self.runs) for positive in self.classes]

    def size(self, pool: Pool) -> str:
        """See `Plan.size`."""
        return (
            f"{pool.title}: {counted(len(pool), 'item')}; {len(self.classes)} × "
            f"{counted(self.runs, 'race')} of {counted(len(self.names), 'strategy', 'strategies')} "
            f"over {counted(self.iterations, 'label')}."
        )

    def course(self, unit: RaceUnit) -> Course:
        """Return the parameters of the race of one unit."""
        return Course(
            positive=unit.positive,
            run=unit.run,
            n_first=self.first,
            C=self.C,
            class_weight=self.class_weight,
            noise=self.noise,
            seed=self.seed,
            most_seconds=self.limit,
            prevalence=self.prevalence,
        )

    @classmethod
    def _understood(cls, stored: dict[str, Any], out: Path) -> dict[str, Any]:
        if "names_version" not in stored and not {*map(name_of, stored["strategies"])}.isdisjoint(RENAMED):
            raise InputError(
                f"{out} has a comparison in which h-hash and the like are what is now called "
                "h-hash-weighted: choose another folder"
            )
        return {"names_version": NAMES_VERSION, **stored}

    def _in_words(self, name: str, names: Sequence[str]) -> str:
        if name == "classes":
            return in_words([names[c] for c in self.classes if c < len(names)])
        return super()._in_words(name, names)


def chosen_classes(pool: Pool, able: Sequence[int], words: Sequence[str]) -> tuple[int, ...]:
    """Return the indices of the classes that `words` name, in this order; all of `able` if `words` is empty.

    Parameters
    ----------
    pool : Pool
        Pool with the classes.
    able : sequence of int
        Indices of the classes that have enough items.
    words : sequence of str
        Names of classes. A string may contain several names, separated by commas.

    Raises
    ------
    InputError
        If a named class does not exist or has too few items.
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
