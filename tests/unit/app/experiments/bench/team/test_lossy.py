from __future__ import annotations

import asyncio
import random

import pytest

from closecall.app.experiments.bench.team.lossy import LATE_SECONDS, TROUBLES, Lossy
from closecall.app.experiments.bench.team.outcome import SLACK_SECONDS
from closecall.client.errors import ConnectionLost
from tests.unit.app.experiments.bench.team.swift import swiftly


class Luck(random.Random):
    """Draws the given troubles first, and then none."""

    def __init__(self, *troubles: str) -> None:
        super().__init__(0)
        self.troubles = list(troubles)

    def random(self) -> float:
        return 0.0 if self.troubles else 1.0

    def choice(self, names):
        return self.troubles.pop(0) if self.troubles else names[0]

    def uniform(self, a: float, b: float) -> float:
        return (a + b) / 2


class Arrivals:
    """A server that notes what arrives."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    async def __call__(self, _method, path, *, seconds, query=None, body=None):
        assert (seconds, query, body) == (3, None, {"a": 1})
        self.paths.append(path)
        await asyncio.sleep(0.01)
        return f"reply to {path}"


@pytest.mark.parametrize(
    ("trouble", "is_heard", "arrivals"),
    [
        ("lost", False, ["again"]),
        ("unheard", False, ["first", "again"]),
        ("twice", True, ["first", "first", "again"]),
        ("late", False, ["again", "first"]),
    ],
)
def test_a_request_meets_the_trouble_that_is_drawn(trouble, is_heard, arrivals):
    """The page repeats it after two seconds; a late request then arrives after its repetition."""

    async def work():
        server = Arrivals()
        line = Lossy(server, 0.5, Luck(trouble))
        try:
            reply = await line("POST", "first", seconds=3, body={"a": 1})
        except ConnectionLost:
            reply = None
        assert reply == ("reply to first" if is_heard else None)
        await asyncio.sleep(2)
        assert await line("POST", "again", seconds=3, body={"a": 1}) == "reply to again"
        await line.settle()
        assert server.paths == arrivals
        assert (line.count, dict(line.met)) == (2, {trouble: 1})

    swiftly(work())


def test_troubles_are_drawn_with_the_seed_and_all_are_met():
    async def work(seed: int) -> dict[str, int]:
        line = Lossy(Arrivals(), 0.4, random.Random(seed))
        for _ in range(500):
            await asyncio.gather(line("POST", "p", seconds=3, body={"a": 1}), return_exceptions=True)
        await line.settle()
        return dict(line.met)

    met = swiftly(work(1))
    assert swiftly(work(1)) == met != swiftly(work(2))
    assert met.keys() == set(TROUBLES)
    assert sum(met.values()) == pytest.approx(200, abs=50)


def test_the_trouble_of_a_request_without_reply_is_its_own():
    """A copy that fails later is nobody's concern."""

    class Down(Arrivals):
        async def __call__(self, *words, **more):
            reply = await super().__call__(*words, **more)
            if len(self.paths) > 1:
                raise ConnectionLost("down")
            return reply

    async def work():
        line = Lossy(Down(), 0.5, Luck("twice"))
        assert await line("POST", "first", seconds=3, body={"a": 1}) == "reply to first"
        await line.settle()

    swiftly(work())


def test_late_requests_arrive_before_leases_are_judged():
    assert LATE_SECONDS[0] > 2
    assert LATE_SECONDS[1] < SLACK_SECONDS
