"""What a full scan takes is measured under the load of the selections that it stands beside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from closecall.app.indexes import full_scan
from closecall.app.indexes.full_scan import FIRST_SHARE, RECENT, SHARE, FullScanTimes
from closecall.core.pool.build import build
from closecall.core.selection.exhaustive import ExhaustiveSearch
from closecall.core.selection.requests import Choice, Query
from tests.fakes import FakeSource


class Pool:
    """As far as its length."""

    def __init__(self, n_items: int = 1000) -> None:
        self.n_items = n_items

    def __len__(self) -> int:
        return self.n_items


class World:
    """A clock, and scans that take as long as the machine is busy."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ms = 50.0
        self.scans = 0

    def timed(self, _: Pool) -> float:
        self.scans += 1
        self.now += self.ms / 1000
        return self.ms


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(full_scan, "_timed", made.timed)
    monkeypatch.setattr(full_scan.time, "monotonic", lambda: made.now)
    return made


def label(times: FullScanTimes, world: World, rounds: int, pool: Pool | None = None) -> None:
    """So many selections, ten seconds apart, with a measurement due after each."""
    for _ in range(rounds):
        times.note_use()
        times.measure(pool or Pool())
        world.now += 10


def test_nothing_is_timed_before_somebody_labels(world: World) -> None:
    times = FullScanTimes()
    times.measure(Pool())
    assert (times.ms, world.scans) == (None, 0)


def test_a_busy_start_is_forgotten(world: World) -> None:
    """The number that is shown is that of the load under which people label now."""
    times = FullScanTimes()
    world.ms = 400
    label(times, world, 1)
    assert times.ms == 400
    world.ms = 20
    label(times, world, RECENT)
    assert times.ms == 20
    world.ms = 80
    label(times, world, RECENT - 1)
    assert times.ms == 20, "a busy minute does not make selections look fast"
    label(times, world, 1)
    assert times.ms == 80


def test_scans_take_a_small_share_of_the_time(world: World) -> None:
    """However fast somebody labels; a larger one at first, until there are `RECENT`."""
    times, world.ms = FullScanTimes(), 100

    def spent(until: float) -> float:
        before = world.scans
        while world.now < until:
            times.note_use()
            times.measure(Pool())
            world.now += 0.05
        return (world.scans - before) * world.ms / 1000

    first = RECENT * world.ms / 1000 / FIRST_SHARE
    assert 0.5 * FIRST_SHARE * first < spent(first) <= FIRST_SHARE * first + 0.1
    assert len(times._times) == RECENT
    until = first + 500
    assert 0.5 * SHARE * 500 < spent(until) <= SHARE * 500 + 0.1


def test_what_stands_beside_a_selection_stays(world: World) -> None:
    """The page shows the same number before and after the server has heard of the answer."""
    times = FullScanTimes()
    label(times, world, 1)
    assert times.beside("a") == 50
    world.ms = 10
    label(times, world, RECENT)
    assert times.beside("a") == 50
    assert times.beside("b") == 10


def test_a_larger_pool_is_timed_again(world: World) -> None:
    times = FullScanTimes()
    label(times, world, RECENT)
    world.ms = 500
    label(times, world, 1, Pool(10_000))
    assert times.ms == 500


def test_a_part_of_a_large_pool_is_scanned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The time stands for all items."""
    pool, scanned = build(FakeSource(40), tmp_path), list[int]()

    class Scan(ExhaustiveSearch):
        def choose_many(self, queries: Sequence[Query]) -> list[Choice]:
            scanned.append(self.n_items)
            return super().choose_many(queries)

    monkeypatch.setattr(full_scan, "make_strategy", lambda _: Scan())
    monkeypatch.setattr(full_scan, "MOST_ROWS", 10)
    part = full_scan._timed(pool)
    assert set(scanned) == {10}
    monkeypatch.setattr(full_scan, "_timed", lambda _: part)
    times = FullScanTimes()
    label(times, World(), 1, pool)
    assert times.ms == pytest.approx(part * len(pool) / 10)
