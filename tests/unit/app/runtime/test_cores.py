"""Cores: people who wait come first, and wait for nothing that is done in advance."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from itertools import pairwise

import pytest

from closecall.app.runtime import cores as cores_module
from closecall.app.runtime.cores import Cores, a_core, computing_seconds, in_gaps


class Holder(threading.Thread):
    """Holds a core from when it gets one until it has to end."""

    def __init__(self, cores: Cores, *, in_advance: bool) -> None:
        super().__init__(daemon=True)
        self._cores, self._in_advance = cores, in_advance
        self.has, self._over = threading.Event(), threading.Event()
        self.start()

    def run(self) -> None:
        with self._cores.held(in_advance=self._in_advance):
            self.has.set()
            self._over.wait(600)

    def end(self) -> None:
        self._over.set()
        self.join(60)


class Interrupted(threading.Event):
    """An event for which one waits in vain."""

    def __init__(self, interrupted: Callable[[threading.Event], None]) -> None:
        super().__init__()
        self._interrupted = interrupted

    def wait(self, timeout: float | None = None) -> bool:  # noqa: ARG002 (as `threading.Event` has it)
        self._interrupted(self)
        return False


def waits(holder: Holder) -> bool:
    """Whether it has no core yet, and none within a moment."""
    return not holder.has.wait(0.05)


def test_a_person_gets_a_core_although_work_in_advance_holds_them_all():
    """However long that takes."""
    cores = Cores(2)
    ahead = [Holder(cores, in_advance=True) for _ in range(3)]
    assert ahead[0].has.wait(20)
    assert ahead[1].has.wait(20)
    assert waits(ahead[2])
    people = [Holder(cores, in_advance=False) for _ in range(3)]
    assert people[0].has.wait(20)
    assert people[1].has.wait(20)
    assert waits(people[2])
    ahead[0].end()
    ahead[1].end()
    assert waits(ahead[2])  # people hold both cores, and one more waits
    people[0].end()
    assert people[2].has.wait(20)
    assert waits(ahead[2])
    people[1].end()
    assert ahead[2].has.wait(20)
    for holder in (people[2], ahead[2]):
        holder.end()


def test_people_get_cores_in_the_order_in_which_they_came():
    """Nobody is overtaken, and nobody who comes later takes a core that others wait for."""
    cores = Cores(1)
    people = [Holder(cores, in_advance=False)]
    assert people[0].has.wait(20)
    for n in range(1, 5):
        people.append(Holder(cores, in_advance=False))
        while len(cores._waiting) < n:
            time.sleep(0.001)
    for before, after in pairwise(people):
        assert all(map(waits, people[people.index(after) :]))
        before.end()
        assert after.has.wait(20)
    people[-1].end()
    with cores.held():
        pass


@pytest.mark.parametrize("is_handed_over", [False, True])
def test_who_stops_waiting_leaves_the_line(monkeypatch, is_handed_over):
    """Ctrl+C may come while a person waits, or just when a core is handed over."""
    cores = Cores(1)
    holder = Holder(cores, in_advance=False)
    assert holder.has.wait(20)

    def interrupted(event: threading.Event) -> None:
        if is_handed_over:
            holder.end()
        assert event.is_set() == is_handed_over
        raise KeyboardInterrupt

    with monkeypatch.context() as then:
        then.setattr(cores_module.threading, "Event", lambda: Interrupted(interrupted))
        with pytest.raises(KeyboardInterrupt), cores.held():
            pass
    holder.end()
    assert (cores._of_people, len(cores._waiting)) == (0, 0)


def test_work_in_advance_goes_on_where_a_core_is_free():
    """One person does not stop all of it."""
    cores = Cores(2)
    person, first, second = (Holder(cores, in_advance=in_advance) for in_advance in (False, True, True))
    assert person.has.wait(20)
    got = next(one for one in (first, second) if one.has.wait(1))
    other = second if got is first else first
    assert waits(other)
    got.end()
    assert other.has.wait(20)
    person.end()
    other.end()


def test_nested_blocks_share_a_core_and_an_error_gives_it_back(monkeypatch):
    """A training within a turn needs no second core."""
    cores = Cores(1)
    monkeypatch.setattr(cores_module, "_CORES", cores)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), a_core(in_advance=True), a_core(), a_core(in_advance=True):
            raise ZeroDivisionError
    with a_core():
        pass


@pytest.mark.parametrize("is_patient", [True, False])
def test_a_long_computation_waits_for_a_gap_before_each_part(monkeypatch, is_patient):
    """Until nobody computes any more, or until its patience ends; it holds no core between its parts."""
    cores = Cores(1)
    monkeypatch.setattr(cores_module, "_CORES", cores)
    monkeypatch.setattr(cores_module, "GAP_SECONDS", 600 if is_patient else 0.01)
    parts = in_gaps(iter("abc"))
    assert next(parts) == "a"
    person, found = Holder(cores, in_advance=False), []
    assert person.has.wait(20)
    rest = threading.Thread(target=lambda: found.extend(parts), daemon=True)
    rest.start()
    rest.join(0.05 if is_patient else 60)
    assert rest.is_alive() == is_patient
    assert found == ([] if is_patient else ["b", "c"])
    person.end()
    rest.join(60)
    assert found == ["b", "c"]


def test_processor_time_in_blocks_is_counted_once_and_waiting_is_not():
    """Nested blocks are one; a pause takes no processor time."""

    def work(seconds: float) -> None:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass

    before = computing_seconds()
    with a_core():
        work(0.1)
        with a_core(in_advance=True):
            work(0.1)
        time.sleep(0.2)
    work(0.1)
    assert 0.2 <= computing_seconds() - before < 0.3
