"""The strategies of a comparison. Their indexes are built once, saved, and loaded by every worker process.

A lane is one strategy in a race (`core.simulation.race.Lane`). Each run draws its own hash functions, so that
the mean over runs does not depend on a single draw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.parse import quote

from threadpoolctl import threadpool_limits

from closecall.app.display.phrases import cost
from closecall.app.experiments.compare.peers import make_peer
from closecall.app.experiments.compare.race_plan import RacePlan
from closecall.core.errors import InputError
from closecall.core.selection import QueryStrategy, make_strategy, strategy_from
from closecall.core.selection.base import Progress

if TYPE_CHECKING:
    from closecall.core.pool.pool import Pool

INDEXES = "indexes"


def fit_lanes(
    plan: RacePlan, pool: Pool, out: Path, runs: Iterable[int], tell: Callable[[str], None]
) -> None:
    """Build each index of `runs` that is not in the folder `out` yet, and save it if it consists of arrays.

    `tell` prints a line of progress.

    Raises
    ------
    InputError
        If a strategy is unknown or can't select from this pool.
    """
    with threadpool_limits(1, user_api="blas"):
        for word, run in product(plan.strategies, sorted(runs)):
            index = _index(strategy_from(word, random_state=_seed(plan, run)))
            folder = _folder(out, index)
            if folder.is_dir() and _loaded(index, folder, pool):
                continue
            start = perf_counter()
            tell_cost(index, pool, tell)
            index.fit(pool, progress=tenths(index.name, tell) if index.cost(pool) else None)
            if index.arrays():
                index.save(folder)
                is_drawn = plan.runs > 1 and "random_state" in index.index_params()
                of_run = f" for run {run + 1} of {plan.runs}" if is_drawn else ""
                tell(f"Prepared {index.name}{of_run} in {perf_counter() - start:.1f} s.")


def tell_cost(index: QueryStrategy, pool: Pool, tell: Callable[[str], None]) -> None:
    """Print the estimated cost of preparing a strategy, if preparing it takes long.

    Raises
    ------
    InputError
        If the strategy can't select from this pool.
    """
    index.check_pool(pool)
    if (estimate := index.cost(pool)) is not None:
        tell(f"Preparing {index.name} takes {cost(estimate.seconds, estimate.n_bytes)}.")


def tenths(name: str, tell: Callable[[str], None]) -> Progress:
    """Return a progress callback that prints a line after each tenth of a strategy's preparation."""
    last = 0

    def advanced(done: int, of: int) -> None:
        nonlocal last
        if 10 * done // of > last:
            last = 10 * done // of
            tell(f"{name}: {10 * last} %")

    return advanced


def open_lanes(plan: RacePlan, pool: Pool, out: Path, run: int) -> dict[str, QueryStrategy]:
    """Return the fitted strategies of a run by name, including strategies of other libraries.

    Strategies load their saved index. Strategies without a usable saved index are fitted to the pool.
    """
    lanes: dict[str, QueryStrategy] = {}
    for word in plan.strategies:
        strategy = strategy_from(word, random_state=_seed(plan, run))
        index = _index(strategy)
        folder = _folder(out, index)
        saved = _loaded(index, folder, pool) if folder.is_dir() else None
        lanes[word] = strategy.sharing(saved) if saved else strategy.fit(pool)
    lanes.update({name: make_peer(name, random_state=_seed(plan, run)).fit(pool) for name in plan.peers})
    return lanes


def _seed(plan: RacePlan, run: int) -> int:
    return plan.seed + run


def _index(strategy: QueryStrategy) -> QueryStrategy:
    """Return the strategy that owns the index of `strategy`: often `strategy` itself."""
    if strategy.index_name == strategy.name:
        return strategy
    return make_strategy(strategy.index_name, **strategy.index_params())


def _folder(out: Path, index: QueryStrategy) -> Path:
    params = "".join(f"-{name}={value}" for name, value in index.index_params().items())
    return out / INDEXES / quote(f"{index.name}{params}", safe="=")


def _loaded(index: QueryStrategy, folder: Path, pool: Pool) -> QueryStrategy | None:
    """Return the saved index, or None if it is damaged or belongs to another pool."""
    try:
        return type(index).load(folder, pool)
    except InputError:
        return None
