"""A crew of the workers of a Dask cluster.

Each question is one call of `distributed.Client.run`, which runs a function on a worker without the
scheduling of tasks; a round takes a fifth of the time of tasks. This module needs the extra `dask`.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from time import monotonic, sleep
from typing import Any, TypeVar, cast

from distributed import Client
from distributed.security import Security

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection.reader import Part, PoolRows, Search
from closecall.core.workers.crew import WorkerCrew
from closecall.core.workers.worker import Snapshot, prepare, searched_here

POLL_SECONDS = 1.0
"""Seconds between two looks at which workers the cluster has."""

PAUSE_SECONDS = 5.0
"""Seconds after which a worker that could not prepare itself is asked to do so again."""

CONNECT_SECONDS = 10.0
"""Maximum number of seconds until the scheduler answers for the first time."""

log = logging.getLogger(__name__)
T = TypeVar("T")


class DaskCrew(WorkerCrew):
    """The workers of a Dask cluster, those that come later included; to be closed at the end.

    All machines must see the pool at the same path, as on a shared file system, and have the same version of
    Closecall. The workers have no state except mapped pools, so any of them can be restarted at any time.

    Parameters
    ----------
    address : str
        Address of the scheduler, such as tls://head:8786.
    security : Security or None
        Certificates for TLS; None for those in Dask's configuration.
    seconds : float
        Time limit of a search; see `core.workers.crew`.

    Raises
    ------
    InputError
        If the scheduler can't be reached.
    """

    def __init__(self, address: str, *, security: Security | None = None, seconds: float = 4.0) -> None:
        super().__init__(seconds)
        self._address = address
        self._security = security
        self._workers: frozenset[str] = frozenset()
        self._ready: dict[tuple[str, str], bool] = {}  # by worker and path of a pool; False: is preparing
        self._pause_until: dict[tuple[str, str], float] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        try:
            self._client = self._connected()
            self._workers = frozenset(self._client.ncores())
        except (OSError, ValueError, TypeError) as error:
            raise InputError(f"The Dask scheduler at {address} can't be reached: {error}") from error
        self._poller = threading.Thread(target=self._poll, name="dask-crew", daemon=True)
        self._poller.start()

    def close(self) -> None:
        """Leave the cluster, whose workers go on."""
        self._closed.set()
        self._poller.join(POLL_SECONDS)
        self._client.close()

    def wait_until_ready(self, pool: Pool, seconds: float) -> list[str]:
        """Wait until all workers are ready to search the pool, at most so long; return those that are."""
        end = monotonic() + seconds
        while len(ready := self.ready(pool)) < max(1, len(self._workers)) and monotonic() < end:
            sleep(0.05)
        return ready

    def ready(self, pool: PoolRows) -> list[str]:
        """See `WorkerCrew.ready`."""
        snapshot, now = _snapshot(pool), monotonic()
        new = []
        with self._lock:
            for worker in self._workers:
                key = worker, snapshot.path
                if key not in self._ready and now >= self._pause_until.get(key, 0.0):
                    self._ready[key] = False
                    new.append(worker)
            ready = [worker for worker in sorted(self._workers) if self._ready.get((worker, snapshot.path))]
        for worker in new:
            self._run(worker, prepare, snapshot).add_done_callback(
                lambda done, key=(worker, snapshot.path): self._note_prepared(key, done)  # type: ignore[misc]
            )
        return ready

    def ask(self, worker: str, pool: PoolRows, search: Search[Part], segments: Sequence[int]) -> Future[Part]:
        """See `WorkerCrew.ask`."""
        return self._run(worker, searched_here, _snapshot(pool), search, list(segments))

    def dismiss(self, worker: str, pool: PoolRows, reason: str) -> None:
        """See `WorkerCrew.dismiss`."""
        with self._lock:
            known = self._ready.pop((worker, _snapshot(pool).path), None)
        if known:
            log.warning("The worker %s is not asked any more, until it is ready again: %s", worker, reason)

    def _note_prepared(self, key: tuple[str, str], done: Future[None]) -> None:
        worker, path = key
        problem = "stopped" if done.cancelled() else done.exception()
        with self._lock:
            if problem is None:
                self._ready[key] = True
            else:
                self._ready.pop(key, None)
                self._pause_until[key] = monotonic() + PAUSE_SECONDS
        if problem is None:
            log.info("The worker %s searches %s", worker, path)
        elif worker in self._workers:
            log.warning("The worker %s does not search %s: %s", worker, path, problem)

    def _run(self, worker: str, function: Callable[..., T], *args: Any) -> Future[T]:
        """Call a function on a worker, in a thread, so that the worker can go on answering."""

        async def answer() -> T:
            answers = await self._client.run(_in_thread, function, *args, workers=[worker])
            return cast(T, answers[worker])

        return self._soon(answer())

    def _soon(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(coroutine, self._client.loop.asyncio_loop)
        except RuntimeError as error:  # the client has lost the scheduler, and its loop is closed
            coroutine.close()
            failed: Future[T] = Future()
            failed.set_exception(error)
            return failed

    def _connected(self) -> Client:
        return Client(self._address, security=self._security, timeout=CONNECT_SECONDS, set_as_default=False)

    def _poll(self) -> None:
        """Notice workers that come and go, and connect again if the scheduler was restarted."""
        while not self._closed.wait(POLL_SECONDS):
            try:
                if self._client.status == "closed":
                    self._client = self._connected()
                asked = self._soon(_workers_of(self._client))
                workers = frozenset(asked.result(CONNECT_SECONDS))
            except Exception as error:  # noqa: BLE001 - of many kinds; the next look may succeed
                log.debug("The Dask scheduler does not answer: %s", error)
                workers = frozenset()
            with self._lock:
                self._workers = workers
                for key in [key for key in self._ready if key[0] not in workers]:
                    del self._ready[key]


async def _workers_of(client: Client) -> list[str]:
    return list(await client.ncores())


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(function, *args)


def _snapshot(pool: PoolRows) -> Snapshot:
    assert isinstance(pool, Pool)  # only pools on disk have workers
    return Snapshot.of(pool)
