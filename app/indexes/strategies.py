"""The fitted query strategies of a pool, kept up to date while the pool grows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from closecall.app.display.phrases import cost
from closecall.app.display.strategy_labels import label_of
from closecall.app.indexes.full_scan import FullScanTimes
from closecall.app.runtime import kernels
from closecall.app.runtime.background import Fitting, Troubles, Watch
from closecall.app.runtime.news import News
from closecall.core.errors import InputError
from closecall.core.learning.round import Labels, learn
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.numerics.kernel_cache import Step
from closecall.core.pool.pool import Pool
from closecall.core.selection import (
    STRATEGIES,
    QueryStrategy,
    SearchIncomplete,
    covering,
    make_strategy,
    strategy_class,
    strategy_from,
)
from closecall.core.selection.files import remove_leftovers
from closecall.core.selection.former import move_former_indexes
from closecall.core.selection.hashed import HashedSearch

if TYPE_CHECKING:
    from closecall.core.accelerator.device import Device
    from closecall.core.accelerator.kept import KeptRows

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""Seconds between checks whether the pool has grown."""

GROWTH = 1.25
"""Factor by which the pool must grow before an index is extended; see `is_due` for exceptions."""

CHEAP_SECONDS = 0.1
"""An index that took at most this many seconds to fit is extended whenever the pool grows."""


LONG_SECONDS = 10.0
"""The page shows the cost of an index if its estimated building time is at least this many seconds."""


