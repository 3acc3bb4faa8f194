"""Background work whose errors are reported and do not end its thread.

`Workers` run jobs, and a `Watch` works at intervals. A `Fitting` is the state of an index or model that is
fitted in the background. An error is logged with its traceback; if the same error repeats, it is not logged
again. The error is also kept, in one sentence, until the same work succeeds. Pages show this sentence, and
``/healthz`` counts the pools with such errors.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from closecall.core.errors import InputError
from closecall.storage import StorageError

log = logging.getLogger(__name__)


class ClosedError(BaseException):
    """A signal that ends background work whose result is no longer needed.

    The class is not derived from Exception, so that ``except Exception`` does not catch it.
    """


class AbandonedError(ClosedError):
    """A signal that ends background work that nobody waits for; the result may be requested again later."""


class Troubles:
    """Current problems of background work, by task. Thread-safe."""

    def __init__(self) -> None:
        self._sentences: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    @property
    def first(self) -> str | None:
        """Return the oldest current problem in one sentence, or None."""
        with self._lock:
            return next(iter(self._sentences.values()), None)

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Suppress an error of the ``with`` block, and record it as the current problem of the task `what`.

        If the block succeeds, the problem is cleared.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 (an error that nobody expected must not end the thread)
            self.note(what, error)
        else:
            self.note(what, None)

    def note(self, what: str, error: BaseException | None, job: str = "") -> None:
        """Record the outcome of a `job` of the task `what`: its error, or None if it succeeded.

        A database error that may be temporary is logged but not recorded. If the error lasts, the next access
        raises it again.
        """
        with self._lock:
            before = self._sentences.pop((what, job), None)
            if error is None or isinstance(error, ClosedError):
                return
            sentence = sentence_of(what, error)
            if not (isinstance(error, StorageError) and error.passes):
                self._sentences[what, job] = sentence
        if sentence != before:
            log.error("%s", sentence, exc_info=error)


class Workers(ThreadPoolExecutor):
    """A thread pool that records its jobs' errors in `troubles`.

    Parameters
    ----------
    n : int or None
        Number of threads; None means the executor's default.
    name : str
        Prefix of the threads' names.
    what : str
        Name of the jobs, which messages use as in "Looking ahead failed"; see `sentence_of`.
    troubles : Troubles
    """

    def __init__(self, n: int | None, name: str, what: str, troubles: Troubles) -> None:
        super().__init__(n, thread_name_prefix=name)
        self._what = what
        self._troubles = troubles
        self._is_closed = False

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """See `concurrent.futures.Executor.submit`."""
        job = super().submit(fn, *args, **kwargs)
        job.add_done_callback(partial(self._ended, getattr(fn, "__qualname__", type(fn).__qualname__)))
        return job

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """See `concurrent.futures.Executor.shutdown`; errors of jobs that end later are not recorded."""
        self._is_closed = True
        super().shutdown(wait, cancel_futures=cancel_futures)

    def go_on(self) -> None:
        """Raise ClosedError if the thread pool is shut down. Long jobs call this at intervals."""
        if self._is_closed:
            raise ClosedError

    def _ended(self, name: str, job: Future[Any]) -> None:
        if not (job.cancelled() or self._is_closed):
            self._troubles.note(self._what, job.exception(), name)


class Watch(threading.Thread):
    """A thread that calls `work` every `seconds` seconds, and immediately after `wake`, until `close`."""

    def __init__(self, name: str, work: Callable[[], None], seconds: float) -> None:
        # A thread drops these arguments when it ends, so a closed watch keeps no reference to its owner.
        super().__init__(target=self._run, args=(work, seconds), name=name, daemon=True)
        self._is_closed = False
        self._woken = threading.Event()

    def wake(self) -> None:
        """Call `work` as soon as possible."""
        self._woken.set()

    def go_on(self) -> None:
        """Raise ClosedError if the watch is closed. Long work calls this at intervals."""
        if self._is_closed:
            raise ClosedError

    def close(self) -> None:
        """Stop the thread and wait for its end."""
        self._is_closed = True
        self.wake()
        self.join()

    def _run(self, work: Callable[[], None], seconds: float) -> None:
        while not self._is_closed:
            self._woken.wait(seconds)
            self._woken.clear()
            with suppress(ClosedError):
                self.go_on()
                work()


@dataclass(eq=False)
class Fitting:
    """The state of an index or model that is fitted in the background. Thread-safe.

    `share` is the progress of the last attempt at fitting, 0 … 1. After a failed attempt, `failure` gives the
    reason in one sentence, until an attempt succeeds. A failed attempt is not repeated with the same data.
    """

    share: float = 0.0
    failure: str | None = None
    is_under_way: bool = False
    _tried: object = field(default=None, init=False)
    _waiting: tuple[Any, ...] | None = field(default=None, init=False)
    _changed: threading.Condition = field(default_factory=threading.Condition, init=False)

    def attempt(self, what: str, given: object, fit: Callable[..., None], *args: Any) -> None:
        """Call `fit`, unless it failed with the same data last time.

        `given` identifies the data, for example by the number of items. An error is logged, and stored in
        `failure` as a sentence that begins with the text `what`. After an AbandonedError, the state is as if
        there had been no attempt.
        """
        if self._has_failed_with(given):
            return
        self._tried, self.share = given, 0.0
        try:
            fit(*args)
            self.failure = None
        except AbandonedError:
            self._tried, self.share = None, 0.0
        except Exception as error:
            self.failure = f"{what}: {error or type(error).__name__}"
            level = logging.WARNING if isinstance(error, InputError) else logging.ERROR
            log.log(level, "%s", self.failure, exc_info=level == logging.ERROR)

    def request(self, workers: Workers, what: str, given: object, *fit: Any) -> None:
        """Call `attempt` in the background, unless the last attempt failed with the same data.

        An earlier request that has not started is dropped.
        """
        with self._changed:
            self._waiting = None if self._has_failed_with(given) else (what, given, *fit)
            if self._waiting and not self.is_under_way:
                workers.submit(self._attempt_newest)
                self.is_under_way, self.share = True, 0.0

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for all requests to end; return whether they have ended."""
        with self._changed:
            return self._changed.wait_for(lambda: not self.is_under_way, seconds)

    def _has_failed_with(self, given: object) -> bool:
        return self.failure is not None and self._tried == given

    def _attempt_newest(self) -> None:
        """Attempt the newest request, and then any request that arrived meanwhile."""
        while waiting := self._taken():
            self.attempt(*waiting)

    def _taken(self) -> tuple[Any, ...] | None:
        with self._changed:
            waiting, self._waiting = self._waiting, None
            if waiting is None:
                self.is_under_way = False
                self._changed.notify_all()
            return waiting


def sentence_of(what: str, error: BaseException) -> str:
    """Return a sentence that says that `what` failed, and why."""
    if isinstance(error, InputError | StorageError):
        return f"{what} failed: {one_line(error)}"
    if isinstance(error, MemoryError):
        return f"{what} failed: there is not enough memory"
    return f"{what} failed: {type(error).__name__}: {one_line(error)}".removesuffix(": ")


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, at most 300 characters."""
    return " ".join(str(error).split())[:300]
