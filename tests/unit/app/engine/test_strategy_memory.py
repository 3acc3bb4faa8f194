from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from closecall.app.engine import strategy_memory as memories
from closecall.app.engine.strategy_memory import Memories
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import Choice, QueryStrategy
from tests.contract.kit import gaussian_pool
from tests.waiting import until

SLOW, FAST = 1.0, 0.001


class Mindful(QueryStrategy):
    """Remembers a hyperplane by its digest, when it is let; tells of each pass what it was asked."""

    name = "mindful"

    def __init__(self) -> None:
        super().__init__()
        self.passes: list[list[str]] = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def choose(self, _):
        return Choice.nothing()

    def remember(self, hyperplanes):
        self.passes.append([plane.digest for plane in hyperplanes])
        assert self.may_go_on.wait(60)
        return [f"of {plane.digest}" for plane in hyperplanes]


class Forgetful(Mindful):
    """Fails, or has no use for memory."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    def remember(self, hyperplanes):
        super().remember(hyperplanes)
        if self.error:
            raise self.error
        return [None for _ in hyperplanes]


@pytest.fixture
def kept() -> Iterator[Memories]:
    made = Memories()
    yield made
    made.close()


def fitted(kind: type[QueryStrategy] = Mindful, *args: object) -> QueryStrategy:
    return kind(*args).fit(gaussian_pool(20))


def plane(number: int) -> Hyperplane:
    return Hyperplane(np.arange(1, 5.0), float(number))


def digests(*numbers: int) -> list[str]:
    return [plane(number).digest for number in numbers]


def test_a_slow_selection_is_remembered_in_the_background(kept):
    """The session finds the memory of its hyperplane when it is there, and nothing before."""
    index = fitted()
    index.may_go_on.clear()
    assert kept.newest("ada", index) is None
    kept.offer("ada", index, plane(1), SLOW)
    until(lambda: index.passes)
    assert kept.newest("ada", index) is None
    index.may_go_on.set()
    until(lambda: kept.newest("ada", index))
    found = kept.newest("ada", index)
    assert (found.digest, found.memory) == (plane(1).digest, f"of {plane(1).digest}")
    assert kept.newest("bob", index) is None


def test_a_selection_within_a_frame_is_not(kept):
    """It neither costs a pass nor leaves an older hyperplane waiting; what is remembered stays."""
    index = fitted()
    kept.offer("ada", index, plane(1), SLOW)
    until(lambda: kept.newest("ada", index))
    index.may_go_on.clear()
    kept.offer("bob", index, plane(2), SLOW)
    until(lambda: len(index.passes) == 2)
    kept.offer("ada", index, plane(3), SLOW)
    kept.offer("ada", index, plane(4), FAST)
    index.may_go_on.set()
    until(lambda: kept.newest("bob", index))
    assert index.passes == [digests(1), digests(2)]
    assert kept.newest("ada", index).digest == plane(1).digest


def test_one_pass_remembers_for_all_sessions_that_wait(kept):
    """While a pass is under way the others queue up, each with its newest hyperplane, and share the next."""
    index = fitted()
    index.may_go_on.clear()
    kept.offer("ada", index, plane(1), SLOW)
    until(lambda: index.passes)
    for session, number in [("bob", 2), ("cyd", 3), ("bob", 4), ("ada", 5)]:
        kept.offer(session, index, plane(number), SLOW)
    index.may_go_on.set()
    until(lambda: len(kept.sessions) == 3 and kept.newest("ada", index).digest == plane(5).digest)
    assert index.passes == [digests(1), digests(3, 4, 5)]


def test_each_pass_is_over_one_index(kept):
    """Sessions at different indexes do not meet in a pass."""
    one, other = fitted(), fitted()
    one.may_go_on.clear()
    kept.offer("ada", one, plane(1), SLOW)
    until(lambda: one.passes)
    for session, index in [("bob", other), ("cyd", one), ("dan", other)]:
        kept.offer(session, index, plane(2), SLOW)
    one.may_go_on.set()
    until(lambda: len(kept.sessions) == 4)
    assert (one.passes, other.passes) == ([digests(1), digests(2)], [digests(2, 2)])


def test_what_is_of_another_index_is_forgotten(kept):
    """A memory holds for the very index that gave it, and goes with it."""
    index, successor = fitted(), fitted()
    kept.offer("ada", index, plane(1), SLOW)
    until(lambda: kept.newest("ada", index))
    assert kept.newest("ada", successor) is None
    assert kept.newest("ada", index) is None
    assert kept.sessions == []


def test_memories_go_with_their_index(kept, monkeypatch):
    """Where nobody asks any more, an index that was replaced is not kept alive, nor what was remembered."""
    monkeypatch.setattr(memories, "TIDY_SECONDS", 0.01)
    index = fitted()
    kept.offer("ada", index, plane(1), SLOW)
    until(lambda: kept.sessions)
    index = None
    gc.collect()
    kept.offer("bob", fitted(Forgetful), plane(2), SLOW)
    until(lambda: not kept.sessions)


def test_memories_go_with_their_session(kept, monkeypatch):
    """Who has not selected for long is taken to be gone."""
    monkeypatch.setattr(memories, "TIDY_SECONDS", 0.01)
    index = fitted()
    kept.offer("ada", index, plane(1), SLOW)
    until(lambda: kept.sessions)
    monkeypatch.setattr(memories, "KEPT_SECONDS", 0)
    kept.offer("bob", fitted(Forgetful), plane(2), SLOW)
    until(lambda: not kept.sessions)


def test_there_is_room_for_a_number_of_memories(kept, monkeypatch):
    """What was used longest ago makes room; nor does a pass take more sessions than can be kept."""
    index = fitted()
    monkeypatch.setattr(memories, "MOST_BYTES", 3 * memories.BYTES_A_ROW * index.n_items)
    for number, session in enumerate(["ada", "bob", "cyd"]):
        kept.offer(session, index, plane(number), SLOW)
        until(lambda session=session: kept.newest(session, index))
    kept.newest("ada", index)
    kept.offer("dan", index, plane(4), SLOW)
    until(lambda: kept.newest("dan", index))
    assert kept.sessions == ["cyd", "ada", "dan"]
    assert kept.n_bytes == memories.MOST_BYTES
    index.may_go_on.clear()
    kept.offer("ada", index, plane(5), SLOW)
    until(lambda: len(index.passes) == 5)
    for number, session in enumerate("abcde"):
        kept.offer(session, index, plane(number), SLOW)
    index.may_go_on.set()
    until(lambda: len(index.passes) == 7)
    assert [len(asked) for asked in index.passes[5:]] == [3, 2]


@pytest.mark.parametrize(
    "error", [None, InputError("gone"), OSError("no disk"), MemoryError(), RuntimeError("odd")]
)
def test_sessions_go_on_without_memory(kept, error):
    """A strategy without use for memory, or one that fails, harms nobody."""
    without, index = fitted(Forgetful, error), fitted()
    kept.offer("ada", without, plane(1), SLOW)
    until(lambda: without.passes)
    kept.offer("bob", index, plane(2), SLOW)
    until(lambda: kept.newest("bob", index))
    assert kept.newest("ada", without) is None


def test_what_went_wrong_is_said_until_a_pass_succeeds(kept, caplog):
    """With its traceback in the server's log."""
    failing, index = fitted(Forgetful, RuntimeError("odd")), fitted()
    kept.offer("ada", failing, plane(1), SLOW)
    until(lambda: kept.problem)
    assert kept.problem.endswith("failed: RuntimeError: odd")
    until(lambda: "Traceback" in caplog.text)  # it is logged after that
    kept.offer("bob", index, plane(2), SLOW)
    until(lambda: kept.problem is None)