@dataclass(eq=False)
class IndexState(Fitting):
    """State of an index that is kept fitted while the pool grows.

    Parameters
    ----------
    fitted : QueryStrategy or None
        The fitted index; None until it is ready for the first time.
    seconds : float
        Wall-clock time that the last fit, extension or loading took.
    notice : str or None
        A sentence that says why a saved index is being rebuilt.
    lock : threading.Lock
        Held while the index is fitted.
    """

    fitted: QueryStrategy | None = None
    seconds: float = 0.0
    notice: str | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Indexes:
    """Fitted strategies over the newest snapshot of a pool.

    A thread watches the pool and extends the indexes in use. Callers get the newest index that is ready.
    Strategies without an index are ready as soon as the pool has items: they don't wait for that thread.
    Indexes are immutable, so a caller can keep using an index. Strategies are named as on the command line
    (`core.selection.words`). Strategies that query the same index share it; for example, all mixtures share
    the margin index.

    Parameters
    ----------
    open_pool : callable
        Returns the pool, or None while it has no items.
    folder : Path
        Folder of the saved indexes.
    seed : int
        Seed of all indexes.
    news : News or None
        Gets the news `pool` and `index` (`app.runtime.news`).
    alone : bool
        Whether no other process writes to `folder`. If so, files that killed processes left are removed.
    device : Device or None
        Device that scans the pool, if there is one. A thread sends the rows to it.
    """

    def __init__(
        self,
        open_pool: Callable[[], Pool | None],
        folder: Path,
        seed: int = 0,
        *,
        news: News | None = None,
        alone: bool = True,
        device: Device | None = None,
    ) -> None:
        self._kept = _kept_rows(device) if device is not None else None
        self._sending = Watch("device", self._send, POLL_SECONDS)
        self._news = news or News()
        self._alone = alone
        self._open_pool = open_pool
        self._folder = folder
        self._seed = seed
        self._pool: Pool | None = None
        self._indexes: dict[str, IndexState] = {}
        self._asked: dict[str, IndexState] = {}
        self._sharing: dict[str, tuple[QueryStrategy, QueryStrategy]] = {}
        self.full_scan = FullScanTimes()
        self._lock = threading.Lock()
        self._pool_problem: str | None = None
        self._troubles = Troubles()
        self._watch = Watch("indexes", self._catch_up, POLL_SECONDS)

    def start(self) -> None:
        """Start to watch the pool."""
        if self._alone:
            remove_leftovers(self._folder)
            move_former_indexes(self._folder)
        self._catch_up()
        self._watch.start()
        if self._kept is not None:
            self._sending.start()

    def close(self) -> None:
        """Stop watching and building, and wait for the threads' end."""
        self._watch.close()
        if self._kept is not None:
            self._sending.close()
            self._kept.release()

    @property
    def pool(self) -> Pool | None:
        """Return the newest snapshot, or None while the pool has no items."""
        return self._pool

    @property
    def problem(self) -> str | None:
        """Return a sentence about a current problem with the pool or an index, or None."""
        known = list(self._indexes.values())
        problems = [self._pool_problem, *(one.failure for one in known), *(one.notice for one in known)]
        return next(filter(None, problems), None) or self._troubles.first

    @property
    def device_state(self) -> str | None:
        """Return "ready" if a device scans the pool, and "sending" or "trouble" if it lacks rows.

        The state is None without a device, and for a sparse pool, which only the processors scan.
        """
        pool = self._pool
        if pool is None or pool.kept is None:
            return None
        if pool.kept.holds(len(pool)):
            return "ready"
        return "trouble" if pool.kept.problem else "sending"

    @property
    def full_scan_ms(self) -> float | None:
        """Return the time of a full scan of the pool in ms, or None until it is measured."""
        return self.full_scan.ms

    def want(self, word: str) -> None:
        """Request the index that the strategy `word` queries, and keep it fitted from now on.

        Raises
        ------
        InputError
            If there is no such strategy, or its index would need parameters that differ from the defaults.
        """
        strategy = self._unfitted(word)
        strategy.check()
        usual = make_strategy(strategy.index_name, random_state=self._seed)
        if strategy.index_params() != usual.index_params():
            allowed = ", ".join(sorted(strategy.query_params)) or "none"
            raise InputError(f"a session can give {strategy.name} the parameters {allowed}; got {word!r}")
        with self._lock:
            index = self._asked[word] = self._indexes.setdefault(strategy.index_name, IndexState())
        self._fit_at_once(strategy.index_name, index)
        self._watch.wake()

    def get(self, word: str) -> QueryStrategy | None:
        """Return the fitted strategy, or None while its index is being built.

        Calls return the same object until the index is replaced, or until a device begins or ceases to scan
        the pool. While it scans, strategies search all rows without an index (`QueryStrategy.certain`).
        """
        strategy = self.indexed(word)
        if strategy is None or self._kept is None or not self._kept.holds(strategy.n_items):
            return strategy
        return strategy.certain()

    def indexed(self, word: str) -> QueryStrategy | None:
        """Return the strategy that uses its index even while a device scans the pool; None as `get`."""
        self.full_scan.note_use()
        state = self.state(word)
        if state.fitted is None and word in self._asked:
            self._fit_at_once(self._unfitted(word).index_name, state)
        index = state.fitted
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

    def costs(self, words: Iterable[str]) -> dict[str, str]:
        """Return what it costs to prepare strategies, in words. The keys are names of strategies.

        The result has only strategies whose preparation takes `LONG_SECONDS` or more. It leaves out
        strategies that don't suit the pool, and strategies whose index is ready or saved.
        """
        pool, found = self._pool, {}
        if pool is not None:
            for word in covering(words, pool):
                strategy = self._unfitted(word)
                index = self._indexes.get(strategy.index_name, IndexState())
                is_there = index.fitted is not None or (self._folder / strategy.index_name).is_dir()
                estimate = None if is_there else strategy.cost(pool)
                if estimate is not None and estimate.seconds >= LONG_SECONDS:
                    found[word] = cost(estimate.seconds, estimate.n_bytes)
        return found

    def state(self, word: str) -> IndexState:
        """Return the state of the strategy `word`'s index. It is empty if the index was never requested."""
        return self._asked.get(word) or IndexState()

    def _first_pool(self) -> Pool | None:
        pool = self._open_pool()
        return pool.kept_on(self._kept) if pool is not None and self._kept is not None else pool

    def _send(self) -> None:
        """Send the rows of the pool to the device."""
        if self._pool is not None:
            with self._troubles.noted("Sending the pool to the device that scans it"):
                self._pool.keep_up(self._sending.go_on)

    def _unfitted(self, word: str) -> QueryStrategy:
        return strategy_from(word, random_state=self._seed)

    def _catch_up(self) -> None:
        with self._troubles.noted("Keeping the indexes up with the pool"):
            self._look_after_all()

    def _look_after_all(self) -> None:
        try:
            pool = self._pool.refreshed() if self._pool else self._first_pool()
        except InputError as error:
            self._pool_problem = str(error)
            return
        self._pool_problem = None
        if pool is None:
            return
        before, self._pool = self._pool, pool
        if pool is not before:
            self._news.publish("pool", items=len(pool), is_complete=pool.complete)
        with self._lock:
            wanted = list(self._indexes.items())
        for name, index in wanted:
            self._watch.go_on()
            self._keep_up(name, index, pool)
        if wanted and kernels.is_ready("everything"):
            self.full_scan.measure(pool)

    def _fit_at_once(self, name: str, index: IndexState) -> None:
        """Fit a strategy in this thread if it has no index and is not fitted yet."""
        pool = self._pool
        if pool is not None and index.fitted is None and has_no_index(name):
            self._keep_up(name, index, pool)

    def _keep_up(self, name: str, index: IndexState, pool: Pool) -> None:
        """Fit or extend the index if it is due."""
        with index.lock:
            fitted = index.fitted
            is_behind = fitted is None or is_due(fitted.n_items, index.seconds, pool)
            if is_behind and kernels.is_ready(_needed(name, pool)):
                what = f"{name} can't be used with this pool"
                index.attempt(what, len(pool), self._fit, name, index, pool)

    def _fit(self, name: str, index: IndexState, pool: Pool) -> None:
        def advanced(done: int, of: int) -> None:
            self._watch.go_on()
            index.share = min(1.0, done / of)

        hyperplane = _some_hyperplane(pool)
        started = time.perf_counter()
        fitted = index.fitted or self._saved(name, index, pool)
        is_built = fitted is None or fitted.n_items < len(pool)
        if fitted is None:
            fitted = make_strategy(name, random_state=self._seed).fit(pool, progress=advanced)
        elif is_built:
            fitted = fitted.extended(pool, progress=advanced)
        index.seconds = time.perf_counter() - started
        is_first = index.fitted is None
        index.fitted, index.notice = _rehearsed(fitted, hyperplane), None
        if is_first:
            self._tell_of(index)
        if is_built and is_worth_saving(index.seconds, pool):
            index.fitted = _rehearsed(self._save(name, fitted, pool), hyperplane)

    def _tell_of(self, index: IndexState) -> None:
        """Publish that the strategies that query this index are ready."""
        with self._lock:
            words = [word for word, asked in self._asked.items() if asked is index]
        for word in words:
            self._news.publish("index", strategy=word)

    def _saved(self, name: str, index: IndexState, pool: Pool) -> QueryStrategy | None:
        """Return the saved strategy, or None. If it can't be used, the page gets a notice (`IndexState`)."""
        if not (self._folder / name).is_dir():
            return None
        try:
            return self._load(name, pool)
        except InputError as error:
            log.warning("The saved index %s is rebuilt: %s", name, error)
            index.notice = f"The saved {label_of(name)} can't be used: it is being rebuilt"
            return None

    def _load(self, name: str, pool: Pool) -> QueryStrategy:
        """Return the saved index as a strategy whose queries have this version's default parameters."""
        strategy = make_strategy(name, random_state=self._seed)
        return strategy.sharing(type(strategy).load(self._folder / name, pool))

    def _save(self, name: str, fitted: QueryStrategy, pool: Pool) -> QueryStrategy:
        """Save the fitted strategy, and return the saved strategy, whose arrays are memory-mapped files."""
        try:
            self._folder.mkdir(exist_ok=True)
            fitted.save(self._folder / name)
            return self._load(name, pool)
        except (InputError, OSError) as error:
            log.warning("The index %s could not be saved and will be rebuilt next time: %s", name, error)
            return fitted


