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
from functools import partial
from time import monotonic, sleep
from typing import Any, TypeVar, cast

from distributed import Client
from distributed.security import Security

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection.reader import Part, PoolRows, Search
from closecall.core.workers.crew import WorkerCrew
from closecall.core.workers.pauses import Pauses
from closecall.core.workers.worker import Snapshot, prepare, searched_here

POLL_SECONDS = 1.0
"""Seconds between two looks at which workers the cluster has."""

CONNECT_SECONDS = 10.0
"""Maximum number of seconds until the scheduler answers for the first time."""

log = logging.getLogger(__name__)
_Key = tuple[str, str]  # the address of a worker, and the path of a pool
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
        self._ready: set[_Key] = set()
        self._preparing: set[_Key] = set()
        self._pauses: Pauses[_Key] = Pauses()
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
        snapshot = _snapshot(pool)
        new = []
        with self._lock:
            for worker in self._workers:
                key = worker, snapshot.path
                is_known = key in self._ready or key in self._preparing
                if not is_known and self._pauses.is_over(key):
                    self._preparing.add(key)
                    new.append(key)
            ready = sorted(worker for worker, path in self._ready if path == snapshot.path)
        for key in new:
            prepared = self._run(key[0], prepare, snapshot)
            prepared.add_done_callback(partial(self._note_prepared, key))
        return ready

    def ask(self, worker: str, pool: PoolRows, search: Search[Part], segments: Sequence[int]) -> Future[Part]:
        """See `WorkerCrew.ask`."""
        return self._run(worker, searched_here, _snapshot(pool), search, list(segments))

    def dismiss(self, worker: str, pool: PoolRows, reason: str) -> None:
        """See `WorkerCrew.dismiss`."""
        key = worker, _snapshot(pool).path
        with self._lock:
            was_ready = key in self._ready
            if was_ready:  # otherwise, another search has dismissed it already
                self._ready.discard(key)
                self._pauses.begin(key)
        if was_ready:
            log.warning("The worker %s is not asked any more, until it is ready again: %s", worker, reason)

    def note_answer(self, worker: str, pool: PoolRows) -> None:
        """See `WorkerCrew.note_answer`."""
        key = worker, _snapshot(pool).path
        with self._lock:
            if key in self._ready:  # otherwise, another search has dismissed it meanwhile
                self._pauses.forget(key)

    def _note_prepared(self, key: _Key, done: Future[None]) -> None:
        worker, path = key
        problem = "it was stopped" if done.cancelled() else done.exception()
        with self._lock:
            self._preparing.discard(key)
            if worker not in self._workers:
                return
            if problem is None:
                self._ready.add(key)
            else:
                self._pauses.repeat(key)
        if problem is None:
            log.info("The worker %s searches %s", worker, path)
        else:
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
                    with self._lock:
                        self._preparing.clear()  # the calls of the lost client never end
                asked = self._soon(_workers_of(self._client))
                workers = frozenset(asked.result(CONNECT_SECONDS))
            except Exception as error:  # noqa: BLE001 - of many kinds; the next look may succeed
                log.debug("The Dask scheduler does not answer: %s", error)
                workers = frozenset()
            self._note_workers(workers)

    def _note_workers(self, workers: frozenset[str]) -> None:
        with self._lock:
            self._workers = workers
            self._ready = {key for key in self._ready if key[0] in workers}
            self._pauses.keep_if(lambda key: key[0] in workers)


async def _workers_of(client: Client) -> list[str]:
    return list(await client.ncores())


async def _in_thread(function: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(function, *args)


def _snapshot(pool: PoolRows) -> Snapshot:
    assert isinstance(pool, Pool)  # only pools on disk have workers
    return Snapshot.of(pool)
