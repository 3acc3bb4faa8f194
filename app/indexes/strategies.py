"""The query strategies of one pool, fitted, and kept up with the pool while it grows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from closecall.app.display.strategy_labels import label_of
from closecall.app.runtime import kernels
from closecall.app.runtime.background import ClosedError, Troubles
from closecall.core.errors import InputError
from closecall.core.learning.round import Labels, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.kernel_cache import Step
from closecall.core.pool.pool import Pool
from closecall.core.selection import STRATEGIES, QueryStrategy, make_strategy, strategy_from
from closecall.core.selection.files import remove_leftovers
from closecall.core.selection.hashed import HashedSearch

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How often the pool is asked whether it has grown."""

GROWTH = 1.25
"""An index is extended when the pool has grown by this factor, or is complete."""

CHEAP_SECONDS = 0.1
"""An index whose last fit took no longer than this is extended at every growth."""


@dataclass
class IndexState:
    """How it is with an index that is kept fitted.

    Parameters
    ----------
    fitted : QueryStrategy or None
        None until it is first ready.
    seconds : float
        What the last fit took.
    share : float
        How far the fit is that is under way, 0 … 1.
    failure, notice : str or None
        Why it can't be fitted, or is being built although it was saved, in one sentence.
    failed_at : int or None
        Items of the pool that it can't be fitted to; it is tried again when there are more.
    """

    fitted: QueryStrategy | None = None
    seconds: float = 0.0
    share: float = 0.0
    failure: str | None = None
    notice: str | None = None
    failed_at: int | None = None