def _kept_rows(device: Device) -> KeptRows:
    from closecall.core.accelerator.kept import KeptRows  # imports torch

    return KeptRows(device)


def _needed(name: str, pool: Pool) -> Step:
    """Return which Numba functions must be compiled before the index is fitted; see `app.runtime.kernels`."""
    is_plain = name in STRATEGIES and not issubclass(STRATEGIES[name], HashedSearch)
    return "selection" if is_plain and not pool.is_sparse else "everything"


def has_no_index(name: str) -> bool:
    """Return whether a strategy prepares nothing."""
    return strategy_class(name).prepare is QueryStrategy.prepare


def is_due(n_items: int, seconds: float, pool: Pool) -> bool:
    """Return whether to extend an index of `n_items` items, last fitted in `seconds`, to the whole pool."""
    if n_items >= len(pool):
        return False
    return seconds <= CHEAP_SECONDS or pool.complete or len(pool) >= GROWTH * n_items


def is_worth_saving(seconds: float, pool: Pool) -> bool:
    """Return whether to save an index of this pool that was built in `seconds` seconds."""
    return pool.complete and seconds > CHEAP_SECONDS


def _some_hyperplane(pool: Pool) -> Hyperplane | None:
    """Return a hyperplane between the pool's first two items, or None if there is only one item."""
    ids = pool.ids[:2]
    return learn(Labels.of(pool, ids, ids == ids[0])).hyperplane


def _rehearsed(fitted: QueryStrategy, hyperplane: Hyperplane | None) -> QueryStrategy:
    """Return the strategy after a first query, which maps files and loads compiled code."""
    if hyperplane is not None:
        with suppress(SearchIncomplete):
            fitted.select(hyperplane)
    return fitted
