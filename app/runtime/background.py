"""What runs beside the pages: nothing ends a thread that others rely on, and no error is lost.

Whatever goes wrong is logged with its traceback, once as long as it stays the same, and is said in one
sentence until the same work succeeds. Pages show that sentence, and ``/healthz`` counts it.
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
    """Nobody waits any more for what is being done; no error, so nothing that handles errors holds it up."""


class Troubles:
    """What went wrong in the background, by what was being done. Any thread may note and ask."""

    def __init__(self) -> None:
        self._sentences: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    @property
    def first(self) -> str | None:
        """What has been wrong for longest, in one sentence; None while all is well."""
        with self._lock:
            return next(iter(self._sentences.values()), None)

    @contextmanager
    def noted(self, what: str) -> Iterator[None]:
        """Note an error of the block, which ends there; forget an earlier one of `what` where it succeeds."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (an error that nobody expected must not end the thread)
            self.note(what, error)
        else:
            self.note(what, None)

    def note(self, what: str, error: BaseException | None, job: str = "") -> None:
        """Take up how a `job` of `what` went: what it raised, or None.

        What makes a database unreachable is logged only: the next read of it raises.
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
    """Threads for jobs whose results nobody asks for: what a job raises is noted in `troubles`.

    Parameters
    ----------
    n : int or None
        How many; `os.cpu_count` and a few, if None.
    name : str
        Of the threads.
    what : str
        What the jobs do, as the subject of a sentence.
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
        """See `concurrent.futures.Executor.shutdown`; what a job is refused from then on is no trouble."""
        self._is_closed = True
        super().shutdown(wait, cancel_futures=cancel_futures)

    def _ended(self, name: str, job: Future[Any]) -> None:
        if not (job.cancelled() or self._is_closed):
            self._troubles.note(self._what, job.exception(), name)


def sentence_of(what: str, error: BaseException) -> str:
    """Say in one sentence that `what` failed, and why."""
    if isinstance(error, InputError | StorageError):
        return f"{what} failed: {one_line(error)}"
    if isinstance(error, MemoryError):
        return f"{what} failed: there is not enough memory"
    return f"{what} failed: {type(error).__name__}: {one_line(error)}".removesuffix(": ")


def one_line(error: BaseException) -> str:
    """What an error of a library says, as a part of a sentence."""
    return " ".join(str(error).split())[:300]
