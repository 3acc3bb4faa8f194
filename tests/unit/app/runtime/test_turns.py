"""Turns: time is shared fairly, whatever the turns of some take. The clock and the threads are the test's."""

from __future__ import annotations

import heapq
import itertools
import math
import statistics
from collections import Counter
from concurrent.futures import Executor, Future

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closecall.app.runtime.turns import CROWDING_SECONDS, MOST_OWNERS, Turns


class Work:
    """A job of `turns` turns, each of which takes `seconds`."""

    def __init__(self, owner: str, seconds: float, turns: int, error: Exception | None = None) -> None:
        self.owner, self.seconds, self.turns_left, self.error = owner, seconds, turns, error
        self.is_cancelled = False
        self.done_at: float | None = None

    def take_turn(self) -> bool:
        if self.error is not None:
            raise self.error
        self.turns_left -= 1
        return self.turns_left > 0

    def cancel(self) -> None:
        self.is_cancelled = True


class Tickets(Executor):
    """Keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple] = []

    def submit(self, fn, /, *args):
        self.calls.append((fn, args))
        return Future()

    def run(self) -> None:
        while self.calls:
            fn, args = self.calls.pop(0)
            fn(*args)


class Simulation:
    """Workers that take virtual time, and jobs that arrive meanwhile; `log` has when whose turns began."""

    def __init__(self, workers: int) -> None:
        self.now = 0.0
        self.log: list[tuple[float, str]] = []
        self.turns = Turns(workers)
        self._free = workers
        self._number = itertools.count()
        self._coming: list[tuple] = []

    def add(self, work: Work, when: float = 0.0) -> Work:
        """Let a job arrive at a time."""
        heapq.heappush(self._coming, (when, next(self._number), work, None))
        return work

    def run(self, until: float = math.inf) -> None:
        """Let time pass until everything is done, or until a time."""
        while self._coming and self._coming[0][0] <= until:
            self.now, _, work, goes_on = heapq.heappop(self._coming)
            if goes_on is not None:  # the end of a turn
                self._free += 1
                self.turns._record(work, work.seconds)
                work.done_at = self.now
            if goes_on is not False:
                self.turns.enter(work, Tickets())
            while self._free and (begun := self.turns._begin()) is not None:
                self._free -= 1
                self.log.append((self.now, begun.owner))
                end = self.now + begun.seconds, next(self._number), begun, begun.take_turn()
                heapq.heappush(self._coming, end)


def test_equal_turns_go_round():
    """Each session gets its first turn before any gets its second."""
    simulation = Simulation(1)
    for name in "abc":
        simulation.add(Work(name, 1.0, 3))
    simulation.run()
    assert [owner for _, owner in simulation.log] == list("abcabcabc")


def test_time_is_shared_and_not_turns():
    """While the slow one has one turn, each of the others has a hundred."""
    simulation = Simulation(1)
    for name, seconds in (("slow", 1.0), ("a", 0.01), ("b", 0.01)):
        simulation.add(Work(name, seconds, 10_000))
    simulation.run(until=30.0)
    used = Counter(owner for _, owner in simulation.log)
    assert used["slow"] == pytest.approx(10, abs=2)
    assert used["a"] == pytest.approx(1000, abs=110)
    assert used["b"] == pytest.approx(1000, abs=110)


def test_a_newcomer_gets_no_credit_for_the_time_before():
    """Somebody who comes late waits as long as everybody else, and holds nobody up."""
    simulation = Simulation(1)
    simulation.add(Work("a", 1.0, 100))
    simulation.add(Work("b", 1.0, 10), when=20.5)
    simulation.run(until=60.0)
    owners = [owner for when, owner in simulation.log if 21 <= when < 39]
    assert owners == list("ba" * 9)


def test_nobody_waits_longer_because_one_has_a_slow_strategy():
    """Look-aheads of a fast session, every 0.7 s, beside one whose selections take 0.5 s: two workers."""

    def waits(*slow: float) -> list[float]:
        simulation = Simulation(2)
        begun = [(0.7 * n, simulation.add(Work("fast", 0.01, 3), 0.7 * n)) for n in range(60)]
        for number, seconds in enumerate(slow):
            for n in range(20):
                simulation.add(Work(f"slow {number}", seconds, 3), 2.0 * n + number)
        simulation.run()
        return [work.done_at - when for when, work in begun]

    assert max(waits(0.5)) == pytest.approx(max(waits())) == pytest.approx(0.03)
    # Where as many are slow as there are workers, it may have to wait for the end of a turn.
    assert statistics.median(waits(0.5, 0.5)) <= 0.25


def test_a_session_that_leaves_gets_no_turn_and_holds_up_nobody():
    """Its place is gone at once."""
    turns, tickets = Turns(1), Tickets()
    gone, stays = Work("a", 1.0, 3), Work("b", 1.0, 1)
    turns.enter(gone, tickets)
    turns.enter(stays, tickets)
    assert turns.n_waiting == 4
    assert turns.leave(gone)
    assert not turns.leave(gone)
    assert turns.n_waiting == 1
    tickets.run()
    assert (gone.turns_left, stays.turns_left, turns.n_waiting) == (3, 0, 0)


def test_an_error_ends_one_job_only():
    """The executor hears of it."""
    turns, tickets = Turns(1), Tickets()
    bad, good = Work("a", 1.0, 2, ValueError("full")), Work("b", 1.0, 2)
    turns.enter(bad, tickets)
    turns.enter(good, tickets)
    with pytest.raises(ValueError, match="full"):
        tickets.run()
    tickets.run()
    assert (bad.turns_left, good.turns_left, turns.n_waiting) == (2, 0, 0)


def test_a_job_whose_executor_is_shut_down_is_cancelled():
    """Nobody waits for it for ever."""

    class Closed(Executor):
        def submit(self, *_):
            raise RuntimeError("cannot schedule new futures after shutdown")

    turns, work = Turns(1), Work("a", 1.0, 2)
    turns.enter(work, Tickets())
    turns._take_next(Closed())
    assert work.is_cancelled
    assert turns.n_waiting == 0


def known(**seconds: float) -> Turns:
    """Turns on two cores, and what those of each owner took."""
    turns = Turns(2)
    for owner, each in seconds.items():
        turns._record(Work(owner, each, 1), each)
    return turns


def test_the_delay_is_the_work_of_the_others_but_no_more_than_ones_own():
    """As many times that as there are others, divided by the cores; a slow one delays by no more."""
    turns = known(a=0.04, b=0.04, c=0.04, d=0.04, slow=1.0)
    assert turns.delay("a", 3) == 0
    for name in "bcd":
        turns.enter(Work(name, 0.04, 3), Tickets())
    assert turns.delay("a", 3) == pytest.approx(3 * 3 * 0.04 / 2)
    assert turns.delay("b", 3) == pytest.approx(2 * 3 * 0.04 / 2)
    turns.enter(Work("slow", 1.0, 3), Tickets())
    assert turns.delay("a", 3) == pytest.approx(4 * 3 * 0.04 / 2)
    assert turns.delay("slow", 3) == pytest.approx(3 * 3 * 0.04 / 2)
    with turns.serving("e"):  # of whom nothing is known yet: the mean of all, at most one's own
        assert turns.delay("a", 3) == pytest.approx(5 * 3 * 0.04 / 2)
    assert turns.delay("a", 3) == pytest.approx(4 * 3 * 0.04 / 2)


def test_a_turn_may_take_as_long_as_the_shortest_that_others_wait_for():
    """A session with short turns needn't stand in line again for each of them behind long ones."""
    turns = known(a=0.01, b=0.04, slow=1.0)
    assert turns.patience("a") == math.inf
    turns.enter(Work("a", 0.01, 3), Tickets())
    assert turns.patience("a") == math.inf
    turns.enter(Work("slow", 1.0, 3), Tickets())
    assert turns.patience("a") == 1.0
    assert turns.patience("slow") == 0.01
    turns.enter(Work("b", 0.04, 3), Tickets())
    assert turns.patience("a") == 0.04