class Indexes:
    """Fitted strategies over the newest snapshot of a pool.

    A thread of its own watches the pool and extends what is in use; readers take whatever is ready.
    The indexes are immutable, so a reader keeps what it took. Strategies are named by words, as on the
    command line (`core.selection.words`), and those that ask the same index share it: a mixture, whatever
    its shares, asks the margin index.

    Parameters
    ----------
    open_pool : callable
        Returns the pool, or None as long as it has no items yet.
    folder : Path
        Where finished indexes are saved.
    seed : int
        Seed of all indexes.
    """

    def __init__(self, open_pool: Callable[[], Pool | None], folder: Path, seed: int = 0) -> None:
        self._open_pool = open_pool
        self._folder = folder
        self._seed = seed
        self._pool: Pool | None = None
        self._indexes: dict[str, IndexState] = {}
        self._asked: dict[str, IndexState] = {}
        self._sharing: dict[str, tuple[QueryStrategy, QueryStrategy]] = {}
        self._full_scan_ms: tuple[int, float] | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._pool_problem: str | None = None
        self._troubles = Troubles()
        self._thread = threading.Thread(target=self._tend, name="indexes", daemon=True)

    def start(self) -> None:
        """Start to watch the pool."""
        remove_leftovers(self._folder)
        self._catch_up()
        self._thread.start()

    def close(self) -> None:
        """Stop watching and building; returns when that is so."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    @property
    def pool(self) -> Pool | None:
        """The newest snapshot, None before the first items."""
        return self._pool

    @property
    def problem(self) -> str | None:
        """What keeps the pool from being read or an index from being ready, in one sentence."""
        known = list(self._indexes.values())
        said = [self._pool_problem, *(index.failure for index in known), *(index.notice for index in known)]
        return next(filter(None, said), None) or self._troubles.first

    @property
    def full_scan_ms(self) -> float | None:
        """What a full scan of the pool takes here and now, measured in the background, in milliseconds."""
        return self._full_scan_ms[1] if self._full_scan_ms else None

    def want(self, word: str) -> None:
        """Have the index that the strategy `word` asks fitted and kept fitted from now on.

        Raises
        ------
        InputError
            If there is no such strategy, it can't have these parameters, or they take another index than it
            usually asks.
        """
        strategy = self._unfitted(word)
        strategy.check()
        usual = make_strategy(strategy.index_name, random_state=self._seed)
        if strategy.index_params() != usual.index_params():
            allowed = ", ".join(sorted(strategy.query_params)) or "none"
            raise InputError(f"a session can give {strategy.name} the parameters {allowed}; got {word!r}")
        with self._lock:
            self._asked[word] = self._indexes.setdefault(strategy.index_name, IndexState())
        self._wake.set()

    def get(self, word: str) -> QueryStrategy | None:
        """The fitted strategy, or None while its index is still being built.

        It is the same object until the index is another one.
        """
        index = self.state(word).fitted
        if index is None:
            return None
        with self._lock:
            shared, strategy = self._sharing.get(word, (None, index))
            if shared is not index:
                strategy = self._unfitted(word)
                is_the_index = (strategy.name, strategy.params()) == (index.name, index.params())
                strategy = index if is_the_index else strategy.sharing(index)
                self._sharing[word] = index, strategy
            return strategy

    def state(self, word: str) -> IndexState:
        """How it is with the index that the strategy `word` asks; nothing is known where nobody wants it."""
        return self._asked.get(word) or IndexState()

    def _unfitted(self, word: str) -> QueryStrategy:
        return strategy_from(word, random_state=self._seed)

    def _tend(self) -> None:
        while not self._closed:
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            self._catch_up()

    def _catch_up(self) -> None:
        with suppress(ClosedError), self._troubles.noted("Keeping the indexes up with the pool"):
            self._look_after_all()

    def _look_after_all(self) -> None:
        try:
            pool = self._pool.refreshed() if self._pool else self._open_pool()
        except InputError as error:
            self._pool_problem = str(error)
            return
        self._pool_problem = None
        if pool is None:
            return
        self._pool = pool
        with self._lock:
            wanted = list(self._indexes.items())
        for name, index in wanted:
            if self._closed:
                return
            fitted = index.fitted
            is_behind = fitted is None or is_due(fitted.n_items, index.seconds, pool)
            if is_behind and index.failed_at != len(pool) and kernels.is_ready(_needed(name, pool)):
                self._fit_or_tell(name, index, pool)
        if wanted and kernels.is_ready("training"):
            self._time_full_scan(pool)

    def _fit_or_tell(self, name: str, index: IndexState, pool: Pool) -> None:
        """Fit; a strategy that can't be is left out until the pool has grown, and the others are tended."""
        try:
            self._fit(name, index, pool)
            index.failure = index.failed_at = None
        except Exception as error:
            log.exception("The index %s could not be built", name)
            index.failure = f"{name} can't be used with this pool: {error or type(error).__name__}"
            index.failed_at = len(pool)

    def _fit(self, name: str, index: IndexState, pool: Pool) -> None:
        def advanced(done: int, of: int) -> None:
            if self._closed:
                raise ClosedError
            index.share = min(1.0, done / of)

        hyperplane = _some_hyperplane(pool)
        started = time.perf_counter()
        fitted = index.fitted or self._saved(name, index, pool)
        is_built = fitted is None or fitted.n_items < len(pool)
        index.share = 0.0
        if fitted is None:
            fitted = make_strategy(name, random_state=self._seed).fit(pool, progress=advanced)
        elif is_built:
            fitted = fitted.extended(pool, progress=advanced)
        index.seconds = time.perf_counter() - started
        index.fitted, index.notice = _rehearsed(fitted, hyperplane), None
        if is_built and is_worth_saving(index.seconds, pool):
            index.fitted = _rehearsed(self._save(name, fitted, pool), hyperplane)

    def _saved(self, name: str, index: IndexState, pool: Pool) -> QueryStrategy | None:
        """What was saved; None where there is nothing, or nothing that can be used, which is told."""
        if not (self._folder / name).is_dir():
            return None
        try:
            return self._load(name, pool)
        except InputError as error:
            log.warning("The saved index %s is built anew: %s", name, error)
            index.notice = f"What was saved of {label_of(name)} can't be used: it is being built again"
            return None

    def _load(self, name: str, pool: Pool) -> QueryStrategy:
        """The saved index, for queries as they are made today."""
        strategy = make_strategy(name, random_state=self._seed)
        return strategy.sharing(type(strategy).load(self._folder / name, pool))

    def _save(self, name: str, fitted: QueryStrategy, pool: Pool) -> QueryStrategy:
        """Save what was built, and take what was saved: files of the project instead of memory."""
        try:
            self._folder.mkdir(exist_ok=True)
            fitted.save(self._folder / name)
            return self._load(name, pool)
        except (InputError, OSError) as error:
            log.warning("The index %s could not be saved and will be built anew next time: %s", name, error)
            return fitted

    def _time_full_scan(self, pool: Pool) -> None:
        """Time one full scan for the notes, whenever the pool has grown by a quarter or is complete."""
        measured_at = self._full_scan_ms[0] if self._full_scan_ms else 0
        if len(pool) < GROWTH * measured_at and not (pool.complete and len(pool) > measured_at):
            return
        strategy = make_strategy("exhaustive").fit(pool)
        plane = Hyperplane(np.full(pool.n_features, pool.n_features**-0.5), 0.0)
        seconds = [strategy.select(plane).seconds for _ in range(3)]
        self._full_scan_ms = (len(pool), 1000 * sorted(seconds)[1])


def _needed(name: str, pool: Pool) -> Step:
    """The kernels without which the index `name` can't be fitted to this pool; see `app.runtime.kernels`."""
    is_plain = name in STRATEGIES and not issubclass(STRATEGIES[name], HashedSearch)
    return "selection" if is_plain and not pool.is_sparse else "everything"


def is_due(n_items: int, seconds: float, pool: Pool) -> bool:
    """Whether it is time to extend an index of so many items, of which the last part took so long."""
    if n_items >= len(pool):
        return False
    return seconds <= CHEAP_SECONDS or pool.complete or len(pool) >= GROWTH * n_items


def is_worth_saving(seconds: float, pool: Pool) -> bool:
    """Whether an index of this pool, which took so long, is to outlast the process."""
    return pool.complete and seconds > CHEAP_SECONDS


def _some_hyperplane(pool: Pool) -> Hyperplane | None:
    """What the pool's first two items teach; None where there is but one."""
    ids = pool.ids[:2]
    return learn(Labels.of(pool, ids, ids == ids[0])).hyperplane


def _rehearsed(fitted: QueryStrategy, hyperplane: Hyperplane | None) -> QueryStrategy:
    """The strategy after its first query, which takes longer: files are mapped, compiled code is loaded."""
    if hyperplane is not None:
        fitted.select(hyperplane)
    return fitted
