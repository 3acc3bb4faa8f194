"""Worker processes that run the races of a comparison and write the results of each race to a file.

A unit of work is one race (`RaceUnit`).
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from ctypes import c_byte
from dataclasses import dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from threadpoolctl import threadpool_limits

from closecall.app.experiments.compare.lanes import open_lanes
from closecall.app.experiments.compare.plan import UNITS
from closecall.app.experiments.compare.race_plan import RacePlan, RaceUnit
from closecall.app.experiments.compare.unit import run_unit, write_table
from closecall.app.runtime import child
from closecall.core.errors import InputError
from closecall.core.simulation.drawing import ItemsByClass
from closecall.core.simulation.race import Race

if TYPE_CHECKING:
    from closecall.core.pool.pool import Pool
    from closecall.core.selection import QueryStrategy

POLL_SECONDS = 0.3

Told = Callable[[int, int], None]
"""Progress callback. Its arguments are the number of rounds begun and the number of units finished."""


def run_units(plan: RacePlan, units: Sequence[RaceUnit], out: Path, n_workers: int, told: Told) -> None:
    """Run units in `n_workers` processes, and write the file of each finished unit.

    Each worker process uses one BLAS thread. After an interruption, every worker ends within one round.
    Unfinished units leave no files.

    Raises
    ------
    InputError
        If a worker is killed, or a unit can't be run.
    KeyboardInterrupt
        If interrupted.
    """
    context = child.spawning()
    n_workers = min(n_workers, len(units))
    # `stop` has no lock, because a worker could be killed while holding the lock.
    stop, rounds = context.RawValue("b", 0), context.Value("q", 0)
    set_up = (plan, out, n_workers, stop, rounds)
    with (
        _interruption(stop) as interrupted,
        ProcessPoolExecutor(n_workers, context, _begin, set_up) as executor,
    ):
        waiting = {executor.submit(_run, unit) for unit in units}
        try:
            while waiting and not interrupted():
                done, waiting = wait(waiting, POLL_SECONDS, FIRST_COMPLETED)
                for future in done:
                    future.result()
                told(rounds.get_obj().value, len(units) - len(waiting))
        except BrokenProcessPool as error:
            if not interrupted():
                raise InputError(
                    "A worker was killed, perhaps for lack of memory: the same command continues, "
                    "and --workers 1 needs less"
                ) from error
        finally:
            stop.value = 1
            executor.shutdown(cancel_futures=True)
    if interrupted():
        raise KeyboardInterrupt


@contextmanager
def _interruption(stop: c_byte) -> Iterator[Callable[[], bool]]:
    """Handle SIGINT and SIGTERM. The first signal sets `stop`, and the second interrupts this process.

    Yield a function that returns whether a signal has arrived.
    """
    seen = False

    def ask(number: int, _: FrameType | None) -> None:
        nonlocal seen
        seen = True
        stop.value = 1
        signal.signal(number, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Worker:
    """The state that a worker process keeps from one unit to the next."""

    plan: RacePlan
    out: Path
    n_workers: int
    stop: c_byte
    rounds: Synchronized[int]
    pool: Pool | None = None
    lanes: dict[str, QueryStrategy] | None = None  # of the run `last_run`
    last_run: int | None = None
    items: ItemsByClass | None = None

    def run(self, unit: RaceUnit) -> None:
        with threadpool_limits(1, user_api="blas"):
            if self.pool is None:
                self.pool = self.plan.open_pool()
                self.items = ItemsByClass(self.pool, self.plan.first)
            if unit.run != self.last_run:
                self.lanes = open_lanes(self.plan, self.pool, self.out, unit.run)
                self.last_run = unit.run
                self._warm_up(unit)
            table = run_unit(self.plan, unit, self._race(unit), self.n_workers, self._goes_on)
        if table is not None:
            write_table(self.out / UNITS / unit.file, table)

    def _race(self, unit: RaceUnit) -> Race:
        assert self.pool is not None
        assert self.lanes is not None
        return Race(self.pool, self.lanes, self.plan.course(unit), items=self.items)

    def _warm_up(self, unit: RaceUnit) -> None:
        """Run a round that is not recorded, to compile kernels and read the indexes into memory."""
        self._race(unit).step()

    def _goes_on(self) -> bool:
        with self.rounds.get_lock():
            self.rounds.value += 1
        return not self.stop.value


_worker: _Worker | None = None


def _begin(plan: RacePlan, out: Path, n_workers: int, stop: c_byte, rounds: Synchronized[int]) -> None:
    """Set up a worker process that ends when its parent ends, even if the parent is killed."""
    global _worker
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _worker = _Worker(plan, out, n_workers, stop, rounds)


def _run(unit: RaceUnit) -> None:
    assert _worker is not None
    _worker.run(unit)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    with suppress(OSError):
        parent.join()
    os._exit(1)
