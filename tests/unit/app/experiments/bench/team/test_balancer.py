from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from closecall.app.experiments.bench.team.balancer import HOST, Balancer
from tests.aside import aside


class Echo:
    """A server that puts its name before each line that it gets, and ends the connection after "end"."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, HOST, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader, writer) -> None:
        while (line := await reader.readline()) and line != b"end\n":
            writer.write(self.name.encode() + b" " + line)
            await writer.drain()
        writer.close()


class Client:
    def __init__(self, reader, writer) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, line: str) -> str:
        """The reply; empty if the connection was ended."""
        self._writer.write(line.encode() + b"\n")
        return (await self._reader.readline()).decode().strip()

    def close(self) -> None:
        self._writer.close()


@asynccontextmanager
async def balanced(*names: str) -> AsyncIterator[tuple[Balancer, list[Echo]]]:
    servers = [Echo(name) for name in names]
    for server in servers:
        await server.start()
    async with Balancer([server.port for server in servers]) as balancer:
        yield balancer, servers
    for server in servers:
        await server.stop()


async def connected(balancer: Balancer) -> Client:
    return Client(*await asyncio.open_connection(HOST, urlsplit(balancer.url).port))


def run(work) -> None:
    aside(lambda: asyncio.run(work()))


def test_connections_go_to_the_servers_in_turn():
    """And each stays with its server."""

    async def work():
        async with balanced("a", "b", "c") as (balancer, _):
            clients = [await connected(balancer) for _ in range(4)]
            for _ in range(2):
                assert [await client.ask("x") for client in clients] == ["a x", "b x", "c x", "a x"]
            long = "y" * 60_000
            assert await clients[1].ask(long) == f"b {long}"
            for client in clients:
                client.close()

    run(work)


def test_a_connection_to_a_dead_server_is_retried_with_another():
    """Once it is back, it is in turn again; and without any server, connections are ended."""

    async def work():
        async with balanced("a", "b") as (balancer, (a, b)):
            await a.stop()
            assert [await (await connected(balancer)).ask("x") for _ in range(3)] == ["b x"] * 3
            await a.start()
            assert {await (await connected(balancer)).ask("x") for _ in range(2)} == {"a x", "b x"}
            await a.stop()
            await b.stop()
            assert await (await connected(balancer)).ask("x") == ""
            await b.start()
            assert await (await connected(balancer)).ask("x") == "b x"

    run(work)


def test_a_connection_that_one_side_ends_ends_for_the_other():
    async def work():
        async with balanced("a") as (balancer, _):
            client = await connected(balancer)
            assert await client.ask("x") == "a x"
            assert await client.ask("end") == ""
            other = await connected(balancer)
            assert await other.ask("x") == "a x"
            other.close()
            async with asyncio.timeout(5):
                while balancer._connections:
                    await asyncio.sleep(0.01)

    run(work)