def test_a_person_who_is_served_counts_as_one_turn():
    """Once, and only for the others."""
    turns = known(a=0.04, b=0.04)
    with turns.serving("b"):
        assert turns.delay("a", 3) == pytest.approx(0.04 / 2)
        assert turns.delay("b", 3) == 0
    assert turns.delay("a", 3) == 0


def test_crowding_is_how_many_are_served_beside_another():
    """In the mean of some seconds, per core; somebody alone crowds nobody, however long it takes."""
    now = 0.0
    turns = Turns(2, clock=lambda: now)
    with turns.serving("a"):
        now += 100
        assert turns.crowding == 0
        with turns.serving("b"), turns.serving("b"), turns.serving("c"):
            now += CROWDING_SECONDS
            assert turns.crowding == pytest.approx((1 - math.exp(-1)) * 2 / 2)
            now += 100
            assert turns.crowding == pytest.approx(1)
        now += CROWDING_SECONDS
        assert turns.crowding == pytest.approx(math.exp(-1))
    now += 100
    assert turns.crowding == pytest.approx(0)


def test_a_single_turn_that_took_long_changes_no_expectation():
    """The first training of a server loads code; that says nothing about the second."""
    turns = Turns(1)
    for seconds in (0.01, 0.01, 60.0, 0.01):
        turns._record(Work("a", seconds, 1), seconds)
    assert turns.seconds("a") == pytest.approx(0.01)
    assert Turns(1).seconds("a") == 0


