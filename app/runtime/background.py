"""Background work: no error ends a thread that others rely on, and none is lost.

An error is logged with its traceback, once until it changes, and stays known in one sentence until the same
work succeeds. Pages show this sentence, and ``/healthz`` counts it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

from closecall.core.errors import InputError
from closecall.storage import StorageError

log = logging.getLogger(__name__)


class ClosedError(BaseException):
    """The result is no longer needed. Not an Exception, so that handlers of errors let it through."""


class Troubles:
    """Present problems of background work, by task. Safe to use from any thread."""

    def __init__(self) -> None:
        self._sentences: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    @property
    def first(self) -> str | None:
        """Return the oldest present problem in one sentence, or None."""
        with self._lock:
            return next(iter(self._sentences.values()), None)

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Record and suppress an error of the block; clear an earlier problem of `what` on success."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (an error that nobody expected must not end the thread)
            self.note(what, error)
        else:
            self.note(what, None)

    def note(self, what: str, error: BaseException | None, job: str = "") -> None:
        """Record the outcome of a `job` of `what`: its error, or None.

        An unreachable database is only logged, since the next read raises the same error.
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
    """Threads for jobs without results; errors are recorded in `troubles`.

    Parameters
    ----------
    n : int or None
        Number of threads; the executor's default if None.
    name : str
        Prefix of the threads' names.
    what : str
        The jobs, as the subject of a sentence.
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
        """See `concurrent.futures.Executor.shutdown`; jobs refused after it are not recorded as problems."""
        self._is_closed = True
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _ended(self, name: str, job: Future[Any]) -> None:
        if not (job.cancelled() or self._is_closed):
            self._troubles.note(self._what, job.exception(), name)


def sentence_of(what: str, error: BaseException) -> str:
    """Return one sentence that says that `what` failed, and why."""
    if isinstance(error, InputError | StorageError):
        return f"{what} failed: {one_line(error)}"
    if isinstance(error, MemoryError):
        return f"{what} failed: there is not enough memory"
    return f"{what} failed: {type(error).__name__}: {one_line(error)}".removesuffix(": ")


def one_line(error: BaseException) -> str:
    """Return a library's error as part of a sentence."""
    return " ".join(str(error).split())[:300]
