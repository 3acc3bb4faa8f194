"""The query strategies of one pool, fitted, and kept up with the pool while it grows."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from core.errors import InputError
from core.geometry import Hyperplane
from core.pool import Pool
from core.selection import QueryStrategy, make_strategy

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
"""How often the pool is asked whether it has grown."""

GROWTH = 1.25
"""An index is extended when the pool has grown by this factor, or is complete."""

CHEAP_SECONDS = 0.1
"""An index whose last fit took no longer than this is extended at every growth."""


class Indexes:
    """Fitted strategies over the newest snapshot of a pool.

    A thread of its own watches the pool and extends what is in use; readers take whatever is ready.
    The indexes are immutable, so a reader keeps what it took.

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
        self._fitted: dict[str, QueryStrategy] = {}
        self._fit_seconds: dict[str, float] = {}
        self._wanted: set[str] = set()
        self._full_scan_ms: tuple[int, float] | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._pool_problem: str | None = None
        self._failed: dict[str, str] = {}
        self._thread = threading.Thread(target=self._tend, name="indexes", daemon=True)

    def start(self) -> None:
        """Start to watch the pool."""
        self._catch_up()
        self._thread.start()

    def close(self) -> None:
        """Stop watching; returns when no index is being built any more."""
        self._closed = True
        self._wake.set()
        self._thread.join()

    @property
    def pool(self) -> Pool | None:
        """The newest snapshot, None before the first items."""
        return self._pool

    @property
    def problem(self) -> str | None:
        """What keeps the pool from being read or an index from being built, in one sentence."""
        return self._pool_problem or next(iter(self._failed.values()), None)

    @property
    def full_scan_ms(self) -> float | None:
        """What a full scan of the pool takes here and now, measured in the background, in milliseconds."""
        return self._full_scan_ms[1] if self._full_scan_ms else None

    def want(self, name: str) -> None:
        """Have the strategy `name` fitted and kept fitted from now on.

        Raises
        ------
        InputError
            If there is no such strategy.
        """
        make_strategy(name)
        with self._lock:
            self._wanted.add(name)
        self._wake.set()

    def get(self, name: str) -> QueryStrategy | None:
        """The fitted strategy, or None while it is still being built."""
        return self._fitted.get(name)

    def _tend(self) -> None:
        while not self._closed:
            self._wake.wait(POLL_SECONDS)
            self._wake.clear()
            self._catch_up()

    def _catch_up(self) -> None:
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
            wanted = sorted(self._wanted)
        for name in wanted:
            if self._closed:
                return
            if name not in self._failed and self._is_due(name, pool):
                self._fit_or_tell(name, pool)
        if wanted:
            self._time_full_scan(pool)

    def _is_due(self, name: str, pool: Pool) -> bool:
        fitted = self._fitted.get(name)
        if fitted is None:
            return True
        if fitted.n_items >= len(pool):
            return False
        cheap = self._fit_seconds[name] <= CHEAP_SECONDS
        return cheap or pool.complete or len(pool) >= GROWTH * fitted.n_items

    def _fit_or_tell(self, name: str, pool: Pool) -> None:
        """Fit; a strategy that can't be is left out from then on, and the others are tended as before."""
        try:
            self._fit(name, pool)
        except (InputError, OSError, MemoryError) as error:
            log.exception("The index %s could not be built", name)
            self._failed[name] = f"{name} can't be used with this pool: {error or type(error).__name__}"

    def _fit(self, name: str, pool: Pool) -> None:
        started = time.perf_counter()
        fitted = self._fitted.get(name)
        if fitted is None:
            fitted = self._saved(name, pool)
        loaded = fitted is not None and fitted.n_items == len(pool)
        if not loaded:
            unfitted = make_strategy(name, random_state=self._seed)
            fitted = unfitted.fit(pool) if fitted is None else fitted.extended(pool)
        self._fitted[name] = fitted
        self._fit_seconds[name] = time.perf_counter() - started
        if pool.complete and not loaded and self._fit_seconds[name] > CHEAP_SECONDS:
            self._save(name, fitted)

    def _saved(self, name: str, pool: Pool) -> QueryStrategy | None:
        folder = self._folder / name
        if not folder.is_dir():
            return None
        try:
            return type(make_strategy(name)).load(folder, pool)
        except InputError as error:
            log.warning("The saved index %s is built anew: %s", name, error)
            return None

    def _save(self, name: str, fitted: QueryStrategy) -> None:
        try:
            self._folder.mkdir(exist_ok=True)
            fitted.save(self._folder / name)
        except (InputError, OSError) as error:
            log.warning("The index %s could not be saved and will be built anew next time: %s", name, error)

    def _time_full_scan(self, pool: Pool) -> None:
        """Time one full scan for the notes, whenever the pool has grown by a quarter or is complete."""
        measured_at = self._full_scan_ms[0] if self._full_scan_ms else 0
        if len(pool) < GROWTH * measured_at and not (pool.complete and len(pool) > measured_at):
            return
        strategy = self._fitted.get("exhaustive") or make_strategy("exhaustive").fit(pool)
        first = pool.rows([0])[0]
        seconds = [strategy.select(Hyperplane(first, 0.0)).seconds for _ in range(3)]
        self._full_scan_ms = (len(pool), 1000 * sorted(seconds)[1])
