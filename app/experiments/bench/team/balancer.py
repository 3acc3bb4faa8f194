"""A balancer in front of several servers: each new connection goes to the next server that accepts it."""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from contextlib import suppress

HOST = "127.0.0.1"

_CHUNK = 1 << 16


class Balancer:
    """A balancer of TCP connections, used as an async context manager. It is open within the context.

    It knows nothing about HTTP. If a server ends a connection, the balancer ends the client's connection.

    Parameters
    ----------
    ports : sequence of int
        Ports of the servers, on this machine.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = list(ports)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        """Address of the balancer."""
        assert self._server is not None
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Balancer:
        self._server = await asyncio.start_server(self._accept, HOST, 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)
        await self._server.wait_closed()

    def _accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        connection = asyncio.create_task(self._serve(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Pass everything on between a client and a server, until one of them ends the connection."""
        writers, passing = [writer], []
        try:
            found = await self._connected()
            if found is not None:
                there, back = found
                writers.append(back)
                passing = [asyncio.create_task(_pass_on(*pair)) for pair in ((reader, back), (there, writer))]
                await asyncio.wait(passing, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in passing:
                task.cancel()
            for each in writers:
                each.close()

    async def _connected(self) -> tuple[StreamReader, StreamWriter] | None:
        """Connect to the next server that accepts the connection; return None if no server accepts it."""
        for _ in range(len(self._ports)):
            port = self._ports.pop(0)
            self._ports.append(port)
            with suppress(OSError):
                return await asyncio.open_connection(HOST, port)
        return None


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    with suppress(OSError):
        while chunk := await reader.read(_CHUNK):
            writer.write(chunk)
            await writer.drain()
