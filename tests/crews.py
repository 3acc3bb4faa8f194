"""A crew of threads of this process, whose workers fail or hang when a test wants it."""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from closecall.core.pool.pool import Pool
from closecall.core.workers.crew import WorkerCrew
from closecall.core.workers.pauses import Pauses
from closecall.core.workers.worker import Snapshot, searched_here


class ThreadCrew(WorkerCrew):
    """Searches and answers are pickled, as on their way to another machine.

    `ways` has, by name, what a worker does: it "works", "dies" or "hangs", or a number: it answers after
    this number of seconds. One that is "slow" never answers in time, but can prepare itself. A worker that
    was dismissed prepares itself after its pause, and is ready from the next search on, unless it dies or
    hangs.
    """

    def __init__(self, ways: dict[str, Any], seconds: float = 60.0) -> None:
        super().__init__(seconds)
        self.ways = ways
        self.dismissed: dict[str, str] = {}
        self.pauses: Pauses[str] = Pauses()
        self.asked: list[tuple[str, list[int]]] = []
        self.hanging: list[Future[Any]] = []
        self._threads = ThreadPoolExecutor(8)

    def ready(self, pool: Pool) -> list[str]:  # noqa: ARG002
        ready = [worker for worker in self.ways if worker not in self.dismissed]
        for worker in [*self.dismissed]:
            if self.pauses.is_over(worker) and self.ways[worker] not in ("dies", "hangs"):
                del self.dismissed[worker]
        return ready

    def ask(self, worker: str, pool: Pool, search: Any, segments: Sequence[int]) -> Future[Any]:
        self.asked.append((worker, list(segments)))
        way = self.ways[worker]
        if way in ("hangs", "slow"):
            self.hanging.append(Future())
            return self.hanging[-1]
        sent = pickle.dumps((Snapshot.of(pool), search, list(segments)))

        def work() -> Any:
            if way == "dies":
                raise OSError("it is gone")
            if way != "works":
                time.sleep(way)
            return pickle.loads(pickle.dumps(searched_here(*pickle.loads(sent))))

        return self._threads.submit(work)

    def dismiss(self, worker: str, pool: Pool, reason: str) -> None:  # noqa: ARG002
        self.dismissed[worker] = reason
        self.pauses.begin(worker)

    def note_answer(self, worker: str, pool: Pool) -> None:  # noqa: ARG002
        self.pauses.forget(worker)
