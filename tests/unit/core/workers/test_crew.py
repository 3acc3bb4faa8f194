"""A crew answers like one process, whatever its workers do, or it says that the answer is incomplete."""

from __future__ import annotations

import time
from concurrent.futures import wait
from itertools import chain

import numpy as np
import pytest

from closecall.core.selection import SearchIncomplete, make_strategy, strategy_from
from closecall.core.workers.crew import shared_out
from closecall.core.workers.pauses import Pauses
from closecall.core.workers.worker import Snapshot, searched_here
from tests.crews import ThreadCrew
from tests.scale import scaled
from tests.unit.core.workers.kit import DIVIDED, answer, is_divided, requests, same

CREWS = {
    "one": {"a": "works"},
    "five": dict.fromkeys("abcde", "works"),
    "one dies": {"a": "works", "b": "dies", "c": "works"},
    "all die": dict.fromkeys("abc", "dies"),
    "nobody": {},
}


@pytest.fixture(autouse=True)
def _small_budgets(monkeypatch):
    monkeypatch.setattr("closecall.core.selection.margin.index.LEAST_BUDGET", 1)


@pytest.mark.parametrize("word", DIVIDED)
@pytest.mark.parametrize("ways", CREWS)
def test_the_answer_is_that_of_one_process(pool, word, ways):
    """Whatever the number of workers is, and how many of them fail."""
    alone = strategy_from(word).fit(pool)
    crew = ThreadCrew(CREWS[ways])
    helped = strategy_from(word).fit(pool.with_crew(crew))
    for request in requests(pool, scaled(quick=20, all=100)):
        crew.dismissed.clear()
        assert same(answer(alone, request), answer(helped, request))
    assert bool(crew.asked) == (is_divided(pool, word) and bool(CREWS[ways]))


def test_a_failed_workers_segments_go_to_the_others(pool):
    """They are asked for what is missing, and for nothing else; the failed one is dismissed with a reason."""
    crew = ThreadCrew({"a": "works", "b": "dies", "c": "works"})
    strategy = make_strategy("exhaustive").fit(pool.with_crew(crew))
    answer(strategy, requests(pool, 1)[0])
    assert crew.dismissed == {"b": "it is gone"}
    everything = range(len(pool.segment_starts))
    (lost,) = [own for worker, own in crew.asked if worker == "b"]
    assert sorted(chain.from_iterable(own for _, own in crew.asked[3:])) == sorted(lost)
    assert sorted(chain.from_iterable(own for _, own in crew.asked[:3])) == list(everything)


def test_a_hanging_worker_costs_part_of_the_time_once(pool):
    """The answer is whole, and the next one does not wait for it."""
    crew = ThreadCrew({"a": "works", "b": "hangs", "c": "works"}, seconds=5.0)
    alone, helped = (make_strategy("exhaustive").fit(one) for one in (pool, pool.with_crew(crew)))
    first, second = requests(pool, 2)
    started = time.monotonic()
    assert same(answer(alone, first), answer(helped, first))
    assert 2.0 <= time.monotonic() - started < 5.0
    assert crew.dismissed == {"b": "it has not answered in time"}
    assert same(answer(alone, second), answer(helped, second))
    assert "b" not in [worker for worker, _ in crew.asked[5:]]


def test_a_slow_worker_is_asked_again_after_longer_and_longer_pauses(pool):
    """It works, so it is soon ready; but searches must not wait for it again and again."""
    now = 1000.0
    crew = ThreadCrew({"a": "works", "b": "slow", "c": "works"}, seconds=1.0)
    crew.pauses = Pauses(lambda: now)
    helped = make_strategy("exhaustive").fit(pool.with_crew(crew))
    (request,) = requests(pool, 1)

    def times_asked(n_searches: int) -> int:
        crew.asked.clear()
        for _ in range(n_searches):
            answer(helped, request)
        return [worker for worker, _ in crew.asked].count("b")

    assert times_asked(3) == 1
    for seconds in (5, 10, 20):
        now += seconds - 0.1
        assert times_asked(2) == 0
        now += 0.2
        assert times_asked(3) == 1
    now += 41
    crew.ways["b"], crew.seconds = "works", 60.0
    assert times_asked(3) == 2
    crew.ways["b"], crew.seconds = "slow", 1.0
    assert times_asked(2) == 1
    now += 5.1
    assert times_asked(3) == 1


def test_pauses_double_up_to_the_longest():
    """Each worker has its own; a worker that is not known any more begins with the shortest."""
    now = 0.0
    pauses: Pauses[str] = Pauses(lambda: now)
    for seconds in (5, 10, 20, 40, 80, 160, 300, 300):
        pauses.begin("a")
        now += seconds - 0.01
        assert not pauses.is_over("a")
        assert pauses.is_over("b")
        now += 0.02
        assert pauses.is_over("a")
    pauses.repeat("b")
    pauses.keep_if(lambda key: key == "b")
    pauses.begin("a")
    now += 4.9
    assert not pauses.is_over("a")
    assert not pauses.is_over("b")
    now += 0.2
    assert pauses.is_over("a")
    assert pauses.is_over("b")


