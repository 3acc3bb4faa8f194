"""A Dask cluster of processes on this machine: its workers are killed, stopped and started in mid-round."""

from __future__ import annotations

import shutil
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

pytest.importorskip("distributed")

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy, strategy_from
from closecall.core.workers.dask_crew import DaskCrew
from tests.dask_cluster import cluster
from tests.fakes import FakeSource
from tests.pools import gapped_pool, small_pool
from tests.scale import scaled
from tests.unit.core.workers.kit import DIVIDED, answer, requests, same
from tests.waiting import until

LONGEST_SECONDS = 5.0
"""An answer may take this long, whatever happens to workers."""


@pytest.fixture(scope="module")
def crew(started):
    with_workers = DaskCrew(started.address, seconds=60.0)
    yield with_workers
    with_workers.close()


def all_ready(crew: DaskCrew, pool: Pool, n: int) -> None:
    until(lambda: len(crew.ready(pool)) == n)


@pytest.mark.parametrize("word", DIVIDED)
def test_the_answer_is_that_of_one_process(pool, crew, word, monkeypatch):
    """Every strategy, hyperplanes of all kinds, few items excluded and almost all."""
    monkeypatch.setattr("closecall.core.selection.margin.index.LEAST_BUDGET", 1)
    all_ready(crew, pool, 4)
    alone, helped = (strategy_from(word).fit(one) for one in (pool, pool.with_crew(crew)))
    n = scaled(quick=25, all=60, long=250)
    assert all(same(answer(alone, request), answer(helped, request)) for request in requests(pool, n))
    assert len(crew.ready(pool)) == 4


def test_several_threads_ask_at_once(pool, crew):
    """Sessions share the workers."""
    all_ready(crew, pool, 4)
    alone, helped = (make_strategy("exhaustive").fit(one) for one in (pool, pool.with_crew(crew)))
    asking = requests(pool, 12)
    with ThreadPoolExecutor(12) as threads:
        together = list(threads.map(lambda request: answer(helped, request), asking))
    assert all(same(answer(alone, request), one) for request, one in zip(asking, together, strict=True))


def test_a_dismissed_worker_pauses(pool, crew, monkeypatch):
    """It is soon prepared again, but not asked before the pause is over."""
    monkeypatch.setattr("closecall.core.workers.pauses.SHORTEST_SECONDS", 2.0)
    all_ready(crew, pool, 4)
    worker = crew.ready(pool)[0]
    crew.dismiss(worker, pool, "it has not answered in time")
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        assert worker not in crew.ready(pool)
        time.sleep(0.02)
    all_ready(crew, pool, 4)


def test_a_pool_that_grew_meanwhile(crew, tmp_path):
    """Workers find the new rows by themselves, and still know the old ones."""
    pool = small_pool(tmp_path / "pool", FakeSource(300, 12)).with_crew(crew)
    all_ready(crew, pool, 4)
    small_pool(tmp_path / "pool", FakeSource(700, 12))
    grown = pool.refreshed()
    assert (len(pool), len(grown), grown.crew) == (300, 700, crew)
    for snapshot in (grown, pool, grown):
        alone, helped = (make_strategy("exhaustive").fit(one) for one in (snapshot.with_crew(None), snapshot))
        for request in requests(snapshot, 5):
            assert same(answer(alone, request), answer(helped, request))
    assert len(crew.ready(pool)) == 4


def test_workers_with_another_pool_are_refused(crew, tmp_path, caplog):
    """They are not asked, and the log says why; this process answers alone."""
    path = tmp_path / "pool"
    first = gapped_pool(path, 400)
    all_ready(crew, first, 4)
    shutil.move(path, tmp_path / "aside")
    gapped_pool(path, 400, seed=1)  # what the workers see, while this process has the first one open
    some, request = first.prefix(399), requests(first, 1)[0]  # a snapshot that they have not opened
    alone, helped = (make_strategy("exhaustive").fit(one) for one in (some, some.with_crew(crew)))
    assert same(answer(alone, request), answer(helped, request))
    until(lambda: "it has another pool at" in caplog.text)
    until(lambda: not crew.ready(first))


def test_a_scheduler_that_is_not_there(unused_port):
    """One sentence, with the address."""
    with pytest.raises(
        InputError, match=f"The Dask scheduler at tcp://127.0.0.1:{unused_port} can't be reached"
    ):
        DaskCrew(f"tcp://127.0.0.1:{unused_port}")


@pytest.fixture
def unused_port(monkeypatch) -> int:
    monkeypatch.setattr("closecall.core.workers.dask_crew.CONNECT_SECONDS", 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_workers_are_lost_in_mid_round(byte_pool, number, monkeypatch):
    """No answer is wrong, none is late, and none is incomplete, because others have the same files."""
    monkeypatch.setattr("closecall.core.workers.pauses.SHORTEST_SECONDS", 0.1)
    monkeypatch.setattr("closecall.core.workers.pauses.LONGEST_SECONDS", 0.2)
    alone = make_strategy("exhaustive").fit(byte_pool)
    with cluster(3) as processes:
        crew = DaskCrew(processes.address)
        try:
            all_ready(crew, byte_pool, 3)
            helped = make_strategy("exhaustive").fit(byte_pool.with_crew(crew))
            for times in range(scaled(quick=2, all=8, long=50)):
                victim = next(iter(processes.workers))
                timer = threading.Timer(0.01 * (times % 5), processes.send, (victim, number))
                timer.start()
                asking = requests(byte_pool, 8, first=8 * times)
                for request in asking:
                    begun = time.monotonic()
                    found = answer(helped, request)
                    assert time.monotonic() - begun < LONGEST_SECONDS
                    assert same(answer(alone, request), found)
                timer.join()
                if number == signal.SIGKILL:
                    processes.add(1)
                else:
                    processes.send(victim, signal.SIGCONT)
                all_ready(crew, byte_pool, 3)
        finally:
            crew.close()


def test_all_workers_and_the_scheduler_are_lost(byte_pool):
    """Without them, this process answers alone. A worker that comes later helps."""
    alone = make_strategy("exhaustive").fit(byte_pool)
    with cluster(2) as processes:
        crew = DaskCrew(processes.address)
        try:
            all_ready(crew, byte_pool, 2)
            helped = make_strategy("exhaustive").fit(byte_pool.with_crew(crew))
            for name in list(processes.workers):
                processes.send(name, signal.SIGKILL)
            for request in requests(byte_pool, 4):
                assert same(answer(alone, request), answer(helped, request))
            processes.add(1)
            all_ready(crew, byte_pool, 1)
            processes.scheduler.kill()
            for request in requests(byte_pool, 4):
                begun = time.monotonic()
                assert same(answer(alone, request), answer(helped, request))
                assert time.monotonic() - begun < LONGEST_SECONDS
        finally:
            crew.close()
