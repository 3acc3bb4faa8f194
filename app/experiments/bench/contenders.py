"""The contenders that ``closecall bench select`` and ``bench sessions`` time against each other.

A contender is a query strategy with its index, or a bare matrix–vector product of all rows with the normal
vector w of the hyperplane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote

import click
import numpy as np

from closecall.app.experiments.bench.subsample import pool_product
from closecall.app.experiments.compare.lanes import tell_cost, tenths
from closecall.core.errors import InputError, reason
from closecall.core.experiment.planes import Plane
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.selection import (
    Query,
    QueryStrategy,
    covering,
    make_strategy,
    strategy_from,
    strategy_names,
)
from closecall.core.selection.exclusion import excluded_rows

if TYPE_CHECKING:
    from closecall.core.accelerator.kept import KeptRows

REFERENCE = "exhaustive"
PLAIN_SCANS = ("blas-scan", "scipy-scan")
"""Names of the contender that computes only a matrix–vector product, for dense and for sparse pools."""

LADDERS = {
    "subsample": ("n_scored=500", "n_scored=2000"),
    "margin-index": ("budget=8000", "budget=10000"),
}
"""Additional parameters that strategies are measured with if the user names no strategies."""


@dataclass(frozen=True)
class Answer:
    """The item that a contender selected for a hyperplane, and the cost of selecting it.

    Parameters
    ----------
    item : int
    scored : int
        Number of items whose wᵀx + b was computed.
    ms, cpu_ms : float
        Wall-clock time of the selection, and processor time of all threads of the process, in milliseconds.
    """

    item: int
    scored: int
    ms: float
    cpu_ms: float


class Contender(Protocol):
    """The interface of a contender, which selects items for one hyperplane after another."""

    word: str
    fit_seconds: float | None

    def remember(self, hyperplane: Hyperplane) -> tuple[object, float]:
        """Prepare faster selections for similar hyperplanes.

        Return the object that `QueryStrategy.remember` computes for this purpose, and the processor time in
        milliseconds.
        """

    def answer(self, plane: Plane, memory: object) -> Answer:
        """Select an item for a hyperplane.

        `memory` is the object that `remember` returned for an earlier hyperplane of the session, or None.
        """


class StrategyContender:
    """A contender that is a fitted query strategy.

    `fit_seconds` is None if the strategy's index was loaded from a file.
    """

    def __init__(self, word: str, strategy: QueryStrategy, fit_seconds: float | None, seed: int) -> None:
        self.word = word
        self.fit_seconds = fit_seconds
        self.strategy = strategy
        self._seed = seed

    def remember(self, hyperplane: Hyperplane) -> tuple[object, float]:
        """See `Contender.remember`."""
        start = process_time()
        memory = self.strategy.remember([hyperplane])[0]
        return memory, 1000 * (process_time() - start)

    def answer(self, plane: Plane, memory: object) -> Answer:
        """See `Contender.answer`. The strategy isn't given the answers, so Auto is its margin index."""
        cpu, start = process_time(), perf_counter()
        found = self.strategy.select(plane.hyperplane, exclude=plane.labeled, seed=self._seed, memory=memory)
        seconds = perf_counter() - start
        return Answer(int(found.ids[0]), found.scored, 1000 * seconds, 1000 * (process_time() - cpu))


class PlainScan:
    """A contender that computes only the product of all rows with the normal vector, in float32.

    The product is computed by BLAS, or by SciPy if the rows are sparse. Its time shows how much of the time
    of a full scan is spent on the product.
    """

    fit_seconds: float | None = None

    def __init__(self, pool: Pool) -> None:
        self.word = PLAIN_SCANS[pool.is_sparse]
        self._pool = pool
        self._scores = np.full(len(pool), 0, dtype=np.float32)

    def remember(self, hyperplane: Hyperplane) -> tuple[object, float]:  # noqa: ARG002
        """See `Contender.remember`."""
        return None, 0.0

    def answer(self, plane: Plane, memory: object) -> Answer:  # noqa: ARG002
        """See `Contender.answer`. The search for the smallest value is not timed."""
        w = plane.hyperplane.normal.astype(np.float32)
        cpu, start = process_time(), perf_counter()
        pool_product(self._pool, w, self._scores)
        seconds, cpu = perf_counter() - start, process_time() - cpu
        margins = np.abs(self._scores + np.float32(plane.hyperplane.bias))
        margins[excluded_rows(self._pool, Query(plane.hyperplane, 1, plane.labeled, 0))] = np.inf
        item = int(self._pool.ids[margins.argmin()])
        return Answer(item, len(self._pool), 1000 * seconds, 1000 * cpu)


