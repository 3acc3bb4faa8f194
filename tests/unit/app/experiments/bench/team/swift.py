"""An event loop on which nobody waits: its clock moves to the next timer. Only for tasks without sockets."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from tests.aside import aside


class _Selector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("Everybody waits for somebody else")
        self.now += timeout
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def swiftly(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine; return what it returns. Sleeping takes no time, and a deadlock is an error."""

    def run() -> Any:
        with asyncio.Runner(loop_factory=_Loop) as runner:
            return runner.run(work)

    return aside(run)