def test_a_turn_that_did_the_work_of_several_took_less_for_each():
    """Otherwise a server whose sessions needn't take turns would look busy."""
    now = iter((0.0, 0.06, 1.0, 1.02))
    turns, tickets = Turns(1, clock=lambda: next(now)), Tickets()

    class AtOnce(Work):
        def take_turn(self) -> bool:
            self.turns_left = 0
            return False

    turns.enter(AtOnce("a", 0.06, 3), tickets)
    turns.enter(Work("b", 0.02, 1), tickets)
    tickets.run()
    assert [turns.seconds("a"), turns.seconds("b")] == pytest.approx([0.02, 0.02])
    assert turns._owners["a"].finished == pytest.approx(0.06)  # its share of time is what it took


def test_only_recent_owners_are_remembered():
    """A server that runs for a year does not grow."""
    turns, tickets = Turns(1), Tickets()
    for number in range(MOST_OWNERS + 50):
        turns.enter(Work(f"s{number}", 0.01, 1), tickets)
        tickets.run()
    assert len(turns._owners) == MOST_OWNERS


@given(
    jobs=st.lists(
        st.tuples(st.integers(0, 5), st.floats(0.001, 2.0), st.integers(1, 6), st.floats(0, 5)), min_size=1
    ),
    workers=st.integers(1, 3),
)
def test_every_job_gets_all_its_turns_and_none_more(jobs, workers):
    """Whatever comes when."""
    simulation, expected = Simulation(workers), Counter()
    for owner, seconds, turns, when in jobs:
        expected[f"s{owner}"] += turns
        simulation.add(Work(f"s{owner}", seconds, turns), when)
    simulation.run()
    assert Counter(owner for _, owner in simulation.log) == expected
    assert simulation.turns.n_waiting == 0


def test_of_those_that_wait_all_along_none_falls_behind():
    """The bound of start-time fair queueing: times differ by at most one turn of each (theorem 1)."""
    for seconds in itertools.product((0.02, 0.3, 1.0), repeat=3):
        simulation, used = Simulation(1), dict.fromkeys("abc", 0.0)
        for name, each in zip("abc", seconds, strict=True):
            simulation.add(Work(name, each, 10_000))
        simulation.run(until=40.0)
        for _, owner in simulation.log:
            used[owner] += seconds["abc".index(owner)]
        assert max(used.values()) - min(used.values()) <= 2 * max(seconds) + 1e-9
