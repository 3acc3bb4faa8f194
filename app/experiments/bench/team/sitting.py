"""A team at work: simulated annotators label on running servers. Servers may be killed during labeling."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass

from closecall.app.experiments.bench.annotator import Truth
from closecall.app.experiments.bench.serving import Server
from closecall.app.experiments.bench.team.balancer import Balancer
from closecall.app.experiments.bench.team.lossy import Lossy, Trouble
from closecall.app.experiments.bench.team.page import PATIENCE_AHEAD_SECONDS
from closecall.app.experiments.bench.team.person import Diary, Manner, Person
from closecall.app.experiments.bench.team.requests import Requests
from closecall.client.connection import Connection
from closecall.core.errors import InputError

EARLY = (0.05, 0.15)
"""Range of the time until an annotator abandons the page, as shares of the duration of labeling."""

LONGEST_SECONDS = 2.0
"""Maximum delay in seconds before a server is killed.

The delay begins when half of the team has labeled since the last restart.
"""

DOWN_SECONDS = 1.0
"""Maximum seconds from killing a server to restarting it."""

PATIENCE_SECONDS = 300.0
"""Maximum seconds until all annotators have a page, and until answers are accepted again after a restart."""

THREADS = 4
"""Threads per annotator: one for each simultaneous request.

A page has at most two requests, and the page before a reload may still have two.
"""


@dataclass(frozen=True)
class Team:
    """A team of annotators, and the conditions under which it labels.

    Parameters
    ----------
    project : str
        Key of the project.
    tokens : mapping of str to str
        The annotators' tokens by their names.
    truth : Truth
    manner : Manner
        Working habits of all annotators.
    seconds : float
        Minimum duration of labeling.
    leave : int
        Number of annotators who abandon their page.
    kills : int
        Number of times that a server is killed and restarted.
    trouble : float
        Share of the requests with a network fault.
    """

    project: str
    tokens: Mapping[str, str]
    truth: Truth
    manner: Manner
    seconds: float
    leave: int
    kills: int
    trouble: float


@dataclass(frozen=True)
class Sitting:
    """The results of labeling, before they are compared with the log.

    Parameters
    ----------
    diaries : sequence of Diary
        Diaries of all annotators.
    seconds : float
        Duration of labeling.
    server_cpu_seconds : float or None
        Processor time of the servers during labeling; None if the system does not report it.
    load : mapping or None
        The increases of the servers' counters during labeling (`Server.load`); None if servers were killed.
    own_cpu_seconds : float
        Processor time of this process, which runs the simulated annotators.
    requests : int
        Number of requests that the pages made.
    troubles : mapping
        Number of requests with each kind of fault.
    """

    diaries: Sequence[Diary]
    seconds: float
    server_cpu_seconds: float | None
    load: Mapping[str, float] | None
    own_cpu_seconds: float
    requests: int
    troubles: Mapping[Trouble, int]


async def sit(team: Team, servers: Sequence[Server]) -> Sitting:
    """Let the team label on servers that run already.

    Raises
    ------
    InputError
        If the servers accept no answers.
    """
    rng, begin = random.Random(team.manner.seed), asyncio.Event()
    async with _address(servers) as url, _lines(team, url) as lines:
        people = [
            Person(
                name,
                line,
                team.project,
                team.truth,
                team.manner,
                begin,
                team.seconds * rng.uniform(*EARLY) if number < team.leave else None,
            )
            for number, (name, line) in enumerate(lines.items())
        ]
        tasks = [asyncio.create_task(person.sit()) for person in people]
        try:
            async with _patience("let everybody in"):
                await asyncio.gather(*(person.arrived.wait() for person in people))
            load_before = None if team.kills else await asyncio.to_thread(_load, servers)
            server_before, own_before, started = _cpu_seconds(servers), time.process_time(), time.monotonic()
            begin.set()
            for number in range(team.kills):
                await _kill_and_start(servers[number % len(servers)], people, rng)
            await asyncio.sleep(max(0.0, team.seconds - (time.monotonic() - started)))
            lasted = time.monotonic() - started
            for person in people:
                person.stop()
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for person in people:
            await person.come_back()
        for line in lines.values():
            await line.settle()
    server_after = _cpu_seconds(servers)
    load = None
    if load_before is not None:
        load = await asyncio.to_thread(_load, servers)
        load.subtract(load_before)
    return Sitting(
        diaries=[person.diary for person in people],
        seconds=lasted,
        server_cpu_seconds=None
        if server_before is None or server_after is None
        else server_after - server_before,
        load=load,
        own_cpu_seconds=time.process_time() - own_before,
        requests=sum(line.count for line in lines.values()),
        troubles=sum((line.met for line in lines.values()), Counter()),
    )


@asynccontextmanager
async def _address(servers: Sequence[Server]) -> AsyncIterator[str]:
    """Yield the address of the only server, or of a balancer in front of several."""
    if len(servers) == 1:
        yield servers[0].url
        return
    async with Balancer([server.port for server in servers]) as balancer:
        yield balancer.url


@asynccontextmanager
async def _lines(team: Team, url: str) -> AsyncIterator[dict[str, Lossy]]:
    """Yield a dict that has, for each annotator's name, the function that makes the annotator's requests."""
    threads = ThreadPoolExecutor(THREADS * len(team.tokens), thread_name_prefix="request")
    connections = {
        name: Connection(url, token, PATIENCE_AHEAD_SECONDS) for name, token in team.tokens.items()
    }
    try:
        yield {
            name: Lossy(
                Requests(connection, threads), team.trouble, random.Random(f"{team.manner.seed} {name}'s")
            )
            for name, connection in connections.items()
        }
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
        for connection in connections.values():
            connection.close()


def _cpu_seconds(servers: Sequence[Server]) -> float | None:
    """Return the processor time of all servers, or None if the system does not report it."""
    seconds = [server.cpu_seconds for server in servers]
    known = [each for each in seconds if each is not None]
    return sum(known) if len(known) == len(seconds) else None


def _load(servers: Sequence[Server]) -> Counter[str]:
    """Return the sums of all servers' counters."""
    total: Counter[str] = Counter()
    for server in servers:
        total.update(server.load())
    return total


async def _kill_and_start(server: Server, people: Sequence[Person], rng: random.Random) -> None:
    """Kill and restart the server once half of the annotators who have not left have saved an answer.

    Only answers after this call count. There are random delays before the kill and before the restart.
    """
    since = time.time()
    half = sum(person.diary.left is None for person in people) / 2
    async with _patience("take answers"):
        while sum(person.has_saved_since(since) for person in people) < half:
            await asyncio.sleep(0.05)
    await asyncio.sleep(rng.uniform(0, LONGEST_SECONDS))
    server.kill()
    await asyncio.sleep(rng.uniform(0, DOWN_SECONDS))
    await asyncio.to_thread(server.start)


@asynccontextmanager
async def _patience(what: str) -> AsyncIterator[None]:
    """Raise InputError if the context takes longer than `PATIENCE_SECONDS`.

    `what` says in the message what the servers did not do, such as "take answers".
    """
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            yield
    except TimeoutError:
        raise InputError(
            f"The server did not {what} within {PATIENCE_SECONDS:.0f} s; "
            "with --out, its log is in the project"
        ) from None
