"""What is kept fitted in the background, and the thread that watches."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from closecall.app.runtime.background import AbandonedError, ClosedError, Fitting, Troubles, Watch, Workers
from closecall.core.errors import InputError


class Fit:
    """Notes the data that it is called with, waits for its gate, and fails with some of them."""

    def __init__(self, **failures: Exception):
        self.seen, self.failures = [], failures
        self.started, self.gate = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, data: str) -> None:
        self.seen.append(data)
        self.started.set()
        assert self.gate.wait(10)
        if data in self.failures:
            raise self.failures[data]


@pytest.fixture
def troubles() -> Troubles:
    return Troubles()


@pytest.fixture
def workers(troubles) -> Iterator[Workers]:
    with Workers(1, "test", "Fitting", troubles) as workers:
        yield workers


def ask(fitting: Fitting, workers: Workers, fit: Fit, data: str) -> None:
    fitting.request(workers, "It can't be fitted", data, fit, data)


def test_the_newest_request_supersedes_one_that_waits(workers):
    """The one under way ends first; nobody needs those between."""
    fitting, fit = Fitting(), Fit()
    fit.gate.clear()
    for data in "abc":
        ask(fitting, workers, fit, data)
        assert fit.started.wait(10)
    assert fitting.is_under_way
    assert not fitting.wait(0)
    fit.gate.set()
    assert fitting.wait(10)
    assert fit.seen == ["a", "c"]


def test_an_abandoned_attempt_leaves_no_trace(workers, troubles, caplog):
    """It is no failure, requests that came meanwhile follow, and the same data are tried again."""
    fitting, fit = Fitting(), Fit(a=AbandonedError())
    fit.gate.clear()
    ask(fitting, workers, fit, "a")
    assert fit.started.wait(10)
    ask(fitting, workers, fit, "b")
    fit.gate.set()
    assert fitting.wait(10)
    ask(fitting, workers, fit, "a")
    assert fitting.wait(10)
    assert fit.seen == ["a", "b", "a"]
    assert (fitting.failure, fitting.share, fitting.is_under_way) == (None, 0, False)
    assert troubles.first is None
    assert caplog.text == ""


@pytest.mark.parametrize("error", [ZeroDivisionError("too few"), InputError("too few"), MemoryError()])
def test_a_failure_stays_until_other_data_succeed(workers, troubles, caplog, error):
    """Whatever is raised is logged and said, and the thread goes on; the same data are not tried again."""
    fitting, fit = Fitting(), Fit(few=error, some=ValueError("still too few"))
    said = f"It can't be fitted: {error or type(error).__name__}"
    for _ in range(3):
        ask(fitting, workers, fit, "few")
        assert fitting.wait(10)
        assert fitting.failure == said
    assert caplog.text.count(said) == 1
    assert ("Traceback" in caplog.text) is not isinstance(error, InputError)
    ask(fitting, workers, fit, "some")
    assert fitting.wait(10)
    assert fitting.failure == "It can't be fitted: still too few"
    ask(fitting, workers, fit, "many")
    assert fitting.wait(10)
    assert fitting.failure is None
    assert fit.seen == ["few", "some", "many"]
    assert troubles.first is None


def test_a_failure_is_said_while_other_data_are_tried(workers):
    """It may fail again: until it does not, nothing is better than before."""
    fitting, fit = Fitting(), Fit(few=ZeroDivisionError("too few"))
    ask(fitting, workers, fit, "few")
    assert fitting.wait(10)
    fit.gate.clear()
    fit.started.clear()
    ask(fitting, workers, fit, "many")
    assert fit.started.wait(10)
    assert fitting.failure == "It can't be fitted: too few"
    fit.gate.set()
    assert fitting.wait(10)
    assert fitting.failure is None


def test_a_request_for_data_that_failed_drops_one_that_waits(workers):
    """The newest request is for what can't be fitted: nothing is to be done."""
    fitting, fit = Fitting(), Fit(few=ZeroDivisionError("too few"))
    other = Fit()
    other.gate.clear()
    ask(fitting, workers, fit, "few")
    assert fitting.wait(10)
    ask(Fitting(), workers, other, "busy")
    ask(fitting, workers, fit, "many")
    ask(fitting, workers, fit, "few")
    other.gate.set()
    assert fitting.wait(10)
    assert fit.seen == ["few"]


def test_an_attempt_without_workers_has_the_same_memory():
    """A thread that watches fits by itself."""
    fitting, fit = Fitting(share=0.5), Fit(few=ZeroDivisionError("too few"))
    for data in ("few", "few", "many", "many"):
        fitting.attempt("It can't be fitted", data, fit, data)
    assert fit.seen == ["few", "many", "many"]
    assert (fitting.failure, fitting.share) == (None, 0.0)


def test_closing_gives_up_what_is_under_way_and_what_waits(troubles, caplog):
    """It waits for the thread; neither is a failure, and what was fitted is no longer referred to."""
    workers = Workers(1, "test", "Fitting", troubles)
    busy, waiting, fit = Fitting(), Fitting(), Fit()
    started = threading.Event()

    def go_on_for_ever() -> None:
        started.set()
        while True:
            workers.go_on()

    busy.request(workers, "It can't be fitted", 1, go_on_for_ever)
    assert started.wait(10)
    ask(waiting, workers, fit, "later")
    workers.shutdown(cancel_futures=True)
    assert fit.seen == []
    assert (busy.failure, waiting.failure, troubles.first) == (None, None, None)
    assert caplog.text == ""


class Owner:
    """Notes when its watch calls it."""

    def __init__(self, seconds: float = 1000):
        self.n_calls, self.called = 0, threading.Event()
        self.watch = Watch("test", self.work, seconds)

    def work(self) -> None:
        self.n_calls += 1
        self.called.set()


def test_a_watch_works_at_intervals_and_when_it_is_woken():
    """It waits first, and work that was given up does not end it."""
    regular, woken = Owner(0.001), Owner()
    for one in (regular, woken):
        one.watch.start()
    assert woken.n_calls == 0
    for one in (regular, woken):
        for _ in range(3):
            one.called.clear()
            if one is woken:
                one.watch.wake()
            assert one.called.wait(10)
        one.watch.close()
    assert woken.n_calls == 3


def test_a_watch_is_closed_while_its_work_goes_on():
    """The work is given up, and does not begin again."""
    started, ended = threading.Event(), []

    def go_on_for_ever() -> None:
        started.set()
        try:
            while True:
                watch.go_on()
        except ClosedError:
            ended.append(True)
            raise

    watch = Watch("test", go_on_for_ever, 0)
    watch.start()
    assert started.wait(10)
    watch.close()
    assert not watch.is_alive()
    assert ended == [True]


def test_a_closed_watch_does_not_keep_its_owner():
    """Projects are freed when they are closed, without a collection of garbage."""
    owner = Owner()
    owner.watch.start()
    owner.watch.close()
    gone = weakref.ref(owner)
    gc.disable()
    try:
        del owner
        assert gone() is None
    finally:
        gc.enable()
