"""The HTTP requests of a simulated page, made by the Python client in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol

from closecall.client.connection import Connection
from closecall.client.errors import ApiError, ConnectionLost

FAILURES = (ApiError, ConnectionLost)
"""Errors of a request that a page makes again later."""


class Request(Protocol):
    """A function that makes a request a single time, and returns the JSON of the reply.

    It raises one of `FAILURES` if the server refuses the request, or if there is no reply within `seconds`.
    """

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        seconds: float,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make the request."""


class Requests:
    """A `Request` that reaches the server over a connection.

    Parameters
    ----------
    connection : Connection
        The connection of one person.
    threads : ThreadPoolExecutor
        Threads for the requests of all pages, at least two per page.
    """

    def __init__(self, connection: Connection, threads: ThreadPoolExecutor) -> None:
        self._connection = connection
        self._threads = threads

    async def __call__(
        self,
        method: str,
        path: str,
        *,
        seconds: float,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        """Make a request; see `Request`."""
        do = partial(self._connection.once, method, path, query=query, body=body, seconds=seconds)
        return await asyncio.get_running_loop().run_in_executor(self._threads, do)