def scan_on(kept: KeptRows, pool: Pool) -> Contender:
    """Return the contender that scans the pool exhaustively on the device that keeps its rows."""
    strategy = make_strategy(REFERENCE).fit(pool.kept_on(kept))
    return StrategyContender(f"{REFERENCE} on {kept.device.name}", strategy, None, 0)


def default_words(pool: Pool) -> list[str]:
    """Return the names of all strategies that can select from the pool.

    Strategies in `LADDERS` are repeated with each of the parameters given there.
    """
    return [
        word
        for name in covering(strategy_names(), pool)
        for word in (name, *(f"{name}:{params}" for params in LADDERS.get(name, ())))
    ]


@contextmanager
def noting_failure(word: str, failures: dict[str, str] | None) -> Iterator[None]:
    """Record in `failures` why the contender `word` fails, instead of raising the error.

    Errors of the full scans, with which all contenders are compared, are raised. If `failures` is None, all
    errors are raised.
    """
    try:
        yield
    except Exception as error:  # a third-party strategy may raise anything
        if failures is None or word in (REFERENCE, *PLAIN_SCANS):
            raise
        failures[word] = reason(error)


def contenders(
    words: Sequence[str],
    pool: Pool,
    indexes: Path | None,
    seed: int,
    failures: dict[str, str] | None = None,
) -> list[Contender]:
    """Return the contenders: the bare product, the exhaustive scan, and the strategies that `words` name.

    Parameters
    ----------
    words : sequence of str
        See `core.selection.words`.
    pool : Pool
        Pool to select from.
    indexes : Path or None
        Folder that keeps indexes from one run to the next; None to keep none.
    seed : int
        Seed of the strategies.
    failures : dict, optional
        For each strategy that can't be prepared for this pool, receives the reason. Such strategies are left
        out. By default, the error is raised.

    Raises
    ------
    InputError
        If a word does not name a strategy, or a parameter is invalid.
    """
    found: list[Contender] = [PlainScan(pool)]
    had: dict[str, tuple[QueryStrategy, float | None]] = {}
    named = {word: strategy_from(word, random_state=seed) for word in (REFERENCE, *words)}
    for strategy in named.values():
        strategy.check()
    for word, strategy in named.items():
        with noting_failure(word, failures):
            index = make_strategy(strategy.index_name, **strategy.index_params())
            params = "".join(f"-{name}={value}" for name, value in index.index_params().items())
            key = f"{len(pool)}-{index.name}{params}"
            if key not in had:
                had[key] = _fitted(index, pool, indexes and indexes / quote(key, safe="="))
            fitted, fit_seconds = had[key]
            found.append(StrategyContender(word, strategy.sharing(fitted), fit_seconds, seed))
    return found


def _fitted(strategy: QueryStrategy, pool: Pool, folder: Path | None) -> tuple[QueryStrategy, float | None]:
    """Return the fitted strategy, and the seconds that fitting took.

    The seconds are None if the index was loaded from `folder`.
    """
    if folder is not None and folder.is_dir():
        try:
            strategy.sharing(type(strategy).load(folder, pool))
            for array in strategy.arrays().values():
                np.count_nonzero(array)  # maps all pages of the file before queries are timed
            return strategy, None
        except InputError as error:
            click.echo(f"The saved index is rebuilt: {error}")
    start = perf_counter()
    tell_cost(strategy, pool, click.echo)
    strategy.fit(pool, progress=tenths(strategy.name, click.echo) if strategy.cost(pool) else None)
    seconds = perf_counter() - start
    click.echo(f"Fitted {strategy.name} to {len(pool):,} items in {seconds:.1f} s.")
    if folder is not None and strategy.arrays():
        strategy.save(folder)
    return strategy, seconds