def test_a_late_answer_is_not_waited_for(pool):
    """A worker that answers after the time counts as one that hangs."""
    crew = ThreadCrew({"a": 8.0}, seconds=15.0)
    helped = make_strategy("exhaustive").fit(pool.with_crew(crew))
    found = answer(helped, requests(pool, 1)[0])
    assert (found.missing, found.scored) == (0, len(pool))
    assert found.seconds < 8.0
    assert list(crew.dismissed) == ["a"]


@pytest.mark.parametrize("word", DIVIDED)
def test_an_incomplete_answer_says_so(pool, word, monkeypatch):
    """It is right for the segments that were searched, and says how many rows it lacks."""
    if not is_divided(pool, word):
        pytest.skip("such an index is searched in one process")
    crew = ThreadCrew({"a": "works", "b": "hangs", "c": "works"}, seconds=-1.0)

    def wait_for_those_that_work(asked, timeout):
        wait([future for future in asked if future not in crew.hanging])

    monkeypatch.setattr("closecall.core.workers.crew.wait", wait_for_those_that_work)
    monkeypatch.setattr("closecall.core.workers.crew.TURNS", (1.0,))  # no time is left for this process
    helped = strategy_from(word).fit(pool.with_crew(crew))
    whole = strategy_from(word).fit(pool)
    n_incomplete, asking = 0, requests(pool, 8, first=27)  # positives are rare
    for request in asking:
        crew.dismissed.clear()
        try:
            found = answer(helped, request)
        except SearchIncomplete:
            n_incomplete += 1
            continue
        if found.missing:
            n_incomplete += 1
            assert found.missing < len(pool)
        else:  # none of the rows was in the segments of the worker that hangs
            assert same(found, answer(whole, request))
    assert n_incomplete >= (1 if word in ("mixture", "auto") else len(asking) // 2)


def test_if_nothing_is_found_in_time_the_pool_is_not_exhausted(pool, monkeypatch):
    """There may be items left."""
    clock = iter(np.arange(10**6) * 100.0)
    monkeypatch.setattr("closecall.core.workers.crew.monotonic", lambda: next(clock))
    helped = make_strategy("exhaustive").fit(pool.with_crew(ThreadCrew({})))
    with pytest.raises(SearchIncomplete, match="Workers did not answer in time, so nothing was found"):
        answer(helped, requests(pool, 1)[0])


def test_snapshots_and_growth_keep_the_crew(pool):
    """A strategy that covers the first rows is searched in these rows only."""
    crew = ThreadCrew({"a": "works", "b": "works"})
    helped = pool.with_crew(crew)
    assert helped.prefix(700).crew is crew
    assert helped.refreshed().crew is crew
    for n_rows in (1, 99, 700, len(pool) - 1):
        alone = make_strategy("exhaustive").fit(pool.prefix(n_rows))
        some = make_strategy("exhaustive").fit(helped.prefix(n_rows))
        request = requests(pool, 1)[0]
        assert same(answer(alone, request), answer(some, request))
    assert crew.asked


def test_other_processors_may_add_in_another_order(pool, monkeypatch):
    """The margins are this process's own, and rows that are equal for it go by their ids."""
    request = requests(pool, 1)[0]
    monkeypatch.setattr("tests.crews.searched_here", _rounded_otherwise)
    for word in ("exhaustive", "likely-positive", "subsample"):
        alone, helped = (
            strategy_from(word).fit(one) for one in (pool, pool.with_crew(ThreadCrew({"a": "works"})))
        )
        assert same(answer(alone, request), answer(helped, request))


def _rounded_otherwise(snapshot: Snapshot, search, segments: list[int]):
    def noisy(found):
        if isinstance(found, list):
            return [noisy(one) for one in found]
        rows, keys = found
        return rows, keys * (1 + 1e-15)

    return noisy(searched_here(snapshot, search, segments))


@pytest.mark.parametrize("n_workers", [1, 2, 3, 7, 60])
def test_segments_are_shared_out_evenly_and_stay(n_workers):
    """Each has its part, within one; if a worker is lost, most others keep what they had."""
    segments = tuple(range(50))
    workers = tuple(f"tcp://10.0.0.{number}:4000" for number in range(n_workers))
    shares = shared_out(segments, workers)
    assert sorted(chain.from_iterable(shares.values())) == list(segments)
    assert max(map(len, shares.values())) <= -(-50 // n_workers)
    assert shares == shared_out(segments, workers)
    if 1 < n_workers < 10:
        lost, *rest = workers
        after = shared_out(segments, tuple(rest))
        stayed = sum(len(set(shares[worker]) & set(after[worker])) for worker in rest)
        assert stayed >= 0.6 * (50 - len(shares[lost]))
    assert shared_out(segments, ()) == {}
