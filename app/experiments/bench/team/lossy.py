"""Simulated network faults: requests that get lost, arrive twice, or arrive after later requests."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Literal, get_args

from closecall.app.experiments.bench.team.requests import FAILURES, Request
from closecall.client.errors import ConnectionLost

Trouble = Literal["lost", "unheard", "twice", "late"]
"""Faults that a request can have.

"lost": the request never arrives. "unheard": the request is handled, but the reply never arrives. "twice":
the request arrives a second time, after the reply. "late": the page considers the request lost and repeats
it; later, the first request arrives.
"""

TROUBLES: tuple[Trouble, ...] = get_args(Trouble)

TWICE_SECONDS = (0.0, 2.0)
"""Range of the time from the reply to the second arrival of a request."""

LATE_SECONDS = (2.2, 4.0)
"""Range of the delay of a late request.

A page repeats a request after two seconds, so a late request arrives after its repetition. It must arrive
before the leases of annotators who left are judged (`app.experiments.bench.team.outcome.SLACK_SECONDS`).
"""


class Lossy:
    """A `Request` with network faults in a share of the requests.

    Parameters
    ----------
    request : Request
        Makes the requests.
    share : float
        Probability of a fault for each request, 0 … 1. All kinds of faults are equally likely.
    rng : random.Random

    Attributes
    ----------
    count : int
        Number of requests so far.
    met : Counter
        Number of requests so far with each kind of fault.
    """

    def __init__(self, request: Request, share: float, rng: random.Random) -> None:
        self.count = 0
        self.met: Counter[Trouble] = Counter()
        self._request = request
        self._share = share
        self._rng = rng
        self._later: set[asyncio.Task[None]] = set()

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        seconds: float,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make a request, perhaps with a fault; see `Request`."""
        do = partial(self._request, method, path, seconds=seconds, query=query, body=body)
        self.count += 1
        trouble = self._draw()
        if trouble == "twice":
            reply = await do()
            self._do_later(do, self._rng.uniform(*TWICE_SECONDS))
            return reply
        if trouble == "late":
            self._do_later(do, self._rng.uniform(*LATE_SECONDS))
        elif trouble != "lost":
            reply = await do()
            if trouble is None:
                return reply
        raise ConnectionLost(f"The request was {trouble}")

    async def settle(self) -> None:
        """Wait until the requests that are still on their way have arrived."""
        while self._later:
            await asyncio.wait(self._later)

    def _draw(self) -> Trouble | None:
        """Return the fault of the next request, or None. Two random numbers are drawn in both cases."""
        is_met, trouble = self._rng.random() < self._share, self._rng.choice(TROUBLES)
        if not is_met:
            return None
        self.met[trouble] += 1
        return trouble

    def _do_later(self, do: Callable[[], Awaitable[Any]], seconds: float) -> None:
        task = asyncio.create_task(_done_later(do, seconds))
        self._later.add(task)
        task.add_done_callback(self._later.discard)


async def _done_later(do: Callable[[], Awaitable[Any]], seconds: float) -> None:
    await asyncio.sleep(seconds)
    with suppress(*FAILURES):
        await do()
